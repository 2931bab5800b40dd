//! `inspect`.

use protocol::Exit;
use protocol::request::{Verb, View};

use crate::cli::{CargoOptions, Inspect, StageName};
use crate::error::Result;
use crate::package::drive;
use crate::terminal::Terminal;

pub(super) fn inspect(
    arguments: Inspect,
    cargo: &CargoOptions,
    terminal: &Terminal,
) -> Result<Exit> {
    let view = match (arguments.after, arguments.stage) {
        (Some(pass), _) => View::After(pass),
        (None, StageName::Built) => View::Stage("built".into()),
        (None, StageName::Resolved) => View::Stage("resolved".into()),
        (None, StageName::Allocated) => View::Stage("allocated".into()),
        (None, StageName::Ptx) => View::Ptx,
        (None, StageName::Sass) => View::Sass,
    };
    let kernel = arguments.kernel;
    drive(Verb::Inspect { kernel, view }.into(), cargo, terminal)
}
