//! Kernels on all devices of a world.

use library::schedule::Resident;

use super::{World, WorldLaunch};
use crate::code::PreparedLaunch;
use crate::error::{Error, Result};
use crate::kernel::{Arguments, CompiledKernel, LoadedKernel};
use crate::launch::{Grid, ParameterBlock};

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
    /// As for [`enqueue`](WorldKernel::enqueue) and [`World::synchronize`].
    pub fn launch<A: Arguments<H>>(
        &self,
        world: &World,
        grid: impl Into<Grid>,
        arguments: impl Fn(usize) -> A,
    ) -> Result<()> {
        self.enqueue(world, grid, arguments)?;
        world.synchronize()
    }

    /// Puts a launch of `grid` CTAs on the [stream](World::stream) of each rank, with the arguments that `arguments` gives for it, and does not wait.
    /// [`World::synchronize`] does, and a [capture](World::capture) records it. On the emulator all ranks run here, as one schedule, to their ends.
    ///
    /// # Errors
    /// [`Error::Ranks`] for a world of another size; what a launch on one device would end with; on the emulator [`Error::Fault`] for a race or a
    /// deadlock across ranks.
    pub fn enqueue<A: Arguments<H>>(
        &self,
        world: &World,
        grid: impl Into<Grid>,
        arguments: impl Fn(usize) -> A,
    ) -> Result<()> {
        world.expect_ranks(self.of_ranks.len(), "a kernel")?;
        let grid = grid.into();
        let mut packed = Vec::with_capacity(self.of_ranks.len());
        for (rank, kernel) in self.of_ranks.iter().enumerate() {
            let mut parameters = ParameterBlock::new();
            kernel.pack(&arguments(rank), &mut parameters)?;
            packed.push(PreparedLaunch::new(kernel.entry(), grid, parameters)?);
        }
        WorldLaunch::new(packed).enqueue(world)
    }

    /// The same launch, packed and checked once to be repeated. It keeps the memory of its buffers.
    ///
    /// # Errors
    /// As for [`LoadedKernel::prepare`], of any rank.
    pub fn prepare<A: Arguments<H>>(
        &self,
        grid: impl Into<Grid>,
        arguments: impl Fn(usize) -> A,
    ) -> Result<WorldLaunch> {
        let grid = grid.into();
        let kernels = self.of_ranks.iter().enumerate();
        let of_ranks = kernels.map(|(rank, kernel)| kernel.prepare(grid, arguments(rank)));
        Ok(WorldLaunch::new(of_ranks.collect::<Result<_>>()?))
    }

    /// The same kernel, but its launches may start before those in front of them on the streams have ended, as
    /// [`LoadedKernel::programmatic`] says.
    ///
    /// # Errors
    /// [`Error::NeverWaits`] for a kernel without `launch_wait()`, which would race.
    pub fn programmatic(&self) -> Result<WorldKernel<H>> {
        let of_ranks = self.of_ranks.iter().map(LoadedKernel::programmatic);
        Ok(WorldKernel {
            of_ranks: of_ranks.collect::<Result<_>>()?,
        })
    }

    /// The CTAs of this kernel that every device runs at a time: the fewest of all ranks.
    ///
    /// # Errors
    /// [`Error::NotEmulated`] on the emulator, which runs any number at a time.
    pub fn resident(&self) -> Result<Resident> {
        let of_ranks = self.of_ranks.iter().map(LoadedKernel::resident);
        let fewest = of_ranks.reduce(|fewest, of_rank| {
            let (fewest, of_rank) = (fewest?, of_rank?);
            Ok(if of_rank.ctas < fewest.ctas {
                of_rank
            } else {
                fewest
            })
        });
        fewest.unwrap_or_else(|| {
            Err(Error::Ranks {
                message: "a kernel on no device".to_owned(),
            })
        })
    }

    /// The kernel of one rank, for its facts and for launches on that rank alone.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn of_rank(&self, rank: usize) -> &LoadedKernel<H> {
        &self.of_ranks[rank]
    }
}
