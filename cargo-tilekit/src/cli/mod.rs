//! The command line, as types: what can be written, and what `--help` says.

mod value;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use protocol::Exit;
use protocol::MessageFormat;
use protocol::request::{self, SizeOverride};

use value::TensorShape;

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

/// Which package, and how it is compiled.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of cargo's own"
)]
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Package")]
pub(crate) struct CargoOptions {
    /// The package whose kernels are meant [default: that of the current folder]
    #[arg(short, long, global = true, value_name = "NAME")]
    pub(crate) package: Option<String>,
    /// Path to its Cargo.toml
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) manifest_path: Option<PathBuf>,
    /// Features to turn on, separated by commas
    #[arg(short = 'F', long, global = true, value_name = "FEATURES")]
    pub(crate) features: Vec<String>,
    /// Turn all features on
    #[arg(long, global = true)]
    pub(crate) all_features: bool,
    /// Leave the default features off
    #[arg(long, global = true)]
    pub(crate) no_default_features: bool,
    /// Cargo profile of the package [default: dev; release for `bench`, `mutate` and `build --timings`]
    #[arg(
        long,
        global = true,
        value_name = "PROFILE",
        conflicts_with = "release"
    )]
    pub(crate) profile: Option<String>,
    /// The same as `--profile release`
    #[arg(short, long, global = true)]
    pub(crate) release: bool,
    /// Folder for everything that is built
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) target_dir: Option<PathBuf>,
    /// Refuse to change Cargo.lock
    #[arg(long, global = true)]
    pub(crate) locked: bool,
    /// Never use the network
    #[arg(long, global = true)]
    pub(crate) offline: bool,
}

/// Options of the output.
#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputOptions {
    /// Print results and errors only
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Say more of what is done
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    /// When to colour [default: as cargo, else auto]
    #[arg(long, global = true, value_name = "WHEN")]
    pub(crate) color: Option<Color>,
    /// Form of results and diagnostics; json is one object a line, diagnostics in rustc's schema
    #[arg(long, global = true, value_name = "FORMAT", default_value = "human")]
    pub(crate) message_format: Format,
}

/// `--color`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    Auto,
    Always,
    Never,
}

/// `--message-format`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    #[default]
    Human,
    Short,
    Json,
}

/// `--device`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Device {
    /// A GPU where there is one, else the emulator
    Auto,
    /// A GPU, or exit 106
    Cuda,
    /// The CPU
    Emulator,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Name every kernel and variant of the package
    List(Selection),
    /// Trace and lower every variant and report diagnostics; needs neither GPU nor ptxas
    Check(Selection),
    /// Write tile IR, PTX and machine code of every variant, and print the paths
    Build(Build),
    /// Run every case and check its results, on a GPU or on the emulator
    Run(RunInOrder),
    /// Check every variant and run every case, as `cargo test --test tilekit` does, on any device
    Test(Test),
    /// Break the synchronization of kernels, one instruction at a time, and say which mutants no case reports on the emulator
    Mutate(Mutate),
    /// Time the launches of every case: median, fastest, bytes and operations per second
    Bench(Bench),
    /// Compare facts, IR and PTX with what was accepted before
    Snapshot(Snapshot),
    /// Show one kernel at one stage, with the cost of its accesses and conversions
    Inspect(Inspect),
    /// Draw a layout: which thread owns each element of a tensor, or its offset in shared memory
    Layout(Layout),
    /// Report what of this machine and package is ready, and how to fix the rest
    Doctor,
    /// Explain an error code, such as TK0001; without a code, list them
    Explain(Explain),
    /// Prepare the package of the current folder: write tests/tilekit.rs
    Init,
    /// Make a new package with a kernel, its case and the harness
    New(New),
    /// Print a completion script
    Completions(Completions),
}

#[derive(Debug, Args)]
pub(crate) struct Selection {
    /// Parts of names of kernels, variants or cases [default: all]
    #[arg(value_name = "KERNEL")]
    pub(crate) kernels: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Build {
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// What to write, separated by commas
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "KIND",
        default_value = "ir,ptx"
    )]
    pub(crate) emit: Vec<Emit>,
    /// Say how long tracing, each pass, emission, printing and ptxas take
    #[arg(long)]
    pub(crate) timings: bool,
    /// From now on use this PTX for the kernel whose entry it defines; `none` undoes it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["from_ir", "reset"])]
    pub(crate) from_ptx: Option<PathBuf>,
    /// From now on use this tile IR for the kernel that it names; `none` undoes it
    #[arg(long, value_name = "FILE", conflicts_with = "reset")]
    pub(crate) from_ir: Option<PathBuf>,
    /// Use the compiled kernels again instead of those given by --from-ptx and --from-ir
    #[arg(long)]
    pub(crate) reset: bool,
}

/// `--emit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Emit {
    /// Tile IR, layouts resolved
    Ir,
    /// PTX
    Ptx,
    /// Machine code, by ptxas
    Cubin,
    /// Machine code as text, by ptxas and nvdisasm or cuobjdump
    Sass,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// What to run on [default: tilekit.toml, else auto]
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Option<Device>,
    /// A size in place of those that the cases declare: n=4096, n=1000,4096 or n=1<<20
    #[arg(short, long = "size", value_name = "NAME=VALUE")]
    pub(crate) sizes: Vec<SizeOverride>,
}

#[derive(Debug, Args)]
pub(crate) struct RunInOrder {
    #[command(flatten)]
    pub(crate) run: Run,
    /// Run on the emulator in this order of warps and asynchronous work; 0 is the plain one [default: 0]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Run on the emulator without a search for races in global memory, whose shadow takes one to four times the memory that a launch touches
    #[arg(long)]
    pub(crate) no_global: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Test {
    #[command(flatten)]
    pub(crate) run: Run,
    /// Run every case on the emulator in so many orders of warps and asynchronous work: seeds from 0 [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seeds: Option<u64>,
    /// Run on the emulator without a search for races in global memory, whose shadow takes one to four times the memory that a launch touches
    #[arg(long)]
    pub(crate) no_global: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Mutate {
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// A size in place of those that the cases declare: n=4096, n=1000,4096 or n=1<<20
    #[arg(short, long = "size", value_name = "NAME=VALUE")]
    pub(crate) sizes: Vec<SizeOverride>,
    /// Kinds of mutation, separated by commas, such as bar.sync [default: all]
    #[arg(long, value_delimiter = ',', value_name = "KIND")]
    pub(crate) kinds: Vec<String>,
    /// Orders of warps and asynchronous work that a mutant runs in until it is reported: seeds from 0
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seeds: u64,
    /// Run all mutants, also those whose results an earlier run of the same build has recorded
    #[arg(long)]
    pub(crate) fresh: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Bench {
    #[command(flatten)]
    pub(crate) run: Run,
    /// Single launches of each run, of which the median counts; back to back, 8 slices are timed at the most
    #[arg(long, default_value_t = 21, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) samples: u32,
    /// Seconds that the kernel and each peer then run on without a rest, where power sets the clock: 1.5, say [default:
    /// none]
    #[arg(long, value_name = "SECONDS", value_parser = value::sustained_seconds)]
    pub(crate) sustained: Option<Duration>,
    /// Use the same tensors in every launch, so that they may be in L2
    #[arg(long)]
    pub(crate) hot: bool,
    /// Append the figures to a file, a JSON object a line
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Snapshot {
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// Fail if anything differs or is stale: show the facts that changed, then the lines (the default)
    #[arg(long, conflicts_with_all = ["accept", "review"])]
    pub(crate) check: bool,
    /// Write what differs, and remove what is stale
    #[arg(long, conflicts_with = "review")]
    pub(crate) accept: bool,
    /// Show each difference and ask; in CI (environment variable CI) the same as --check
    #[arg(long)]
    pub(crate) review: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Inspect {
    /// Part of the name of a kernel or variant; one must match
    pub(crate) kernel: String,
    /// The stage to show
    #[arg(long, default_value = "ptx", conflicts_with = "after")]
    pub(crate) stage: StageName,
    /// Show the tile IR after the pass of this name
    #[arg(long, value_name = "PASS")]
    pub(crate) after: Option<String>,
}

/// `--stage`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StageName {
    /// Tile IR as traced
    Built,
    /// Tile IR with every layout concrete
    Resolved,
    /// Tile IR with shared memory and barriers planned
    Allocated,
    /// PTX
    Ptx,
    /// Machine code
    Sass,
}

#[derive(Debug, Args)]
pub(crate) struct Layout {
    /// The layout, such as 'Blocked([1, 4], [8, 4], [4, 1], [1, 0])' or 'Nvmma(128, 16)'; or a kernel, whose tiles
    /// are named, and drawn with --value
    #[arg(value_name = "LAYOUT|KERNEL")]
    pub(crate) target: String,
    /// Extents of the tensor, such as 32x64
    #[arg(long, conflicts_with = "value")]
    pub(crate) shape: Option<TensorShape>,
    /// The tensor, shared tile or tensor map of the kernel to draw
    #[arg(long, value_name = "NAME")]
    pub(crate) value: Option<String>,
    /// What to draw
    #[arg(long, default_value = "tensor")]
    pub(crate) view: LayoutView,
    /// Bits of an element, which decide its bank [default: the kernel's or the layout's, else 32]
    #[arg(long, value_parser = value::element_bits)]
    pub(crate) bits: Option<u32>,
    /// Write an SVG file instead
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
}

/// `--view`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LayoutView {
    /// The tensor; cells say who holds the element, or at which offset it is
    Tensor,
    /// Threads by registers, or lines of shared memory; cells say which element is there
    Hardware,
    /// The tensor; cells say in which bank of shared memory the element is
    Banks,
}

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// The code (TK0001), its name (layout-mismatch), or a note of ptxas (C7510)
    pub(crate) code: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct New {
    /// Folder of the new package
    pub(crate) path: PathBuf,
    /// Name of the package [default: the last part of the folder]
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Where the crate `tilekit` is: the folder `runtime` of a checkout
    #[arg(long, value_name = "PATH")]
    pub(crate) tilekit: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
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
        let matches = Cli::definition().try_get_matches_from(without_cargo_name(arguments))?;
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

impl OutputOptions {
    /// Those that say in which form a mistake in the rest of the command line is reported.
    pub(crate) fn of_wrong_line(arguments: impl Iterator<Item = OsString>) -> OutputOptions {
        let arguments: Vec<String> = arguments
            .map(|argument| argument.to_string_lossy().into_owned())
            .collect();
        let joined = arguments
            .iter()
            .filter_map(|argument| argument.strip_prefix("--message-format="));
        let apart = arguments
            .windows(2)
            .filter(|pair| pair[0] == "--message-format")
            .map(|pair| pair[1].as_str());
        let format = joined
            .chain(apart)
            .find_map(|word| Format::from_str(word, false).ok());
        OutputOptions {
            message_format: format.unwrap_or_default(),
            ..OutputOptions::default()
        }
    }
}

impl CargoOptions {
    /// The profile that the package is compiled with, if the command line names one.
    pub(crate) fn named_profile(&self) -> Option<&str> {
        if self.release {
            return Some("release");
        }
        self.profile.as_deref()
    }
}

impl From<Format> for MessageFormat {
    fn from(format: Format) -> Self {
        match format {
            Format::Human => MessageFormat::Human,
            Format::Short => MessageFormat::Short,
            Format::Json => MessageFormat::Json,
        }
    }
}

impl From<Device> for request::DeviceChoice {
    fn from(device: Device) -> Self {
        match device {
            Device::Auto => request::DeviceChoice::Auto,
            Device::Cuda => request::DeviceChoice::Cuda,
            Device::Emulator => request::DeviceChoice::Emulator,
        }
    }
}

impl From<Emit> for request::Emit {
    fn from(emit: Emit) -> Self {
        match emit {
            Emit::Ir => request::Emit::Ir,
            Emit::Ptx => request::Emit::Ptx,
            Emit::Cubin => request::Emit::Cubin,
            Emit::Sass => request::Emit::Sass,
        }
    }
}

#[cfg(test)]
mod tests {
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
            no_global: true,
        }) = read("x run add -s n=3,1<<4 --device emulator --no-global")
            .expect("a command")
            .command
        else {
            panic!("a run");
        };
        assert_eq!(run.sizes[0].values, [3, 16]);
        assert_eq!(run.device, Some(Device::Emulator));
    }

    #[test]
    fn mistakes_are_usage_errors_that_say_what_is_wanted() {
        for (line, wanted) in [
            ("x run -s n", "write name=value"),
            ("x run --device gpu", "auto, cuda, emulator"),
            ("x snapshot --check --accept", "cannot be used with"),
            ("x test --seeds 0", "0 is not in 1.."),
            ("x list --release --profile dev", "cannot be used with"),
            ("x frobnicate", "unrecognized subcommand"),
        ] {
            let error = read(line).expect_err("a mistake");
            assert_eq!(error.exit_code(), i32::from(Exit::Usage.code()), "{line}");
            assert!(error.to_string().contains(wanted), "{line}: {error}");
        }
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
