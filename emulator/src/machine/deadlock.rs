//! Who waits for what, when nothing can run.

use super::cta::{Cluster, Cta};
use super::launch::Context;
use super::mbarrier::{Mbarrier, MbarrierId};
use super::schedule::cluster_fault;
use super::warp::Wait;
use crate::fault::{Fault, FaultKind, LaneSet, Trouble};
use std::collections::BTreeMap;

/// The fault of a cluster in which every thread waits.
pub(super) fn fault(context: &Context<'_>, cluster: &Cluster) -> Box<Fault> {
    let message = "deadlock: every thread that is left waits for something that cannot come";
    let trouble = Trouble::new(FaultKind::Deadlock, 0, message.to_owned());
    let trouble = describe(cluster, trouble).help(way_out(cluster));
    cluster_fault(context, cluster, *trouble)
}

/// The fault of a cluster that has run for too long.
pub(super) fn step_limit(context: &Context<'_>, cluster: &Cluster) -> Box<Fault> {
    let limit = context.launch.max_steps;
    let message =
        format!("the CTA has executed {limit} warp instructions, the limit of the launch");
    let trouble = Trouble::new(FaultKind::StepLimit, 0, message);
    let help = "a loop whose condition never changes, a flag that nobody sets, or sizes that are for a GPU";
    cluster_fault(context, cluster, *describe(cluster, trouble).help(help))
}

/// Shows where everybody is.
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
        let text = format!("the mbarrier at {address:#x} is made here, with a count of {count}");
        trouble = trouble.see(step, text);
    }
    trouble
}

fn barriers(cta: &Cta, of: &str, mut trouble: Box<Trouble>) -> Box<Trouble> {
    for (id, barrier) in cta.barriers.iter().enumerate() {
        let mut by_step: BTreeMap<(u32, bool), Vec<u32>> = BTreeMap::new();
        for arrival in &barrier.arrivals {
            let place = (arrival.step, arrival.waits);
            by_step.entry(place).or_default().push(arrival.warp);
        }
        for ((step, waits), warps) in by_step {
            let does = match (warps.len(), waits) {
                (1, true) => "waits",
                (_, true) => "wait",
                (_, false) => "arrived",
            };
            let text = format!(
                "{}{of} {does} here at barrier {id}, to which {} of {} threads have come",
                list(&warps),
                barrier.arrived,
                barrier.expected
            );
            trouble = trouble.see(step, text);
        }
    }
    trouble
}

/// mbarriers that are waited for: address and the step that made it, and its count.
type Made = BTreeMap<(u32, u32), u32>;

fn warps(
    cluster: &Cluster,
    cta: &Cta,
    of: &str,
    mut trouble: Box<Trouble>,
    made: &mut Made,
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
            trouble.message = format!("{}\n  {}{of} {have} ended", trouble.message, list(&ended));
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
            format!("{waits} for the other warps of the warpgroup to issue the product")
        }
        Wait::Lanes => format!("{waits} for other lanes of the warp"),
        Wait::Ready | Wait::Barrier(_) | Wait::PhaseOver(..) => {
            if is_one { "is here" } else { "are here" }.to_owned()
        }
        Wait::Mbarrier(id, _) => match find(cluster, id) {
            None => format!(
                "{waits} for the mbarrier at {:#x}, which is no more",
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
            "{arrivals} are missing, and {} bytes more have come than were expected",
            -bytes
        ),
        bytes => format!("{arrivals} and {bytes} bytes are missing"),
    }
}

/// What most likely went wrong, by what is waited for.
fn way_out(cluster: &Cluster) -> &'static str {
    let warps = cluster.ctas.iter().flat_map(|cta| &cta.warps);
    let mut waits = warps.flat_map(|warp| &warp.paths).map(|path| path.wait);
    let first = waits
        .clone()
        .find(|wait| matches!(wait, Wait::Mbarrier(..)));
    match first.or_else(|| waits.next()) {
        Some(Wait::Mbarrier(id, _)) => find(cluster, id).map_or(NO_MBARRIER, way_to_phase),
        Some(Wait::Cluster) => {
            "every CTA of the cluster comes to its meetings, and all equally often"
        }
        Some(Wait::Registers) => {
            "the budgets of all warps fit what the launch takes: another partition gives registers back first, or asks for fewer"
        }
        Some(Wait::Warpgroup) => "all four warps of a warpgroup issue the same products",
        Some(Wait::Lanes) => "all lanes of the mask come to the instruction",
        _ => {
            "as many threads come to a barrier as it counts, equally often, and to several barriers in the same order: see who has not \
             come"
        }
    }
}

const NO_MBARRIER: &str = "an mbarrier ends (`invalidate`) when nobody waits for it any more";

fn way_to_phase(mbarrier: &Mbarrier) -> &'static str {
    match (mbarrier.pending, mbarrier.bytes) {
        (_, ..0) => "expect the bytes of all copies that complete on it (`expect`)",
        (0, _) => {
            "the copies of the phase bring as many bytes as it expects: compare `expect` with what they move"
        }
        (pending, _) if pending < mbarrier.count => {
            "somebody who is counted does not arrive, or the mbarrier is made with too high a count"
        }
        _ => {
            "nobody has arrived in this phase: the wait is for the wrong one (a fresh mbarrier is in phase 0, and each time round the \
             other one is next), or those who would arrive wait themselves"
        }
    }
}
