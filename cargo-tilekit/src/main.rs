//! `cargo tilekit`: finds the kernels of a package, and checks, builds, runs, compares and shows them.
//!
//! The kernels are in the package, so the work is done there: the tool builds the package's harness (the test target
//! `tests/tilekit.rs`) and tells it by a file what to do. See [`tilekit::harness::request`].

mod cli;
mod commands;
mod error;
mod package;
mod picture;
mod terminal;

use std::process::ExitCode;

use crate::cli::Cli;
use crate::terminal::Terminal;

fn main() -> ExitCode {
    let cli = Cli::of_process();
    let terminal = Terminal::new(cli.output);
    match commands::run(cli, &terminal) {
        Ok(exit) => exit.into(),
        Err(error) => {
            terminal.error(&error);
            error.exit().into()
        }
    }
}
