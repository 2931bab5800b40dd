//! Launches on all devices of a world, whose checks are done.

use super::World;
use crate::backend::{Backend, On};
use crate::code::PreparedLaunch;
use crate::emulated::{EmulatedDevice, OfRank, launch_all};
use crate::error::Result;
use crate::launch::EntryShape;
use crate::stream::Stream;

/// A launch on each device of a world, checked and packed: enqueuing it is one call of the driver for each rank.
pub struct WorldLaunch {
    of_ranks: Vec<PreparedLaunch>,
}

pub(super) type EmulatedStream = <EmulatedDevice as Backend>::Stream;

impl WorldLaunch {
    pub(crate) fn new(of_ranks: Vec<PreparedLaunch>) -> WorldLaunch {
        WorldLaunch { of_ranks }
    }

    /// What it launches, by rank.
    pub fn of_ranks(&self) -> &[PreparedLaunch] {
        &self.of_ranks
    }

    /// Puts it on the streams of a world, as [`WorldKernel::enqueue`](crate::WorldKernel::enqueue) does. Launches of several threads are on all ranks in one order.
    ///
    /// Where the launch of one rank fails, those before it are enqueued and may wait for it: the world is of no more use then.
    ///
    /// # Errors
    /// [`Error::Ranks`](crate::Error::Ranks) for a world of another size, and what the devices have against it.
    pub fn enqueue(&self, world: &World) -> Result<()> {
        world.expect_ranks(self.of_ranks.len(), "a launch")?;
        if let Some(streams) = emulated(world.streams()) {
            let launches = self.of_emulators(world.streams())?;
            return EmulatedStream::run_on_all(&streams, move || launch_all(&launches));
        }
        let _order = world.order();
        let mut ranks = self.of_ranks.iter().zip(world.streams());
        ranks.try_for_each(|(launch, stream)| launch.launch(stream))
    }

    /// The same, and waits until all of it has ended.
    ///
    /// # Errors
    /// As for [`enqueue`](WorldLaunch::enqueue) and [`World::synchronize`].
    pub fn launch(&self, world: &World) -> Result<()> {
        self.enqueue(world)?;
        world.synchronize()
    }

    /// The launches of all ranks for the emulator, which runs them as one schedule.
    fn of_emulators(&self, streams: &[Stream]) -> Result<Vec<OfRank>> {
        let mut launches = Vec::with_capacity(self.of_ranks.len());
        for (launch, stream) in self.of_ranks.iter().zip(streams) {
            let (entry, parameters) = (launch.entry(), launch.parameters());
            let both = stream.with("a kernel", entry.device(), entry.function())?;
            let On::Emulator((_, function)) = both else {
                unreachable!(
                    "the streams of a world are of one backend, and so is what is with them"
                );
            };
            launch.note_use();
            let shape = entry.shape();
            let in_flight = stream.in_flight();
            let overlaps = in_flight.next(&shape.name, shape.overlaps_previous, parameters)?;
            launches.push(OfRank {
                entry: function.clone(),
                shape: EntryShape {
                    overlaps_previous: overlaps,
                    ..shape.clone()
                },
                grid: launch.grid(),
                parameters: parameters.clone(),
            });
        }
        Ok(launches)
    }
}

/// The streams as those of emulators, if they are.
pub(super) fn emulated(streams: &[Stream]) -> Option<Vec<&EmulatedStream>> {
    let queues = streams.iter().map(|stream| match stream.queue() {
        On::Cuda(_) => None,
        On::Emulator(stream) => Some(stream),
    });
    queues.collect()
}
