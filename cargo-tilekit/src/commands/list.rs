//! `list` and `check`.

use protocol::Exit;
use protocol::request::Verb;

use crate::cli::{CargoOptions, Selection};
use crate::error::Result;
use crate::package::drive;
use crate::terminal::Terminal;

pub(super) fn list(
    selection: Selection,
    cargo: &CargoOptions,
    terminal: &Terminal,
) -> Result<Exit> {
    let filters = selection.kernels;
    drive(Verb::List { filters }.into(), cargo, terminal)
}

pub(super) fn check(
    selection: Selection,
    cargo: &CargoOptions,
    terminal: &Terminal,
) -> Result<Exit> {
    let filters = selection.kernels;
    drive(Verb::Check { filters }.into(), cargo, terminal)
}
