//! The emulator as a device: memory at made-up addresses, and launches, which end before they return unless they share memory with the host.

mod backend;
mod mapped;
mod model;
mod queue;
mod recording;
mod stream;

use std::io::Write;
use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex, PoisonError};

use emulator::{
    Announced, Emulator, GlobalMemory, Launch, MemoryError, Program, RankLaunch, Right, Stats,
    World, WorldError,
};

/// What the emulator checks beyond what it cannot do without.
pub use emulator::Checks;

use crate::device::DeviceFacts;
use crate::error::Error;
use crate::launch::{EntryShape, Grid, ParameterBlock};
pub(crate) use model::Whole;
pub use model::{Bound, Modelled};
use queue::{BusyQueues, wait_for_all};

/// How the emulator runs launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmulatorOptions {
    /// Selects the schedule: the order of warps, and when asynchronous work completes; 0 is round robin.
    pub seed: u64,
    /// The most warp instructions that a cluster may execute, against endless loops.
    pub max_steps: u64,
    /// What is checked.
    pub checks: Checks,
    /// Whether what kernels print goes to the standard output.
    pub prints: bool,
    /// Whether time is modelled: clocks that kernels read are the model's.
    pub is_timed: bool,
    /// The most clusters of a launch that run where time is modelled: some that stand for all. What the others would have stored is not
    /// stored. The device has the SMs of an H200 then. `None` runs all. Launches whose CTAs wait for each other run all in any case.
    pub most_clusters: Option<u32>,
}

impl Default for EmulatorOptions {
    /// Round robin, all checks, and a limit that no kernel of a sensible size meets.
    fn default() -> EmulatorOptions {
        let Launch {
            seed,
            max_steps,
            checks,
            ..
        } = Launch::default();
        EmulatorOptions {
            seed,
            max_steps,
            checks,
            prints: true,
            is_timed: false,
            most_clusters: None,
        }
    }
}

/// An emulated device with its memory, and what the last launch did.
pub(crate) struct EmulatedDevice {
    /// Alone, or with others that run as one.
    world: Arc<World>,
    rank: usize,
    facts: DeviceFacts,
    options: EmulatorOptions,
    stats: Mutex<Option<Stats>>,
    busy: BusyQueues,
}

/// Device memory of the emulator, bytes. It is taken from the host only as it is used.
const MEMORY_BYTES: u64 = 64 << 30;

impl EmulatedDevice {
    /// A device that runs launches as `options` say.
    pub(crate) fn new(options: EmulatorOptions) -> EmulatedDevice {
        let world = World::with_memory(1, MEMORY_BYTES).expect("one device can run");
        EmulatedDevice::of_rank(&Arc::new(world), 0, options)
    }

    /// Devices that run as one, by rank.
    pub(crate) fn several(
        ranks: usize,
        options: EmulatorOptions,
    ) -> Result<Vec<EmulatedDevice>, WorldError> {
        let world = Arc::new(World::with_memory(ranks, MEMORY_BYTES)?);
        let of_rank = |rank| EmulatedDevice::of_rank(&world, rank, options);
        Ok((0..ranks).map(of_rank).collect())
    }

    fn of_rank(world: &Arc<World>, rank: usize, options: EmulatorOptions) -> EmulatedDevice {
        let target = world.devices()[rank].target();
        let (major, minor) = target.compute_capability;
        EmulatedDevice {
            world: Arc::clone(world),
            rank,
            facts: DeviceFacts {
                name: "emulator".to_string(),
                capability: (major, minor),
                multiprocessors: match options.most_clusters {
                    Some(_) => emulator::SM_COUNT,
                    None => {
                        std::thread::available_parallelism().map_or(1, |count| count.get() as u32)
                    }
                },
                memory_bytes: MEMORY_BYTES as usize,
                l2_bytes: 0,
                shared_bytes_per_cta: target.cta.shared_bytes,
                clock_khz: 0,
                memory_clock_khz: 0,
                memory_bus_bits: 0,
                driver_version: None,
            },
            options,
            stats: Mutex::new(None),
            busy: BusyQueues::default(),
        }
    }

    /// The device.
    fn emulator(&self) -> &Emulator {
        &self.world.devices()[self.rank]
    }

    /// Lets a rank access memory of this device.
    pub(crate) fn open_to(&self, rank: usize, address: u64, bytes: u64) -> Result<(), WorldError> {
        let range = (address, bytes);
        self.world.open(rank, self.rank, range, Right::ReadWrite)
    }

    /// Takes that away.
    pub(crate) fn close_to(&self, rank: usize, address: u64) {
        self.world.close(rank, address);
    }

    /// Keeps what a launch did, and shows what it printed.
    fn ended(&self, stats: Option<Stats>) {
        // As on a GPU: what kernels print goes to the standard output, and nobody can be told if that is closed.
        let printed = self.emulator().take_output();
        if self.options.prints {
            let _ = std::io::stdout().write_all(printed.as_bytes());
        }
        if let Some(stats) = stats {
            *self.stats.lock().unwrap_or_else(PoisonError::into_inner) = Some(stats);
        }
    }

    /// Free and total memory, in bytes.
    fn free_and_total_bytes(&self) -> (usize, usize) {
        let memory = self.emulator().memory();
        let total = memory.limit_bytes();
        (
            total.saturating_sub(memory.used_bytes()) as usize,
            total as usize,
        )
    }

    /// Do launches stand for those of an H200, of which only their time is asked?
    pub(crate) fn is_modelling(&self) -> bool {
        self.options.is_timed && self.options.most_clusters.is_some()
    }

    /// How it runs launches.
    pub(crate) fn options(&self) -> EmulatorOptions {
        self.options
    }

    /// What the last launch that ended well did.
    pub(crate) fn stats(&self) -> Option<Stats> {
        self.stats
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// An allocation in the emulator's memory, freed when dropped. Zero bytes have address 0, as on a GPU.
pub(crate) struct EmulatedMemory {
    device: Arc<EmulatedDevice>,
    address: u64,
    bytes: usize,
}

/// A buffer's own range is inside its own allocation, which lives as long as the buffer.
const OWN: &str = "an allocation holds its own bytes";

impl EmulatedMemory {
    /// Allocates `bytes` that count as not yet written.
    pub(crate) fn allocate(
        device: &Arc<EmulatedDevice>,
        bytes: usize,
    ) -> Result<EmulatedMemory, Error> {
        EmulatedMemory::allocate_by(device, bytes, |memory| memory.alloc(bytes as u64))
    }

    /// Allocates `bytes` by `allocate`.
    fn allocate_by(
        device: &Arc<EmulatedDevice>,
        bytes: usize,
        allocate: impl FnOnce(&GlobalMemory) -> Result<u64, MemoryError>,
    ) -> Result<EmulatedMemory, Error> {
        let address = if bytes == 0 {
            Ok(0)
        } else {
            allocate(device.emulator().memory())
        };
        let (free_bytes, total_bytes) = device.free_and_total_bytes();
        let address = address.map_err(|_| Error::OutOfMemory {
            asked_bytes: bytes,
            free_bytes,
            total_bytes,
        })?;
        Ok(EmulatedMemory {
            device: Arc::clone(device),
            address,
            bytes,
        })
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// Copies from the host. Everything on the device is finished before, as for the others.
    pub(crate) fn write(&self, source: &[u8]) -> Result<(), Error> {
        wait_for_all(&self.device.busy)?;
        self.access(|memory| memory.write(self.address, source));
        Ok(())
    }

    /// Copies to the host and returns the bytes as initialised.
    pub(crate) fn read<'a>(
        &self,
        target: &'a mut [MaybeUninit<u8>],
    ) -> Result<&'a mut [u8], Error> {
        wait_for_all(&self.device.busy)?;
        Ok(target.write_copy_of_slice(&self.content()))
    }

    /// Sets every byte.
    pub(crate) fn fill(&self, byte: u8) -> Result<(), Error> {
        wait_for_all(&self.device.busy)?;
        self.access(|memory| memory.fill(self.address, self.bytes as u64, byte));
        Ok(())
    }

    /// Where it lies, for work that may come after it is freed.
    pub(crate) fn room(&self) -> Room {
        Room {
            device: Arc::clone(&self.device),
            address: self.address,
            bytes: self.bytes,
        }
    }

    /// Sets every element of `element_bytes` bytes of which some byte was never written to `byte`, so that it can be
    /// told from a written one.
    pub(crate) fn mark_unwritten(&self, element_bytes: usize, byte: u8) {
        let element_bytes = element_bytes as u64;
        let end = self.address + self.bytes as u64;
        let mut start = self.address;
        self.access(|memory| {
            while start < end
                && let Some(offset) = memory.first_uninitialised(start, end - start)?
            {
                let element = (start + offset - self.address) / element_bytes;
                let at = self.address + element * element_bytes;
                memory.fill(at, element_bytes, byte)?;
                start = at + element_bytes;
            }
            Ok(())
        });
    }

    fn content(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.bytes];
        self.access(|memory| memory.read(self.address, &mut bytes));
        bytes
    }

    fn access(&self, access: impl FnOnce(&GlobalMemory) -> Result<(), MemoryError>) {
        if self.bytes > 0 {
            access(self.device.emulator().memory()).expect(OWN);
        }
    }
}

impl Drop for EmulatedMemory {
    fn drop(&mut self) {
        self.access(|memory| memory.free(self.address));
    }
}

/// The place of an allocation, which may be freed in between.
pub(crate) struct Room {
    device: Arc<EmulatedDevice>,
    address: u64,
    bytes: usize,
}

impl Room {
    /// Sets every byte.
    pub(crate) fn fill(&self, byte: u8) -> Result<(), Error> {
        self.access(|memory| memory.fill(self.address, self.bytes as u64, byte))
    }

    /// Copies the whole of `source`, which is as long.
    pub(crate) fn copy_from(&self, source: &Room) -> Result<(), Error> {
        let mut bytes = vec![0; source.bytes];
        source.access(|memory| memory.read(source.address, &mut bytes))?;
        self.access(|memory| memory.write(self.address, &bytes))
    }

    fn access(
        &self,
        access: impl FnOnce(&GlobalMemory) -> Result<(), MemoryError>,
    ) -> Result<(), Error> {
        if self.bytes == 0 {
            return Ok(());
        }
        access(self.device.emulator().memory()).map_err(|_| Error::BufferGone {
            address: self.address,
        })
    }
}

/// A module that the emulator can execute.
pub(crate) struct EmulatedCode {
    device: Arc<EmulatedDevice>,
    module: Arc<ptx::Module>,
    program: Arc<LoadedProgram>,
}

/// A program and the device that holds its variables, which are freed with it.
struct LoadedProgram {
    device: Arc<EmulatedDevice>,
    program: Program,
}

/// An entry of such a module.
#[derive(Clone)]
pub(crate) struct EmulatedEntry {
    program: Arc<LoadedProgram>,
    parameter_bytes: Box<[u32]>,
}

impl EmulatedCode {
    /// Decodes a module.
    pub(crate) fn load(
        device: &Arc<EmulatedDevice>,
        module: Arc<ptx::Module>,
    ) -> Result<EmulatedCode, Error> {
        let program = Program::load(&module)?;
        let program = LoadedProgram {
            device: Arc::clone(device),
            program,
        };
        Ok(EmulatedCode {
            device: Arc::clone(device),
            module,
            program: Arc::new(program),
        })
    }

    /// The entry `name`, to be launched with `shared_bytes` of dynamic shared memory per CTA.
    pub(crate) fn entry(&self, name: &str, shared_bytes: u32) -> Result<EmulatedEntry, Error> {
        let no_such_entry = || Error::NoSuchEntry {
            name: name.to_string(),
        };
        let entry = self.module.entry(name).ok_or_else(no_such_entry)?;
        let limit_bytes = self.device.facts.shared_bytes_per_cta;
        if shared_bytes > limit_bytes {
            let kernel = name.to_string();
            return Err(Error::TooMuchSharedMemory {
                kernel,
                asked_bytes: shared_bytes,
                limit_bytes,
            });
        }
        Ok(EmulatedEntry {
            program: Arc::clone(&self.program),
            parameter_bytes: entry
                .params
                .iter()
                .map(|param| param.size_bytes() as u32)
                .collect(),
        })
    }
}

impl EmulatedEntry {
    /// Size of each parameter, bytes.
    pub(crate) fn parameter_bytes(&self) -> &[u32] {
        &self.parameter_bytes
    }

    /// Runs the entry to its end, and prints what it printed.
    pub(crate) fn launch(
        &self,
        shape: &EntryShape,
        grid: Grid,
        parameters: &ParameterBlock,
    ) -> Result<(), Error> {
        self.run(&self.announce(shape, grid, parameters)?, parameters)
    }

    /// A launch that [`run`](EmulatedEntry::run) runs later.
    pub(crate) fn announce(
        &self,
        shape: &EntryShape,
        grid: Grid,
        parameters: &ParameterBlock,
    ) -> Result<Announced, Error> {
        let LoadedProgram { device, program } = &*self.program;
        let launch = self.described(shape, grid, parameters);
        Ok(device.emulator().announce(program, &shape.name, &launch)?)
    }

    /// Runs a launch that was announced, and prints what it printed.
    pub(crate) fn run(
        &self,
        announced: &Announced,
        parameters: &ParameterBlock,
    ) -> Result<(), Error> {
        let LoadedProgram { device, program } = &*self.program;
        let ended = device
            .emulator()
            .run(program, announced, parameters.bytes());
        device.ended(ended.as_ref().ok().cloned());
        ended?;
        Ok(())
    }

    /// How it is launched.
    fn described(&self, shape: &EntryShape, grid: Grid, parameters: &ParameterBlock) -> Launch {
        let options = &self.program.device.options;
        Launch {
            grid: grid.counts(),
            block: shape.threads,
            cluster: shape.cluster,
            is_cooperative: shape.is_cooperative,
            beside_host: parameters.is_beside_host(),
            dynamic_shared_bytes: shape.shared_bytes,
            overlaps_previous: shape.overlaps_previous,
            seed: options.seed,
            max_steps: options.max_steps,
            checks: options.checks,
            is_timed: options.is_timed,
            representatives: representatives(options, shape, grid),
        }
    }
}

/// What one rank launches.
pub(crate) struct OfRank {
    pub(crate) entry: EmulatedEntry,
    pub(crate) shape: EntryShape,
    pub(crate) grid: Grid,
    pub(crate) parameters: ParameterBlock,
}

/// Runs one entry on each of the devices that run as one, by rank, to their ends. Other work of the devices has ended.
pub(crate) fn launch_all(ranks: &[OfRank]) -> Result<(), Error> {
    let Some(first) = ranks.first() else {
        return Ok(());
    };
    let devices = ranks.iter().map(|rank| &rank.entry.program.device);
    // The host waits for the end, so that it accesses memory of its own before the launch or behind it.
    let described = |rank: &OfRank| {
        let OfRank { entry, shape, .. } = rank;
        let described = entry.described(shape, rank.grid, &rank.parameters);
        Launch {
            beside_host: false,
            ..described
        }
    };
    let launches: Vec<Launch> = ranks.iter().map(described).collect();
    let of_ranks = ranks
        .iter()
        .zip(&launches)
        .map(|(rank, launch)| RankLaunch {
            program: &rank.entry.program.program,
            entry: &rank.shape.name,
            launch,
            params: rank.parameters.bytes(),
        });
    let world = &first.entry.program.device.world;
    let ended = world.launch(&of_ranks.collect::<Vec<_>>());
    for (rank, device) in devices.enumerate() {
        device.ended(ended.as_ref().ok().map(|stats| stats[rank].clone()));
    }
    ended?;
    Ok(())
}

/// The clusters that stand for all of a launch: the first, the last, and some between.
fn representatives(options: &EmulatorOptions, shape: &EntryShape, grid: Grid) -> Option<Vec<u64>> {
    let most = u64::from(options.most_clusters?);
    let of = |counts: [u32; 3]| counts.into_iter().map(u64::from).product::<u64>();
    let clusters = of(grid.counts()) / of(shape.cluster).max(1);
    let stand = most.min(clusters);
    let places = (0..stand).map(|at| at * (clusters - 1) / (stand - 1).max(1));
    (!shape.is_cooperative).then(|| places.collect())
}

impl Drop for LoadedProgram {
    fn drop(&mut self) {
        self.device
            .emulator()
            .forget(&self.program)
            .expect("a program's variables are allocations of its device");
    }
}
