//! Requests of `cargo tilekit` to a harness: a file of JSON, named by an environment variable.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::MessageFormat;

/// The environment variable that names the file with the [`Request`]. Without it a harness is an ordinary test.
pub const REQUEST_VARIABLE: &str = "TILEKIT_REQUEST";

/// The version of this exchange. The tool and the package that it serves may depend on different releases.
pub const PROTOCOL: u32 = 6;

/// The one field that every version has.
#[derive(Deserialize)]
struct Version {
    protocol: u32,
}

/// A request to a harness, whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// [`PROTOCOL`] of the asking side.
    pub protocol: u32,
    /// The package that is asked about.
    pub package: PackagePlace,
    /// Format, colours and amount of output.
    pub output: OutputOptions,
    /// The device that the command line names.
    pub device: Option<DeviceChoice>,
    /// `-s name=value`, in order.
    pub sizes: Vec<SizeOverride>,
    /// What to do.
    pub verb: Verb,
}

/// Where a package and its output are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackagePlace {
    /// Its name.
    pub name: String,
    /// The folder of its `Cargo.toml`.
    pub root: PathBuf,
    /// The folder of the workspace's `Cargo.toml`; the compiler names files relative to it.
    pub workspace: PathBuf,
    /// Where artefacts go: `target/tilekit/<profile>/<package>`.
    pub artifacts: PathBuf,
    /// Where kernels edited by hand are kept: `target/tilekit/override/<package>`.
    pub overrides: PathBuf,
}

/// Format, colours and amount of output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputOptions {
    /// Text, one line a diagnostic, or JSON.
    pub format: MessageFormat,
    /// Colours.
    pub color: ColorChoice,
    /// No progress and no remarks.
    pub quiet: bool,
    /// More of both.
    pub verbose: bool,
}

/// When to colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ColorChoice {
    /// On a terminal that shows colours, unless `NO_COLOR` or `CLICOLOR_FORCE` says otherwise.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// What kernels run on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceChoice {
    /// A GPU where there is one that can be used, else the emulator.
    #[default]
    Auto,
    /// A GPU, or an error.
    Cuda,
    /// The emulator.
    Emulator,
}

impl FromStr for DeviceChoice {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(DeviceChoice::Auto),
            "cuda" => Ok(DeviceChoice::Cuda),
            "emulator" => Ok(DeviceChoice::Emulator),
            _ => Err(format!("`{text}` is no device: auto, cuda or emulator")),
        }
    }
}

/// Values that replace those which cases declare for a size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeOverride {
    /// The size.
    pub name: String,
    /// Its values.
    pub values: Vec<usize>,
}

impl FromStr for SizeOverride {
    type Err = String;

    /// `n=4096`, `n=1000,4096`, `n=1<<20` or `n=1_000_000`.
    fn from_str(text: &str) -> Result<Self, String> {
        let Some((name, values)) = text.split_once('=') else {
            return Err(format!(
                "`{text}` is no size: write name=value, such as n=4096"
            ));
        };
        let name = name.trim();
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(format!("`{name}` is no name of a size"));
        }
        let values: Result<Vec<usize>, String> = values.split(',').map(size_value).collect();
        Ok(SizeOverride {
            name: name.to_string(),
            values: values?,
        })
    }
}

/// A whole number, with `_` between digits, or a power of two as `1<<20`.
fn size_value(text: &str) -> Result<usize, String> {
    let number = |digits: &str| digits.trim().replace('_', "").parse::<usize>().ok();
    let value = match text.split_once("<<") {
        Some((base, shift)) => number(base).zip(number(shift)).and_then(|(base, shift)| {
            let shift = u32::try_from(shift).ok()?;
            base.checked_mul(1_usize.checked_shl(shift)?)
        }),
        None => number(text),
    };
    let is_digits =
        |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == '_');
    if value.is_none()
        && text.trim().split("<<").all(is_digits)
        && text.contains(|c: char| c.is_ascii_digit())
    {
        return Err(format!("{} is too large for a size", text.trim()));
    }
    value.ok_or_else(|| {
        format!(
            "`{}` is no size: write a whole number, such as 4096 or 1<<20",
            text.trim()
        )
    })
}

/// The verbs of a harness.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "kebab-case")]
pub enum Verb {
    /// List every kernel and variant.
    List {
        /// Parts of names; none selects all.
        filters: Vec<String>,
    },
    /// Trace and lower every variant, and report diagnostics.
    Check {
        /// Parts of names; none selects all.
        filters: Vec<String>,
        /// Model-check the barriers too.
        #[serde(default)]
        prove: bool,
        /// Also break the barriers of what is proved, in at most so many ways each.
        #[serde(default)]
        mutants: Option<usize>,
    },
    /// Write artefacts.
    Build {
        /// Parts of names; none selects all.
        filters: Vec<String>,
        /// What to write.
        emit: Vec<Emit>,
        /// Say how long each step takes.
        timings: bool,
        /// Replace a kernel by text edited by hand.
        replace: Option<Replace>,
    },
    /// Write kernels as a package for programs that know nothing of the compiler.
    Export {
        /// Parts of names; none selects all.
        filters: Vec<String>,
        /// The language of the package.
        to: Language,
        /// Where it is written; without, below `target/tilekit/export`.
        folder: Option<PathBuf>,
    },
    /// Run cases and check their results.
    Run {
        /// Parts of names; none selects all.
        filters: Vec<String>,
        /// The seed of the schedule on the emulator, which is then the device.
        seed: Option<u64>,
        /// What the emulator checks, which is then the device.
        checking: Checking,
    },
    /// Time the launches of cases.
    Bench(BenchRequest),
    /// Search the spaces of cases for what is fastest.
    Tune(TuneRequest),
    /// Check and time candidates, as a process that `tune` has started.
    TuneShare(TuneShare),
    /// Check every variant and run cases, as the test target does, on any device.
    Test {
        /// Parts of names; none selects all.
        filters: Vec<String>,
        /// Schedules under which cases run on the emulator, which is then the device: seeds from 0.
        seeds: Option<u64>,
        /// What the emulator checks, which is then the device.
        checking: Checking,
    },
    /// Mutate the synchronization of kernels, and report the mutants that no case detects.
    Mutate(MutateRequest),
    /// Run one mutant, as a process that `mutate` has started.
    Trial(TrialRequest),
    /// Compare, write or review snapshots.
    Snapshot {
        /// Parts of names; none selects all.
        filters: Vec<String>,
        /// What to do with what differs.
        mode: SnapshotMode,
    },
    /// Record what happens when in the launches of one run of a case.
    Trace(TraceRequest),
    /// Name the tensors of one variant with their layouts.
    Values {
        /// Part of its name.
        kernel: String,
    },
    /// Show one variant at one stage.
    Inspect {
        /// Part of its name.
        kernel: String,
        /// What to show.
        view: View,
    },
}

/// What the emulator checks other than by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checking {
    /// Do not watch global memory for races.
    pub no_global: bool,
    /// Order what the PTX ISA orders for the executing threads for them alone.
    pub strict: bool,
}

impl Checking {
    /// The options of the command line that ask for it, each behind a space.
    pub fn options(self) -> String {
        let [global, strict] = [(self.no_global, " --no-global"), (self.strict, " --strict")]
            .map(|(is_asked, option)| if is_asked { option } else { "" });
        format!("{global}{strict}")
    }
}

/// What is timed, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BenchRequest {
    /// Parts of names; none selects all.
    pub filters: Vec<String>,
    /// How many single launches are timed of each.
    pub samples: usize,
    /// How long a sustained run of each is, milliseconds; 0 for none.
    #[serde(default)]
    pub sustained_ms: u64,
    /// Whether all launches use the same tensors, which may then be in L2.
    pub hot: bool,
    /// A file to append the figures to, a JSON object a line.
    pub record: Option<PathBuf>,
    /// Keep the figures under this name.
    #[serde(default)]
    pub save: Option<String>,
    /// Compare with the figures that were kept under this name.
    #[serde(default)]
    pub against: Option<String>,
    /// By how much a run may be slower than that, percent.
    #[serde(default)]
    pub most_loss_percent: u32,
}

/// What is tuned, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TuneRequest {
    /// Parts of names; none selects all.
    pub filters: Vec<String>,
    /// The file of records; without, one of the package below `target/tilekit`.
    pub records: Option<PathBuf>,
    /// What the order of launches depends on.
    pub seed: u64,
    /// Which share of the runs is tuned; none for all.
    pub shard: Option<Shard>,
    /// Time every legal candidate in every heat, whatever the model says.
    pub exhaustive: bool,
    /// The most candidates of a run that are timed where a model orders them.
    pub most: usize,
    /// What one candidate may take to be checked, milliseconds.
    pub time_limit_ms: u64,
    /// Forget the records of the selected runs.
    pub fresh: bool,
    /// What is wanted.
    pub task: TuneTask,
}

/// What `tune` does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TuneTask {
    /// Search.
    Search,
    /// Show what the records say.
    Show,
    /// Write the fastest candidates to this file.
    Export(PathBuf),
}

/// One of several shares of the same runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// Which, from 1.
    pub number: usize,
    /// Of how many.
    pub of: usize,
}

impl FromStr for Shard {
    type Err = String;

    /// `2/8`.
    fn from_str(text: &str) -> Result<Self, String> {
        let number = |part: &str| part.trim().parse::<usize>().ok();
        let parts = text.split_once('/');
        let found = parts.and_then(|(number_of, of)| number(number_of).zip(number(of)));
        match found {
            Some((number, of)) if (1..=of).contains(&number) => Ok(Shard { number, of }),
            _ => Err(format!(
                "`{text}` is no share: write I/N with I from 1 to N, such as 2/8"
            )),
        }
    }
}

/// What one process checks and times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TuneShare {
    /// The number of the GPU; none for the emulator.
    pub gpu: Option<usize>,
    /// The runs, in order.
    pub jobs: Vec<TuneJob>,
    /// What the order of launches depends on.
    pub seed: u64,
    /// Keep every candidate in every heat.
    pub exhaustive: bool,
    /// What one candidate may take to be checked, milliseconds; the process ends itself then.
    pub time_limit_ms: u64,
}

/// One run of a case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TuneJob {
    /// Its number among the runs of the request.
    pub number: usize,
    /// The case with its module.
    pub case: String,
    /// Its sizes, as declared.
    pub sizes: Vec<(String, usize)>,
    /// In the order of the model.
    pub candidates: Vec<TuneCandidate>,
}

/// A candidate, and the facts about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TuneCandidate {
    /// Its place in the space.
    pub at: usize,
    /// Its name.
    pub name: String,
    /// Its results were right before.
    pub is_checked: bool,
    /// Its times in the heats so far.
    pub heats: Vec<TuneTimes>,
}

/// Medians of a heat, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TuneTimes {
    /// Of single launches.
    pub single_ns: u64,
    /// Of launches back to back.
    pub back_to_back_ns: u64,
}

/// What is recorded of which run, and where the timeline goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceRequest {
    /// Parts of names, by which one case must be meant.
    pub filters: Vec<String>,
    /// How much is recorded.
    pub level: TraceLevel,
    /// Which records are kept where there are more than fit.
    pub keep: TraceKeep,
    /// Records that each partition of each CTA keeps; without, as many as a buffer of a sensible size holds.
    pub records: Option<u32>,
    /// A file for the page; without, below `target/tilekit/trace`.
    pub html: Option<PathBuf>,
    /// A file for Perfetto, if it is wanted.
    pub perfetto: Option<PathBuf>,
}

/// How much a trace records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TraceLevel {
    /// Partitions, waits for the launch before, and the author's marks.
    Partitions,
    /// Also loops over steps as wholes, and what is outside of them.
    Tiles,
    /// Also each step.
    #[default]
    Steps,
}

/// Which records a full ring keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TraceKeep {
    /// The first.
    #[default]
    First,
    /// The last.
    Last,
}

/// Which mutants are made, and under how many schedules they run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MutateRequest {
    /// Parts of names; none selects all.
    pub filters: Vec<String>,
    /// Names of the kinds of mutation that are made; none selects all.
    pub kinds: Vec<String>,
    /// Schedules under which a mutant runs until it is reported: seeds from 0.
    pub seeds: u64,
    /// Run again what an earlier process with the same harness has run.
    pub fresh: bool,
    /// The most mutants that are run, some of every kind; none runs all.
    #[serde(default)]
    pub limit: Option<usize>,
    /// Run each mutant in a process of its own on the emulator too, as always on a GPU.
    #[serde(default)]
    pub isolate: bool,
    /// How such processes run.
    #[serde(default)]
    pub isolation: Isolation,
}

/// How mutants run in processes of their own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Isolation {
    /// The most processes at a time; none takes as many as there are cores, and at most 8.
    pub jobs: Option<usize>,
    /// How often each run of a case is repeated in a process until something is found.
    pub repeats: u64,
    /// What a launch of a mutant may take beyond what those of the unchanged kernel take, milliseconds.
    pub time_limit_ms: u64,
    /// Tools of `compute-sanitizer` under which mutants run that the device passes.
    pub tools: Vec<String>,
    /// Run all mutants under the tools.
    pub tools_for_all: bool,
}

impl Default for Isolation {
    fn default() -> Isolation {
        Isolation {
            jobs: None,
            repeats: 4,
            time_limit_ms: 5000,
            tools: Vec::new(),
            tools_for_all: false,
        }
    }
}

/// One mutant to run, or an unchanged kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialRequest {
    /// The whole name of the variant.
    pub kernel: String,
    /// What is changed in it.
    pub mutation: Option<TrialMutation>,
    /// Parts of names, of which the runs depend on that are tried.
    pub filters: Vec<String>,
    /// How often each run is repeated until something is found.
    pub repeats: u64,
    /// What a launch on a GPU may take, milliseconds; the process ends itself then.
    pub launch_limit_ms: u64,
    /// What the process may take, milliseconds; it ends itself then.
    pub total_limit_ms: u64,
    /// The file for its report.
    pub report: PathBuf,
}

/// A change of one instruction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialMutation {
    /// Its kind's name.
    pub kind: String,
    /// Index of the body in the module.
    pub body: usize,
    /// Index of the statement in the body.
    pub statement: usize,
}

/// A file that `build` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Emit {
    /// Tile IR after resolution.
    Ir,
    /// PTX.
    Ptx,
    /// Machine code.
    Cubin,
    /// Machine code, disassembled.
    Sass,
}

impl Emit {
    /// The ending of its file's name.
    pub const fn extension(self) -> &'static str {
        match self {
            Emit::Ir => "ir",
            Emit::Ptx => "ptx",
            Emit::Cubin => "cubin",
            Emit::Sass => "sass",
        }
    }
}

/// The language of an exported package.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// A package that depends on `tilekit-launch` alone.
    Rust,
    /// C99 and `CMake`.
    C,
    /// A Python package, which maturin makes a wheel of.
    Python,
}

impl Language {
    /// Its name on the command line, and of the folder that is the default.
    pub const fn name(self) -> &'static str {
        match self {
            Language::Rust => "rust",
            Language::C => "c",
            Language::Python => "python",
        }
    }
}

/// A kernel's text edited by hand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Replace {
    /// Use this PTX for the kernel whose entry it defines.
    Ptx(PathBuf),
    /// Lower this tile IR for the kernel that it names.
    Ir(PathBuf),
    /// Use the compiled kernels again.
    Nothing,
}

/// What `snapshot` does with what differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SnapshotMode {
    /// Show it and fail.
    Check,
    /// Write it.
    Accept,
    /// Ask for each.
    Review,
    /// Write what costs no more, and fail if anything costs more.
    Ratchet,
}

/// What `inspect` shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum View {
    /// The tile IR at a stage: `built`, `resolved` or `allocated`.
    Stage(String),
    /// The tile IR after the pass of this name.
    After(String),
    /// The PTX.
    Ptx,
    /// The machine code, disassembled.
    Sass,
    /// The author's lines with costs, and beneath each what was made of it.
    Source(SourceView),
    /// The same as a page of HTML, written to this file.
    Page(PathBuf),
}

/// How the author's lines are shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceView {
    /// What is shown beneath each line.
    pub beneath: Vec<Beneath>,
    /// The only line that is shown.
    pub at: Option<SourceLine>,
    /// Letters that a line of the terminal has room for.
    pub width: Option<usize>,
}

/// A form of a kernel that stands beneath a source line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Beneath {
    /// Tile IR from which PTX is emitted.
    Ir,
    /// PTX.
    Ptx,
    /// Machine code.
    Sass,
}

/// A line of a source file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceLine {
    /// The end of the file's name; without, a line of any file.
    pub file: Option<String>,
    /// Its number, from 1.
    pub line: u32,
}

impl FromStr for SourceLine {
    type Err = String;

    /// `12` or `src/lib.rs:12`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (file, line) = match text.rsplit_once(':') {
            Some((file, line)) => (Some(file.to_string()), line),
            None => (None, text),
        };
        let number = line.parse().ok().filter(|line| *line > 0);
        let is_named = file.as_ref().is_none_or(|file| !file.is_empty());
        number
            .filter(|_| is_named)
            .map(|line| SourceLine { file, line })
            .ok_or_else(|| format!("`{text}` is no line: write 12 or src/lib.rs:12"))
    }
}

impl Request {
    /// Reads the request that the environment names; `None` where there is none.
    ///
    /// # Errors
    /// A file that cannot be read, or one of another version.
    pub fn from_environment() -> Option<Result<Request, String>> {
        let path = std::env::var_os(REQUEST_VARIABLE)?;
        Some(Request::read(Path::new(&path)))
    }

    fn read(path: &Path) -> Result<Request, String> {
        let text = fs::read_to_string(path)
            .map_err(|error| format!("the request {} cannot be read: {error}", path.display()))?;
        // That the file is gone tells the asking side that a harness was there to read it.
        fs::remove_file(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let found = serde_json::from_str::<Version>(&text).map_or(0, |version| version.protocol);
        if found != PROTOCOL {
            return Err(format!(
                "cargo-tilekit speaks version {found} of the harness protocol and this package's `tilekit` speaks \
                 {PROTOCOL}; install the cargo-tilekit of the same release as the package's `tilekit`"
            ));
        }
        serde_json::from_str(&text)
            .map_err(|error| format!("the request cannot be understood: {error}"))
    }

    /// Writes the request as a file for a harness to read.
    pub fn write(&self, path: &Path) -> std::io::Result<()> {
        let text = serde_json::to_string(self).expect("a request of strings and numbers");
        fs::write(path, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_size(text: &str, expected: &str) {
        let found = match text.parse::<SizeOverride>() {
            Ok(size) => format!("{} {:?}", size.name, size.values),
            Err(error) => error,
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn sizes_are_read_or_refused_with_their_form() {
        check_size("n=4096", "n [4096]");
        check_size("n=1_000, 1<<20", "n [1000, 1048576]");
        check_size("n", "`n` is no size: write name=value, such as n=4096");
        check_size("=4", "`` is no name of a size");
        check_size(
            "n=4k",
            "`4k` is no size: write a whole number, such as 4096 or 1<<20",
        );
        check_size("n=1<<64", "1<<64 is too large for a size");
        check_size(
            "n=99999999999999999999",
            "99999999999999999999 is too large for a size",
        );
        for text in ["n=_", "n=1<<", "n=1<<2<<3"] {
            assert!(text.parse::<SizeOverride>().is_err(), "{text}");
        }
        check_size(
            "n=-1",
            "`-1` is no size: write a whole number, such as 4096 or 1<<20",
        );
    }

    #[test]
    fn a_share_is_one_of_several() {
        assert_eq!("2/8".parse(), Ok(Shard { number: 2, of: 8 }));
        for wrong in ["", "2", "0/4", "5/4", "1/0", "a/b", "-1/2"] {
            let said = wrong.parse::<Shard>().expect_err(wrong);
            assert!(said.contains("write I/N with I from 1 to N"), "{said}");
        }
    }

    #[test]
    fn lines_are_read_or_refused_with_their_form() {
        let line = |file: Option<&str>, line| {
            Ok(SourceLine {
                file: file.map(str::to_string),
                line,
            })
        };
        assert_eq!("12".parse(), line(None, 12));
        assert_eq!("src/lib.rs:9".parse(), line(Some("src/lib.rs"), 9));
        for text in ["", "0", ":3", "a", "a:b", "src/lib.rs"] {
            let found = text.parse::<SourceLine>();
            assert!(
                found.is_err_and(|error| error.contains("write 12")),
                "{text}"
            );
        }
    }

    fn request() -> Request {
        Request {
            protocol: PROTOCOL,
            package: PackagePlace {
                name: "mine".into(),
                root: "/w/mine".into(),
                workspace: "/w".into(),
                artifacts: "/w/target/tilekit/dev/mine".into(),
                overrides: "/w/target/tilekit/override/mine".into(),
            },
            output: OutputOptions::default(),
            device: Some(DeviceChoice::Emulator),
            sizes: vec!["n=3,5".parse().expect("a size")],
            verb: Verb::Build {
                filters: vec!["add".into()],
                emit: vec![Emit::Ir, Emit::Cubin],
                timings: true,
                replace: Some(Replace::Ptx("a.ptx".into())),
            },
        }
    }

    #[test]
    fn a_request_reads_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("request.json");
        request().write(&path).expect("a file");
        assert_eq!(Request::read(&path), Ok(request()));
        assert!(!path.exists(), "it is taken away");
    }

    #[test]
    fn a_request_of_another_release_says_what_to_install() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("request.json");
        Request {
            protocol: 7,
            ..request()
        }
        .write(&path)
        .expect("a file");
        let error = Request::read(&path).expect_err("another version");
        assert!(
            error.contains("version 7") && error.contains("install"),
            "{error}"
        );
    }
}
