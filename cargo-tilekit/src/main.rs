//! `cargo tilekit`: finds the kernels of a package, and checks, builds, runs, compares and shows them.
//!
//! The kernels are in the package, so the work is done there: the tool builds the package's harness (the test target
//! `tests/tilekit.rs`) and passes it a request as a file. See [`protocol::request`].

mod cli;
mod commands;
mod error;
mod foreign;
mod package;
mod picture;
mod terminal;

use std::process::ExitCode;

use protocol::Exit;
use protocol::MessageFormat;

use crate::cli::{Cli, OutputOptions};
use crate::error::Error;
use crate::terminal::Terminal;

fn main() -> ExitCode {
    let cli = match Cli::of_process() {
        Ok(cli) => cli,
        Err(error) => return wrong_line(&error),
    };
    let terminal = Terminal::new(cli.output);
    match commands::run(cli, &terminal) {
        Ok(exit) => exit.into(),
        Err(error) => {
            terminal.error(&error);
            error.exit().into()
        }
    }
}

/// Help that was requested, or a mistake in the command line.
fn wrong_line(error: &clap::Error) -> ExitCode {
    let terminal = Terminal::new(OutputOptions::of_wrong_line(std::env::args_os()));
    if error.exit_code() == 0 {
        // Help was requested: clap would not notice that it could not be written.
        terminal.print(&error.render().ansi().to_string());
        return Exit::Success.into();
    }
    if terminal.format() != MessageFormat::Json {
        error.exit();
    }
    terminal.error(&Error::new(Exit::Usage, foreign::clap_remark(error)));
    Exit::Usage.into()
}
