//! Times that a model of an H200 predicts, where a few CTAs run.

use tilekit::case::{Bed, BenchOptions, CaseEntry, Mode};
use tilekit::prelude::*;
use tilekit::{Bound, Device, EmulatorOptions};

/// `out[i] = x[i] + 1`, 1024 elements a CTA.
#[kernel(warps = 4)]
fn increment(x: Ptr<f32>, out: Ptr<f32>) {
    let at = program_id(0) * 1024 + arange(0..1024, Coalesced);
    out.at(at).store(x.at(at).load() + 1.0);
}

/// Each CTA adds up `count` times: all of its time is latency.
#[kernel(warps = 1)]
fn chain(out: Ptr<f32>, count: i32) {
    let mut sum = full::<f32>([32], 0.0, Auto);
    for _ in range(0, count) {
        sum = sum * 0.5 + 1.0;
    }
    out.at(program_id(0) * 32 + arange(0..32, Coalesced))
        .store(sum);
}

const CTAS: u32 = 4096;

fn streaming(case: &mut Case) -> CaseResult {
    let x = case.normal::<f32>("x", [CTAS as usize * 1024]);
    let out = case.output::<f32>("out", [CTAS as usize * 1024]);
    case.launch(increment, grid(CTAS), (&x, &out))?;
    case.expect(&out, |[at]| f64::from(x[at]) + 1.0, Exactly)
}

fn waiting(case: &mut Case) -> CaseResult {
    let out = case.output::<f32>("out", [32]);
    case.launch(chain, grid(1u32), (&out, 2000))?;
    case.expect(&out, |[_]| 2.0, Exactly)
}

fn modelling() -> Device {
    let usual = EmulatorOptions::default();
    Device::emulator_with(EmulatorOptions {
        is_timed: true,
        most_clusters: Some(6),
        checks: tilekit::Checks {
            uninitialised: false,
            ..usual.checks
        },
        ..usual
    })
}

/// Runs a case; gives its modelled microseconds after what bounds it has been compared.
#[track_caller]
fn check(case: fn(&mut Case) -> CaseResult, bound: Bound, ctas: u64) -> f64 {
    let device = modelling();
    let entry = CaseEntry {
        name: "the_case",
        module: "modelled",
        file: file!(),
        line: line!(),
        sizes: &[],
        function: case,
    };
    let mode = Mode::Bench(Bed::new(&device), BenchOptions::default());
    let outcome = entry.run(&entry.runs(&[]).expect("it has no sizes")[0], &mode);
    outcome.result.expect("it runs, and nothing is compared");
    assert!(outcome.report.timings.is_empty(), "nothing is timed");
    let modelled = outcome.report.launches[0].modelled.expect("a model");
    assert_eq!(modelled.bound, bound, "{modelled:?}");
    let stats = device.emulator_stats().expect("it was launched");
    assert_eq!((stats.ctas, stats.times.len() as u64), (ctas, ctas));
    modelled.microseconds
}

#[test]
fn six_ctas_stand_for_all_and_a_stream_is_bound_by_dram() {
    let microseconds = check(streaming, Bound::Dram, 6);
    // 32 MiB at 4.35 TB/s, and its beginning.
    assert!((9.0..13.0).contains(&microseconds), "{microseconds}");
}

#[test]
fn one_cta_that_waits_for_itself_is_bound_by_latency() {
    let microseconds = check(waiting, Bound::Latency, 1);
    // 2000 dependent steps of 4 cycles and a branch each.
    assert!((5.0..30.0).contains(&microseconds), "{microseconds}");
}
