//! `list` and `check`.

use protocol::Exit;
use protocol::request::Verb;

use crate::cli::{CargoOptions, Check, Selection};
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

pub(super) fn check(arguments: Check, cargo: &CargoOptions, terminal: &Terminal) -> Result<Exit> {
    let verb = Verb::Check {
        filters: arguments.selection.kernels,
        prove: arguments.prove,
        mutants: arguments.mutants,
    };
    drive(verb.into(), cargo, terminal)
}
