//! Timing the launches of a case, alone and beside others, on every device of this machine.

mod on_devices;

use std::time::Duration;

use on_devices::{check, devices, run};
use tilekit::case::{Bed, BenchOptions, CaseEntry, CaseOutcome, Mode, SizeList};
use tilekit::prelude::*;

/// `out[r, c] = 2 · x[r, c]`, one row per program.
#[kernel(warps = 1)]
fn double_rows(x: Ptr<i32>, out: Ptr<i32>, stride: i32, cols: i32) {
    let col = arange(0..64, Coalesced);
    let inside = col < cols;
    let at = program_id(0) * stride + col;
    out.at(at)
        .mask(inside)
        .store(x.at(at).mask(inside).load() * 2);
}

fn double(case: &mut Case) -> CaseResult {
    let x = case.integers::<i32>("x", [10, 64], -9..9);
    let out = case.output::<i32>("out", [10, 64]);
    case.launch(double_rows, grid(10u32), (&x, &out, 64, 64))?;
    case.expect(&out, |[r, c]| 2 * x[[r, c]], Exactly)
}

#[test]
fn a_benchmarked_case_has_times() {
    for device in devices() {
        let CaseOutcome { report, result } = run(double, &Mode::Bench(Bed::new(&device), quick()));
        result.expect("the kernel runs");
        let [timing] = &report.timings[..] else {
            panic!("one chain was timed");
        };
        let ours = timing.ours();
        assert_eq!(ours.name, "double_rows");
        let counts = (
            ours.single.samples_ms.len(),
            ours.back_to_back.samples_ms.len(),
        );
        assert_eq!(
            (timing.entrants.len(), counts, timing.copies),
            (1, (3, 2), 24)
        );
        for series in [&ours.single, &ours.back_to_back] {
            assert!(series.median_ms() > 0.0 && series.fastest_ms() <= series.median_ms());
        }
    }
}

/// The same work by the same kernel, and by one that is wrong by one unless `FAR` is allowed.
fn beside<const FAR: bool>(case: &mut Case) -> CaseResult {
    let x = case.integers::<i32>("x", [10, 64], -9..9);
    let out = case.output::<i32>("out", [10, 64]);
    case.rival(
        "again",
        Exactly,
        double_rows,
        grid(10u32),
        (&x, &out, 64, 64),
    )?;
    let tolerance = if FAR { Absolute(1.0) } else { Exactly };
    case.rival(
        "double and one",
        tolerance,
        double_and_one,
        grid(10u32),
        (&x, &out),
    )?;
    case.launch(double_rows, grid(10u32), (&x, &out, 64, 64))?;
    case.expect(&out, |[r, c]| 2 * x[[r, c]], Exactly)
}

/// The same with rows of which the last quarter is never written.
fn padded(case: &mut Case) -> CaseResult {
    let x = case.normal::<f32>("x", [3, 64]);
    let out = case.output::<f32>("out", [3, 64]);
    let arguments = (&x, &out, 48);
    case.rival("again", Exactly, copy_rows, grid(3u32), arguments)?;
    case.rival(
        "more",
        Exactly,
        copy_rows,
        grid(3u32),
        (&x, &out, case.size("columns") as i32),
    )?;
    case.launch(copy_rows, grid(3u32), arguments)?;
    let want = || (0..3 * 48).map(|at| x[[at / 48, at % 48]]).collect();
    case.expect_part(&out, [3, 48], want, Exactly)
}

/// The first `columns` of rows of 64.
#[kernel(warps = 1)]
fn copy_rows(x: Ptr<f32>, out: Ptr<f32>, columns: i32) {
    let column = arange(0..64, Coalesced);
    let at = program_id(0) * 64 + column;
    let inside = column < columns;
    out.at(at).mask(inside).store(x.at(at).mask(inside).load());
}

const COLUMNS: &[SizeList] = &[SizeList {
    name: "columns",
    values: &[48, 49],
}];

#[test]
fn what_neither_writes_agrees_and_what_one_writes_does_not() {
    for device in devices() {
        let entry = CaseEntry {
            name: "padded",
            module: "launch",
            file: file!(),
            line: line!(),
            sizes: COLUMNS,
            function: padded,
        };
        let runs = entry.runs(&[]).expect("its own sizes");
        let mode = Mode::Bench(Bed::new(&device), quick());
        entry
            .run(&runs[0], &mode)
            .result
            .expect("both write 48 columns");
        let more = entry.run(&runs[1], &mode).result;
        let line = more.expect_err("one writes 49 columns").to_string();
        assert!(
            line.contains("3 of 192 elements") && line.contains("out[0, 48]"),
            "{line}"
        );
    }
}

/// `out[r, c] = 2 · x[r, c] + 1` for rows of 64.
#[kernel(warps = 1)]
fn double_and_one(x: Ptr<i32>, out: Ptr<i32>) {
    let at = program_id(0) * 64 + arange(0..64, Coalesced);
    out.at(at).store(x.at(at).load() * 2 + 1);
}

/// As few samples as can be.
fn quick() -> BenchOptions {
    BenchOptions {
        samples: 3,
        rounds: 2,
        slice: Duration::from_millis(1),
        ..BenchOptions::default()
    }
}

#[test]
fn rivals_are_checked_and_timed_beside_the_launch() {
    for device in devices() {
        let CaseOutcome { report, result } =
            run(beside::<true>, &Mode::Bench(Bed::new(&device), quick()));
        result.expect("both rivals agree");
        assert_eq!(report.peers, ["again", "double and one"]);
        let [timing] = &report.timings[..] else {
            panic!("one chain was timed");
        };
        let seen: Vec<(&str, Option<&str>, usize)> = timing
            .entrants
            .iter()
            .map(|entrant| {
                let samples = entrant.single.samples_ms.len();
                (entrant.name.as_str(), entrant.check.as_deref(), samples)
            })
            .collect();
        assert_eq!(
            seen,
            [
                ("double_rows", None, 3),
                ("again", Some("`out` exact"), 3),
                (
                    "double and one",
                    Some("`out` max absolute error ≤ 1e0 (is 1e0)"),
                    3
                ),
            ]
        );
    }
}

#[test]
fn a_rival_that_disagrees_is_named_and_nothing_is_timed() {
    for device in devices() {
        let CaseOutcome { report, result } =
            run(beside::<false>, &Mode::Bench(Bed::new(&device), quick()));
        let line = result.expect_err("one rival is wrong").to_string();
        assert!(
            line.starts_with("double and one and the kernel do not agree"),
            "{line}"
        );
        assert!(report.timings.is_empty());
    }
}

/// `out = 2 · x` of rows of 64, whose elements are above -100.
#[kernel(warps = 1)]
fn double_set(x: Ptr<i32>, out: Ptr<i32>) {
    let at = program_id(0) * 64 + arange(0..64, Coalesced);
    let value = x.at(at).load();
    device_assert(value > -100, "the element is no poison");
    out.at(at).store(value * 2);
}

/// Doubles rows twice, the second time in a chain of its own.
fn in_two_chains(case: &mut Case) -> CaseResult {
    let x = case.integers::<i32>("x", [10, 64], -9..9);
    let between = case.output::<i32>("between", [10, 64]);
    let out = case.output::<i32>("out", [10, 64]);
    case.launch(double_rows, grid(10u32), (&x, &between, 64, 64))?;
    case.expect(&between, |[r, c]| 2 * x[[r, c]], Exactly)?;
    let arguments = (&between, &out);
    case.rival("again", Exactly, double_set, grid(10u32), arguments)?;
    case.launch(double_set, grid(10u32), arguments)?;
    case.expect(&out, |[r, c]| 4 * x[[r, c]], Exactly)
}

#[test]
fn a_launch_that_is_compared_finds_what_earlier_launches_have_left() {
    for device in devices() {
        let CaseOutcome { report, result } =
            run(in_two_chains, &Mode::Bench(Bed::new(&device), quick()));
        result.expect("poison of an i32 is below -100");
        let checks = report.timings.iter().map(|timing| {
            let checks = timing.entrants.iter();
            checks
                .filter_map(|entrant| entrant.check.as_deref())
                .collect()
        });
        let checks: Vec<Vec<&str>> = checks.collect();
        assert_eq!(checks, [vec![], vec!["`between` exact, `out` exact"]]);
    }
}

#[test]
fn rivals_are_left_out_of_a_check() {
    for device in devices() {
        let CaseOutcome { report, result } = run(beside::<false>, &check(&device));
        result.expect("the launch itself is right");
        assert_eq!(report.launches.len(), 1);
    }
}

/// A reference that nobody is to ask for.
fn without_reference(case: &mut Case) -> CaseResult {
    let x = case.integers::<i32>("x", [10, 64], -9..9);
    let out = case.output::<i32>("out", [10, 64]);
    case.launch(double_rows, grid(10u32), (&x, &out, 64, 64))?;
    let want = || -> Vec<i32> { panic!("the reference is computed") };
    case.expect_all(&out, want, Exactly)
}

#[test]
fn a_launch_without_comparison_computes_no_reference() {
    for device in devices() {
        let outcome = run(without_reference, &Mode::Launch(Bed::new(&device)));
        outcome.result.expect("nothing is compared");
        assert!(outcome.report.launches[0].wall.is_some());
        let checked = run(without_reference, &check(&device)).result;
        let line = checked.expect_err("a check compares").to_string();
        assert!(line.contains("the reference is computed"), "{line}");
    }
}

/// A product that the emulator cannot have cuBLAS for.
fn with_cublas(case: &mut Case) -> CaseResult {
    let x = case.integers::<i32>("x", [10, 64], -9..9);
    let out = case.output::<i32>("out", [10, 64]);
    case.peer(Peer::Cublas(Gemm::new(&x, &x, &out)));
    case.launch(double_rows, grid(10u32), (&x, &out, 64, 64))?;
    case.expect(&out, |[r, c]| 2 * x[[r, c]], Exactly)
}

#[test]
fn a_peer_that_cannot_be_is_noted_and_the_launch_timed_alone() {
    for device in devices() {
        let outcome = run(with_cublas, &Mode::Bench(Bed::new(&device), quick()));
        outcome.result.expect("the launch itself is right");
        let timing = &outcome.report.timings[0];
        assert_eq!(timing.entrants.len(), 1);
        assert!(
            timing.notes[0].starts_with("cublasGemmEx is not timed: "),
            "{:?}",
            timing.notes
        );
    }
}

/// Two launches that belong together, the second of which overlaps the first, and then one of its own.
fn chain(case: &mut Case) -> CaseResult {
    let x = case.integers::<i32>("x", [10, 64], -9..9);
    let half = case.output::<i32>("half", [10, 64]);
    case.launch(double_rows, grid(10u32), (&x, &half, 64, 64))?;
    let out = case.output::<i32>("out", [10, 64]);
    case.launch_programmatic(double_behind, grid(10u32), (&half, &out))?;
    case.expect(&out, |[r, c]| 4 * x[[r, c]], Exactly)?;
    case.launch(double_and_one, grid(10u32), (&x, &out))
}

/// `out[r, c] = 2 · x[r, c]` for rows of 64, where the launch before may have written `x`.
#[kernel(warps = 1)]
fn double_behind(x: Ptr<i32>, out: Ptr<i32>) {
    launch_dependents();
    let at = program_id(0) * 64 + arange(0..64, Coalesced);
    launch_wait();
    out.at(at).store(x.at(at).load() * 2);
}

#[test]
fn launches_between_comparisons_are_timed_as_one_and_beside_themselves_without_overlap() {
    for device in devices() {
        let CaseOutcome { report, result } = run(chain, &Mode::Bench(Bed::new(&device), quick()));
        result.expect("the launches are right");
        assert_eq!(report.launches.len(), 3);
        let seen: Vec<Vec<(&str, Option<&str>)>> = report
            .timings
            .iter()
            .map(|timing| {
                let entrants = timing.entrants.iter();
                entrants
                    .map(|entrant| (entrant.name.as_str(), entrant.check.as_deref()))
                    .collect()
            })
            .collect();
        let [together, alone] = &seen[..] else {
            panic!("two chains: {seen:?}");
        };
        let name = "double_rows + double_behind";
        assert_eq!(together[0], (name, None));
        assert_eq!(together[1].0, format!("{name}, none overlapping"));
        assert!(together[1].1.is_some_and(|check| check.contains("`out`")));
        assert_eq!(alone[..], [("double_and_one", None)]);
        // Every second launch follows one in the same graph.
        let [ours, plain] = &report.timings[0].entrants[..] else {
            panic!("the chain and itself without overlap");
        };
        let wanted = if device.is_cuda() { ours.turns } else { 0 };
        assert_eq!((ours.overlapping, plain.overlapping), (wanted, 0));
    }
}
