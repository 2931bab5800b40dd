//! Which cluster, and which of its warps, runs when.

use crate::fault::Fault;
use crate::machine::schedule::cta_end::check_end;
use crate::machine::schedule::deadlock;
use crate::machine::schedule::report::fault;
use crate::machine::state::cluster::Cluster;
use crate::machine::state::context::Context;
use crate::machine::state::scene::Worker;
use crate::machine::state::stats::{Counts, Stats};
use crate::machine::state::warp::Wait;
use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Steps after which a cluster lets another one run, so that kernels whose CTAs wait for each other make progress.
const CLUSTER_SLICE: u64 = 2_000_000;
/// The same for a cooperative launch: a CTA that polls for another one does nothing useful meanwhile.
const COOPERATIVE_SLICE: u64 = 4_096;
/// CTAs that are resident at once; no fewer than a GPU holds of large kernels.
const RESIDENT_CTAS: u64 = 528;
/// Steps after which a warp lets another one run, with seed zero.
const WARP_SLICE: u64 = 4_096;

/// What the workers of a launch share.
struct Shared {
    next: AtomicU64,
    /// Number of the cluster with the lowest number that has faulted.
    faulted: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    parked: VecDeque<Cluster>,
    resident: u64,
    fault: Option<(u64, Box<Fault>)>,
    counts: Counts,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// Has another cluster faulted whose fault is the one to report? Where clusters wait for each other, nothing comes of the
    /// others then.
    fn is_pointless(&self, context: &Context<'_>, cluster: u64) -> bool {
        let faulted = self.faulted.load(Relaxed);
        if context.launch.is_cooperative {
            faulted != u64::MAX
        } else {
            cluster > faulted
        }
    }
}

/// Runs all clusters of a launch.
pub(crate) fn run_launch(context: &Context<'_>) -> Result<Stats, Box<Fault>> {
    let state = State {
        counts: Counts::new(context.code.steps.len()),
        ..State::default()
    };
    let shared = Shared {
        next: AtomicU64::new(0),
        faulted: AtomicU64::new(u64::MAX),
        state: Mutex::new(state),
    };
    let workers = (rayon::current_num_threads() as u64).min(context.cluster_count());
    if workers == 1 {
        work(context, &shared);
    } else {
        rayon::scope(|scope| (0..workers).for_each(|_| scope.spawn(|_| work(context, &shared))));
    }
    let state = shared
        .state
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    match state.fault {
        Some((_, fault)) => Err(fault),
        None => Ok(state.counts.finish(context.program, context.code)),
    }
}

fn work(context: &Context<'_>, shared: &Shared) {
    let mut worker = Worker::new(context);
    while let Some(mut cluster) = take(context, shared) {
        if shared.is_pointless(context, cluster.index) {
            shared.state().resident -= 1;
            continue;
        }
        match run_cluster(&mut worker, &mut cluster) {
            Err(fault) => {
                let mut state = shared.state();
                state.resident -= 1;
                shared.faulted.fetch_min(cluster.index, Relaxed);
                if state
                    .fault
                    .as_ref()
                    .is_none_or(|(index, _)| cluster.index < *index)
                {
                    state.fault = Some((cluster.index, fault));
                }
            }
            Ok(true) => {
                worker.counts.ctas += cluster.ctas.len() as u64;
                shared.state().resident -= 1;
            }
            Ok(false) => shared.state().parked.push_back(cluster),
        }
    }
    shared.state().counts.add(&worker.counts);
}

/// The next cluster to run: a new one while there is room, otherwise the one that has waited longest.
fn take(context: &Context<'_>, shared: &Shared) -> Option<Cluster> {
    let total = context.cluster_count();
    let per_cluster: u64 = context
        .launch
        .cluster
        .iter()
        .map(|&n| u64::from(n))
        .product();
    let mut state = shared.state();
    let has_room = context.launch.is_cooperative || state.resident * per_cluster < RESIDENT_CTAS;
    if has_room || state.parked.is_empty() {
        let index = shared.next.load(Relaxed);
        if index < total.min(shared.faulted.load(Relaxed)) {
            shared.next.store(index + 1, Relaxed);
            state.resident += 1;
            drop(state);
            return Some(context.cluster(index));
        }
    }
    state.parked.pop_front()
}

/// Runs a cluster for a slice; says whether it has ended.
fn run_cluster(worker: &mut Worker<'_>, cluster: &mut Cluster) -> Result<bool, Box<Fault>> {
    let slice = if worker.context.launch.is_cooperative {
        COOPERATIVE_SLICE * cluster.warps() as u64
    } else {
        CLUSTER_SLICE
    };
    let limit = cluster.steps + slice;
    while cluster.steps < limit {
        let ran = if worker.context.launch.seed == 0 {
            in_order(worker, cluster)?
        } else {
            shuffled(worker, cluster)?
        };
        let engine =
            worker
                .complete_copies_in_flight(cluster, !ran)
                .map_err(|(cta, warp, halt)| {
                    let place = (
                        cluster_index(worker.context, cluster.index, cta),
                        warp,
                        halt.step,
                    );
                    fault(
                        worker.context.program,
                        worker.context.code,
                        *halt.trouble,
                        place,
                    )
                })?;
        if cluster.is_done() && cluster.pending.is_empty() {
            check_end(worker.context, cluster)?;
            return Ok(true);
        }
        if !ran && !engine && !give_up_waits(cluster) {
            return Err(deadlock::fault(worker.context, cluster));
        }
        if cluster.steps > worker.context.launch.max_steps {
            return Err(deadlock::step_limit(worker.context, cluster));
        }
    }
    Ok(false)
}

/// Coordinates of a CTA of a cluster.
fn cluster_index(context: &Context<'_>, cluster: u64, rank: usize) -> [u32; 3] {
    context.cta_index(cluster, rank as u32)
}

/// Times that waits for mbarriers may give up before that counts as a deadlock: a kernel that polls gets a chance
/// to do something else.
const MOST_TIMEOUTS: u32 = 2;

/// Returns waits for mbarriers without success, as `try_wait` does after a time limit.
fn give_up_waits(cluster: &mut Cluster) -> bool {
    cluster.timeouts += 1;
    if cluster.timeouts > MOST_TIMEOUTS {
        return false;
    }
    let mut any = false;
    for warp in cluster.ctas.iter_mut().flat_map(|cta| &mut cta.warps) {
        for path in warp
            .paths
            .iter_mut()
            .filter(|path| matches!(path.wait, Wait::Mbarrier(..)))
        {
            path.wait = Wait::Ready;
            warp.timed_out = true;
            any = true;
        }
    }
    any
}

/// Every warp once, each until it waits or its slice ends. Says whether any could run.
fn in_order(worker: &mut Worker<'_>, cluster: &mut Cluster) -> Result<bool, Box<Fault>> {
    let mut ran = false;
    for cta in 0..cluster.ctas.len() {
        for warp in 0..cluster.ctas[cta].warps.len() {
            ran |= run_warp(worker, cluster, cta, warp, WARP_SLICE)?;
        }
    }
    Ok(ran)
}

/// As many turns as there are warps, for warps and lengths that the seed chooses.
fn shuffled(worker: &mut Worker<'_>, cluster: &mut Cluster) -> Result<bool, Box<Fault>> {
    let warps: Vec<(usize, usize)> = cluster
        .ctas
        .iter()
        .enumerate()
        .flat_map(|(cta, c)| (0..c.warps.len()).map(move |w| (cta, w)))
        .collect();
    let mut ran = false;
    for _ in 0..warps.len() {
        let runnable: Vec<_> = warps
            .iter()
            .filter(|(cta, warp)| cluster.ctas[*cta].warps[*warp].ready().is_some())
            .collect();
        if runnable.is_empty() {
            break;
        }
        let random = cluster.next_random();
        let &&(cta, warp) = &runnable[(random >> 32) as usize % runnable.len()];
        ran |= run_warp(worker, cluster, cta, warp, 1 + random % 256)?;
    }
    Ok(ran)
}

fn run_warp(
    worker: &mut Worker<'_>,
    cluster: &mut Cluster,
    cta: usize,
    index: usize,
    slice: u64,
) -> Result<bool, Box<Fault>> {
    if cluster.ctas[cta].warps[index].ready().is_none() {
        return Ok(false);
    }
    // The warp is taken out while it runs, so that it can change the rest of its CTA.
    let mut warp = std::mem::take(&mut cluster.ctas[cta].warps[index]);
    let result = worker.run(cluster, cta, &mut warp, slice);
    let place = (cluster.ctas[cta].index, warp.index);
    cluster.ctas[cta].warps[index] = warp;
    result.map(|()| true).map_err(|halt| {
        let (cta, warp) = place;
        fault(
            worker.context.program,
            worker.context.code,
            *halt.trouble,
            (cta, warp, halt.step),
        )
    })
}
