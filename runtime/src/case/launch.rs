//! Launches of a case: compiled, packed with each copy of its tensors, run and timed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::bed::{Bed, Mode};
use super::beginning::{Beginning, HostPart};
use super::bench::BenchOptions;
use super::beside::Beside;
use super::chain::Link;
use super::prepare::{Pack, prepare};
use super::report::LaunchReport;
use super::{Case, CaseResult};
use crate::code::PreparedLaunch;
use crate::cuda::Watchdog;
use crate::emulated::{Modelled, Whole};
use crate::error::{Error, Result};
use crate::kernel::{Compiled, Instance};
use crate::launch::Grid;
use crate::stream::Stream;
use crate::toolchain::Image;

use emulator::Stats;
use lowering::trace::TraceOptions;

impl Case {
    /// The part of a launch that does not depend on the kernel's type.
    pub(super) fn launch_instance(
        &mut self,
        instance: Instance,
        grid: Grid,
        beginning: Beginning<'_>,
        pack: &Pack<'_>,
    ) -> CaseResult {
        let mut report = LaunchReport {
            instance,
            grid,
            compiled: None,
            wall: None,
            warp_instructions: None,
            modelled: None,
            trace: None,
        };
        self.keep_outputs()?;
        if let (Some(bed), Some(stream)) = (self.bed(), &self.stream) {
            self.check_limit()?;
            let compiled = bed.compiler.compile(&report.instance)?;
            let mut entry = compiled.load(&bed.device)?;
            let mut without_overlap = None;
            if matches!(beginning, Beginning::OverlapsTheLast) {
                compiled.check_waits()?;
                let overlapping = entry.overlapping();
                without_overlap = Some(std::mem::replace(&mut entry, overlapping));
            }
            let host = match beginning {
                Beginning::BesideHost(host) => Some(host),
                _ => None,
            };
            let options = self.timed().filter(|_| host.is_none());
            let copies = match options {
                Some(options) => self.copies(bed, options)?,
                None => 1,
            };
            let copies = prepare(&compiled, &entry, grid, copies, pack)?;
            report.wall = Some(run_once(&copies[0], (stream, bed), host)?);
            let trace = copies[0].trace();
            report.trace = trace.map(|buffer| buffer.read(grid)).transpose()?;
            let stats = bed.device.emulator_stats();
            report.warp_instructions = stats.as_ref().map(|stats| stats.warp_instructions);
            if let Some(stats) = stats.filter(|_| bed.device.is_modelling()) {
                report.modelled = self.modelled(bed, &compiled, grid, &stats)?;
            }
            if let Some(options) = options {
                let image = counted_image(bed, &compiled, options)?;
                let launches = (grid, copies.len(), pack);
                let traced = options
                    .trace
                    .map(|trace| traced_copies(bed, trace, &report.instance, launches));
                let traced = traced.transpose()?;
                self.chain.push(Link {
                    name: compiled.display().to_string(),
                    copies,
                    image,
                    without_overlap,
                    traced,
                });
            }
            report.compiled = Some(compiled);
        }
        self.report.launches.push(report);
        self.check_limit()
    }

    /// Times the launches since the last comparison, if this run times.
    pub(super) fn time_chain(&mut self) -> CaseResult {
        if let (Mode::Bench(bed, options), Some(stream)) = (&self.mode, &self.stream)
            && !bed.device.is_modelling()
        {
            let chain = std::mem::take(&mut self.chain);
            let on_ranks = std::mem::take(&mut self.ranks_chain);
            let timing = match &self.world {
                Some(world) if !on_ranks.is_empty() => {
                    let peers = chain.beside.into_iter().filter_map(Beside::into_peer);
                    on_ranks.time((bed, world, *options), peers.collect(), &self.outputs)?
                }
                _ => chain.time((bed, stream, *options), &self.outputs)?,
            };
            self.report.timings.extend(timing);
        }
        Ok(())
    }

    /// What a launch would take, from what some of its CTAs took on the emulator.
    fn modelled(
        &self,
        bed: &Bed,
        compiled: &Compiled,
        grid: Grid,
        stats: &Stats,
    ) -> Result<Option<Modelled>> {
        let cluster = compiled.info().cluster;
        let whole = Whole {
            ctas: grid.ctas(),
            cluster: cluster.into_iter().map(u64::from).product(),
            resident: compiled.resident_ctas(bed.device.toolchain())?,
            tensor_bytes: self.tensor_bytes as u64,
            warp_instructions: stats.warp_instructions,
        };
        Ok(Modelled::of(&stats.times, whole))
    }

    /// How many copies of the tensors timed launches take in turn.
    pub(super) fn copies(&self, bed: &Bed, options: BenchOptions) -> Result<usize> {
        let (free_bytes, _) = bed.device.memory_bytes()?;
        Ok(options.copies(self.tensor_bytes, free_bytes))
    }

    /// Refuses tensors that there is no room for. No machine has room for more than half of all addresses: such a case is not described either, since what it computes of its sizes would overflow.
    pub(super) fn check_limit(&self) -> Result<()> {
        let of_bed = self.bed().and_then(|bed| bed.tensor_limit_bytes);
        let limit_bytes = of_bed.unwrap_or(isize::MAX as usize);
        if self.tensor_bytes <= limit_bytes {
            return Ok(());
        }
        Err(Error::CaseTooLarge {
            case: self.name.clone(),
            sizes: self.sizes.to_string(),
            bytes: self.tensor_bytes,
            limit_bytes,
        })
    }
}

/// The machine code of a kernel whose launches are counted; none where the driver compiles it.
fn counted_image(
    bed: &Bed,
    compiled: &Compiled,
    options: BenchOptions,
) -> Result<Option<Arc<Image>>> {
    let toolchain = bed.device.toolchain();
    if !options.counters || !bed.device.is_cuda() || !toolchain.assembles() {
        return Ok(None);
    }
    let image = toolchain.assemble(compiled.ptx())?;
    Ok(Some(Arc::new(image)))
}

/// The same launch of the kernel as it is compiled to be traced.
fn traced_copies(
    bed: &Bed,
    trace: TraceOptions,
    instance: &Instance,
    (grid, copies, pack): (Grid, usize, &Pack<'_>),
) -> Result<Vec<PreparedLaunch>> {
    let compiled = bed.compiler.clone().tracing(trace).compile(instance)?;
    let entry = compiled.load(&bed.device)?;
    prepare(&compiled, &entry, grid, copies, pack)
}

/// Launches and waits; what it took.
fn run_once(
    launch: &PreparedLaunch,
    (stream, bed): (&Stream, &Bed),
    host: Option<&HostPart<'_>>,
) -> Result<Duration> {
    let name = launch.entry().shape().name.as_str();
    let is_on_gpu = bed.device.is_cuda();
    let _watchdog = is_on_gpu.then(|| Watchdog::start(name, bed.launch_limit));
    let started = Instant::now();
    launch.launch(stream)?;
    if let Some(host) = host {
        host(stream)?;
    }
    stream.synchronize()?;
    Ok(started.elapsed())
}
