//! `export`.

use std::path::absolute;

use protocol::Exit;
use protocol::request::{Language, Verb};

use crate::cli::{CargoOptions, Export};
use crate::error::{Error, Result};
use crate::package::{Order, drive};
use crate::terminal::Terminal;

pub(super) fn export(arguments: Export, cargo: &CargoOptions, terminal: &Terminal) -> Result<Exit> {
    // The harness may run in another folder, and without a folder it knows the package's.
    let folder = arguments.out.map(|path| {
        absolute(&path).map_err(|error| {
            Error::usage(
                format!("{} is no folder: {error}", path.display()),
                "name the folder to write to, as `--out exported`",
            )
        })
    });
    let verb = Verb::Export {
        filters: arguments.selection.kernels,
        to: Language::from(arguments.to),
        folder: folder.transpose()?,
    };
    drive(Order::from(verb), cargo, terminal)
}
