//! Kernels on all devices of a world.

use std::thread;
use std::time::{Duration, Instant};

use super::World;
use crate::backend::On;
use crate::code::PreparedLaunch;
use crate::emulated::{OfRank, launch_all};
use crate::error::{Error, Result};
use crate::kernel::{Arguments, CompiledKernel, LoadedKernel};
use crate::launch::{Grid, ParameterBlock};

/// How often the ends of launches are asked for.
const POLL: Duration = Duration::from_micros(50);

/// A kernel on all devices of a world, ready to be launched.
pub struct WorldKernel<H> {
    of_ranks: Vec<LoadedKernel<H>>,
}

impl World {
    /// Puts a kernel on all devices.
    ///
    /// # Errors
    /// As for [`CompiledKernel::load`].
    pub fn load<H>(&self, kernel: &CompiledKernel<H>) -> Result<WorldKernel<H>> {
        let devices = self.devices().iter();
        let of_ranks = devices.map(|device| kernel.clone().load(device));
        Ok(WorldKernel {
            of_ranks: of_ranks.collect::<Result<_>>()?,
        })
    }
}

impl<H> WorldKernel<H> {
    /// Launches `grid` CTAs on each rank, with the arguments that `arguments` gives for it, and waits until all of them have ended.
    ///
    /// # Errors
    /// [`Error::Ranks`] for a world of another size; what a launch on one device would end with, with the rank; on the emulator
    /// [`Error::Fault`] for a race or a deadlock across ranks; on GPUs [`Error::RanksLate`] with the ranks that have not ended within the [limit](World::with_limit). These
    /// still run then: only the end of the process gets their GPUs back.
    pub fn launch<A: Arguments<H>>(
        &self,
        world: &World,
        grid: impl Into<Grid>,
        arguments: impl Fn(usize) -> A,
    ) -> Result<()> {
        let (ranks, loaded) = (world.ranks(), self.of_ranks.len());
        if ranks != loaded {
            return Err(Error::Ranks {
                message: format!("a launch on {ranks} ranks of a kernel that is on {loaded}"),
            });
        }
        let grid = grid.into();
        let mut launches = Vec::with_capacity(ranks);
        for (rank, kernel) in self.of_ranks.iter().enumerate() {
            let mut parameters = ParameterBlock::new();
            kernel.pack(&arguments(rank), &mut parameters)?;
            launches.push(PreparedLaunch::new(kernel.entry(), grid, parameters)?);
        }
        world.launch(&launches)
    }
}

impl World {
    /// Launches on each rank what is prepared for it, and waits until all of them have ended.
    pub(crate) fn launch(&self, launches: &[PreparedLaunch]) -> Result<()> {
        let emulated = launches.iter().filter_map(|launch| {
            let entry = launch.entry();
            let On::Emulator(function) = entry.function() else {
                return None;
            };
            Some(OfRank {
                entry: function,
                shape: entry.shape(),
                grid: launch.grid(),
                parameters: launch.parameters(),
            })
        });
        let emulated: Vec<OfRank<'_>> = emulated.collect();
        if emulated.len() == launches.len() {
            return launch_all(&emulated);
        }
        for (launch, stream) in launches.iter().zip(self.streams()) {
            launch.launch(stream)?;
        }
        self.wait(launches)
    }

    /// Waits for all ranks, up to the limit.
    fn wait(&self, launches: &[PreparedLaunch]) -> Result<()> {
        let (started, limit) = (Instant::now(), self.limit());
        loop {
            let mut late = Vec::new();
            for (rank, stream) in self.streams().iter().enumerate() {
                if !stream.is_done()? {
                    late.push(rank);
                }
            }
            if late.is_empty() {
                return Ok(());
            }
            if started.elapsed() >= limit {
                let first = launches.first();
                return Err(Error::RanksLate {
                    kernel: first
                        .map_or_else(String::new, |launch| launch.entry().shape().name.clone()),
                    late,
                    ranks: self.ranks(),
                    limit,
                });
            }
            thread::sleep(POLL);
        }
    }
}
