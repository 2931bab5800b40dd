//! Kernels on all devices of a world.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::World;
use crate::backend::On;
use crate::code::Entry;
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
        let mut blocks = Vec::with_capacity(ranks);
        for (rank, kernel) in self.of_ranks.iter().enumerate() {
            let mut parameters = ParameterBlock::new();
            kernel.pack(&arguments(rank), &mut parameters)?;
            kernel.entry().check(grid, &parameters)?;
            blocks.push(parameters);
        }
        self.launch_packed(world, grid, &blocks)
    }

    fn launch_packed(&self, world: &World, grid: Grid, blocks: &[ParameterBlock]) -> Result<()> {
        let entries: Vec<&Arc<Entry>> = self.of_ranks.iter().map(LoadedKernel::entry).collect();
        let emulated = entries
            .iter()
            .zip(blocks)
            .filter_map(|(entry, parameters)| {
                let On::Emulator(function) = entry.function() else {
                    return None;
                };
                Some(OfRank {
                    entry: function,
                    shape: entry.shape(),
                    grid,
                    parameters,
                })
            });
        let emulated: Vec<OfRank<'_>> = emulated.collect();
        if emulated.len() == entries.len() {
            return launch_all(&emulated);
        }
        for (rank, entry) in entries.iter().enumerate() {
            entry.launch_checked(&world.streams()[rank], grid, &blocks[rank])?;
        }
        self.wait(world)
    }

    /// Waits for all ranks, up to the limit.
    fn wait(&self, world: &World) -> Result<()> {
        let (started, limit) = (Instant::now(), world.limit());
        loop {
            let mut late = Vec::new();
            for (rank, stream) in world.streams().iter().enumerate() {
                if !stream.is_done()? {
                    late.push(rank);
                }
            }
            if late.is_empty() {
                return Ok(());
            }
            if started.elapsed() >= limit {
                let kernel = self.of_ranks[0].entry().shape().name.clone();
                return Err(Error::RanksLate {
                    kernel,
                    late,
                    ranks: world.ranks(),
                    limit,
                });
            }
            thread::sleep(POLL);
        }
    }
}
