//! `completions`.

use tilekit::harness::Exit;

use crate::cli::{Cli, Completions};

pub(super) fn completions(arguments: &Completions) -> Exit {
    let mut definition = Cli::definition();
    clap_complete::generate(
        arguments.shell,
        &mut definition,
        "cargo-tilekit",
        &mut std::io::stdout(),
    );
    Exit::Success
}
