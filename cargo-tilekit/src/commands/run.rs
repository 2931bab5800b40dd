//! `run`, `test` and `bench`.

use tilekit::harness::Exit;
use tilekit::harness::request::Verb;

use crate::cli::{Bench, CargoOptions, Run};
use crate::error::Result;
use crate::package::{Order, drive};
use crate::terminal::Terminal;

pub(super) fn run(arguments: Run, cargo: &CargoOptions, terminal: &Terminal) -> Result<Exit> {
    let order = order(arguments, |filters| Verb::Run { filters });
    drive(order, cargo, terminal)
}

pub(super) fn test(arguments: Run, cargo: &CargoOptions, terminal: &Terminal) -> Result<Exit> {
    let order = order(arguments, |filters| Verb::Test { filters });
    drive(order, cargo, terminal)
}

pub(super) fn bench(arguments: Bench, cargo: &CargoOptions, terminal: &Terminal) -> Result<Exit> {
    let samples = arguments.samples as usize;
    let order = order(arguments.run, |filters| Verb::Bench { filters, samples });
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

fn order(arguments: Run, verb: impl FnOnce(Vec<String>) -> Verb) -> Order {
    let Run {
        selection,
        device,
        sizes,
    } = arguments;
    Order {
        device: device.map(Into::into),
        sizes,
        ..verb(selection.kernels).into()
    }
}
