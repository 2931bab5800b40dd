//! What a process that checks and times candidates says of them: an object a line.

use serde::{Deserialize, Serialize};

/// One line. A run is named by its number, a candidate by its place in the space.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "said", rename_all = "kebab-case")]
pub(super) enum Said {
    /// What happens next is this candidate's.
    At { job: usize, at: usize },
    /// Its results were right.
    Right { job: usize, at: usize },
    /// They were not.
    Wrong {
        job: usize,
        at: usize,
        message: String,
    },
    /// It did not get that far.
    Failed {
        job: usize,
        at: usize,
        message: String,
    },
    /// It was timed; times are those of the rounds, microseconds.
    Timed {
        job: usize,
        at: usize,
        heat: usize,
        single_us: Vec<f32>,
        back_to_back_us: Vec<f32>,
        clock_mhz: Option<u32>,
    },
    /// All that there is to know of the run is known.
    Done {
        job: usize,
        /// How long candidates were timed in this process, rests included, seconds.
        seconds: f64,
    },
}
