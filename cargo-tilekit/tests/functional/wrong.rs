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
        "= note: in `scale<256>`",
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

/// Machines read one stream, and each line of it is an object, whichever part found the mistake.
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

/// A mistake in the configuration is reported even where the package does not compile, and so before it is compiled.
#[test]
fn configuration_is_read_before_the_package_is_compiled() {
    let package = Package::new("hasty-kernels", "pub fn broken() -> u32 { \"no\" }\n");
    package.write("tilekit.toml", "divice = \"cuda\"\n");
    let said = package.tilekit("run").ends_with(2);
    said.says(&["unknown field `divice`"]);
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
        ("layout Blockd([1],[32],[4],[0])", "this is no layout"),
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

const PANICS: &str = r#"
#[case]
fn fails(case: &mut Case) -> CaseResult {
    let none: Vec<usize> = Vec::new();
    let n = case.size("nn") + none[0];
    case.size(&n.to_string());
    Ok(())
}

#[case(sizes(k = [8]))]
fn refers(case: &mut Case) -> CaseResult {
    let n = case.size("k");
    let x = case.normal::<f32>("x", [n]);
    let out = case.output::<f32>("out", [n]);
    case.launch(scale::<256>, grid(1), (&x, &out, n as i32))?;
    case.expect(&out, |[i]: [usize; 1]| x[i + 1] * 2.0, Exactly)
}
"#;

/// A panic is reported once, at the author's line, and in the form that is wanted.
#[test]
fn a_case_that_panics_is_reported_at_its_line() {
    let library = format!("{SCALE}{PANICS}");
    let line_of = |part: &str| {
        let at = library.lines().position(|line| line.contains(part));
        format!("src/lib.rs:{}:", at.expect("it is there") + 1)
    };
    let package = Package::new("panic-kernels", &library);
    let said = package.tilekit("run --device emulator").ends_with(100);
    let said = said.says(&[
        &format!(
            "error: case `fails` panicked at {}",
            line_of("case.size(\"nn\")")
        ),
        &format!(
            "error: case `refers` at k=8 panicked at {}",
            line_of("x[i + 1]")
        ),
        "2 passed, 2 failed",
    ]);
    assert!(!said.stderr.contains("thread '"), "{}", said.stderr);
    let said = package.tilekit("run --device emulator --message-format json");
    let said = said.ends_with(100);
    assert!(!said.objects().is_empty() && said.stderr.is_empty());
}

/// What is passed over changes nothing and says nothing, so nothing is.
#[test]
fn configuration_that_cannot_hold_is_refused() {
    let package = Package::new("config-kernels", SCALE);
    let check = |text: &str, wanted: &[&str]| {
        package.write("tilekit.toml", text);
        let said = package.tilekit("run --device emulator").ends_with(2);
        said.says(wanted);
    };
    check(
        "sizes = { m = 4 }\n",
        &[
            "no case has a size `m`, which the configuration chooses",
            "there are n",
        ],
    );
    check("sizes = { n = [] }\n", &["tilekit.toml:1:", "not empty"]);
    check(
        "device = 3\n",
        &["tilekit.toml:1:10", "one of `auto`, `cuda`, `emulator`"],
    );
    check(
        "[cases.nope]\nsizes.n = 4\n",
        &["there is no such case", "there are scale_case"],
    );
    std::fs::remove_file(package.root().join("tilekit.toml")).expect("removed");
    package.write("tilekit.toml/file", "");
    let said = package.tilekit("run").ends_with(2);
    said.says(&["tilekit.toml", "this file cannot be read"]);
    std::fs::remove_dir_all(package.root().join("tilekit.toml")).expect("removed");
    let said = package.tilekit_with(&[("TILEKIT_DEVICE", "gpu")], "run");
    said.ends_with(2)
        .says(&["TILEKIT_DEVICE: `gpu` is no device"]);
    // An empty variable says nothing.
    let variables = [("TILEKIT_DEVICE", ""), ("TILEKIT_SIZES", "")];
    let said = package.tilekit_with(&variables, "run --device emulator -s n=4");
    said.ends_with(0).prints(&["n=4"]);
    // More than there can be is not all there is.
    package.write("tilekit.toml", "emulator-tensor-mib = 17592186044416\n");
    let said = package.tilekit("run --device emulator").ends_with(0);
    said.says(&["2 passed, 0 failed, 0 skipped"]);
}
