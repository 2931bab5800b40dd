//! `trace`.

use std::path::PathBuf;

use protocol::Exit;
use protocol::request::{PictureRequest, TraceRequest, Verb};

use super::run::with_ranks;
use crate::cli::{CargoOptions, Run, Trace};
use crate::error::{Error, Result};
use crate::package::{Order, drive};
use crate::terminal::Terminal;

pub(super) fn trace(arguments: Trace, cargo: &CargoOptions, terminal: &Terminal) -> Result<Exit> {
    let Trace {
        run,
        level,
        keep,
        records,
        html,
        perfetto,
        svg,
        cta,
        between,
    } = arguments;
    let Run {
        selection,
        device,
        sizes,
        devices,
    } = run;
    if selection.kernels.is_empty() {
        let help = "write `cargo tilekit trace CASE`; `cargo tilekit list` names them";
        return Err(Error::usage("which case is to be traced?", help));
    }
    let verb = Verb::Trace(TraceRequest {
        filters: selection.kernels,
        level: level.into(),
        keep: keep.into(),
        records,
        html: absolute("--html", html)?,
        perfetto: absolute("--perfetto", perfetto)?,
        picture: absolute("--svg", svg)?.map(|file| PictureRequest { file, cta, between }),
    });
    let order = Order {
        device: device.map(Into::into),
        sizes: with_ranks(sizes, devices),
        ..verb.into()
    };
    drive(order, cargo, terminal)
}

/// The harness runs in the package's folder.
fn absolute(option: &str, path: Option<PathBuf>) -> Result<Option<PathBuf>> {
    let path = path.map(std::path::absolute).transpose();
    path.map_err(|error| {
        let help = "give the name of a file, such as trace.html";
        Error::usage(format!("{option}: {error}"), help)
    })
}
