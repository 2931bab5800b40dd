//! The command line as types, whose documentation is the text of `--help`.

mod options;
mod value;
mod verbs;
mod words;

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use protocol::Exit;

pub(crate) use options::{CargoOptions, Color, OutputOptions};
pub(crate) use verbs::{
    Bench, BeneathName, Build, Check, Checks, Completions, Doctor, Explain, Export, Inspect,
    Isolation, Layout, LayoutView, Mutate, New, Run, RunInOrder, Selection, Snapshot, StageName,
    Test, Trace, Tune,
};

/// Build, check, run, snapshot and draw TileKit kernels.
#[derive(Debug, Parser)]
#[command(
    name = "cargo-tilekit",
    bin_name = "cargo tilekit",
    version,
    max_term_width = 110
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) cargo: CargoOptions,
    #[command(flatten)]
    pub(crate) output: OutputOptions,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List every kernel and variant of the package
    List(Selection),
    /// Trace and lower every variant and report diagnostics; needs neither GPU nor ptxas
    Check(Check),
    /// Write tile IR, PTX and machine code of every variant, and print the paths
    Build(Build),
    /// Write kernels as a package for programs in Rust, C or Python, which then need the driver and neither TileKit nor a CUDA toolkit
    Export(Export),
    /// Run every case and check its results, on a GPU or on the emulator
    Run(RunInOrder),
    /// Check every variant and run every case, as `cargo test --test tilekit` does, on any device
    Test(Test),
    /// Mutation testing: remove or change one synchronization instruction at a time, and report the mutants that no case on the emulator detects
    Mutate(Mutate),
    /// Time the launches of every case: median, fastest, bytes and operations per second
    Bench(Bench),
    /// Search the space of candidates that a case declares for the fastest, checking each, and record what is found
    Tune(Tune),
    /// Record what happens when in a launch, on a GPU or in a model of one: partitions, waits, copies, products; as a page and for Perfetto
    Trace(Trace),
    /// Compare facts, IR and PTX with the accepted snapshots
    Snapshot(Snapshot),
    /// Show one kernel at one stage, with the cost of its accesses and conversions
    Inspect(Inspect),
    /// Draw a layout: which thread owns each element of a tensor, or its offset in shared memory
    Layout(Layout),
    /// Check GPU, driver, ptxas and package, and say how to fix what is missing
    Doctor(Doctor),
    /// Explain an error code, such as TK0001; without a code, list them
    Explain(Explain),
    /// Prepare the package of the current folder: write tests/tilekit.rs
    Init,
    /// Make a new package with a kernel, its case and the harness
    New(New),
    /// Print a completion script
    Completions(Completions),
}

impl Cli {
    /// Reads the command line of this process.
    ///
    /// # Errors
    /// A mistake in it, or help that was requested.
    pub(crate) fn of_process() -> Result<Cli, clap::Error> {
        Cli::read(std::env::args_os())
    }

    fn read(arguments: impl Iterator<Item = OsString>) -> Result<Cli, clap::Error> {
        let arguments: Vec<OsString> = without_cargo_name(arguments).collect();
        // Paths too travel to the harness and to machines as JSON.
        if let Some(argument) = arguments
            .iter()
            .find(|argument| argument.to_str().is_none())
        {
            let message = format!("`{}` is no UTF-8", argument.display());
            return Err(Cli::definition().error(ErrorKind::InvalidUtf8, message));
        }
        let matches = Cli::definition().try_get_matches_from(arguments)?;
        Cli::from_arg_matches(&matches)
    }

    /// The whole definition, with the exit codes below every help.
    pub(crate) fn definition() -> clap::Command {
        Cli::command().after_help(format!("Exit codes:\n{}", Exit::table()))
    }
}

/// `cargo tilekit run` starts `cargo-tilekit tilekit run`.
fn without_cargo_name(arguments: impl Iterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    arguments
        .enumerate()
        .filter(|(at, argument)| !(*at == 1 && argument == "tilekit"))
        .map(|(_, argument)| argument)
}

#[cfg(test)]
mod tests {
    use super::options::Format;
    use super::verbs::Device;
    use super::*;

    fn read(line: &str) -> Result<Cli, clap::Error> {
        Cli::read(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn the_definition_is_consistent() {
        Cli::definition().debug_assert();
    }

    #[test]
    fn the_name_that_cargo_passes_is_skipped_once() {
        for line in [
            "cargo-tilekit tilekit list tilekit",
            "cargo-tilekit list tilekit",
        ] {
            let Command::List(selection) = read(line).expect("a command").command else {
                panic!("`{line}` is a list");
            };
            assert_eq!(selection.kernels, ["tilekit"]);
        }
    }

    #[test]
    fn sizes_and_devices_are_read() {
        let Command::Run(RunInOrder {
            run,
            seed: None,
            under: None,
            checks,
        }) = read("x run add -s n=3,1<<4 --device emulator --no-global")
            .expect("a command")
            .command
        else {
            panic!("a run");
        };
        assert_eq!(run.sizes[0].values, [3, 16]);
        assert_eq!(run.device, Some(Device::Emulator));
        assert_eq!((checks.no_global, checks.strict), (true, false));
    }

    #[test]
    fn mistakes_are_usage_errors_that_say_what_is_wanted() {
        for (line, wanted) in [
            ("x run -s n", "write name=value"),
            ("x run --device gpu", "auto, cuda, emulator"),
            ("x snapshot --check --accept", "cannot be used with"),
            ("x test --seeds 0", "0 is not in 1.."),
            ("x list --release --profile dev", "cannot be used with"),
            ("x inspect k --at 5", "--source"),
            ("x inspect k --stage ptx --at 5", "cannot be used with"),
            ("x inspect k --html f --beneath ir", "cannot be used with"),
            ("x frobnicate", "unrecognized subcommand"),
        ] {
            let error = read(line).expect_err("a mistake");
            assert_eq!(error.exit_code(), i32::from(Exit::Usage.code()), "{line}");
            assert!(error.to_string().contains(wanted), "{line}: {error}");
        }
    }

    /// Such a path was a panic.
    #[test]
    fn arguments_that_are_no_utf_8_are_refused() {
        let mut line: Vec<OsString> = ["x", "inspect", "k", "--html"].map(OsString::from).into();
        line.push(std::os::unix::ffi::OsStringExt::from_vec(vec![b'a', 0xff]));
        let error = Cli::read(line.into_iter()).expect_err("a mistake");
        assert_eq!(error.exit_code(), i32::from(Exit::Usage.code()));
        assert!(
            error.to_string().contains("`a\u{fffd}` is no UTF-8"),
            "{error}"
        );
    }

    #[test]
    fn the_form_of_messages_is_known_on_a_wrong_line_too() {
        for (line, expected) in [
            ("x frobnicate --message-format json", Format::Json),
            ("x --message-format=json run --bad", Format::Json),
            ("x run --message-format jsno", Format::Human),
            ("x run --bad", Format::Human),
        ] {
            let words = line.split_whitespace().map(OsString::from);
            let options = OutputOptions::of_wrong_line(words);
            assert_eq!(options.message_format, expected, "{line}");
        }
    }

    #[test]
    fn the_readme_names_every_verb_and_exit_code() {
        let readme = include_str!("../../README.md");
        assert!(readme.contains(&Exit::table()));
        for command in Cli::definition()
            .get_subcommands()
            .filter(|command| command.get_name() != "help")
        {
            let name = command.get_name();
            assert!(readme.contains(&format!("`{name}")), "{name} is missing");
        }
    }

    #[test]
    fn help_documents_the_exit_codes() {
        let help = Cli::definition().render_help().to_string();
        for exit in Exit::ALL {
            assert!(
                help.contains(&format!("{:>3}  {}", exit.code(), exit.meaning())),
                "{help}"
            );
        }
    }
}
