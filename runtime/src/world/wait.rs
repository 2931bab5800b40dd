//! Waiting for all devices of a world, up to a limit.

use std::thread;
use std::time::{Duration, Instant};

use super::World;
use crate::device::Device;
use crate::error::{Error, MissingSignals, RankFailure, Result};
use crate::stream::Stream;

/// How often the ends of launches are asked for.
pub(super) const POLL: Duration = Duration::from_micros(50);

/// How often at first, without a pause: most launches are short.
const SPIN: Duration = Duration::from_millis(1);

impl World {
    /// Waits for everything on the streams of all ranks.
    ///
    /// # Errors
    /// On GPUs [`Error::RanksFailed`] with every rank whose kernel ended badly, and with what it waited for in vain if it said so in [`late`](World::late);
    /// [`Error::RanksLate`] with the ranks that have not ended within the [limit](World::with_limit), and those that failed, for which they may wait.
    /// Late ranks still run then: only the end of the process gets their GPUs back. Their memory is not freed before, since that would wait for them. On
    /// the emulator what a kernel beside the host ended with.
    pub fn synchronize(&self) -> Result<()> {
        if !self.device(0).is_cuda() {
            // It sees by itself that no rank can go on.
            return self.streams().iter().try_for_each(Stream::synchronize);
        }
        let started = Instant::now();
        let mut running: Vec<usize> = (0..self.ranks()).collect();
        let mut failed = Vec::new();
        loop {
            running.retain(|&rank| match self.stream(rank).is_done() {
                Ok(is_done) => !is_done,
                Err(error) => {
                    failed.push(self.failure(rank, error));
                    false
                }
            });
            if running.is_empty() && failed.is_empty() {
                return Ok(());
            }
            if running.is_empty() {
                return Err(Error::RanksFailed(failed));
            }
            if started.elapsed() >= self.limit {
                return Err(self.give_up(running, failed));
            }
            if started.elapsed() >= SPIN {
                thread::sleep(POLL);
            }
        }
    }

    /// What a rank ended with, and what it waited for.
    fn failure(&self, rank: usize, error: Error) -> RankFailure {
        let word = self.late(rank).read(0..1).map_or(0, |word| word[0]);
        RankFailure {
            rank,
            error: Box::new(error),
            missing: MissingSignals::of_word(word),
        }
    }

    /// The error that names the ranks that still run. All GPUs are left alone from here on, for those ranks write memory of the others too.
    fn give_up(&self, late: Vec<usize>, failed: Vec<RankFailure>) -> Error {
        self.devices().iter().for_each(Device::abandon);
        let kernel = late
            .iter()
            .find_map(|&rank| self.stream(rank).last_launched());
        Error::RanksLate {
            kernel: kernel.unwrap_or_else(|| "work".to_owned()),
            late,
            ranks: self.ranks(),
            limit: self.limit,
            failed,
        }
    }
}
