//! Reports of deadlocks: what each warp waits for when no warp can run.

use crate::fault::{Fault, FaultKind, LaneSet, Trouble};
use crate::machine::order::MbarrierId;
use crate::machine::schedule::report::cluster_fault;
use crate::machine::state::cluster::{Cluster, Cta};
use crate::machine::state::context::Context;
use crate::machine::state::mbarrier::Mbarrier;
use crate::machine::state::warp::Wait;
use std::collections::BTreeMap;

/// The fault of a cluster in which every thread waits.
pub(crate) fn fault(context: &Context<'_>, cluster: &Cluster) -> Box<Fault> {
    let message =
        "deadlock: every thread that has not exited waits for something that cannot happen";
    let trouble = Trouble::new(FaultKind::Deadlock, 0, message.to_owned());
    let trouble = describe(cluster, trouble).help(help(cluster));
    cluster_fault(context, cluster, *trouble)
}

/// The fault of a cluster that exceeds the limit of steps.
pub(crate) fn step_limit(context: &Context<'_>, cluster: &Cluster) -> Box<Fault> {
    let limit = context.launch.max_steps;
    let message =
        format!("the CTA has executed {limit} warp instructions, the limit of the launch");
    let trouble = Trouble::new(FaultKind::StepLimit, 0, message);
    let help = "look for a loop whose condition never changes or a flag that no thread sets, or run a smaller size";
    cluster_fault(context, cluster, *describe(cluster, trouble).help(help))
}

/// Labels the line at which each warp is.
fn describe(cluster: &Cluster, mut trouble: Box<Trouble>) -> Box<Trouble> {
    let mut made = BTreeMap::new();
    for (rank, cta) in cluster.ctas.iter().enumerate() {
        let of = if cluster.ctas.len() > 1 {
            format!(" of CTA {rank}")
        } else {
            String::new()
        };
        trouble = barriers(cta, &of, trouble);
        trouble = warps(cluster, cta, &of, trouble, &mut made);
    }
    for ((address, step), count) in made {
        let text =
            format!("the mbarrier at {address:#x} is initialised here, with a count of {count}");
        trouble = trouble.see(step, text);
    }
    trouble
}

fn barriers(cta: &Cta, of: &str, mut trouble: Box<Trouble>) -> Box<Trouble> {
    for (id, barrier) in cta.barriers.iter().enumerate() {
        let mut by_step: BTreeMap<(u32, bool), Vec<u32>> = BTreeMap::new();
        for arrival in &barrier.arrivals {
            let place = (arrival.stamp.step, arrival.waits);
            by_step.entry(place).or_default().push(arrival.warp);
        }
        for ((step, waits), warps) in by_step {
            let does = match (warps.len(), waits) {
                (1, true) => "waits",
                (_, true) => "wait",
                (_, false) => "arrived",
            };
            let text = format!(
                "{}{of} {does} here at barrier {id}, at which {} of {} threads have arrived",
                list(&warps),
                barrier.arrived,
                barrier.expected
            );
            trouble = trouble.see(step, text);
        }
    }
    trouble
}

/// The mbarriers that warps wait for: address, the step that initialised each, and its count.
type Initialised = BTreeMap<(u32, u32), u32>;

fn warps(
    cluster: &Cluster,
    cta: &Cta,
    of: &str,
    mut trouble: Box<Trouble>,
    made: &mut Initialised,
) -> Box<Trouble> {
    let mut elsewhere: BTreeMap<(u32, u32), (Vec<u32>, Wait)> = BTreeMap::new();
    for warp in &cta.warps {
        for path in &warp.paths {
            if !matches!(path.wait, Wait::Barrier(_)) {
                let place = elsewhere.entry((path.pc, path.mask));
                let (warps, _) = place.or_insert_with(|| (Vec::new(), path.wait));
                warps.push(warp.index);
            }
        }
    }
    for ((step, mask), (warps, wait)) in elsewhere {
        let who = if mask == u32::MAX {
            list(&warps)
        } else {
            format!("lanes {} of {}", LaneSet(mask), list(&warps))
        };
        let does = awaited(cluster, wait, warps.len() == 1 && mask == u32::MAX);
        trouble = trouble.see(step, format!("{who}{of} {does}"));
        if let Wait::Mbarrier(id, _) = wait
            && let Some(mbarrier) = find(cluster, id)
        {
            made.insert((id.address, mbarrier.init.step), mbarrier.count);
        }
    }
    let ended = cta.warps.iter().filter(|warp| warp.is_done());
    let ended: Vec<u32> = ended.map(|warp| warp.index).collect();
    match ended.len() {
        0 => {}
        count => {
            let have = if count == 1 { "has" } else { "have" };
            trouble.message = format!("{}\n  {}{of} {have} exited", trouble.message, list(&ended));
        }
    }
    trouble
}

/// `warp 3` or `warps 0-2,5`.
fn list(warps: &[u32]) -> String {
    let mask = warps
        .iter()
        .fold(0, |mask, warp| mask | 1u32 << warp.min(&31));
    let noun = if mask.is_power_of_two() {
        "warp"
    } else {
        "warps"
    };
    format!("{noun} {}", LaneSet(mask))
}

fn find(cluster: &Cluster, id: MbarrierId) -> Option<&Mbarrier> {
    cluster.ctas[usize::from(id.cta)].mbarriers.get(&id.address)
}

/// What a path waits for.
fn awaited(cluster: &Cluster, wait: Wait, is_one: bool) -> String {
    let waits = if is_one { "waits here" } else { "wait here" };
    match wait {
        Wait::Cluster => format!("{waits} for other CTAs of the cluster"),
        Wait::Registers => format!("{waits} for registers that other warps have"),
        Wait::Warpgroup => {
            format!("{waits} for the other warps of the warpgroup to issue the `wgmma`")
        }
        Wait::Lanes => format!("{waits} for other lanes of the warp"),
        Wait::Ready | Wait::Barrier(_) | Wait::PhaseOver(..) => {
            if is_one { "is here" } else { "are here" }.to_owned()
        }
        Wait::Mbarrier(id, _) => match find(cluster, id) {
            None => format!(
                "{waits} for the mbarrier at {:#x}, which has been invalidated",
                id.address
            ),
            Some(mbarrier) => {
                let (phase, missing) = (mbarrier.phase, missing(mbarrier));
                format!(
                    "{waits} for phase {phase} of the mbarrier at {:#x}: {missing}",
                    id.address
                )
            }
        },
    }
}

/// What the current phase of an mbarrier lacks.
fn missing(mbarrier: &Mbarrier) -> String {
    let arrivals = format!("{} of {} arrivals", mbarrier.pending, mbarrier.count);
    match mbarrier.bytes {
        bytes @ ..0 => format!(
            "{arrivals} are missing, and {} bytes more have been delivered than were expected",
            -bytes
        ),
        bytes => format!("{arrivals} and {bytes} bytes are missing"),
    }
}

/// The most likely mistake, by what is waited for.
fn help(cluster: &Cluster) -> &'static str {
    let warps = cluster.ctas.iter().flat_map(|cta| &cta.warps);
    let mut waits = warps.flat_map(|warp| &warp.paths).map(|path| path.wait);
    match mbarrier_to_blame(cluster, waits.clone()).or_else(|| waits.next()) {
        Some(Wait::Mbarrier(id, _)) => find(cluster, id).map_or(NO_MBARRIER, phase_help),
        Some(Wait::Cluster) => {
            "every thread of every CTA of the cluster must arrive at the cluster barrier, and all equally often"
        }
        Some(Wait::Registers) => {
            "the budgets of all warps must fit the registers of the launch: another partition must release registers first (`setmaxnreg.dec`), or \
             request fewer"
        }
        Some(Wait::Warpgroup) => "all four warps of a warpgroup must issue the same `wgmma`",
        Some(Wait::Lanes) => "all lanes of the member mask must execute the instruction",
        _ => {
            "exactly as many threads must arrive at a barrier as it counts, equally often, and at several barriers in the same order: see above which have not arrived"
        }
    }
}

const NO_MBARRIER: &str =
    "invalidate an mbarrier (`invalidate`) after every waiter has observed its last phase";

/// Of the waits for mbarriers one whose phase lacks some of its arrivals or bytes and not all: a phase to which nothing has come may wait for
/// a thread that waits itself.
fn mbarrier_to_blame(cluster: &Cluster, waits: impl Iterator<Item = Wait>) -> Option<Wait> {
    let of_mbarriers = waits.filter_map(|wait| match wait {
        Wait::Mbarrier(id, _) => Some((wait, find(cluster, id).is_some_and(has_nothing))),
        _ => None,
    });
    let first = of_mbarriers.min_by_key(|(_, has_nothing)| *has_nothing);
    first.map(|(wait, _)| wait)
}

/// Has no thread arrived in the current phase, and no byte before it was expected?
fn has_nothing(mbarrier: &Mbarrier) -> bool {
    mbarrier.pending == mbarrier.count && mbarrier.bytes >= 0
}

fn phase_help(mbarrier: &Mbarrier) -> &'static str {
    match (mbarrier.pending, mbarrier.bytes) {
        (_, ..0) => "expect the bytes of all copies that complete on it (`expect`)",
        (0, _) => {
            "the copies of a phase must deliver as many bytes as it expects: compare `expect` with what they move"
        }
        (pending, _) if pending < mbarrier.count => {
            "a thread that is counted does not arrive, or the mbarrier is initialised with too high a count"
        }
        _ => {
            "no thread has arrived in this phase: the wait is for the wrong parity (an mbarrier starts in phase 0, and the parity flips with \
             each phase), or the threads that should arrive wait themselves or have exited"
        }
    }
}
