//! One file a command; the ones that concern kernels are carried out by the package's harness.

mod build;
mod completions;
mod diff;
mod doctor;
mod explain;
mod export;
mod init;
mod inspect;
mod layout;
mod list;
mod manifest;
mod mutate;
mod run;
mod snapshot;
mod trace;
mod tune;

use protocol::Exit;

use crate::cli::{Cli, Command};
use crate::error::Result;
use crate::terminal::Terminal;

/// Carries out what the command line says.
///
/// # Errors
/// Whatever ended it before its own exit.
pub(crate) fn run(cli: Cli, terminal: &Terminal) -> Result<Exit> {
    let Cli { command, cargo, .. } = cli;
    match command {
        Command::List(selection) => list::list(selection, &cargo, terminal),
        Command::Check(check) => list::check(check, &cargo, terminal),
        Command::Build(arguments) => build::build(arguments, &cargo, terminal),
        Command::Export(arguments) => export::export(arguments, &cargo, terminal),
        Command::Run(arguments) => run::run(arguments, &cargo, terminal),
        Command::Test(arguments) => run::test(arguments, &cargo, terminal),
        Command::Mutate(arguments) => mutate::mutate(arguments, &cargo, terminal),
        Command::Bench(arguments) => run::bench(arguments, &cargo, terminal),
        Command::Tune(arguments) => tune::tune(arguments, &cargo, terminal),
        Command::Trace(arguments) => trace::trace(arguments, &cargo, terminal),
        Command::Snapshot(arguments) => snapshot::snapshot(arguments, &cargo, terminal),
        Command::Inspect(arguments) => inspect::inspect(arguments, &cargo, terminal),
        Command::Layout(arguments) => layout::layout(&arguments, &cargo, terminal),
        Command::Doctor(arguments) => Ok(doctor::doctor(&arguments, &cargo, terminal)),
        Command::Explain(arguments) => explain::explain(&arguments, terminal),
        Command::Init => init::init(&cargo, terminal),
        Command::New(arguments) => init::new(&arguments, terminal),
        Command::Completions(arguments) => Ok(completions::completions(&arguments, terminal)),
    }
}
