//! `completions`.

use protocol::Exit;

use crate::cli::{Cli, Completions};
use crate::terminal::Terminal;

pub(super) fn completions(arguments: &Completions, terminal: &Terminal) -> Exit {
    let mut definition = Cli::definition();
    // Into memory first: the generator panics where the output cannot be written.
    let mut script = Vec::new();
    clap_complete::generate(
        arguments.shell,
        &mut definition,
        "cargo-tilekit",
        &mut script,
    );
    terminal.print(&String::from_utf8_lossy(&script));
    Exit::Success
}
