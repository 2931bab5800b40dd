//! Cases on several emulated devices: every rank's outputs are compared, and mistakes name the rank.

use std::process::Command;
use std::time::Duration;

use tilekit::case::{Bed, BenchOptions, CaseEntry, CaseOutcome, Mode, SizeList};
use tilekit::diag::Code;
use tilekit::prelude::*;
use tilekit::report::fault_diagnostic;
use tilekit::{EmulatorOptions, Error, HANG_EXIT_CODE, Nccl};

/// Each rank hands `x` to the next one, which doubles what it got; what a mistake is, `VARIANT` says.
#[kernel(warps = 1, cooperative)]
fn hand_on<const VARIANT: usize>(
    x: Ptr<f32>,
    out: Ptr<f32>,
    got: Ptr<f32>,
    got_of: PeerMap<f32>,
    counts: Ptr<i32>,
    counts_of: PeerMap<i32>,
    next: i32,
) {
    let at = arange(0..64, Coalesced);
    let signals = Signals::new(counts, counts_of);
    got_of.of(next).at(at).store(x.at(at).load());
    if VARIANT != SILENT {
        signals.signal(next, scalar(0), scalar(1));
    }
    if VARIANT != HASTY {
        signals.wait(scalar(0), scalar(1));
    }
    let factor = if VARIANT == WRONG {
        select(
            next == 0,
            scalar(3.0).cast::<f32>(),
            scalar(2.0).cast::<f32>(),
        )
    } else {
        scalar(2.0)
    };
    out.at(at).store(got.at(at).load() * factor);
}

const RIGHT: usize = 0;
/// The last rank multiplies by 3.
const WRONG: usize = 1;
/// Nobody signals.
const SILENT: usize = 2;
/// Nobody waits.
const HASTY: usize = 3;

fn hands_on<const VARIANT: usize>(case: &mut Case) -> CaseResult {
    let ranks = case.ranks();
    let name = |tensor: &str, rank| format!("{tensor} of rank {rank}");
    let x: Vec<_> = (0..ranks)
        .map(|rank| case.normal::<f32>(&name("x", rank), [64]))
        .collect();
    let out: Vec<_> = (0..ranks)
        .map(|rank| case.output::<f32>(&name("out", rank), [64]))
        .collect();
    let (got, counts) = (case.shared::<f32>(64)?, case.shared::<i32>(1)?);
    case.launch_on_ranks(hand_on::<VARIANT>, grid(1), |rank| {
        let next = ((rank + 1) % ranks) as i32;
        let (got, got_of) = (got.part(rank), got.peers(rank));
        let (count, counts_of) = (counts.part(rank), counts.peers(rank));
        (&x[rank], &out[rank], got, got_of, count, counts_of, next)
    })?;
    for rank in 0..ranks {
        let before = &x[(rank + ranks - 1) % ranks];
        case.expect(&out[rank], |[i]: [usize; 1]| before[i] * 2.0, Exactly)?;
    }
    Ok(())
}

fn run(function: fn(&mut Case) -> CaseResult, ranks: usize, mode: &Mode) -> CaseOutcome {
    let sizes = &[SizeList {
        name: "ranks",
        values: &[2],
    }];
    let entry = CaseEntry {
        name: "hands_on",
        module: "ranks",
        file: file!(),
        line: line!(),
        sizes,
        function,
    };
    let chosen = [("ranks".to_string(), vec![ranks])];
    entry.run(&entry.runs(&chosen).expect("its own size")[0], mode)
}

fn under(seed: u64) -> Mode {
    let options = EmulatorOptions {
        seed,
        ..EmulatorOptions::default()
    };
    Mode::Check(Bed::new(&Device::emulator_with(options)))
}

#[test]
fn every_rank_is_compared() {
    let emulated = [1, 2, 4, 8].map(|ranks| (ranks, (0..3).map(under).collect::<Vec<_>>()));
    let gpus = [1, 2]
        .into_iter()
        .filter(|&ranks| World::cuda(ranks).is_ok());
    let of_gpus = |_| {
        vec![Mode::Check(Bed::new(
            &Device::cuda(0).expect("there is one"),
        ))]
    };
    let gpus = gpus.map(|ranks| (ranks, of_gpus(ranks)));
    for (ranks, modes) in emulated.into_iter().chain(gpus) {
        for mode in modes {
            let outcome = run(hands_on::<RIGHT>, ranks, &mode);
            outcome.result.expect("every rank is right");
            let report = outcome.report;
            assert_eq!(
                (report.ranks, report.agreements.len()),
                (Some(ranks), ranks)
            );
            let instructions = report.launches[0].warp_instructions;
            assert!(instructions.is_none_or(|count| count > ranks as u64));
            // Two tensors and the memory of all for each rank.
            assert_eq!(report.tensor_bytes, ranks * (3 * 256 + 4));
        }
    }
}

/// Every rank gets the sum of what all have; the number of calls lies in memory.
#[kernel(warps = 1, cooperative)]
fn sum_of_all(
    x: Ptr<f32>,
    out: Ptr<f32>,
    held: Ptr<f32>,
    held_of: PeerMap<f32>,
    counts: Ptr<i32>,
    counts_of: PeerMap<i32>,
    calls: Ptr<i32>,
    ranks: i32,
) {
    let at = arange(0..64, Coalesced);
    let signals = Signals::new(counts, counts_of);
    let call = calls.at(0).load() + 1;
    signals.wait(scalar(1), (call - 1) * ranks);
    held.at(at).store(x.at(at).load());
    for rank in range(0, ranks) {
        signals.signal(rank, scalar(0), scalar(1));
    }
    signals.wait(scalar(0), call * ranks);
    let mut sum = x.at(at).load() * 0.0;
    for rank in range(0, ranks) {
        sum += held_of.of(rank).at(at).load();
        signals.signal(rank, scalar(1), scalar(1));
    }
    out.at(at).store(sum);
    calls.at(0).store(call);
}

fn sums(case: &mut Case) -> CaseResult {
    let ranks = case.ranks();
    let x: Vec<_> = (0..ranks)
        .map(|rank| case.normal::<f32>(&format!("x of rank {rank}"), [64]))
        .collect();
    let out: Vec<_> = (0..ranks)
        .map(|rank| case.output::<f32>(&format!("out of rank {rank}"), [64]))
        .collect();
    let (held, counts) = (case.shared::<f32>(64)?, case.shared::<i32>(2)?);
    let calls = case.shared::<i32>(1)?;
    case.peer(Peer::Nccl(Collective::all_reduce(&x, &out)));
    case.launch_on_ranks(sum_of_all, grid(1), |rank| {
        let (held, held_of) = (held.part(rank), held.peers(rank));
        let (own, of_ranks) = (counts.part(rank), counts.peers(rank));
        let (x, out, calls) = (&x[rank], &out[rank], calls.part(rank));
        (x, out, held, held_of, own, of_ranks, calls, ranks as i32)
    })?;
    for out in &out {
        let sum = |[i]: [usize; 1]| x.iter().map(|x| f64::from(x[i])).sum::<f64>();
        let tolerance = Close {
            relative: 1e-6,
            absolute: 1e-6,
        };
        case.expect(out, sum, tolerance)?;
    }
    Ok(())
}

#[test]
fn launches_on_ranks_are_timed_beside_their_peer() {
    let options = BenchOptions {
        samples: 3,
        rounds: 2,
        ..BenchOptions::default()
    };
    for (ranks, mode) in [(1, under(0)), (3, under(1))] {
        let Mode::Check(bed) = mode else {
            unreachable!("it checks");
        };
        run(sums, ranks, &Mode::Check(bed.clone()))
            .result
            .expect("it is right");
        let outcome = run(sums, ranks, &Mode::Bench(bed, options));
        outcome.result.expect("it is timed");
        let [timing] = &outcome.report.timings[..] else {
            panic!("the launches before the first comparison are one chain");
        };
        let ours = timing.ours();
        assert!(
            ours.name.ends_with(&format!("on {ranks} ranks")),
            "{}",
            ours.name
        );
        let times = (
            ours.single.samples_ms.len(),
            ours.back_to_back.samples_ms.len(),
        );
        assert_eq!((times, timing.copies), ((3, 2), 24));
        assert!(
            timing.notes[0].starts_with("NCCL is not timed: "),
            "{:?}",
            timing.notes
        );
    }
}

#[test]
fn on_two_gpus_they_are_timed_beside_nccl() {
    if let Err(why) = World::cuda(2).and_then(|world| Nccl::new(&world)) {
        println!("skipped: {why}");
        return;
    }
    let bed = Bed::new(&Device::cuda(0).unwrap());
    let options = BenchOptions {
        samples: 5,
        rounds: 3,
        ..BenchOptions::default()
    };
    run(sums, 2, &Mode::Check(bed.clone()))
        .result
        .expect("it is right");
    let outcome = run(sums, 2, &Mode::Bench(bed, options));
    outcome.result.expect("it is timed");
    let timing = &outcome.report.timings[0];
    assert_eq!((timing.entrants.len(), timing.notes.len()), (2, 0));
    for entrant in &timing.entrants {
        println!(
            "{} {:?} {:?}",
            entrant.name, entrant.single, entrant.back_to_back
        );
    }
    assert!(
        timing.entrants[1].check.is_some(),
        "its results were compared"
    );
}

/// Set in the process of the case that does not end.
const CHILD: &str = "TILEKIT_TEST_SILENT_CASE";

#[test]
fn on_two_gpus_a_case_that_does_not_end_ends_the_process() {
    if std::env::var_os(CHILD).is_some() {
        let bed = Bed {
            launch_limit: Duration::from_millis(300),
            ..Bed::new(&Device::cuda(0).unwrap())
        };
        let outcome = run(hands_on::<SILENT>, 2, &Mode::Check(bed));
        panic!("nobody signals: {:?}", outcome.result);
    }
    if World::cuda(2).is_err() {
        println!("skipped: fewer than two GPUs");
        return;
    }
    let this_test = "on_two_gpus_a_case_that_does_not_end_ends_the_process";
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", this_test, "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stderr).into_owned();
    assert_eq!(child.status.code(), Some(HANG_EXIT_CODE), "{said}");
    let expected = "did not end within 0.3 s on 2 of 2 ranks: [0, 1]";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn a_description_launches_nothing() {
    let outcome = run(hands_on::<RIGHT>, 4, &Mode::Describe);
    outcome.result.expect("it is described");
    assert_eq!(outcome.report.launches.len(), 1);
    assert!(outcome.report.launches[0].compiled.is_none());
}

#[test]
fn a_wrong_element_names_its_rank() {
    let wrong = run(hands_on::<WRONG>, 4, &under(0)).result;
    let text = wrong.expect_err("rank 3 is wrong").to_string();
    assert!(text.contains("out of rank 3"), "{text}");
}

#[track_caller]
fn reports(function: fn(&mut Case) -> CaseResult, code: Code, expected: &[&str]) {
    for seed in 0..3 {
        let Err(Error::Fault(fault)) = run(function, 2, &under(seed)).result else {
            panic!("seed {seed}: it is reported");
        };
        assert_eq!(fault_diagnostic(&fault).code, code);
        let text = fault.to_string();
        for part in expected {
            assert!(text.contains(part), "seed {seed}: {part}: {text}");
        }
    }
}

#[test]
fn a_missing_signal_and_a_missing_wait_name_ranks_and_flags() {
    let flag = [
        "deadlock across 2 devices",
        "of rank 1 polls the flag",
        "which is 0",
    ];
    reports(hands_on::<SILENT>, Code::Deadlock, &flag);
    reports(hands_on::<HASTY>, Code::Race, &["rank 0", "rank 1"]);
}

#[test]
fn more_ranks_than_devices_are_refused_with_what_there_is() {
    let many = run(hands_on::<RIGHT>, 17, &under(0)).result;
    let text = many.expect_err("16 can run as one").to_string();
    assert_eq!(text, "17 devices; 1 to 16 can run as one");
    let few = Error::TooFewGpus { ranks: 4, gpus: 1 };
    assert_eq!(
        few.to_string(),
        "4 ranks are 4 GPUs, and the driver sees 1; choose `--devices 1`, or as many emulated devices as you like by `--device emulator`"
    );
}
