//! Limits of the configuration, and costs beside those accepted: `test` holds kernels to both.

use crate::Package;
use crate::faults::{CONFLICTS, NARROW, SPILLS, has_machine_code};
use crate::package::SCALE;

/// A case for a kernel that has none of its own.
fn with_case(kernel: &str) -> String {
    format!("{kernel}{ONE_CASE}")
}

/// `test` wants a case.
const ONE_CASE: &str = r#"
#[kernel(warps = 1)]
pub fn one(out: Ptr<i32>) {
    out.at(0).store(1);
}

#[case]
fn one_case(case: &mut Case) -> CaseResult {
    let out = case.output::<i32>("out", [1]);
    case.launch(one, grid(1u32), (&out,))?;
    case.expect(&out, |[_]: [usize; 1]| 1, Exactly)
}
"#;

const TEST: &str = "test --device emulator";

/// One package serves for all of it, since each is compiled.
#[test]
fn limits_are_compared_raised_and_lowered_and_their_names_checked() {
    let package = Package::new("limit-kernels", &format!("{SCALE}{BLOCKS}"));
    a_kernel_beyond_a_limit_fails_until_the_limit_is_raised(&package);
    std::fs::remove_dir_all(package.root().join("snapshots")).expect("removed");
    a_limit_that_is_too_high_is_lowered(&package);
    a_limit_of_several_variants_follows_the_costliest(&package);
    limits_of_variants_that_were_not_named_stay(&package);
    limits_do_not_hide_that_snapshots_are_missing(&package);
    misspelt_keys_and_names_are_errors_with_the_nearest(&package);
}

fn a_kernel_beyond_a_limit_fails_until_the_limit_is_raised(package: &Package) {
    let text = "# Ours.\n[limits.\"scale<256>\"]\nshared-bytes = 0\ninstructions = { all = 20, \"ld.global\" = 0 } # few\n";
    package.write("tilekit.toml", text);
    let said = package.tilekit(TEST).ends_with(104);
    let said = said.says(&[
        "error: `scale<256>` has 3 ld.global, and its limit is 0",
        "tilekit.toml:4:",
        "3 ld.global at src/lib.rs:9",
        "`cargo tilekit snapshot --accept 'scale<256>'` raises the limit",
        "2 passed, 0 failed",
    ]);
    assert!(
        !said.stderr.contains("shared memory, and"),
        "{}",
        said.stderr
    );
    package
        .cargo("test -q --test tilekit limits")
        .ends_with(100)
        .says(&["has 3 ld.global, and its limit is 0"]);
    let json = package
        .tilekit(&format!("{TEST} --message-format json"))
        .ends_with(104);
    let found = json
        .objects()
        .into_iter()
        .find(|object| object["reason"] == "tilekit-limit" && object["quantity"] == "ld.global");
    let found = found.expect("the limit");
    assert_eq!((&found["found"], &found["most"]), (&3.into(), &0.into()));

    package
        .tilekit("snapshot --accept scale")
        .ends_with(0)
        .prints(&["ld.global of scale<256>: limit 0 -> 3"]);
    let raised = package.read("tilekit.toml");
    assert!(
        raised.starts_with("# Ours.\n[limits.\"scale<256>\"]\nshared-bytes = 0\n")
            && raised.ends_with("\"ld.global\" = 3 } # few\n"),
        "{raised}"
    );
    package.tilekit(TEST).ends_with(0);
    package.cargo("test -q --test tilekit limits").ends_with(0);
}

fn a_limit_that_is_too_high_is_lowered(package: &Package) {
    let text =
        "[limits.scale]\nshared-bytes = 4096\ninstructions = { all = 5, \"st.global\" = 3 }\n";
    package.write("tilekit.toml", text);
    package
        .tilekit(TEST)
        .ends_with(104)
        .says(&["1 limit could be lower", "snapshot --ratchet"]);
    let said = package.tilekit("snapshot --ratchet").ends_with(104);
    said.prints(&["bytes of shared memory of scale<256>: limit 4096 -> 0"])
        .says(&["instructions, and its limit is 5"]);
    // Only what is better was written, and no snapshot was asked for.
    assert_eq!(package.read("tilekit.toml"), text.replace("4096", "0"));
    assert!(!package.root().join("snapshots").exists());
}

/// Two variants, of which one loads once and the other four times.
const BLOCKS: &str = r"
#[kernel(warps = 4, instances(<512>, <2048>))]
pub fn blocks<const BLOCK: usize>(x: Ptr<f32>) {
    let at = arange(0..BLOCK, Coalesced);
    x.at(at).store(x.at(at).load() + 1.0);
}
";

/// A limit of a kernel is that of the variant with the most.
fn a_limit_of_several_variants_follows_the_costliest(package: &Package) {
    let limits = |all: u32| {
        format!(
            "[limits.blocks]\ninstructions.'ld.global' = {all}\n[limits.'blocks<512>']\ninstructions.'ld.global' = 1\n"
        )
    };
    package.write("tilekit.toml", &limits(9));
    package
        .tilekit("snapshot --ratchet blocks<512>")
        .ends_with(0);
    assert_eq!(
        package.read("tilekit.toml"),
        limits(9),
        "blocks<2048> was not meant"
    );
    let said = package.tilekit("snapshot --ratchet").ends_with(0);
    said.prints(&["ld.global of blocks<2048>: limit 9 -> 4"]);
    assert_eq!(package.read("tilekit.toml"), limits(4));
    package.write("tilekit.toml", &limits(3));
    let said = package.tilekit(TEST).ends_with(104);
    let said = said.says(&["`blocks<2048>` has 4 ld.global, and its limit is 3"]);
    assert!(!said.stderr.contains("`blocks<512>`"), "{}", said.stderr);
}

/// `blocks<2048>` is measured, since it has a limit in common with `blocks<512>`; its own limits are not written, nor what it lacks said.
fn limits_of_variants_that_were_not_named_stay(package: &Package) {
    let limits = |shared: u32, most: u32| {
        format!(
            "[limits.blocks]\nshared-bytes = {shared}\ninstructions.'st.global' = {most}\n\
             [limits.'blocks<2048>']\ninstructions.'ld.global' = 1\n"
        )
    };
    for verb in ["--ratchet", "--accept"] {
        package.write("tilekit.toml", &limits(100, 9));
        let line = format!("snapshot {verb} blocks<512>");
        let said = package.tilekit(&line).ends_with(0);
        let said = said.prints(&["bytes of shared memory of blocks<512>: limit 100 -> 0"]);
        assert!(!said.stdout.contains("ld.global of"), "{}", said.stdout);
        // What both store, 4 times the larger.
        assert_eq!(package.read("tilekit.toml"), limits(0, 4), "{verb}");
    }
    // What `blocks<2048>` lacks is accepted where that is named alone.
    package.write("tilekit.toml", &limits(0, 2));
    package
        .tilekit("snapshot --accept blocks<512>")
        .ends_with(0);
    assert_eq!(package.read("tilekit.toml"), limits(0, 2));
    package
        .tilekit("snapshot --ratchet blocks<512>")
        .ends_with(0);
    let said = package.tilekit("snapshot --accept blocks<2048>");
    said.ends_with(0).prints(&[
        "st.global of blocks<2048>: limit 2 -> 4",
        "ld.global of blocks<2048>: limit 1 -> 4",
    ]);
    std::fs::remove_dir_all(package.root().join("snapshots")).expect("removed");
}

/// A misspelt folder of snapshots is said, be there limits or not.
fn limits_do_not_hide_that_snapshots_are_missing(package: &Package) {
    for limits in ["", "[limits.blocks]\nshared-bytes = 0\n"] {
        package.write(
            "tilekit.toml",
            &format!("snapshots = \"snapshotz\"\n{limits}"),
        );
        let absent = ["there is no folder ", "snapshotz, which `snapshots`"];
        let said = package.tilekit("snapshot --check").ends_with(104);
        said.says(&absent).says(&[" new, 0 stale"]);
        for line in ["snapshot --ratchet", TEST] {
            let said = package.tilekit(line).ends_with(104).says(&absent);
            said.says(&["correct the name, or write the first snapshots"]);
        }
        package
            .cargo("test -q --test tilekit snapshots")
            .ends_with(100);
        assert!(!package.root().join("snapshotz").exists());
    }
}

fn misspelt_keys_and_names_are_errors_with_the_nearest(package: &Package) {
    for (text, wanted) in [
        (
            "[limit.scale]\nregisters = 1\n",
            [
                "tilekit.toml:1:2",
                "unknown field `limit`",
                "perhaps `limits`",
            ],
        ),
        (
            "[limits.scale]\nregister = 1\n",
            [
                "tilekit.toml:2:1",
                "unknown field `register`",
                "perhaps `registers`",
            ],
        ),
        (
            "[limits.scael]\nregisters = 1\n",
            [
                "tilekit.toml:1:9",
                "no kernel and no variant is called `scael`",
                "perhaps \"scale\"",
            ],
        ),
        (
            "[limits.scale]\ninstructions.\"ld.globl\" = 1\n",
            [
                "tilekit.toml:2:14",
                "no kind of instructions is called `ld.globl`",
                "perhaps \"ld.global\"",
            ],
        ),
        (
            "[limits.scale]\nregisters = -1\n",
            ["tilekit.toml:2:13", "`-1` is no limit", "a whole number"],
        ),
        (
            "[limits.scale]\nregisters = \"few\"\n",
            ["tilekit.toml:2:13", "`few` is no limit", "a whole number"],
        ),
    ] {
        package.write("tilekit.toml", text);
        for verb in ["check", "snapshot --check"] {
            package.tilekit(verb).ends_with(2).says(&wanted);
        }
    }
}

/// Each fault is named with its kernel, quantity, what was found, the limit, and its line.
#[test]
fn each_fault_is_named_at_its_line_by_a_limit() {
    let prelude = "use tilekit::prelude::*;\n";
    let kernels = [NARROW, CONFLICTS, SPILLS].map(|text| text.replace(prelude, ""));
    let library = format!("{prelude}{}{ONE_CASE}", kernels.concat());
    let place = |part: &str| {
        let line = library.lines().position(|line| line.contains(part));
        format!("src/lib.rs:{}", line.expect("it is there") + 1)
    };
    let package = Package::new("limited-faults", &library);
    package.write(
        "tilekit.toml",
        "[limits]\nnarrow.instructions.'ld.global.4B' = 0\nconflicts.bank-conflicts = 0\n\
         spills = { spill-store-bytes = 0, spill-load-bytes = 0, registers = 31 }\n",
    );
    let said = package.tilekit(TEST).ends_with(104);
    let said = said.says(&[
        "`narrow` has 4 ld.global.4B, and its limit is 0",
        &format!("4 ld.global.4B at {}", place("program_id(0) * row_stride")),
        " bank conflicts, and its limit is 0",
        &format!(" conflicts at {}", place("tile.store(zeros")),
    ]);
    if has_machine_code() {
        said.says(&[
            "bytes of spill stores, and its limit is 0",
            "bytes of spill loads, and its limit is 0",
            "`spills` has 32 registers, and its limit is 31",
            &format!(" stores at {}", place("let v = x.at(at).load();")),
            " loads at src/lib.rs:",
        ]);
    } else {
        said.says(&["3 limits of registers, spills and stack not compared"]);
    }
}

/// `test` fails where a cost grew beyond what was accepted, and says what other differences there are.
#[test]
fn test_compares_costs_with_the_accepted_snapshots() {
    let wide = NARROW.replace("row_stride: i32", "#[multiple_of(4)] row_stride: i32");
    let package = Package::new("held-kernels", &with_case(&wide));
    package.tilekit("snapshot --accept").ends_with(0);
    package.tilekit(TEST).ends_with(0);

    package.write("src/lib.rs", &with_case(NARROW));
    package.tilekit(TEST).ends_with(104).says(&[
        "error: `narrow` costs more than accepted: ",
        "4 ld.global (accepted 1)",
        "ld.global: 4 ld.global at src/lib.rs:7",
        "`cargo tilekit snapshot --accept 'narrow'` accepts the loss",
    ]);
    package.tilekit("test one --device emulator").ends_with(0);
    package.tilekit("snapshot --accept narrow").ends_with(0);
    package.tilekit(TEST).ends_with(0);

    package.write("src/lib.rs", &with_case(&wide));
    package
        .tilekit(TEST)
        .ends_with(0)
        .says(&["not as accepted, at no greater cost", "--ratchet writes it"]);
    package.tilekit("snapshot --ratchet").ends_with(0);
    let said = package.tilekit(TEST).ends_with(0);
    assert!(!said.stderr.contains("not as accepted"), "{}", said.stderr);
}
