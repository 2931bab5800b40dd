//! Which package and which kernels are meant, and what is said when there are none.

use crate::Package;
use crate::package::SCALE;

#[test]
fn a_package_without_the_test_target_gets_a_generated_harness() {
    let package = Package::without_stub("generated-kernels", SCALE);
    package
        .tilekit("run --device emulator -s n=3")
        .ends_with(0)
        .prints(&["ok    scale<256>  n=3"]);
    package
        .tilekit("list --locked")
        .ends_with(2)
        .says(&["needs a lock file of its own", "cargo tilekit init"]);
    let said = package.tilekit("init").ends_with(0);
    assert_eq!(said.stdout.lines().count(), 2, "{}", said.stdout);
    package.tilekit("list").ends_with(0).prints(&["scale<256>"]);
    package
        .tilekit("init")
        .ends_with(0)
        .says(&["has all it needs"]);
}

#[test]
fn a_package_without_kernels_is_an_error_with_the_reason() {
    let package = Package::new("no-kernels", "pub fn nothing() {}\n");
    package.tilekit("run").ends_with(4).says(&[
        "no kernels were found in no_kernels",
        "use other_crate as _",
    ]);
    Package::plain("no-library", "")
        .tilekit("list")
        .ends_with(102);
    let unrelated = Package::plain("unrelated", "");
    unrelated.write("src/lib.rs", "");
    unrelated
        .tilekit("list")
        .ends_with(4)
        .says(&["it does not depend on `tilekit`"]);
}

#[test]
fn a_package_of_binaries_gets_the_help_to_make_a_library() {
    let package = Package::without_stub("only-binary", "");
    std::fs::remove_file(package.root().join("src/lib.rs")).expect("removed");
    package.write("src/main.rs", "fn main() {}\n");
    package
        .tilekit("list")
        .ends_with(4)
        .says(&["it has only binaries", "move the kernels to src/lib.rs"]);
}

#[test]
fn a_name_that_nothing_has_is_an_error_that_offers_others() {
    let package = Package::new("named-kernels", SCALE);
    package
        .tilekit("run skale")
        .ends_with(4)
        .says(&["nothing is called `skale`", "perhaps scale"]);
    // Beside a name that something has, too.
    for verb in ["list", "check", "run --device emulator", "export --to c"] {
        let said = package.tilekit(&format!("{verb} scale skale")).ends_with(4);
        assert_eq!(said.stdout, "", "{verb}");
        said.says(&["nothing is called `skale`", "perhaps scale"]);
    }
}

/// It was said that nothing is called so, and that perhaps it was meant.
#[test]
fn a_kernel_that_no_case_launches_is_there() {
    let alone = "use tilekit::prelude::*;\n#[kernel(warps = 1)]\npub fn alone(out: Ptr<i32>) {\n    out.at(0).store(1);\n}\n";
    let package = Package::new("alone-kernels", alone);
    package.tilekit("list").ends_with(0).prints(&["declared"]);
    for verb in ["run", "test", "trace", "tune --profile dev"] {
        package
            .tilekit(&format!("{verb} alone"))
            .ends_with(4)
            .says(&["no case launches `alone`", "write a `#[case]`"]);
    }
    package
        .tilekit("run")
        .ends_with(4)
        .says(&["no case launches a kernel of this package"]);
    // Beside one that a case launches, too: it was left out in silence.
    let both = format!(
        "{SCALE}\n#[kernel(warps = 1)]\npub fn alone(out: Ptr<i32>) {{\n    out.at(0).store(1);\n}}\n"
    );
    let package = Package::new("launched-kernels", &both);
    let said = package
        .tilekit("run --device emulator scale alone")
        .ends_with(4);
    assert_eq!(said.stdout, "");
    said.says(&["no case launches `alone`"]);
}

#[test]
fn a_test_target_that_is_no_harness_is_noticed() {
    let package = Package::new("deaf-kernels", SCALE);
    package.write("tests/tilekit.rs", "fn main() {}\n");
    package
        .tilekit("run")
        .ends_with(2)
        .says(&["is no harness of TileKit", "harness = false"]);
}

const TWINS: &str = r#"
mod plus {
    use tilekit::prelude::*;

    #[kernel(warps = 1)]
    pub fn set(out: Ptr<i32>) {
        out.at(0).store(1);
    }

    #[case]
    fn set_case(case: &mut Case) -> CaseResult {
        let out = case.output::<i32>("out", [1]);
        case.launch(set, grid(1u32), (&out,))?;
        case.expect(&out, |[_]: [usize; 1]| 1, Exactly)
    }
}

mod minus {
    use tilekit::prelude::*;

    #[kernel(warps = 1)]
    pub fn set(out: Ptr<i32>) {
        out.at(0).store(-1);
    }

    #[case]
    fn set_case(case: &mut Case) -> CaseResult {
        let out = case.output::<i32>("out", [1]);
        case.launch(set, grid(1u32), (&out,))?;
        case.expect(&out, |[_]: [usize; 1]| -1, Exactly)
    }
}
"#;

#[test]
fn kernels_of_one_name_are_distinguished_by_their_modules() {
    let package = Package::new("twin-kernels", TWINS);
    package.tilekit("inspect set").ends_with(2).says(&[
        "`set` can mean 2 variants",
        "choose one of 'twin_kernels::minus::set', 'twin_kernels::plus::set'",
    ]);
    for name in ["plus::set", "twin_kernels::plus::set"] {
        let said = package.tilekit(&format!("inspect {name} --stage built"));
        said.ends_with(0).prints(&["value=1}"]);
    }
    let said = package.tilekit("run --device emulator minus::set");
    said.ends_with(0).says(&["1 passed"]);
    let said = package.tilekit("build plus::set --emit ptx").ends_with(0);
    let ptx = said.stdout.lines().next().expect("a path").to_string();
    let said = package.tilekit(&format!("build --from-ptx {ptx}"));
    said.ends_with(2).says(&[
        "`twin_kernels::minus::set` and `twin_kernels::plus::set` have one entry, `set`",
        "give the kernels different names",
    ]);
}
