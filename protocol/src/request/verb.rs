//! The verbs, and the options of those with few.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::build::{Emit, Language, Replace};
use super::inspect::View;
use super::mutate::{MutateRequest, TrialRequest};
use super::trace::TraceRequest;
use super::tune::{TuneRequest, TuneShare};

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
    /// Read hardware counters of each launch.
    #[serde(default)]
    pub counters: bool,
    /// A file for times as bars, as SVG.
    #[serde(default)]
    pub chart: Option<PathBuf>,
    /// A file for the roofline with all runs, as SVG.
    #[serde(default)]
    pub roofline: Option<PathBuf>,
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
