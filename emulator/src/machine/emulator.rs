//! An emulated device: its memory, and launches.

pub(crate) mod world;

use crate::fault::Fault;
use crate::global::{AllocationMap, GlobalMemory, MemoryError};
use crate::machine::memory::host::{HostAccess, access_beside};
use crate::machine::schedule::clusters::run_launch;
use crate::machine::state::context::Context;
use crate::machine::state::launch::{Launch, refusal, volume};
use crate::machine::state::overlap::{Launched, Overlap};
use crate::machine::state::stats::Stats;
use crate::program::{Code, Program};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use target::{SM_90A, Target};

/// Device memory of an emulated device; an H200 has 141 GB, of which a host rarely has as much.
const DEFAULT_MEMORY_BYTES: u64 = 16 << 30;

/// An emulated device: memory, and launches that use it.
///
/// One launch runs its CTAs on all cores. Launches of different threads may overlap, as on different streams.
#[derive(Debug)]
pub struct Emulator {
    /// The machine whose limits hold.
    target: &'static Target,
    memory: GlobalMemory,
    output: Mutex<String>,
    /// Addresses of the `.global` variables of programs that were launched.
    variables: Mutex<HashMap<u64, Vec<u64>>>,
    /// What the last launch accessed, which the next one may overlap.
    last: Mutex<Option<Arc<Overlap>>>,
    /// Launches beside the host, while they are watched.
    beside: Mutex<Vec<(Weak<()>, Arc<Overlap>)>>,
}

/// A launch that has its place in order and has not run: see [`Emulator::announce`].
#[derive(Debug)]
pub struct Announced {
    code: Arc<Code>,
    launch: Launch,
    variables: Vec<u64>,
    map: Arc<AllocationMap>,
    overlap: Option<Arc<Overlap>>,
    /// While it lives, accesses of the host are watched.
    _watch: Option<Arc<()>>,
}

/// Clusters of a cooperative launch up to which races in global memory are watched.
const WATCHED_CLUSTERS: u64 = 256;

impl Emulator {
    /// A device with 16 GiB of memory; the host's memory is only used as it is touched.
    pub fn new() -> Self {
        Self::with_memory(DEFAULT_MEMORY_BYTES)
    }

    /// A device with `bytes` bytes of memory.
    pub fn with_memory(bytes: u64) -> Self {
        Self::with(GlobalMemory::new(bytes))
    }

    fn with(memory: GlobalMemory) -> Self {
        Self {
            target: &SM_90A,
            memory,
            output: Mutex::new(String::new()),
            variables: Mutex::new(HashMap::new()),
            last: Mutex::new(None),
            beside: Mutex::new(Vec::new()),
        }
    }

    /// The same device with the limits of `target`.
    #[must_use]
    pub fn with_target(self, target: &'static Target) -> Self {
        Self { target, ..self }
    }

    /// The machine whose limits hold.
    pub fn target(&self) -> &'static Target {
        self.target
    }

    /// Device memory.
    pub fn memory(&self) -> &GlobalMemory {
        &self.memory
    }

    /// Takes what kernels have printed (`vprintf`) since the last call.
    pub fn take_output(&self) -> String {
        std::mem::take(&mut self.output.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Runs `entry` of `program` to its end. `params` are the bytes of the parameters, laid out as the entry
    /// declares them, each at its own alignment.
    ///
    /// The fault of the CTA with the lowest number is returned; memory then holds what was stored until then.
    pub fn launch(
        &self,
        program: &Program,
        entry: &str,
        launch: &Launch,
        params: &[u8],
    ) -> Result<Stats, Box<Fault>> {
        self.run(program, &self.announce(program, entry, launch)?, params)
    }

    /// A launch that [`run`](Self::run) runs later. It sees the allocations of now; if it runs beside the host
    /// ([`Launch::beside_host`]), [`host_access`](Self::host_access) watches the host from now on until this is dropped.
    pub fn announce(
        &self,
        program: &Program,
        entry: &str,
        launch: &Launch,
    ) -> Result<Announced, Box<Fault>> {
        let (code, variables) = self.find(program, entry)?;
        let map = self.memory.snapshot();
        let launched = Launched {
            program: program.clone(),
            code: Arc::clone(&code),
            launch: launch.clone(),
            first_cluster: 0,
            begins_early: OnceLock::new(),
        };
        let overlap = self.watched(launched, &map);
        let watch = overlap.as_ref().filter(|_| launch.beside_host);
        let watch = watch.map(|overlap| self.watch_host(overlap));
        Ok(Announced {
            code,
            launch: launch.clone(),
            variables,
            map,
            overlap,
            _watch: watch,
        })
    }

    /// A kernel, and the addresses of the variables of its program.
    fn find(&self, program: &Program, entry: &str) -> Result<(Arc<Code>, Vec<u64>), Box<Fault>> {
        let refuse = |message: String| Box::new(refusal(entry, message));
        let code = program.entry(entry).ok_or_else(|| {
            let known: Vec<&str> = program.entries().collect();
            refuse(format!(
                "the program has no kernel {entry}; it has {}",
                known.join(", ")
            ))
        })?;
        let variables = self.variables(program);
        let variables = variables.map_err(|error| refuse(error.to_string()))?;
        Ok((Arc::clone(code), variables))
    }

    /// Runs a launch of `program` that was announced.
    pub fn run(
        &self,
        program: &Program,
        announced: &Announced,
        params: &[u8],
    ) -> Result<Stats, Box<Fault>> {
        let Announced { code, launch, .. } = announced;
        let mut context = Context::new(
            (&announced.map, self.target),
            &self.output,
            program,
            code,
            launch,
            params,
            &announced.variables,
        )
        .map_err(|message| Box::new(refusal(&code.name, message)))?;
        context.overlap.clone_from(&announced.overlap);
        if let Some(overlap) = &context.overlap {
            overlap.shadow.begin(overlap.ended());
        }
        context.member.rank = self.memory.device();
        run_launch(&context)
    }

    /// What tells races of the launch in global memory, and those with the launches that it overlaps, unless nobody asks.
    fn watched(&self, launched: Launched, map: &Arc<AllocationMap>) -> Option<Arc<Overlap>> {
        let launch = &launched.launch;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let before = last.take().filter(|_| launch.overlaps_previous);
        // All CTAs of a cooperative launch live at once, and each that polls looks at what all of them have released.
        let most_ctas = WATCHED_CLUSTERS.saturating_mul(volume(launch.cluster));
        let is_small = !launch.is_cooperative || volume(launch.grid) <= most_ctas;
        if launch.checks.races && launch.checks.global && is_small {
            *last = Some(Arc::new(Overlap::new(launched, map, before.as_deref())));
        }
        last.clone()
    }

    /// Watches the host beside a launch until the result is dropped.
    fn watch_host(&self, overlap: &Arc<Overlap>) -> Arc<()> {
        let watch = Arc::new(());
        let mut beside = self.beside.lock().unwrap_or_else(PoisonError::into_inner);
        beside.push((Arc::downgrade(&watch), Arc::clone(overlap)));
        watch
    }

    /// Does `work`, an access of the host to mapped memory, in the order that it and the launches beside the host make.
    ///
    /// A race of the two is a fault at the line of the host; the access is not done then.
    pub fn host_access(
        &self,
        access: &HostAccess,
        work: &mut dyn FnMut(),
    ) -> Result<(), Box<Fault>> {
        let mut beside = self.beside.lock().unwrap_or_else(PoisonError::into_inner);
        beside.retain(|(watch, _)| watch.strong_count() > 0);
        let overlaps: Vec<_> = beside.iter().map(|(_, overlap)| overlap.clone()).collect();
        drop(beside);
        access_beside(&overlaps, access, work)
    }

    /// Addresses of the `.global` variables of a program, which keep their contents from launch to launch.
    fn variables(&self, program: &Program) -> Result<Vec<u64>, MemoryError> {
        let mut known = self
            .variables
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(addresses) = known.get(&program.id) {
            return Ok(addresses.clone());
        }
        let mut addresses = Vec::new();
        for image in &program.globals {
            let address = if image.bytes == 0 {
                0
            } else {
                self.memory.alloc(image.bytes)?
            };
            // A variable without contents starts as zeros (PTX ISA 5.4.4).
            if image.bytes > 0 {
                let zeros = vec![0; image.bytes as usize];
                self.memory
                    .write(address, image.init.as_ref().unwrap_or(&zeros))?;
            }
            addresses.push(address);
        }
        known.insert(program.id, addresses.clone());
        Ok(addresses)
    }

    /// Frees the `.global` variables of a program that will not be launched again.
    pub fn forget(&self, program: &Program) -> Result<(), MemoryError> {
        let addresses = self
            .variables
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&program.id);
        for address in addresses
            .unwrap_or_default()
            .into_iter()
            .filter(|&address| address != 0)
        {
            self.memory.free(address)?;
        }
        Ok(())
    }
}

impl Default for Emulator {
    fn default() -> Self {
        Self::new()
    }
}
