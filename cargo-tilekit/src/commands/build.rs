//! `build`.

use std::path::{Path, PathBuf};

use protocol::Exit;
use protocol::request::{self, Replace, Verb};

use crate::cli::{Build, CargoOptions};
use crate::error::{Error, Result};
use crate::package::{Order, drive};
use crate::terminal::Terminal;

pub(super) fn build(arguments: Build, cargo: &CargoOptions, terminal: &Terminal) -> Result<Exit> {
    let replace = replace(&arguments)?;
    let mut emit: Vec<request::Emit> = arguments
        .emit
        .into_iter()
        .map(request::Emit::from)
        .collect();
    emit.sort_unstable();
    emit.dedup();
    let verb = Verb::Build {
        filters: arguments.selection.kernels,
        emit,
        timings: arguments.timings,
        replace,
    };
    // Times of unoptimised code say nothing.
    let profile = if arguments.timings { "release" } else { "dev" };
    drive(
        Order {
            profile,
            ..verb.into()
        },
        cargo,
        terminal,
    )
}

fn replace(arguments: &Build) -> Result<Option<Replace>> {
    let named = |path: &Path, replace: fn(PathBuf) -> Replace| {
        if path == Path::new("none") {
            return Ok(Some(Replace::Nothing));
        }
        // The harness may run in another folder.
        let path = path.canonicalize().map_err(|error| {
            Error::usage(
                format!("{} cannot be read: {error}", path.display()),
                "name a file that `cargo tilekit build` or `inspect` printed and you edited",
            )
        })?;
        Ok(Some(replace(path)))
    };
    match (&arguments.from_ptx, &arguments.from_ir) {
        (Some(path), _) => named(path, Replace::Ptx),
        (None, Some(path)) => named(path, Replace::Ir),
        (None, None) if arguments.reset => Ok(Some(Replace::Nothing)),
        (None, None) => Ok(None),
    }
}
