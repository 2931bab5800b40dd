//! What is said of packages and kernels that are wrong.

use crate::Package;
use crate::package::SCALE;

#[test]
fn a_package_that_does_not_compile_shows_rustcs_errors() {
    let package = Package::new("broken-kernels", "pub fn broken() -> u32 { \"no\" }\n");
    package
        .tilekit("check")
        .ends_with(101)
        .says(&["error[E0308]", "src/lib.rs:1"]);
    let said = package
        .tilekit("check --message-format json")
        .ends_with(101);
    let message = said
        .objects()
        .into_iter()
        .find(|object| object["reason"] == "compiler-message")
        .expect("an error");
    assert_eq!(message["message"]["code"]["code"], "E0308");
}

#[test]
fn a_wrong_kernel_is_shown_with_the_authors_line() {
    let package = Package::new(
        "wrong-kernels",
        &SCALE.replace("arange(0..BLOCK, Coalesced)", "arange(0..100, Coalesced)"),
    );
    let said = package.tilekit("check").ends_with(103);
    said.says(&[
        "error[TK0007]",
        "--> src/lib.rs:7:",
        "arange(0..100, Coalesced);\n",
        "^^^^^",
    ]);
    let said = package
        .tilekit("check --message-format short")
        .ends_with(103);
    assert!(
        said.stderr
            .lines()
            .any(|line| line.starts_with("src/lib.rs:7:")),
        "{}",
        said.stderr
    );
    let said = package
        .tilekit("check --message-format json")
        .ends_with(103);
    let wrong = said
        .objects()
        .into_iter()
        .find(|object| object["$message_type"] == "diagnostic")
        .expect("a diagnostic");
    assert_eq!(
        (&wrong["code"]["code"], &wrong["spans"][0]["line_start"]),
        (&"TK0007".into(), &7.into())
    );
}

#[test]
fn a_wrong_result_names_the_elements() {
    let package = Package::new(
        "false-kernels",
        &SCALE.replace("load() * 2.0", "load() * 3.0"),
    );
    let said = package
        .tilekit("run --device emulator -s n=10")
        .ends_with(100);
    said.prints(&["FAIL  scale<256>  n=10"]).says(&[
        "case `scale_case` at n=10",
        "out[0]",
        "0 passed, 1 failed",
    ]);
    let said = package.cargo("test -q --test tilekit").ends_with(100);
    said.prints(&[
        "test false_kernels::scale_case/n=100 ... FAILED",
        "0 passed; 2 failed",
    ]);
}

#[test]
fn an_access_out_of_bounds_names_the_authors_line() {
    let package = Package::new("wild-kernels", &SCALE.replace("at < n", "at < n + 1"));
    let said = package
        .tilekit("run --device emulator -s n=256")
        .ends_with(0);
    said.prints(&["ok"]);
    let said = package
        .tilekit("run --device emulator -s n=10")
        .ends_with(100);
    said.says(&["src/lib.rs:9"]);
}
