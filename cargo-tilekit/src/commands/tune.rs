//! `tune`.

use protocol::Exit;
use protocol::request::{TuneRequest, TuneTask, Verb};

use super::run::{absolute, order};
use crate::cli::{CargoOptions, Tune};
use crate::error::Result;
use crate::package::{Order, drive};
use crate::terminal::Terminal;

pub(super) fn tune(arguments: Tune, cargo: &CargoOptions, terminal: &Terminal) -> Result<Exit> {
    let Tune {
        run,
        records,
        shard,
        exhaustive,
        most,
        seed,
        time_limit,
        fresh,
        show,
        export,
    } = arguments;
    let records = absolute(records, "--records")?;
    let task = match absolute(export, "--export")? {
        Some(file) => TuneTask::Export(file),
        None if show => TuneTask::Show,
        None => TuneTask::Search,
    };
    let order = order(run, |filters| {
        Verb::Tune(TuneRequest {
            filters,
            records,
            seed,
            shard,
            exhaustive,
            most: most as usize,
            time_limit_ms: u64::from(time_limit) * 1000,
            fresh,
            task,
        })
    });
    // What the host does between launches is part of what is timed.
    let order = Order {
        profile: "release",
        ..order
    };
    drive(order, cargo, terminal)
}
