//! `run` and `test`.

use tilekit::harness::Exit;
use tilekit::harness::request::Verb;

use crate::cli::{CargoOptions, Run};
use crate::error::Result;
use crate::package::{Order, drive};
use crate::terminal::Terminal;

pub(super) fn run(arguments: Run, cargo: &CargoOptions, terminal: &Terminal) -> Result<Exit> {
    let filters = arguments.selection.kernels;
    let verb = Verb::Run { filters };
    let order = Order {
        device: arguments.device.map(Into::into),
        sizes: arguments.sizes,
        ..verb.into()
    };
    drive(order, cargo, terminal)
}

pub(super) fn test(arguments: Run, cargo: &CargoOptions, terminal: &Terminal) -> Result<Exit> {
    let filters = arguments.selection.kernels;
    let verb = Verb::Test { filters };
    let order = Order {
        device: arguments.device.map(Into::into),
        sizes: arguments.sizes,
        ..verb.into()
    };
    drive(order, cargo, terminal)
}
