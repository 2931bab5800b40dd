//! Cases on several devices: memory that all ranks share, and launches on all of them.

use std::sync::Arc;
use std::time::Instant;

use machine::Error as MachineError;
use machine::driver::Unavailable;
use protocol::request::SizeOverride;

use super::prepare::prepare;
use super::ranks_chain::RanksLink;
use super::ranks_end::synchronize;
use super::report::LaunchReport;
use super::{Bed, Case, CaseResult, Mode};
use crate::backend::On;
use crate::buffer::Buffer;
use crate::code::PreparedLaunch;
use crate::device::Device;
use crate::element::DeviceElement;
use crate::error::{Error, Result};
use crate::kernel::{Arguments, Instance, Kernel, Packing};
use crate::launch::Grid;
use crate::world::{Peers, Symmetric, World, WorldLaunch};

/// Memory that every rank of a case has and all access; zeros at first. Described cases have none.
pub struct Shared<T> {
    made: Option<Symmetric<T>>,
}

/// Only launches look at it, and those that run have made it.
const MADE: &str = "a case that runs has made its memory";

impl<T: DeviceElement> Shared<T> {
    /// The part of a rank, for a `Ptr<T>` of its launch.
    ///
    /// # Panics
    /// If there is no such rank, or outside of the arguments of a launch: those are mistakes in the case.
    #[track_caller]
    pub fn part(&self, rank: usize) -> &Buffer<T> {
        self.made.as_ref().expect(MADE).part(rank)
    }

    /// The parts of all ranks, for a `PeerMap<T>` of a rank's launch.
    ///
    /// # Panics
    /// Outside of the arguments of a launch: that is a mistake in the case.
    #[track_caller]
    pub fn peers(&self, rank: usize) -> Peers<'_, T> {
        self.made.as_ref().expect(MADE).peers(rank)
    }
}

impl Case {
    /// On how many ranks this run is: its size `ranks`, which `--devices` overrides.
    ///
    /// # Panics
    /// If the case does not declare that size: that is a mistake in the case itself.
    #[track_caller]
    pub fn ranks(&self) -> usize {
        self.size(SizeOverride::RANKS)
    }

    /// `len` elements on each rank, which all of them access; zeros at first.
    ///
    /// # Errors
    /// [`Error::TooFewGpus`], [`Error::Ranks`] for a number of devices that cannot run as one, [`Error::NoPeerAccess`]; what allocating ends with.
    #[track_caller]
    pub fn shared<T: DeviceElement>(&mut self, len: usize) -> Result<Shared<T>> {
        let bytes = len.saturating_mul(size_of::<T>());
        let of_all = bytes.saturating_mul(self.ranks());
        self.tensor_bytes = self.tensor_bytes.saturating_add(of_all);
        let world = self.world()?;
        let made = world.map(|world| world.symmetric(len)).transpose()?;
        Ok(Shared { made })
    }

    /// Launches `kernel` with `grid` CTAs on each rank, with the arguments that `arguments` gives for it, and waits for all of them. Inputs and outputs
    /// lie on the rank that passes them, and each belongs to one rank. [`expect`](Case::expect) and its like compare outputs of any rank.
    ///
    /// `cargo tilekit bench` times it on all ranks, of which the slowest counts, with as many copies of inputs and outputs as exceed L2; [shared](Case::shared) memory
    /// has one copy. A launch that is timed is repeated with the same parameters: what counts the calls so far lies in memory. A peer beside it is
    /// [`Peer::Nccl`](crate::Peer::Nccl).
    ///
    /// On the emulator all ranks are one schedule, which the seed of the run determines: it reports races and deadlocks across ranks.
    ///
    /// # Errors
    /// As for [`shared`](Case::shared), and as for [`WorldKernel::launch`](crate::WorldKernel::launch).
    #[track_caller]
    pub fn launch_on_ranks<P: 'static, K: Kernel<P>, A: Arguments<P>>(
        &mut self,
        kernel: K,
        grid: impl Into<Grid>,
        arguments: impl Fn(usize) -> A,
    ) -> CaseResult {
        let mut report = LaunchReport {
            instance: Instance::of::<P, K>(kernel),
            grid: grid.into(),
            compiled: None,
            wall: None,
            warp_instructions: None,
            modelled: None,
            trace: None,
        };
        self.keep_outputs()?;
        if let (Some(world), Some(bed)) = (self.world()?, self.bed()) {
            self.check_limit()?;
            let compiled = bed.compiler.compile(&report.instance)?;
            let options = self
                .timed()
                .filter(|_| matches!(self.mode, Mode::Bench(..)));
            let copies = match options {
                Some(options) => {
                    let (free_bytes, _) = bed.device.memory_bytes()?;
                    options.copies(self.tensor_bytes / world.ranks(), free_bytes)
                }
                None => 1,
            };
            let mut launches: Vec<Vec<PreparedLaunch>> = vec![Vec::new(); copies];
            for (rank, device) in world.devices().iter().enumerate() {
                let entry = compiled.load(device)?;
                let arguments = arguments(rank);
                let pack = |packing: &mut Packing<'_>| arguments.pack(packing);
                let of_rank = prepare(&compiled, &entry, report.grid, copies, &pack)?;
                for (launch, of_rank) in launches.iter_mut().zip(of_rank) {
                    launch.push(of_rank);
                }
            }
            let launches: Vec<WorldLaunch> = launches.into_iter().map(WorldLaunch::new).collect();
            let started = Instant::now();
            launches[0].enqueue(&world)?;
            synchronize(&world)?;
            report.wall = Some(started.elapsed());
            let devices = world.devices().iter();
            let stats = devices.map(Device::emulator_stats);
            report.warp_instructions = stats.map(|s| s.map(|s| s.warp_instructions)).sum();
            if options.is_some() {
                self.ranks_chain.push(RanksLink {
                    name: compiled.display().to_string(),
                    copies: launches,
                });
            }
            report.compiled = Some(compiled);
        }
        self.report.launches.push(report);
        self.check_limit()
    }

    /// The devices of this run, which the first call finds; none if the case is only described.
    #[track_caller]
    fn world(&mut self) -> Result<Option<Arc<World>>> {
        let ranks = self.ranks();
        self.report.ranks = Some(ranks);
        let (None, Some(bed)) = (&self.world, self.bed()) else {
            return Ok(self.world.clone());
        };
        let world = open(bed, ranks).map_err(|error| match error {
            Error::Machine(MachineError::Unavailable(Unavailable::NoSuchDevice {
                count, ..
            })) => Error::TooFewGpus { ranks, gpus: count },
            other => other,
        })?;
        self.world = Some(Arc::new(world));
        Ok(self.world.clone())
    }
}

/// So many devices of the kind of the run.
fn open(bed: &Bed, ranks: usize) -> Result<World> {
    match bed.device.backend() {
        On::Emulator(device) => World::emulators(ranks, device.options()),
        On::Cuda(_) => World::cuda(ranks).map(|world| world.with_limit(bed.launch_limit)),
    }
}
