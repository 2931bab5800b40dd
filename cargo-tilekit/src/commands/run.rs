//! `run`, `test` and `bench`.

use std::path::PathBuf;

use protocol::Exit;
use protocol::request::{BenchRequest, Checking, SizeOverride, Verb};

use crate::cli::{Bench, CargoOptions, Checks, Run, RunInOrder, Test};
use crate::error::{Error, Result};
use crate::package::{Order, drive};
use crate::terminal::Terminal;

pub(super) fn run(
    arguments: RunInOrder,
    cargo: &CargoOptions,
    terminal: &Terminal,
) -> Result<Exit> {
    let RunInOrder {
        run,
        seed,
        under,
        checks,
    } = arguments;
    let order = order(run, |filters| Verb::Run {
        filters,
        seed,
        checking: checking(checks),
    });
    let under = under.map_or(Vec::new(), |words| words.0);
    drive(Order { under, ..order }, cargo, terminal)
}

pub(super) fn test(arguments: Test, cargo: &CargoOptions, terminal: &Terminal) -> Result<Exit> {
    let Test { run, seeds, checks } = arguments;
    let order = order(run, |filters| Verb::Test {
        filters,
        seeds,
        checking: checking(checks),
    });
    drive(order, cargo, terminal)
}

fn checking(checks: Checks) -> Checking {
    Checking {
        no_global: checks.no_global,
        strict: checks.strict,
    }
}

pub(super) fn bench(arguments: Bench, cargo: &CargoOptions, terminal: &Terminal) -> Result<Exit> {
    let Bench {
        run,
        samples,
        sustained,
        hot,
        record,
        save,
        against,
        most_loss,
        counters,
        chart,
        roofline,
    } = arguments;
    let record = absolute(record, "--record")?;
    let chart = absolute(chart, "--chart")?;
    let roofline = absolute(roofline, "--roofline")?;
    let order = order(run, |filters| {
        Verb::Bench(BenchRequest {
            filters,
            samples: samples as usize,
            sustained_ms: sustained.map_or(0, |time| time.as_millis() as u64),
            hot,
            record,
            save,
            against,
            most_loss_percent: most_loss,
            counters,
            chart,
            roofline,
        })
    });
    // What the host does between launches is part of what is timed.
    drive(
        Order {
            profile: "release",
            ..order
        },
        cargo,
        terminal,
    )
}

/// A file that the command line names: the harness runs in the package's folder.
pub(super) fn absolute(file: Option<PathBuf>, option: &str) -> Result<Option<PathBuf>> {
    file.map(std::path::absolute).transpose().map_err(|error| {
        let help = "give the name of a file, such as bench/results/matmul.jsonl";
        Error::usage(format!("{option}: {error}"), help)
    })
}

pub(super) fn order(arguments: Run, verb: impl FnOnce(Vec<String>) -> Verb) -> Order {
    let Run {
        selection,
        device,
        sizes,
        devices,
    } = arguments;
    Order {
        device: device.map(Into::into),
        sizes: with_ranks(sizes, devices),
        ..verb(selection.kernels).into()
    }
}

/// The sizes of the command line, with that of `--devices`.
pub(super) fn with_ranks(
    mut sizes: Vec<SizeOverride>,
    devices: Option<usize>,
) -> Vec<SizeOverride> {
    sizes.extend(devices.map(SizeOverride::ranks));
    sizes
}
