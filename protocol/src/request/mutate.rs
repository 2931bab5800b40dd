//! What `mutate` is asked, and what it asks of the processes that it starts.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

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
