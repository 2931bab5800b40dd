//! `mutate`.

use protocol::Exit;
use protocol::request::{DeviceChoice, MutateRequest, Verb};

use crate::cli::{CargoOptions, Mutate};
use crate::error::Result;
use crate::package::{Order, drive};
use crate::terminal::Terminal;

pub(super) fn mutate(arguments: Mutate, cargo: &CargoOptions, terminal: &Terminal) -> Result<Exit> {
    let Mutate {
        selection,
        sizes,
        kinds,
        seeds,
        fresh,
    } = arguments;
    let request = MutateRequest {
        filters: selection.kernels,
        kinds,
        seeds,
        fresh,
    };
    let order = Order {
        verb: Verb::Mutate(request),
        device: Some(DeviceChoice::Emulator),
        sizes,
        // Thousands of mutants run, and only a workspace of its own profile optimises the emulator otherwise.
        profile: "release",
    };
    drive(order, cargo, terminal)
}
