//! Several devices that run as one, as the GPUs of one host do.

use super::{DEFAULT_MEMORY_BYTES, Emulator, WATCHED_CLUSTERS};
use crate::fault::Fault;
use crate::global::{AllocationMap, GlobalMemory, MOST_DEVICES, MemoryError};
use crate::machine::schedule::devices::run_devices;
use crate::machine::state::context::Context;
use crate::machine::state::launch::{Launch, refusal, volume};
use crate::machine::state::overlap::{Launched, Overlap};
use crate::machine::state::peers::{Member, Peers, Right, Windows};
use crate::machine::state::stats::Stats;
use crate::program::{Code, Program};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use target::Target;

/// The devices of one host, each with a rank, its own memory and its own SMs.
///
/// Addresses are disjoint. A device accesses its own memory, and that of others through the windows that [`World::open`] gives it.
#[derive(Debug)]
pub struct World {
    devices: Vec<Emulator>,
    windows: Mutex<Windows>,
}

/// What one rank runs in [`World::launch`].
#[derive(Clone, Copy, Debug)]
pub struct RankLaunch<'a> {
    /// The program of the kernel.
    pub program: &'a Program,
    /// The name of the kernel.
    pub entry: &'a str,
    /// How it is launched.
    pub launch: &'a Launch,
    /// The bytes of its parameters, laid out as the entry declares them.
    pub params: &'a [u8],
}

/// An error of the host's own handling of several devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorldError {
    /// A number of devices that cannot run as one.
    Devices {
        /// How many were asked for.
        asked: usize,
        /// The most there can be.
        most: usize,
    },
    /// A rank that the world does not have.
    Rank {
        /// The rank.
        rank: usize,
        /// How many devices there are.
        devices: usize,
    },
    /// A range that is not inside an allocation of the rank.
    Memory {
        /// The rank that should own it.
        rank: usize,
        /// What is wrong with the range.
        error: MemoryError,
    },
}

impl fmt::Display for WorldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Devices { asked, most } => {
                write!(f, "{asked} devices; 1 to {most} can run as one")
            }
            Self::Rank { rank, devices } => {
                write!(f, "rank {rank} of a world of {devices} devices")
            }
            Self::Memory { rank, error } => write!(f, "memory of rank {rank}: {error}"),
        }
    }
}

impl std::error::Error for WorldError {}

/// A launch of a rank that is ready.
struct Ready {
    code: Arc<Code>,
    variables: Vec<u64>,
    first_cluster: u32,
}

impl World {
    /// So many devices, each with 16 GiB of memory; the host's memory is only used as it is touched.
    pub fn new(devices: usize) -> Result<Self, WorldError> {
        Self::with_memory(devices, DEFAULT_MEMORY_BYTES)
    }

    /// So many devices, each with `bytes` bytes of memory.
    pub fn with_memory(devices: usize, bytes: u64) -> Result<Self, WorldError> {
        if devices == 0 || devices > MOST_DEVICES {
            return Err(WorldError::Devices {
                asked: devices,
                most: MOST_DEVICES,
            });
        }
        let of_rank = |rank| {
            // A device alone has all addresses.
            let memory = if devices == 1 {
                GlobalMemory::new(bytes)
            } else {
                GlobalMemory::of_device(rank as u16, bytes)
            };
            Emulator::with(memory)
        };
        Ok(Self {
            devices: (0..devices).map(of_rank).collect(),
            windows: Mutex::default(),
        })
    }

    /// The same devices with the limits of `target`.
    #[must_use]
    pub fn with_target(self, target: &'static Target) -> Self {
        let devices = self.devices.into_iter();
        Self {
            devices: devices.map(|device| device.with_target(target)).collect(),
            ..self
        }
    }

    /// The devices, by rank.
    pub fn devices(&self) -> &[Emulator] {
        &self.devices
    }

    fn device(&self, rank: usize) -> Result<&Emulator, WorldError> {
        self.devices.get(rank).ok_or(WorldError::Rank {
            rank,
            devices: self.devices.len(),
        })
    }

    /// What it keeps is whole before anything can panic.
    fn windows(&self) -> MutexGuard<'_, Windows> {
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets device `rank` access `bytes` bytes at `address`, which must lie in an allocation of device `owner`. It replaces a window of the
    /// same rank that begins there, and holds for launches from now on.
    pub fn open(
        &self,
        rank: usize,
        owner: usize,
        (address, bytes): (u64, u64),
        right: Right,
    ) -> Result<(), WorldError> {
        self.device(rank)?;
        let memory = self.device(owner)?.memory();
        let inside = memory.first_uninitialised(address, bytes);
        inside.map_err(|error| WorldError::Memory { rank: owner, error })?;
        self.windows().open(rank as u16, (address, bytes), right);
        Ok(())
    }

    /// Takes away the window of device `rank` that begins at `address`.
    pub fn close(&self, rank: usize, address: u64) {
        self.windows().close(rank as u16, address);
    }

    /// Runs one kernel on each device, by rank, all at the same time and to their ends. The launches are one schedule, which their common seed
    /// determines.
    ///
    /// The first fault of any device ends all and is returned; it names the rank.
    pub fn launch(&self, launches: &[RankLaunch<'_>]) -> Result<Vec<Stats>, Box<Fault>> {
        self.check(launches)?;
        let ready = self.prepare(launches)?;
        let maps: Vec<_> = self.devices.iter().map(|d| d.memory().snapshot()).collect();
        let map = Arc::new(AllocationMap::merged(maps.iter()));
        let overlap = watched(launches, &ready, &map);
        let peers = Arc::new(Peers::new(self.windows().clone()));
        let mut contexts = Vec::new();
        for (rank, (of_rank, ready)) in launches.iter().zip(&ready).enumerate() {
            let device = &self.devices[rank];
            let mut context = Context::new(
                (&map, device.target),
                &device.output,
                of_rank.program,
                &ready.code,
                of_rank.launch,
                of_rank.params,
                &ready.variables,
            )
            .map_err(|message| refuse(of_rank, rank, message))?;
            context.overlap.clone_from(&overlap);
            context.member = Member {
                rank: rank as u16,
                first_cluster: ready.first_cluster,
                peers: Some(Arc::clone(&peers)),
            };
            contexts.push(context);
        }
        run_devices(&contexts)
    }

    /// Refuses launches that do not fit each other.
    fn check(&self, launches: &[RankLaunch<'_>]) -> Result<(), Box<Fault>> {
        let devices = self.devices.len();
        let [first, ..] = launches else {
            return Err(Box::new(refusal(
                "",
                format!("no launches for {devices} devices"),
            )));
        };
        if launches.len() != devices {
            let message = format!(
                "{} launches for {devices} devices: each rank runs one",
                launches.len()
            );
            return Err(Box::new(refusal(first.entry, message)));
        }
        for (rank, of_rank) in launches.iter().enumerate() {
            let launch = of_rank.launch;
            if launch.seed != first.launch.seed {
                let message = format!(
                    "rank {rank} has seed {} and rank 0 has seed {}: the launches of all ranks are one schedule",
                    launch.seed, first.launch.seed
                );
                return Err(refuse(of_rank, rank, message));
            }
            let alone = [
                (launch.overlaps_previous, "overlap the previous launch"),
                (launch.beside_host, "run beside the host"),
            ];
            if let Some((_, what)) = alone.iter().find(|(is_asked, _)| *is_asked) {
                let message = format!("a launch of several devices cannot {what}");
                return Err(refuse(of_rank, rank, message));
            }
        }
        Ok(())
    }

    fn prepare(&self, launches: &[RankLaunch<'_>]) -> Result<Vec<Ready>, Box<Fault>> {
        let mut first_cluster: u64 = 0;
        let mut all = Vec::new();
        for (rank, (device, of_rank)) in self.devices.iter().zip(launches).enumerate() {
            let found = device.find(of_rank.program, of_rank.entry);
            let (code, variables) = found.map_err(|fault| of(rank, fault))?;
            all.push(Ready {
                code,
                variables,
                first_cluster: first_cluster as u32,
            });
            let launch = of_rank.launch;
            first_cluster += volume(launch.grid) / volume(launch.cluster).max(1);
        }
        Ok(all)
    }
}

/// What tells races in the memory of all devices, unless nobody asks.
fn watched(
    launches: &[RankLaunch<'_>],
    ready: &[Ready],
    map: &Arc<AllocationMap>,
) -> Option<Arc<Overlap>> {
    let mut launched = Vec::new();
    let mut clusters = 0;
    for (of_rank, ready) in launches.iter().zip(ready) {
        let launch = of_rank.launch;
        if !launch.checks.races || !launch.checks.global {
            return None;
        }
        clusters += volume(launch.grid) / volume(launch.cluster).max(1);
        launched.push(Arc::new(Launched {
            program: of_rank.program.clone(),
            code: Arc::clone(&ready.code),
            launch: launch.clone(),
            first_cluster: ready.first_cluster,
            begins_early: OnceLock::new(),
        }));
    }
    // CTAs of all ranks wait for one another, and each that polls looks at what all of them have released.
    let most = WATCHED_CLUSTERS * launches.len() as u64;
    (clusters <= most).then(|| Arc::new(Overlap::of_devices(launched, map)))
}

fn refuse(of_rank: &RankLaunch<'_>, rank: usize, message: String) -> Box<Fault> {
    of(rank, Box::new(refusal(of_rank.entry, message)))
}

/// The fault with its rank.
fn of(rank: usize, mut fault: Box<Fault>) -> Box<Fault> {
    fault.rank = Some(rank as u32);
    fault
}
