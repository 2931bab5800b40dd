//! `inspect KERNEL --diff OTHER`: what two variants, two revisions, or a variant and a kept sheet cost, in all and line by line.

mod compare;
mod revision;
mod show;

use std::path::Path;

use protocol::Exit;
use protocol::request::{SourceView, Verb, View};
use serde::Deserialize;

use crate::cli::CargoOptions;
use crate::error::{Error, Result};
use crate::package::ask;
use crate::terminal::Terminal;
use compare::{Comparison, Sheet};

/// Begins the name of a revision of git.
const REVISION: &str = "git:";

/// Compares `kernel` with `other`: another variant, `git:REVISION`, or a file of `--message-format json`. What is of `other` is old.
pub(super) fn diff(
    kernel: &str,
    other: &str,
    cargo: &CargoOptions,
    terminal: &Terminal,
) -> Result<Exit> {
    let new = match sheet_of(kernel, cargo, terminal)? {
        Ok(sheet) => sheet,
        Err(exit) => return Ok(exit),
    };
    let old = if let Some(revision) = other.strip_prefix(REVISION) {
        let checkout = revision::Checkout::of(revision, cargo, terminal)?;
        sheet_of(&new.variant, checkout.options(), terminal)?
    } else if is_file(other) {
        Ok(read(Path::new(other))?)
    } else {
        sheet_of(other, cargo, terminal)?
    };
    let old = match old {
        Ok(sheet) => sheet,
        Err(exit) => return Ok(exit),
    };
    let comparison = Comparison::of(&old, &new);
    let names = [old_name(other, &old), new.variant.clone()];
    terminal.tell(&show::text(&comparison, &names, Terminal::width()), || {
        show::object(&comparison, &names)
    });
    Ok(Exit::Success)
}

/// Is `other` a file? No kernel's name ends as a file's does.
fn is_file(other: &str) -> bool {
    let path = Path::new(other);
    path.extension().is_some_and(|end| end == "json") || path.is_file()
}

fn old_name(other: &str, old: &Sheet) -> String {
    if other.starts_with(REVISION) || is_file(other) {
        format!("{} of {other}", old.variant)
    } else {
        old.variant.clone()
    }
}

/// What a harness prints for `inspect --source`.
#[derive(Deserialize)]
struct Printed {
    reason: String,
    sheet: Option<Sheet>,
}

/// The sheet of a variant, or how the harness ended; it has said why.
fn sheet_of(
    kernel: &str,
    cargo: &CargoOptions,
    terminal: &Terminal,
) -> Result<std::result::Result<Sheet, Exit>> {
    let verb = Verb::Inspect {
        kernel: kernel.to_string(),
        view: View::Source(SourceView::default()),
    };
    let (exit, said) = ask(verb.into(), cargo, terminal)?;
    if let Some(sheet) = sheet_in(&said) {
        return Ok(Ok(sheet));
    }
    terminal.pass_on(&said);
    Ok(Err(exit))
}

fn sheet_in(said: &str) -> Option<Sheet> {
    let printed = |line: &str| serde_json::from_str::<Printed>(line).ok();
    let mut found = said.lines().filter_map(printed);
    found
        .find(|printed| printed.reason == "tilekit-source")?
        .sheet
}

fn read(path: &Path) -> Result<Sheet> {
    let text = std::fs::read_to_string(path).map_err(|error| Error::io("read", path, &error))?;
    sheet_in(&text).ok_or_else(|| {
        Error::usage(
            format!("{} holds no sheet of a kernel", path.display()),
            "`cargo tilekit inspect KERNEL --source --message-format json` prints one",
        )
    })
}
