//! Timing of work on all ranks of a world outside of a case.

use super::contest::{Contest, Contestant};
use super::track::Track;
use super::{BenchOptions, Timing};
use crate::error::Result;
use crate::world::World;

/// Pieces of work on all ranks of a world, which are timed interleaved: single launches that all ranks begin together, and graphs of each rank that are replayed
/// back to back. The slowest rank counts.
///
/// ```
/// use tilekit::case::{BenchOptions, RanksContest};
/// use tilekit::{EmulatorOptions, prelude::*};
///
/// # fn main() -> tilekit::Result<()> {
/// let world = World::emulators(2, EmulatorOptions::default())?; // times of the emulator say nothing of a GPU
/// let (x, y) = (world.symmetric::<f32>(1024)?, world.symmetric::<f32>(1024)?);
/// let mut contest = RanksContest::new(&world, BenchOptions { samples: 3, rounds: 2, ..BenchOptions::default() }, 1);
/// let all = |work: &dyn Fn(usize) -> tilekit::Result<()>| (0..2).try_for_each(work);
/// contest.add("fill", |_copy| all(&|rank| world.stream(rank).fill_bytes(x.part(rank), 0)));
/// contest.add("copy", |_copy| all(&|rank| world.stream(rank).copy(x.part(rank), y.part(rank))));
/// let timing = contest.hold()?;
/// assert_eq!(timing.entrants[1].single.samples_ms.len(), 3);
/// println!("fill is {:.2} times as fast", timing.entrants[1].single.ratio_to(&timing.ours().single));
/// # Ok(())
/// # }
/// ```
pub struct RanksContest<'a> {
    contest: Contest<'a>,
}

impl<'a> RanksContest<'a> {
    /// Between nobody yet. Each takes `copies` copies of its tensors in turn: enough that they exceed L2, unless it is meant to be hot.
    pub fn new(world: &'a World, options: BenchOptions, copies: usize) -> RanksContest<'a> {
        let timing = (options, world.limit());
        RanksContest {
            contest: Contest::new(Track::All(world), Vec::new(), copies.max(1), timing),
        }
    }

    /// Adds a piece of work, which puts launches on the streams of all ranks with copy number `.0` of the tensors. It is recorded and replayed: what it passes as a
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

    /// Runs each once, then times all. A launch that does not end ends the process.
    ///
    /// # Errors
    /// What a launch ended with.
    pub fn hold(self) -> Result<Timing> {
        self.contest.hold(Vec::new())
    }
}
