//! What may stand behind each verb.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use protocol::request::{self, Shard, SizeOverride, SourceLine};

use super::value::{self, TensorShape};

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

#[derive(Debug, Args)]
pub(crate) struct Selection {
    /// Parts of names of kernels, variants or cases [default: all]
    #[arg(value_name = "KERNEL")]
    pub(crate) kernels: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// Model-check mbarriers and named barriers for all trip counts: proved, found wrong, or not decided and why
    #[arg(long)]
    pub(crate) prove: bool,
    /// Also break the barriers of every proved variant in at most N ways, one at a time: what is then proved too must not
    /// deadlock on the emulator
    #[arg(long, value_name = "N", requires = "prove")]
    pub(crate) mutants: Option<usize>,
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
    /// Print the time of tracing, of each pass, of emission, printing and ptxas
    #[arg(long)]
    pub(crate) timings: bool,
    /// Use this PTX from now on for the kernel whose entry it defines; `none` undoes it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["from_ir", "reset"])]
    pub(crate) from_ptx: Option<PathBuf>,
    /// Use this tile IR from now on for the kernel that it names; `none` undoes it
    #[arg(long, value_name = "FILE", conflicts_with = "reset")]
    pub(crate) from_ir: Option<PathBuf>,
    /// Use the compiled kernels again instead of those given by --from-ptx and --from-ir
    #[arg(long)]
    pub(crate) reset: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Export {
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// The language of the package
    #[arg(long, value_name = "LANGUAGE")]
    pub(crate) to: Language,
    /// Where it is written [default: target/tilekit/export/LANGUAGE/PACKAGE]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}

/// `--to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Language {
    /// A Rust package that depends on tilekit-launch alone
    Rust,
    /// A header and a source in C99 for each kernel, and tilekitConfig.cmake
    C,
    /// A Python package of an extension module, which maturin makes an abi3 wheel of
    Python,
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
    /// Run the cases of several ranks on this many devices, as -s ranks=N does
    #[arg(long, value_name = "N")]
    pub(crate) devices: Option<usize>,
}

/// What the emulator checks, which is then the device.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Checks {
    /// Run on the emulator without a search for races in global memory, whose shadow takes one and a half to six times the memory that a launch touches
    #[arg(long)]
    pub(crate) no_global: bool,
    /// Run on the emulator, where `wgmma.wait_group` orders the warp that executes it and no other of its warpgroup
    #[arg(long)]
    pub(crate) strict: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RunInOrder {
    #[command(flatten)]
    pub(crate) run: Run,
    /// Run on the emulator under the schedule of this seed; 0 is round robin [default: 0]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Start the program that runs the kernels by another one, a profiler or a debugger, such as 'ncu --set full' or 'cuda-gdb --args'
    #[arg(long, value_name = "COMMAND", value_parser = value::command)]
    pub(crate) under: Option<value::Words>,
    #[command(flatten)]
    pub(crate) checks: Checks,
}

#[derive(Debug, Args)]
pub(crate) struct Test {
    #[command(flatten)]
    pub(crate) run: Run,
    /// Run every case on the emulator under this many schedules: seeds from 0 [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), allow_negative_numbers = true)]
    pub(crate) seeds: Option<u64>,
    #[command(flatten)]
    pub(crate) checks: Checks,
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
    /// Schedules under which a mutant runs until it is reported: seeds from 0
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..), allow_negative_numbers = true)]
    pub(crate) seeds: u64,
    /// Run all mutants again, also those with results recorded for this build
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Run at most this many mutants, some of every kind; a larger number keeps those of a smaller one [default: all]
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,
    #[command(flatten)]
    pub(crate) isolation: Isolation,
}

/// Where mutants run in processes of their own.
#[derive(Debug, Args)]
#[command(next_help_heading = "Mutants on a device")]
pub(crate) struct Isolation {
    /// Run mutants on a GPU too, each in a process of its own, and compare with the emulator's verdict [default: emulator]
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Option<Device>,
    /// Run each mutant in a process of its own also where the device is the emulator
    #[arg(long)]
    pub(crate) isolate: bool,
    /// Processes at a time [default: one per core, at most 8]
    #[arg(long, value_name = "N", value_parser = value::processes)]
    pub(crate) jobs: Option<usize>,
    /// Times that a process runs each case until something is found
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..), allow_negative_numbers = true)]
    pub(crate) repeats: u64,
    /// Seconds that a launch of a mutant may take beyond what the unchanged kernel takes
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = value::seconds_of_minute)]
    pub(crate) time_limit: Duration,
    /// Run the mutants that the GPU passes under these tools of compute-sanitizer, separated by commas: memcheck, racecheck,
    /// synccheck, initcheck
    #[arg(long, value_delimiter = ',', value_name = "TOOLS")]
    pub(crate) sanitize: Vec<String>,
    /// Run all mutants under them
    #[arg(long, requires = "sanitize")]
    pub(crate) sanitize_all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Bench {
    #[command(flatten)]
    pub(crate) run: Run,
    /// Single launches per run, whose median is reported; back to back, at most 8 slices are timed
    #[arg(long, default_value_t = 21, value_parser = clap::value_parser!(u32).range(1..), allow_negative_numbers = true)]
    pub(crate) samples: u32,
    /// Seconds of a sustained run of the kernel and each peer, at the clock that power allows, such as 1.5 [default:
    /// none]
    #[arg(long, value_name = "SECONDS", value_parser = value::seconds_of_minute, allow_negative_numbers = true)]
    pub(crate) sustained: Option<Duration>,
    /// Use the same tensors in every launch, which then may hit in L2
    #[arg(long)]
    pub(crate) hot: bool,
    /// Append the figures to a file, a JSON object a line
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// Keep the figures under a name, below target/tilekit
    #[arg(long, value_name = "NAME", value_parser = value::file_name)]
    pub(crate) save: Option<String>,
    /// Compare with the figures that --save kept on this machine, and fail if a run is slower
    #[arg(long, value_name = "NAME", value_parser = value::file_name)]
    pub(crate) against: Option<String>,
    /// By how many percent a run may be slower than the baseline
    #[arg(long, value_name = "PERCENT", default_value_t = 5, requires = "against", value_parser = clap::value_parser!(u32).range(0..=1000), allow_negative_numbers = true)]
    pub(crate) most_loss: u32,
    /// Read hardware counters of each launch by CUPTI, beside what the model of an H200 says
    #[arg(long)]
    pub(crate) counters: bool,
    /// Draw the times as bars, in the terminal and to an SVG file
    #[arg(long, value_name = "FILE.svg", value_parser = value::svg_file)]
    pub(crate) chart: Option<PathBuf>,
    /// Draw all runs below the roofline, in the terminal and to an SVG file
    #[arg(long, value_name = "FILE.svg", value_parser = value::svg_file)]
    pub(crate) roofline: Option<PathBuf>,
}

/// What only a search by `tune` obeys: it would say nothing to --show and --export.
const OF_SEARCH: [&str; 7] = [
    "device",
    "shard",
    "exhaustive",
    "most",
    "seed",
    "time_limit",
    "fresh",
];

#[derive(Debug, Args)]
pub(crate) struct Tune {
    #[command(flatten)]
    pub(crate) run: Run,
    /// The file of records, which grows by a JSON object a line; files of several machines or shares are merged by concatenation
    /// [default: tune.jsonl below target/tilekit]
    #[arg(long, value_name = "FILE")]
    pub(crate) records: Option<PathBuf>,
    /// Tune only share I of N of the selected runs
    #[arg(long, value_name = "I/N", allow_hyphen_values = true)]
    pub(crate) shard: Option<Shard>,
    /// Time every legal candidate in every heat, whatever the model says
    #[arg(long, conflicts_with = "most")]
    pub(crate) exhaustive: bool,
    /// Time at most this many candidates of a run where a model orders them
    #[arg(long, value_name = "N", default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..), allow_negative_numbers = true)]
    pub(crate) most: u32,
    /// What the random order of launches depends on
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        allow_negative_numbers = true
    )]
    pub(crate) seed: u64,
    /// Seconds that one candidate may take to be checked, its reference included
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u32).range(1..=3600), allow_negative_numbers = true)]
    pub(crate) time_limit: u32,
    /// Measure again what is recorded
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Show what the records say of the selected cases, at the sizes of -s where it is given; measure nothing
    #[arg(long, conflicts_with = "export", conflicts_with_all = OF_SEARCH)]
    pub(crate) show: bool,
    /// Write the fastest candidate of each recorded run that is selected likewise to FILE, a JSON object a line, for a program to choose by; measure nothing
    #[arg(long, value_name = "FILE", conflicts_with_all = OF_SEARCH)]
    pub(crate) export: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Trace {
    #[command(flatten)]
    pub(crate) run: Run,
    /// How much is recorded
    #[arg(long, value_name = "LEVEL", default_value = "steps")]
    pub(crate) level: Level,
    /// Which records are kept where there are more than fit; the others are counted
    #[arg(long, value_name = "WHICH", default_value = "first")]
    pub(crate) keep: Keep,
    /// Records that each partition of each CTA keeps, a power of two from 8 to 1048576 [default: 4096, or as many as fit 512 MiB]
    #[arg(long, value_name = "N", value_parser = value::records)]
    pub(crate) records: Option<u32>,
    /// Where the page is written [default: target/tilekit/.../trace/CASE.html]
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write the timeline also for Perfetto, as Chrome's JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) perfetto: Option<PathBuf>,
    /// Draw the timeline of one CTA, for a document
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// The number of the CTA that --svg draws
    #[arg(long, value_name = "N", default_value_t = 0, requires = "svg")]
    pub(crate) cta: usize,
    /// From when to when --svg draws, ns since the launch began, such as 2000..6000 [default: all]
    #[arg(long, value_name = "FROM..TO", requires = "svg", value_parser = value::times)]
    pub(crate) between: Option<[u64; 2]>,
}

/// `--level`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Level {
    /// Partitions, waits for the launch before, and the author's marks
    Partitions,
    /// Also loops over steps as wholes, and what is outside of them
    Tiles,
    /// Also each step: waits, copies, products
    Steps,
}

/// `--keep`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Keep {
    /// The first
    First,
    /// The last
    Last,
}

#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
#[derive(Debug, Args)]
pub(crate) struct Snapshot {
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// Fail if a snapshot differs or is stale, and show changed facts, then changed lines (the default)
    #[arg(long, conflicts_with_all = ["accept", "review"])]
    pub(crate) check: bool,
    /// Write the snapshots that differ, remove stale ones, and bring the limits of tilekit.toml to what is found
    #[arg(long, conflicts_with = "review")]
    pub(crate) accept: bool,
    /// Show each difference and ask; in CI (environment variable CI) the same as --check
    #[arg(long)]
    pub(crate) review: bool,
    /// Write the snapshots of variants that cost no more than accepted, lower the limits of tilekit.toml to what is found, and fail
    /// if a variant has more registers, spills, shared memory, conflicts or instructions
    #[arg(long, conflicts_with_all = ["check", "accept", "review"])]
    pub(crate) ratchet: bool,
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
    /// Show the author's lines with what each costs, and beneath it the tile IR, PTX and machine code that were made of it
    #[arg(long, conflicts_with_all = ["stage", "after"])]
    pub(crate) source: bool,
    /// What to show beneath the lines, separated by commas; none shows costs alone
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "FORMS",
        default_value = "ir,ptx,sass",
        requires = "source",
        conflicts_with_all = ["stage", "after", "html", "diff"]
    )]
    pub(crate) beneath: Vec<BeneathName>,
    /// Show one line of the source alone: 12 or src/lib.rs:12
    // What conflicts with the source would make `requires` no requirement.
    #[arg(long, value_name = "LINE", requires = "source", conflicts_with_all = ["stage", "after", "html", "diff"])]
    pub(crate) at: Option<SourceLine>,
    /// Write the same as one page of HTML, with linked panes and drawings of layouts and shared memory
    #[arg(long, value_name = "FILE", conflicts_with_all = ["stage", "after", "source"])]
    pub(crate) html: Option<PathBuf>,
    /// Compare costs with another variant, with git:REVISION, or with a file that --source --message-format json printed
    #[arg(long, value_name = "OTHER", conflicts_with_all = ["stage", "after", "source", "html"])]
    pub(crate) diff: Option<String>,
}

/// `--beneath`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BeneathName {
    /// Tile IR
    Ir,
    /// PTX
    Ptx,
    /// Machine code
    Sass,
    /// Nothing
    None,
}

/// `--stage`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StageName {
    /// Tile IR as traced
    Built,
    /// Tile IR with every layout resolved
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
    /// Shape of the tensor, such as 32x64
    #[arg(long, conflicts_with = "value")]
    pub(crate) shape: Option<TensorShape>,
    /// The tensor, shared tile or tensor map of the kernel to draw
    #[arg(long, value_name = "NAME")]
    pub(crate) value: Option<String>,
    /// What to draw
    #[arg(long, default_value = "tensor")]
    pub(crate) view: LayoutView,
    /// Bits per element, which determine its bank [default: the kernel's or the layout's, else 32]
    #[arg(long, value_parser = value::element_bits)]
    pub(crate) bits: Option<u32>,
    /// Write an SVG file instead
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
}

/// `--view`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LayoutView {
    /// The tensor; cells show the owner of the element, or its offset
    Tensor,
    /// Threads by registers, or lines of shared memory; cells show the element
    Hardware,
    /// The tensor; cells show the bank of shared memory of the element
    Banks,
}

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Fetch ptxas and nvdisasm where they are missing, from NVIDIA's Python packages into the user's cache; needs python3 with pip
    #[arg(long)]
    pub(crate) fix: bool,
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
    /// Path of the crate `tilekit`: the folder `runtime` of a checkout
    #[arg(long, value_name = "PATH")]
    pub(crate) tilekit: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
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

impl From<Level> for request::TraceLevel {
    fn from(level: Level) -> Self {
        match level {
            Level::Partitions => request::TraceLevel::Partitions,
            Level::Tiles => request::TraceLevel::Tiles,
            Level::Steps => request::TraceLevel::Steps,
        }
    }
}

impl From<Keep> for request::TraceKeep {
    fn from(keep: Keep) -> Self {
        match keep {
            Keep::First => request::TraceKeep::First,
            Keep::Last => request::TraceKeep::Last,
        }
    }
}

impl From<Language> for request::Language {
    fn from(language: Language) -> Self {
        match language {
            Language::Rust => request::Language::Rust,
            Language::C => request::Language::C,
            Language::Python => request::Language::Python,
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
