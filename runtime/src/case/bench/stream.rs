//! Timing of work on one stream outside of a case.

use std::time::Duration;

use super::contest::{Contest, Contestant};
use super::track::Track;
use super::{BenchOptions, Timing};
use crate::error::Result;
use crate::stream::Stream;

/// Pieces of work on one stream, which are timed interleaved, as launches of a case are: single launches, and graphs that are replayed back to back.
///
/// ```
/// use std::time::Duration;
/// use tilekit::case::{BenchOptions, StreamContest};
/// use tilekit::prelude::*;
///
/// # fn main() -> tilekit::Result<()> {
/// let device = Device::emulator(); // its times say nothing of a GPU
/// let stream = Stream::new(&device)?;
/// let (x, y) = (Buffer::<f32>::zeros(&device, 1024)?, Buffer::<f32>::zeros(&device, 1024)?);
/// let options = BenchOptions { samples: 3, rounds: 2, ..BenchOptions::default() };
/// let mut contest = StreamContest::new(&stream, options, 1, Duration::from_secs(5));
/// contest.add("fill", |_copy| stream.fill_bytes(&x, 0));
/// contest.add("copy", |_copy| stream.copy(&x, &y));
/// let timing = contest.hold()?;
/// assert_eq!(timing.entrants[1].single.samples_ms.len(), 3);
/// # Ok(())
/// # }
/// ```
pub struct StreamContest<'a> {
    contest: Contest<'a>,
}

impl<'a> StreamContest<'a> {
    /// Between nobody yet. Each takes `copies` copies of its tensors in turn: enough that they exceed L2, unless it is meant to be hot. A launch that takes longer than `limit` has hung, and ends the process.
    pub fn new(
        stream: &'a Stream,
        options: BenchOptions,
        copies: usize,
        limit: Duration,
    ) -> StreamContest<'a> {
        let contest = Contest::new(
            Track::One(stream),
            Vec::new(),
            copies.max(1),
            (options, limit),
        );
        StreamContest { contest }
    }

    /// Adds a piece of work, which puts launches on the stream with copy number `.0` of the tensors. It is recorded and replayed: what it passes as a
    /// number stays the same, and its code is loaded before.
    pub fn add(&mut self, name: &str, launch: impl Fn(usize) -> Result<()> + 'a) {
        self.contest.contestants.push(Contestant {
            name: name.to_owned(),
            family: None,
            check: None,
            overlapping: 0,
            launch: Box::new(move |_, copy| launch(copy)),
            parts: Vec::new(),
        });
    }

    /// Times all.
    ///
    /// # Errors
    /// What a launch ended with.
    pub fn hold(self) -> Result<Timing> {
        self.contest.hold(Vec::new())
    }
}
