//! Which warps may have the next turn where the seed starves some of them.

use crate::machine::state::cluster::Cluster;
use crate::machine::state::context::Context;
use crate::machine::state::policy::{IDLE_STARVATION, LONGEST_STARVATION, Turns};

/// A warp: its CTA in the cluster, and its index there.
type At = (usize, usize);

/// The warps that may have the next turn: those that can run and are not starved, or the starved ones.
pub(super) fn runnable(context: &Context<'_>, cluster: &mut Cluster, warps: &[At]) -> Vec<At> {
    let is_starved = is_starved(context, cluster);
    let ready = warps
        .iter()
        .copied()
        .filter(|&(cta, warp)| cluster.ctas[cta].warps[warp].ready().is_some());
    let (starved, favoured): (Vec<At>, Vec<At>) = ready.partition(is_starved);
    if favoured.is_empty() {
        cluster.starving_since = None;
        return starved;
    }
    if !starved.is_empty() && has_starved_long(context, cluster, &favoured) {
        return starved;
    }
    favoured
}

/// Starved warps could run, and the favoured ones are preferred: for long enough?
fn has_starved_long(context: &Context<'_>, cluster: &mut Cluster, favoured: &[At]) -> bool {
    let since = *cluster.starving_since.get_or_insert(cluster.steps);
    let starved = cluster.steps - since;
    if starved > LONGEST_STARVATION {
        cluster.starving_since = None;
        return true;
    }
    starved > IDLE_STARVATION && all_poll_in_vain(context, cluster, favoured)
}

/// Do all the warps nothing but poll what nobody changes?
fn all_poll_in_vain(context: &Context<'_>, cluster: &Cluster, warps: &[At]) -> bool {
    let changes = context.member.changes();
    warps.iter().all(|&(cta, warp)| {
        let warp = &cluster.ctas[cta].warps[warp];
        warp.polls.are_in_vain(changes, warp.clock)
    })
}

/// Is a warp starved, so that it runs only when no other can, or at long last? The seed and the cluster decide this once for a launch.
fn is_starved(context: &Context<'_>, cluster: &Cluster) -> impl Fn(&At) -> bool + use<> {
    let number = (context.launch.seed / 5).wrapping_add(cluster.index) as usize;
    let (ctas, warps) = (cluster.ctas.len(), cluster.ctas[0].warps.len());
    let turns = context.policy.turns;
    move |&(cta, warp)| match turns {
        Turns::StarvedWarpgroup => warp / 4 == number % warps.div_ceil(4),
        Turns::StarvedCta if ctas > 1 => cta == number % ctas,
        Turns::StarvedCta => warp == number % warps,
        Turns::InOrder | Turns::Reversed | Turns::Random | Turns::Earliest => false,
    }
}
