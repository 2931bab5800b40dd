//! What `tune` is asked, and what it asks of the processes that it starts.

use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_one_of_several() {
        assert_eq!("2/8".parse(), Ok(Shard { number: 2, of: 8 }));
        for wrong in ["", "2", "0/4", "5/4", "1/0", "a/b", "-1/2"] {
            let said = wrong.parse::<Shard>().expect_err(wrong);
            assert!(said.contains("write I/N with I from 1 to N"), "{said}");
        }
    }
}
