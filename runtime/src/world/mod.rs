//! Several devices of one host that run as one: memory that all of them access, and launches on all of them.

mod graph;
mod kernel;
mod launch;
#[cfg(unix)]
mod processes;
mod symmetric;
mod wait;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::backend::On;
use crate::device::Device;
use crate::emulated::{EmulatedDevice, EmulatorOptions};
use crate::error::{Error, Result};
use crate::mapped::MappedBuffer;
use crate::stream::Stream;

pub use graph::WorldGraph;
pub use kernel::WorldKernel;
pub use launch::WorldLaunch;
#[cfg(unix)]
pub use processes::{ProcessPeers, ProcessSymmetric, ProcessWorld};
pub use symmetric::{Peers, Symmetric};

/// How long a launch may take, unless [`World::with_limit`] says otherwise.
const DEFAULT_LIMIT: Duration = Duration::from_secs(10);

/// Devices of one host, each with a rank from 0, that access each other's memory.
///
/// One process holds all of them. [`symmetric`](World::symmetric) makes memory that every rank has and all access, [`load`](World::load) puts a kernel
/// on all of them, whose launches are on all of them too. Each rank has a [stream](World::stream), on which launches on all ranks go; what is launched on one rank alone
/// goes there as well, and is in order with them.
pub struct World {
    devices: Vec<Device>,
    streams: Vec<Stream>,
    /// By rank, what a wait that ended by its limit has stored.
    late: Vec<MappedBuffer<i64>>,
    limit: Duration,
    /// Held while work goes to the streams of all ranks, which has to be in one order on all of them.
    order: Mutex<()>,
}

impl World {
    /// `ranks` emulated devices, at most 16. A launch on all of them is one schedule, which the seed of the options determines.
    ///
    /// # Errors
    /// [`Error::Ranks`] for a number that cannot be.
    pub fn emulators(ranks: usize, options: EmulatorOptions) -> Result<World> {
        let devices = EmulatedDevice::several(ranks, options)?.into_iter();
        let devices = devices.map(|device| Device::of_backend(On::Emulator(Arc::new(device))));
        World::of(devices.collect())
    }

    /// The GPUs 0 to `ranks` - 1 of those that `CUDA_VISIBLE_DEVICES` shows, each with access to the memory of the others.
    ///
    /// # Errors
    /// [`Error::Ranks`] for none, what [`Device::cuda`] says of a GPU that is not there, [`Error::NoPeerAccess`] for two GPUs without a connection.
    pub fn cuda(ranks: usize) -> Result<World> {
        if ranks == 0 {
            return Err(Error::Ranks {
                message: "0 devices; at least 1 runs".to_owned(),
            });
        }
        let devices: Vec<Device> = (0..ranks).map(Device::cuda).collect::<Result<_>>()?;
        if let Some(rank) = devices.iter().position(Device::is_abandoned) {
            return Err(Error::Ranks {
                message: format!(
                    "GPU {rank} still runs a kernel of this process that did not end within its limit; only another process gets the GPU"
                ),
            });
        }
        for (from, device) in devices.iter().enumerate() {
            for (to, peer) in devices.iter().enumerate() {
                if from == to {
                    continue;
                }
                if !device.can_access(to)? {
                    return Err(Error::NoPeerAccess { from, to });
                }
                if let (On::Cuda(context), On::Cuda(other)) = (device.backend(), peer.backend()) {
                    context.enable_access(other)?;
                }
            }
        }
        World::of(devices)
    }

    fn of(devices: Vec<Device>) -> Result<World> {
        let streams = devices.iter().map(Stream::new).collect::<Result<_>>()?;
        let late = devices.iter().map(|device| MappedBuffer::zeros(device, 1));
        Ok(World {
            late: late.collect::<Result<_>>()?,
            devices,
            streams,
            limit: DEFAULT_LIMIT,
            order: Mutex::default(),
        })
    }

    /// The same with another limit of time for a launch on GPUs, 10 s by default. The emulator needs none: it sees that no rank can go on.
    #[must_use]
    pub fn with_limit(self, limit: Duration) -> World {
        World { limit, ..self }
    }

    /// Work of another thread goes to no stream until this is dropped.
    pub(crate) fn order(&self) -> MutexGuard<'_, ()> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many devices there are.
    pub fn ranks(&self) -> usize {
        self.devices.len()
    }

    /// The devices, by rank.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// The streams on which launches on all ranks go, by rank.
    pub fn streams(&self) -> &[Stream] {
        &self.streams
    }

    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }

    /// A word of the host for the waits of a rank's kernels that have a limit ([`Signals::within`](library::Signals::within)): [`synchronize`](World::synchronize) reads
    /// there what a kernel that failed had waited for, and says so.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn late(&self, rank: usize) -> &MappedBuffer<i64> {
        &self.late[rank]
    }

    /// The device of a rank.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn device(&self, rank: usize) -> &Device {
        &self.devices[rank]
    }

    /// The stream of a rank, for work of that rank alone that is in order with the launches on all ranks.
    ///
    /// On the emulator such work ends before the next is given: of launches that wait for each other, one would wait for ever. Those are one
    /// [`WorldKernel::enqueue`].
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn stream(&self, rank: usize) -> &Stream {
        &self.streams[rank]
    }

    /// An error unless `what` is on as many ranks as this world has.
    fn expect_ranks(&self, ranks: usize, what: &str) -> Result<()> {
        let own = self.ranks();
        if own == ranks {
            return Ok(());
        }
        Err(Error::Ranks {
            message: format!("{what} on {ranks} ranks was given to a world of {own}"),
        })
    }
}
