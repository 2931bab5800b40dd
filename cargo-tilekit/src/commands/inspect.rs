//! `inspect`.

use protocol::Exit;
use protocol::request::{Beneath, SourceView, Verb, View};

use super::diff::diff;
use crate::cli::{BeneathName, CargoOptions, Inspect, StageName};
use crate::error::{Error, Result};
use crate::package::drive;
use crate::terminal::Terminal;

pub(super) fn inspect(
    arguments: Inspect,
    cargo: &CargoOptions,
    terminal: &Terminal,
) -> Result<Exit> {
    if let Some(other) = &arguments.diff {
        return diff(&arguments.kernel, other, cargo, terminal);
    }
    if let Some(file) = &arguments.html {
        let file = std::path::absolute(file).map_err(|error| Error::io("made", file, &error))?;
        let kernel = arguments.kernel;
        let view = View::Page(file);
        return drive(Verb::Inspect { kernel, view }.into(), cargo, terminal);
    }
    if arguments.source {
        let view = View::Source(lines(&arguments));
        let kernel = arguments.kernel;
        return drive(Verb::Inspect { kernel, view }.into(), cargo, terminal);
    }
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

fn lines(arguments: &Inspect) -> SourceView {
    let beneath = arguments.beneath.iter().filter_map(|name| match name {
        BeneathName::Ir => Some(Beneath::Ir),
        BeneathName::Ptx => Some(Beneath::Ptx),
        BeneathName::Sass => Some(Beneath::Sass),
        BeneathName::None => None,
    });
    SourceView {
        beneath: beneath.collect(),
        at: arguments.at.clone(),
        width: Terminal::width(),
    }
}
