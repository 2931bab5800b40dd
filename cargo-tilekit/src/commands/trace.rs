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
    let html = absolute("--html", html)?;
    let perfetto = absolute("--perfetto", perfetto)?;
    let svg = absolute("--svg", svg)?;
    check_apart([
        ("--html", &html),
        ("--perfetto", &perfetto),
        ("--svg", &svg),
    ])?;
    let verb = Verb::Trace(TraceRequest {
        filters: selection.kernels,
        level: level.into(),
        keep: keep.into(),
        records,
        html,
        perfetto,
        picture: svg.map(|file| PictureRequest { file, cta, between }),
    });
    let order = Order {
        device: device.map(Into::into),
        sizes: with_ranks(sizes, devices),
        ..verb.into()
    };
    drive(order, cargo, terminal)
}

/// Each file is of one option: what is written last would be all there is. Devices take anything.
fn check_apart(files: [(&str, &Option<PathBuf>); 3]) -> Result<()> {
    let named = files.iter();
    let named = named.filter_map(|(option, file)| Some((option, file.as_ref()?)));
    let mut seen: Vec<(&str, &PathBuf)> = Vec::new();
    for (option, file) in named.filter(|(_, file)| file.is_file() || !file.exists()) {
        if let Some((other, _)) = seen.iter().find(|(_, other)| *other == file) {
            let help = "give each a file of its own, such as trace.html, trace.json and trace.svg";
            let message = format!("{other} and {option} both name {}", file.display());
            return Err(Error::usage(message, help));
        }
        seen.push((option, file));
    }
    Ok(())
}

/// The harness runs in the package's folder.
fn absolute(option: &str, path: Option<PathBuf>) -> Result<Option<PathBuf>> {
    let path = path.map(std::path::absolute).transpose();
    path.map_err(|error| {
        let help = "give the name of a file, such as trace.html";
        Error::usage(format!("{option}: {error}"), help)
    })
}
