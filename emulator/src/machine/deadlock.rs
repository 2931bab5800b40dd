//! Who waits for what, when nothing can run.

use super::cta::{Cluster, Cta};
use super::launch::Context;
use super::report::name_step;
use super::schedule::cluster_fault;
use super::warp::Wait;
use crate::fault::{Fault, FaultKind, LaneSet};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The fault of a cluster in which every thread waits.
pub(super) fn fault(context: &Context<'_>, cluster: &Cluster) -> Box<Fault> {
    let mut message =
        "deadlock: every thread that is left waits for something that cannot come".to_owned();
    describe(context, cluster, &mut message);
    cluster_fault(context, cluster, FaultKind::Deadlock, message)
}

/// The fault of a cluster that has run for too long.
pub(super) fn step_limit(context: &Context<'_>, cluster: &Cluster) -> Box<Fault> {
    let limit = context.launch.max_steps;
    let mut message =
        format!("the CTA has executed {limit} warp instructions, the limit of the launch");
    describe(context, cluster, &mut message);
    cluster_fault(context, cluster, FaultKind::StepLimit, message)
}

fn describe(context: &Context<'_>, cluster: &Cluster, message: &mut String) {
    for cta in &cluster.ctas {
        barriers(context, cta, message);
        warps(context, cluster, cta, message);
    }
}

fn barriers(context: &Context<'_>, cta: &Cta, message: &mut String) {
    for (id, barrier) in cta
        .barriers
        .iter()
        .enumerate()
        .filter(|(_, barrier)| barrier.arrived > 0)
    {
        let _ = write!(
            message,
            "\n  barrier {id}: {} of {} threads have arrived",
            barrier.arrived, barrier.expected
        );
        let mut by_step: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for arrival in &barrier.arrivals {
            by_step.entry(arrival.step).or_default().push(arrival.warp);
        }
        for (step, warps) in by_step {
            let place = name_step(context.program, context.code, step);
            let _ = write!(message, "; {} at {place}", list(&warps));
        }
    }
}

fn warps(context: &Context<'_>, cluster: &Cluster, cta: &Cta, message: &mut String) {
    let mut ended = Vec::new();
    let mut elsewhere: BTreeMap<(u32, u32), (Vec<u32>, Wait)> = BTreeMap::new();
    for warp in &cta.warps {
        if warp.is_done() {
            ended.push(warp.index);
        }
        for path in warp
            .paths
            .iter()
            .filter(|path| !matches!(path.wait, Wait::Barrier(_)))
        {
            elsewhere
                .entry((path.pc, path.mask))
                .or_insert_with(|| (Vec::new(), path.wait))
                .0
                .push(warp.index);
        }
    }
    for ((step, mask), (warps, wait)) in elsewhere {
        let place = name_step(context.program, context.code, step);
        let _ = write!(
            message,
            "\n  {}, lanes {}: at {place}",
            list(&warps),
            LaneSet(mask)
        );
        message.push_str(&awaited(context, cluster, wait));
    }
    if !ended.is_empty() {
        let _ = write!(
            message,
            "\n  {} ended",
            if ended.len() == 1 {
                format!("{} has", list(&ended))
            } else {
                format!("{} have", list(&ended))
            }
        );
    }
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

/// What a path waits for, where the instruction does not say it.
fn awaited(context: &Context<'_>, cluster: &Cluster, wait: Wait) -> String {
    match wait {
        Wait::Cluster => ", for other CTAs of the cluster".to_owned(),
        Wait::Registers => ", for registers that other warps have".to_owned(),
        Wait::Warpgroup => ", for the other warps of the warpgroup to issue the product".to_owned(),
        Wait::Lanes => ", for other lanes of the warp".to_owned(),
        Wait::Ready | Wait::Barrier(_) | Wait::PhaseOver(..) => String::new(),
        Wait::Mbarrier(id, _) => {
            let Some(mbarrier) = cluster.ctas[usize::from(id.cta)].mbarriers.get(&id.address)
            else {
                return format!(", for the mbarrier at {:#x}, which is no more", id.address);
            };
            let missing = match mbarrier.bytes {
                bytes @ ..0 => format!(
                    "arrivals are missing, and {} bytes more have come than were expected",
                    -bytes
                ),
                bytes => format!("arrivals and {bytes} bytes are missing"),
            };
            format!(
                ", for phase {} of the mbarrier at {:#x} (initialised at {}): {} of {} {missing}",
                mbarrier.phase,
                id.address,
                name_step(context.program, context.code, mbarrier.init.step),
                mbarrier.pending,
                mbarrier.count,
            )
        }
    }
}
