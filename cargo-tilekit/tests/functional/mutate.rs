//! `mutate`: what is broken, what is found, what is marked and what is recorded.

use std::fs;

use crate::Package;

/// Reverses a row through shared memory. No launch overlaps another, so that the wait for the one before it does nothing.
pub(crate) const REVERSE: &str = r#"
use tilekit::prelude::*;

#[kernel(warps = 4)]
pub fn reverse(x: Ptr<f32>, out: Ptr<f32>) {
    let i = arange(0..128, Auto).set_layout(Blocked::new([1], [32], [4], [0]));
    launch_wait();
    let tile = Smem::alloc_with(x.at(i).load(), Swizzled::plain([0]));
    out.at(i).store(tile.gather(127 - i, 0));
}

#[case]
fn reverse_case(case: &mut Case) -> CaseResult {
    let x = case.normal::<f32>("x", [128]);
    let out = case.output::<f32>("out", [128]);
    case.launch(reverse, grid(1), (&x, &out))?;
    case.expect(&out, |[i]: [usize; 1]| x[127 - i], Exactly)
}
"#;

const MUTATE: &str = "mutate --profile dev --seeds 2";

fn with_comment(comment: &str) -> String {
    REVERSE.replace("launch_wait();", &format!("{comment}\n    launch_wait();"))
}

#[test]
fn survivors_are_listed_with_their_lines_until_a_comment_says_why_they_are_equivalent() {
    let package = Package::new("mutate-kernels", REVERSE);
    let said = package.tilekit(MUTATE).ends_with(108).prints(&[
        "survived: griddepcontrol.wait at src/lib.rs:7:5 (1 of 1)\n    reverse, PTX line ",
        ": griddepcontrol.wait;\n",
        "kind                          mutants  reported  wrong result",
        "\nbar.sync                            1         1             0        0           0         0    100.0\n",
        "\nall                                 2         1             0        0           0         1     50.0\n",
    ]);
    said.says(&["found 50.0 % of 2 mutants at 2 seeds", "1 mutant survived"]);
    package
        .tilekit(&format!("{MUTATE} --kinds bar.sync"))
        .ends_with(0)
        .prints(&["all                                 1 "]);
    let mark = "// mutate: equivalent(griddepcontrol.wait): launches follow each other";
    package.write("src/lib.rs", &with_comment(mark));
    package
        .tilekit(MUTATE)
        .ends_with(0)
        .prints(&["\nall                                 2         1             0        0           1         0    100.0\n"]);
}

#[test]
fn marks_without_a_reason_or_of_what_is_found_are_noticed() {
    let package = Package::new("mark-kernels", REVERSE);
    package.write(
        "src/lib.rs",
        &with_comment("// mutate: equivalent(griddepcontrol.wait):"),
    );
    package
        .tilekit(MUTATE)
        .ends_with(2)
        .says(&["src/lib.rs:8: the mark of griddepcontrol.wait gives no reason"]);
    let store = "    out.at(i).store(";
    let mark = "    // mutate: equivalent(bar.sync): it is only a barrier";
    package.write(
        "src/lib.rs",
        &REVERSE.replace(store, &format!("{mark}\n{store}")),
    );
    package
        .tilekit(&format!("{MUTATE} --kinds bar.sync"))
        .ends_with(0)
        .says(&["src/lib.rs:10 is marked equivalent, and every mutant there was found"]);
}

#[test]
fn results_are_recorded_and_hold_until_the_package_is_built_anew() {
    let package = Package::new("record-kernels", REVERSE);
    package.tilekit(MUTATE).ends_with(108);
    let path = package.artifacts().join("mutate.jsonl");
    let text = fs::read_to_string(&path).expect("results are recorded");
    assert_eq!(
        text.lines().count(),
        3,
        "a heading and two mutants:\n{text}"
    );
    package
        .tilekit(MUTATE)
        .ends_with(108)
        .says(&["2 of 2 mutants are known from an earlier run of this build"]);
    // As an interrupted run leaves it.
    let lines: Vec<&str> = text.lines().collect();
    fs::write(&path, format!("{}\n{}\n", lines[0], lines[1])).expect("a file");
    package
        .tilekit(MUTATE)
        .ends_with(108)
        .says(&["1 of 2 mutants are known"]);
    let said = package.tilekit(&format!("{MUTATE} --fresh")).ends_with(108);
    assert!(!said.stderr.contains("are known"), "{}", said.stderr);
}

#[test]
fn machines_read_an_object_for_each_mutant_and_one_for_the_table() {
    let package = Package::new("mutate-json", REVERSE);
    let said = package
        .tilekit(&format!("{MUTATE} --message-format json"))
        .ends_with(108);
    let objects = said.objects();
    let of = |reason: &str| -> Vec<_> {
        objects
            .iter()
            .filter(|object| object["reason"] == reason)
            .cloned()
            .collect()
    };
    let mutants = of("tilekit-mutant");
    let statuses: Vec<_> = mutants
        .iter()
        .map(|mutant| (&mutant["kind"], &mutant["status"]))
        .collect();
    assert_eq!(
        statuses,
        [
            (&"griddepcontrol.wait".into(), &"survived".into()),
            (&"bar.sync".into(), &"found".into())
        ]
    );
    assert_eq!(mutants[1]["outcome"]["located"], true);
    assert_eq!(of("tilekit-mutants")[0]["all"]["survived"], 1);
}

#[test]
fn wrong_kinds_and_kernels_that_are_wrong_already_end_it() {
    let package = Package::new("mutate-wrong", REVERSE);
    package
        .tilekit(&format!("{MUTATE} --kinds bar.sink"))
        .ends_with(2)
        .says(&["`bar.sink` is no kind of mutation; there are bar.sync,"]);
    package.edit("src/lib.rs", "x[127 - i]", "x[i]");
    package
        .tilekit(MUTATE)
        .ends_with(100)
        .says(&["case `reverse_case` unchanged, with seed 0"]);
}

#[test]
fn a_seed_runs_on_the_emulator_alone_and_is_named() {
    let package = Package::new("seed-kernels", REVERSE);
    package
        .tilekit("run --seed 3")
        .ends_with(0)
        .prints(&[", seed 3 ("]);
    package
        .tilekit("run --seed 3 --device cuda")
        .ends_with(2)
        .says(&["there is no seed 3", "--device emulator"]);
    package
        .tilekit("test --seeds 2")
        .ends_with(0)
        .prints(&[", seed 0 (", ", seed 1 ("]);
    package.edit("src/lib.rs", "x[127 - i]", "x[i]");
    package
        .tilekit("test --seeds 2")
        .ends_with(100)
        .says(&["`cargo tilekit run --seed 1`"]);
}

/// One thread arrives for its warpgroup, having waited for a product.
const ARRIVES_FOR_OTHERS: &str = r#"
use tilekit::prelude::*;

#[kernel(warps = 4)]
pub fn total(out: Ptr<f32>) {
    let rows = Blocked::new([1, 16], [8, 4], [4, 1], [1, 0]);
    let factor = Smem::<f16>::alloc_with(full([64, 64], 1.0, rows), Nvmma::B128);
    let turn = Mbarrier::alloc(1);
    fence_async_shared();
    let mut acc = Accumulator::<f32>::zeros([64, 64], Wgmma::new([4, 1], [64, 64, 16]));
    acc = acc.mma(factor, factor).wait(0);
    turn.arrival().by(Arrivers::Warpgroup).arrive();
    turn.wait(0);
    acc = acc.mma(factor, factor).wait(0);
    turn.arrival().by(Arrivers::Warpgroup).arrive();
    turn.wait(1);
    out.store(acc.wait_all().sum(1).sum(0).scalar());
}

#[case]
fn total_case(case: &mut Case) -> CaseResult {
    let out = case.output::<f32>("out", [1]);
    case.launch(total, grid(1), (&out,))?;
    case.expect(&out, |[_]: [usize; 1]| 64.0 * 64.0 * 128.0, Exactly)
}
"#;

#[test]
fn a_strict_run_orders_what_a_warp_waited_for_after_that_warp_alone() {
    let package = Package::new("strict-kernels", ARRIVES_FOR_OTHERS);
    package
        .tilekit("run --profile dev --device emulator")
        .ends_with(0);
    package
        .tilekit("run --profile dev --strict --device cuda")
        .ends_with(2)
        .says(&["nothing that `--strict` could report"]);
    package
        .tilekit("test --profile dev --seeds 1 --strict")
        .ends_with(100)
        .prints(&[", seed 0, strict ("])
        .says(&[
            "each of its warps arrives",
            "`cargo tilekit run --seed 0 --strict`",
        ]);
    package.edit("src/lib.rs", "alloc(1)", "alloc(4)");
    package.edit("src/lib.rs", "Arrivers::Warpgroup", "Arrivers::Warp");
    package
        .tilekit("run --profile dev --strict")
        .ends_with(0)
        .prints(&[", strict ("]);
}

/// Two threads' worth of turns at one mbarrier, which the model of barriers proves.
const TURNS: &str = r#"
use tilekit::prelude::*;

#[kernel(warps = 4)]
pub fn turns(x: Ptr<f32>, out: Ptr<f32>) {
    let i = arange(0..128, Coalesced);
    let turn = Mbarrier::alloc(4);
    fence_async_shared();
    let v = x.at(i).load();
    turn.arrival().by(Arrivers::Warp).arrive();
    turn.wait(0);
    turn.arrival().by(Arrivers::Warp).arrive();
    turn.wait(1);
    out.at(i).store(v);
}

#[case]
fn turns_case(case: &mut Case) -> CaseResult {
    let x = case.normal::<f32>("x", [128]);
    let out = case.output::<f32>("out", [128]);
    case.launch(turns, grid(1), (&x, &out))?;
    case.expect(&out, |[i]: [usize; 1]| x[i], Exactly)
}
"#;

#[test]
fn mutants_of_what_is_proved_are_refuted_or_run_on_the_emulator() {
    let package = Package::new("doubt-kernels", TURNS);
    package
        .tilekit("check --prove --mutants 40")
        .ends_with(0)
        .prints(&["turns: proved for all trip counts"])
        .says(&["mutants of proved kernels: ", " 0 deadlocked"]);
    package.tilekit("check --mutants 40").ends_with(2);
}

/// The second wait is for a phase that nobody completes, which no lint sees.
#[test]
fn what_the_model_alone_finds_counts_as_wrong() {
    let arrival = "    turn.arrival().by(Arrivers::Warp).arrive();\n";
    let lasting = TURNS.replace(&format!("{arrival}    turn.wait(1)"), "    turn.wait(1)");
    assert_ne!(lasting, TURNS);
    let package = Package::new("lasting-kernels", &lasting);
    package.tilekit("check").ends_with(0);
    package
        .tilekit("check --prove")
        .ends_with(103)
        .prints(&["turns: found: "])
        .says(&["1 found wrong", "error: 1 of 1 variant wrong"]);
}
