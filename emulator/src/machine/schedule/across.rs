//! Deadlocks across devices: every warp waits, or polls memory that nobody changes.

use crate::fault::{Fault, FaultKind, Related, Trouble};
use crate::machine::schedule::report::fault;
use crate::machine::state::cluster::Cluster;
use crate::machine::state::context::Context;
use crate::machine::state::peers::{Poll, Writer};
use crate::machine::state::warp::Warp;
use crate::program::source::{instruction_text, step_place};
use std::collections::BTreeMap;

/// Flags that a report names.
const MOST_FLAGS: usize = 8;

/// A flag that warps poll: the rank that polls it, the step, and the element.
type Flag = (u16, u64, u32, u32);

/// Can no warp of the clusters do anything but repeat reads of memory that nobody changes? Reads count where devices run as one.
pub(crate) fn are_stuck<'c>(
    context: &Context<'_>,
    clusters: impl IntoIterator<Item = &'c Cluster>,
) -> bool {
    let Some(peers) = &context.member.peers else {
        return false;
    };
    let changes = peers.changes();
    let is_stuck = |warp: &Warp| {
        warp.is_done() || warp.ready().is_none() || warp.polls.are_in_vain(changes, warp.clock)
    };
    let mut ctas = clusters.into_iter().flat_map(|cluster| &cluster.ctas);
    ctas.all(|cta| cta.warps.iter().all(is_stuck))
}

/// The report: what each rank polls, its value, and who wrote it.
pub(crate) fn deadlock(contexts: &[&Context<'_>], running: &[Cluster]) -> Box<Fault> {
    let mut flags: BTreeMap<Flag, Vec<(usize, u32)>> = BTreeMap::new();
    for (at, cluster) in running.iter().enumerate() {
        for warp in cluster.ctas.iter().flat_map(|cta| &cta.warps) {
            for poll in warp.polls.each.iter().filter(|_| !warp.is_done()) {
                let Poll {
                    step,
                    address,
                    bytes,
                } = *poll;
                let who = flags.entry((cluster.device, address, step, bytes));
                who.or_default().push((at, warp.index));
            }
        }
    }
    let ranks = contexts.len();
    let message = format!(
        "deadlock across {ranks} devices: every thread that has not exited waits, and nobody changes the memory that is polled"
    );
    let help = "each `wait` needs a `signal` of the rank that it waits for, with a count that is as large: compare the values above; counts only \
                grow from launch to launch, so that all ranks must launch equally often and none may reset a flag";
    let mut trouble = Trouble::new(FaultKind::Deadlock, 0, message).help(help);
    for (flag, who) in flags.iter().take(MOST_FLAGS) {
        let (at, warp) = who[0];
        let related = polled(contexts, *flag, (&running[at], warp, who.len()));
        trouble = trouble.see_elsewhere(related);
        for writer in writers(contexts, flag.1) {
            trouble = trouble.see_elsewhere(writer);
        }
    }
    let (cluster, place) = first(running, &flags);
    let context = contexts[usize::from(cluster.device)];
    let mut fault = fault(context.program, context.code, *trouble, place);
    fault.rank = Some(cluster.device.into());
    fault
}

/// The warp at which the report begins: one that polls, where there is one.
fn first<'c>(
    running: &'c [Cluster],
    flags: &BTreeMap<Flag, Vec<(usize, u32)>>,
) -> (&'c Cluster, ([u32; 3], u32, u32)) {
    if let Some(((_, _, step, _), who)) = flags.first_key_value() {
        let (at, warp) = who[0];
        let cluster = &running[at];
        return (cluster, (cluster.ctas[0].index, warp, *step));
    }
    let cluster = &running[0];
    let cta = &cluster.ctas[0];
    let path = cta
        .warps
        .iter()
        .find_map(|warp| Some((warp.index, warp.paths.first()?.pc)));
    let (warp, step) = path.unwrap_or_default();
    (cluster, (cta.index, warp, step))
}

/// What a flag is and reads as.
fn polled(
    contexts: &[&Context<'_>],
    (rank, address, step, bytes): Flag,
    (cluster, warp, count): (&Cluster, u32, usize),
) -> Related {
    let context = contexts[usize::from(rank)];
    let [x, y, z] = cluster.ctas[0].index;
    let who = match count {
        1 => format!("warp {warp} of CTA ({x},{y},{z}) of rank {rank} polls"),
        _ => format!("{count} warps of rank {rank} poll"),
    };
    let found = context.map.find(address, bytes.into());
    let flag = found.map_or_else(String::new, |number| {
        let allocation = &context.map.list()[number];
        let offset = (address - allocation.base) as usize;
        let value = allocation.element(offset, bytes.min(8));
        format!(
            ", byte {offset} of an allocation of {} bytes of rank {}, which is {value}",
            allocation.bytes, allocation.device
        )
    });
    let writers = match writers(contexts, address).len() {
        0 => "; no kernel has written it in this launch",
        _ => "",
    };
    Related {
        text: format!("{who} the flag at {address:#x}{flag}{writers}"),
        place: step_place(context.program, context.code, step),
        ptx: instruction_text(context.program, context.code, step),
    }
}

/// Who wrote a flag by strong operations, the last one last.
fn writers(contexts: &[&Context<'_>], address: u64) -> Vec<Related> {
    let peers = contexts[0].member.peers.as_ref();
    let writers = peers
        .map(|peers| peers.writers(address))
        .unwrap_or_default();
    let related = |writer: &Writer| {
        let context = contexts[usize::from(writer.from.device)];
        let index = writer.from.cluster - context.member.first_cluster;
        let [x, y, z] = context.cta_index(index.into(), writer.from.cta.into());
        Related {
            text: format!(
                "warp {} of CTA ({x},{y},{z}) of rank {} wrote the flag at {address:#x} here",
                writer.warp, writer.from.device
            ),
            place: step_place(context.program, context.code, writer.step),
            ptx: instruction_text(context.program, context.code, writer.step),
        }
    };
    writers.iter().map(related).collect()
}
