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

/// Machines read one stream, and each line of it is an object, whoever found the mistake.
#[test]
fn every_mistake_is_json_where_json_is_wanted() {
    let package = Package::new("json-kernels", SCALE);
    let check = |arguments: &str, code: i32, level: &str, message: &str| {
        let said = package
            .tilekit(&format!("{arguments} --message-format json"))
            .ends_with(code);
        let objects = said.objects();
        let found = objects.iter().find(|object| {
            let text = object["message"].as_str();
            object["level"] == level && text.is_some_and(|text| text.contains(message))
        });
        let found = found.unwrap_or_else(|| panic!("`{message}` is not in {objects:?}"));
        assert_eq!(found["$message_type"], "diagnostic");
        assert!(found["rendered"].is_string() && found["spans"].is_array());
        assert_eq!(said.stderr, "", "{arguments}");
        found.clone()
    };
    let error =
        |arguments: &str, code: i32, message: &str| check(arguments, code, "error", message);
    let wrong = error("frobnicate", 2, "unrecognized subcommand 'frobnicate'");
    assert_eq!(wrong["children"][0]["level"], "note", "{wrong}");
    error("", 2, "requires a subcommand");
    error(
        "inspect",
        2,
        "required arguments were not provided: <KERNEL>",
    );
    error(
        "list --manifest-path none/Cargo.toml",
        102,
        "none/Cargo.toml",
    );
    error("list --features nothing", 101, "nothing");
    error("list -p nobody", 2, "nobody");
    error("run -s m=4", 2, "m");
    error("inspect nobody", 4, "nobody");

    package.write("tilekit.toml", "divice = \"cuda\"\n");
    let wrong = error("run", 2, "unknown field `divice`");
    let span = &wrong["spans"][0];
    assert_eq!(
        (
            &span["line_start"],
            &span["column_start"],
            &span["column_end"]
        ),
        (&1.into(), &1.into(), &7.into()),
        "{wrong}"
    );
    assert!(
        span["file_name"]
            .as_str()
            .is_some_and(|file| file.ends_with("tilekit.toml"))
    );

    package.write("tilekit.toml", "");
    package.edit("src/lib.rs", "use tilekit", "use tilekitt");
    error("check", 101, "could not compile `json-kernels`");
    package.edit("Cargo.toml", "[package]", "[package");
    error("check", 102, "");
}

/// What can be known at once is said at once: before minutes of work, and before the machine runs out of memory.
#[test]
fn what_cannot_end_well_does_not_begin() {
    let package = Package::new("large-kernels", SCALE);
    let lines = [
        (
            "run --device emulator -s n=4000000000000",
            "is the most here",
        ),
        (
            "bench --profile dev --device emulator --record none/figures.json",
            "none/figures.json cannot be written",
        ),
        ("layout scale --view banks", "choose it with --value"),
    ];
    for (line, wanted) in lines {
        package.tilekit(line).ends_with(2).says(&[wanted]);
    }
    let foreign =
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry scale_256()\n{\nret;\n}\n";
    package.write("foreign.ptx", foreign);
    let said = package
        .tilekit("build --from-ptx foreign.ptx")
        .ends_with(103);
    assert!(
        !said.stderr.contains("``"),
        "nothing is named: {}",
        said.stderr
    );
    said.says(&["target sm_80 is not supported", "foreign.ptx:"]);
}
