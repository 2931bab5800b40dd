//! The order in which clusters, and the warps of each, are executed.

use crate::fault::Fault;
use crate::machine::schedule::cta_end::check_end;
use crate::machine::schedule::report::fault;
use crate::machine::schedule::{across, deadlock, first_use, starvation};
use crate::machine::state::cluster::Cluster;
use crate::machine::state::context::Context;
use crate::machine::state::launch::volume;
use crate::machine::state::policy::Turns;
use crate::machine::state::scene::Worker;
use crate::machine::state::stats::{Counts, Stats};
use crate::machine::state::warp::Wait;
use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Steps of a cluster's slice: kernels whose CTAs wait for each other make progress.
const CLUSTER_SLICE: u64 = 2_000_000;
/// The slice where CTAs wait for each other or for the host: a polling CTA makes no progress meanwhile.
const COOPERATIVE_SLICE: u64 = 4_096;
/// CTAs that are resident at once: no fewer than a GPU holds of large kernels.
pub(crate) const RESIDENT_CTAS: u64 = 528;
/// Steps of a warp's slice in round-robin order.
const WARP_SLICE: u64 = 4_096;

/// State that the workers of a launch share.
struct Shared {
    next: AtomicU64,
    /// The index, in order of start, of the first cluster that has faulted.
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
    /// Has a cluster before the one at `place` faulted, so that its fault is the one to report? Where clusters wait for each other, the
    /// others cannot go on either.
    fn is_pointless(&self, context: &Context<'_>, place: u64) -> bool {
        let faulted = self.faulted.load(Relaxed);
        if context.launch.is_cooperative || context.launch.beside_host {
            faulted != u64::MAX
        } else {
            place > faulted
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
    // The order of host threads varies from run to run; a seed must reproduce one order.
    let workers = match context.launch.seed {
        0 if context.draws_in_order() => 1,
        0 => (rayon::current_num_threads() as u64).min(context.running_clusters()),
        _ => 1,
    };
    if workers == 1 {
        work(context, &shared);
    } else if context.launch.beside_host {
        // This launch may wait for another one, which then needs the threads of the pool.
        std::thread::scope(|scope| {
            (0..workers).for_each(|_| drop(scope.spawn(|| work(context, &shared))));
        });
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
    let total = context.cluster_count();
    while let Some(mut cluster) = take(context, shared) {
        let place = context.policy.place_of(cluster.index, total);
        if shared.is_pointless(context, place) {
            shared.state().resident -= 1;
            continue;
        }
        match run_cluster(&mut worker, &mut cluster) {
            Err(fault) => {
                let mut state = shared.state();
                state.resident -= 1;
                shared.faulted.fetch_min(place, Relaxed);
                if state.fault.as_ref().is_none_or(|(first, _)| place < *first) {
                    state.fault = Some((place, fault));
                }
            }
            Ok(true) => {
                worker.counts.ctas += cluster.ctas.len() as u64;
                if context.timing.is_some() {
                    worker.counts.time(&cluster);
                }
                shared.state().resident -= 1;
            }
            Ok(false) => shared.state().parked.push_back(cluster),
        }
    }
    shared.state().counts.add(&worker.counts);
}

/// The next cluster to execute: a new one while there is room, otherwise the one that has waited longest; of those that
/// have drawn from a counter, the one whose draw was the earliest.
fn take(context: &Context<'_>, shared: &Shared) -> Option<Cluster> {
    let total = context.running_clusters();
    let per_cluster = volume(context.launch.cluster);
    let mut state = shared.state();
    let has_room = context.launch.is_cooperative || state.resident * per_cluster < RESIDENT_CTAS;
    if has_room || state.parked.is_empty() {
        let place = shared.next.load(Relaxed);
        if place < total.min(shared.faulted.load(Relaxed)) {
            shared.next.store(place + 1, Relaxed);
            state.resident += 1;
            drop(state);
            return Some(context.cluster(context.cluster_at(place)));
        }
    }
    // Those that poll do not keep one that waits for its turn from running.
    if state.parked.front()?.draws.waits_since().is_none() {
        return state.parked.pop_front();
    }
    let waiting = state.parked.iter().enumerate();
    let since = waiting.filter_map(|(at, cluster)| Some((cluster.draws.waits_since()?, at)));
    let (_, first) = since.min()?;
    state.parked.remove(first)
}

/// Executes a cluster for a slice. Returns whether it has ended.
pub(crate) fn run_cluster(
    worker: &mut Worker<'_>,
    cluster: &mut Cluster,
) -> Result<bool, Box<Fault>> {
    let ended = run_slice(worker, cluster);
    first_use::judge(worker.context, cluster, ended)
}

fn run_slice(worker: &mut Worker<'_>, cluster: &mut Cluster) -> Result<bool, Box<Fault>> {
    let slice = if worker.context.takes_short_turns() {
        COOPERATIVE_SLICE * cluster.warps() as u64
    } else {
        CLUSTER_SLICE
    };
    let limit = cluster.steps + slice;
    while cluster.steps < limit {
        let ran = match worker.context.policy.turns {
            Turns::InOrder => one_by_one(worker, cluster, false)?,
            Turns::Reversed => one_by_one(worker, cluster, true)?,
            Turns::Earliest => earliest_first(worker, cluster)?,
            Turns::Random | Turns::StarvedWarpgroup | Turns::StarvedCta => {
                shuffled(worker, cluster)?
            }
        };
        let progressed =
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
        if cluster.draws.end_turn() {
            return Ok(false);
        }
        // Only another cluster can change what its warps poll.
        if ran && across::are_stuck(worker.context, [&*cluster]) {
            return Ok(false);
        }
        if !ran && !progressed && !give_up_waits(cluster) {
            return Err(deadlock::fault(worker.context, cluster));
        }
        if cluster.steps > worker.context.launch.max_steps {
            return Err(deadlock::step_limit(worker.context, cluster));
        }
    }
    Ok(false)
}

/// The grid coordinates of a CTA of a cluster.
fn cluster_index(context: &Context<'_>, cluster: u64, rank: usize) -> [u32; 3] {
    context.cta_index(cluster, rank as u32)
}

/// How often `try_wait` may time out before the emulator reports a deadlock: a polling kernel gets the chance to do something else.
const MOST_TIMEOUTS: u32 = 2;

/// Ends waits for mbarriers without success, as `try_wait` ends after its time limit.
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

/// The warps of a cluster, each by its CTA and its index there.
fn warps_of(cluster: &Cluster) -> Vec<(usize, usize)> {
    let ctas = cluster.ctas.iter().enumerate();
    ctas.flat_map(|(cta, c)| (0..c.warps.len()).map(move |warp| (cta, warp)))
        .collect()
}

/// Executes each warp once, until it waits or its slice ends. Returns whether any could run.
fn one_by_one(
    worker: &mut Worker<'_>,
    cluster: &mut Cluster,
    is_reversed: bool,
) -> Result<bool, Box<Fault>> {
    let mut warps = warps_of(cluster);
    if is_reversed {
        warps.reverse();
    }
    let mut ran = false;
    for (cta, warp) in warps {
        ran |= run_warp(worker, cluster, cta, warp, WARP_SLICE)?;
    }
    Ok(ran)
}

/// Steps of a warp's slice where the one that is furthest behind in modelled time runs: units serve warps nearly in order of time.
const TIMED_SLICE: u64 = 16;

/// Cycles by which it may get ahead of the next one within its slice.
const TURN_CYCLES: u64 = 16;

/// Executes as many slices as there are warps, each of the warp whose modelled time is the earliest.
fn earliest_first(worker: &mut Worker<'_>, cluster: &mut Cluster) -> Result<bool, Box<Fault>> {
    let warps = warps_of(cluster);
    let mut ran = false;
    for _ in 0..warps.len() {
        let ready = warps.iter().copied().filter(|&(cta, warp)| {
            let warp = &cluster.ctas[cta].warps[warp];
            warp.ready().is_some()
        });
        let mut by_time = ready.map(|at| (cluster.ctas[at.0].warps[at.1].time.now, at));
        let Some(mut first) = by_time.next() else {
            break;
        };
        let mut second = u64::MAX - TURN_CYCLES;
        for other in by_time {
            second = second.min(first.0.max(other.0));
            first = first.min(other);
        }
        let (_, (cta, warp)) = first;
        cluster.ctas[cta].warps[warp].time.turn = second + TURN_CYCLES;
        ran |= run_warp(worker, cluster, cta, warp, TIMED_SLICE)?;
    }
    Ok(ran)
}

/// Executes as many slices as there are warps; the seed chooses the warp and the length of each.
fn shuffled(worker: &mut Worker<'_>, cluster: &mut Cluster) -> Result<bool, Box<Fault>> {
    let warps = warps_of(cluster);
    let mut ran = false;
    for _ in 0..warps.len() {
        let runnable = starvation::runnable(worker.context, cluster, &warps);
        if runnable.is_empty() {
            break;
        }
        let random = cluster.next_random();
        let (cta, warp) = runnable[(random >> 32) as usize % runnable.len()];
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
    // The warp is moved out of its CTA while it runs, so that it can borrow the rest of the CTA mutably.
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
