//! Waiting for all devices of a world, up to a limit.

use std::thread;
use std::time::{Duration, Instant};

use super::World;
use crate::device::Device;
use crate::error::{Error, RankFailure, Result};
use crate::stream::Stream;

/// How often the ends of launches are asked for.
const POLL: Duration = Duration::from_micros(50);

/// How often at first, without a pause: most launches are short.
const SPIN: Duration = Duration::from_millis(1);

impl World {
    /// Waits for everything on the streams of all ranks.
    ///
    /// # Errors
    /// [`Error::OfRank`] for a kernel that ended badly on a rank; on GPUs [`Error::RanksLate`] with the ranks that have not ended within the
    /// [limit](World::with_limit), and with the failure of one on which the others wait. These still run then: only the end of the process gets
    /// their GPUs back. Their memory is not freed before, since that would wait for them.
    pub fn synchronize(&self) -> Result<()> {
        if !self.device(0).is_cuda() {
            // It sees by itself that no rank can go on.
            return self.streams().iter().try_for_each(Stream::synchronize);
        }
        let started = Instant::now();
        let mut running: Vec<usize> = (0..self.ranks()).collect();
        let mut failed: Option<RankFailure> = None;
        loop {
            running.retain(|&rank| match self.stream(rank).is_done() {
                Ok(is_done) => !is_done,
                Err(error) => {
                    failed.get_or_insert_with(|| RankFailure::new(rank, error));
                    false
                }
            });
            if running.is_empty() {
                return failed.map_or(Ok(()), |failure| Err(Error::OfRank(failure)));
            }
            if started.elapsed() >= self.limit {
                return Err(self.give_up(running, failed));
            }
            if started.elapsed() >= SPIN {
                thread::sleep(POLL);
            }
        }
    }

    /// The error that names the ranks that still run. All GPUs are left alone from here on, for those ranks write memory of the others too.
    fn give_up(&self, late: Vec<usize>, failed: Option<RankFailure>) -> Error {
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
