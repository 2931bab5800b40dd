//! `mutate`.

use protocol::Exit;
use protocol::request::{self, DeviceChoice, MutateRequest, Verb};

use crate::cli::{CargoOptions, Isolation, Mutate};
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
        limit,
        isolation,
    } = arguments;
    let device = isolation.device.map(Into::into);
    let request = MutateRequest {
        filters: selection.kernels,
        kinds,
        seeds,
        fresh,
        limit,
        isolate: isolation.isolate,
        isolation: isolation_of(isolation),
    };
    let order = Order {
        verb: Verb::Mutate(request),
        device: device.or(Some(DeviceChoice::Emulator)),
        sizes,
        // Thousands of mutants run, and only a workspace of its own profile optimises the emulator otherwise.
        profile: "release",
        under: Vec::new(),
    };
    drive(order, cargo, terminal)
}

fn isolation_of(arguments: Isolation) -> request::Isolation {
    request::Isolation {
        jobs: arguments.jobs,
        repeats: arguments.repeats,
        time_limit_ms: arguments.time_limit.as_millis() as u64,
        tools: arguments.sanitize,
        tools_for_all: arguments.sanitize_all,
    }
}
