//! What `trace` is asked.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

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
    /// A picture of one CTA, if it is wanted.
    #[serde(default)]
    pub picture: Option<PictureRequest>,
}

/// What a picture of a timeline shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PictureRequest {
    /// Its file.
    pub file: PathBuf,
    /// Which of the launch's CTAs.
    pub cta: usize,
    /// From when to when, ns since the launch began; without, all of the CTA's time.
    pub between: Option<[u64; 2]>,
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
