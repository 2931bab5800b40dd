//! Shared memory lives as long as its CTA: what others do to it begins after the CTA has, and is over before the CTA ends.

use super::cta::{Cluster, Cta};
use super::launch::Context;
use super::order::{Actor, ActorId, Stamp};
use super::report;
use super::run::{Scene, Stepped, Worker};
use super::warp::Warp;
use crate::fault::{Fault, FaultKind, Trouble};

/// What must be over before a CTA ends: an access from another CTA, or a copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visit {
    stamp: Stamp,
    /// Who accessed, or started the copy.
    cta: usize,
    warp: u32,
    lanes: u32,
}

pub(crate) const ENDS_FIRST: &str = "let the CTA stay until this is over: the cluster meets behind it (`cluster_barrier_relaxed()`), or the CTA \
                          waits for the phase of an mbarrier that it completes";
const COPY_ENDS_FIRST: &str = "let a thread of that CTA wait for the phase of the mbarrier that counts the bytes; that the cluster meets does \
                               not say that they have come";

impl Worker<'_> {
    /// The executing warp accesses shared memory of another CTA, which must have begun, and must not end before.
    pub(crate) fn visit(
        &self,
        scene: &mut Scene<'_>,
        cta: usize,
        lanes: u32,
        stamp: Stamp,
    ) -> Stepped {
        if !self.context.launch.checks.races {
            return Ok(());
        }
        let warps = scene.cluster.ctas[cta].warps.len();
        let mut actors = (cta * warps..(cta + 1) * warps).map(ActorId::new);
        if !actors.any(|warp| scene.warp.knows.came.knows(warp, 1)) {
            let message = format!(
                "an access to the shared memory of CTA {cta} of the cluster, and nothing says that this CTA has begun"
            );
            let help = "the cluster meets first (`cluster_barrier_relaxed()`, or `cluster_barrier()` where it orders memory)";
            return Err(Trouble::new(FaultKind::Race, lanes, message).help(help));
        }
        scene.note_visit(cta, lanes, stamp);
        Ok(())
    }
}

impl Scene<'_> {
    /// The access must be over before the CTA ends.
    pub(crate) fn note_visit(&mut self, cta: usize, lanes: u32, stamp: Stamp) {
        let visit = Visit {
            stamp,
            cta: self.cta,
            warp: self.warp.index,
            lanes,
        };
        self.cluster.ctas[cta].visits.insert(stamp.actor, visit);
    }
}

impl Cluster {
    /// The last lanes of a warp have ended; the barrier of the cluster counts it as arrived.
    pub(crate) fn end_warp(&mut self, cta: usize, warp: &mut Warp) {
        self.ctas[cta].at_end.join(&warp.knows.came);
        if self.ctas.len() > 1 {
            self.leave_barrier(warp);
        }
    }
}

/// What is wrong with a cluster whose threads have all ended.
pub(crate) fn check_end(context: &Context<'_>, cluster: &Cluster) -> Result<(), Box<Fault>> {
    for (rank, cta) in cluster.ctas.iter().enumerate() {
        if context.launch.checks.races {
            check_visits(context, cluster, (rank, cta))?;
        }
        check_bytes(context, cluster, cta)?;
    }
    Ok(())
}

fn check_visits(
    context: &Context<'_>,
    cluster: &Cluster,
    (rank, cta): (usize, &Cta),
) -> Result<(), Box<Fault>> {
    let mut early = cta.visits.values();
    let is_early = |visit: &&Visit| !cta.at_end.knows(visit.stamp.actor, visit.stamp.epoch);
    let Some(visit) = early.find(is_early) else {
        return Ok(());
    };
    let owner = if cluster.ctas.len() > 1 {
        format!("CTA {rank} of the cluster")
    } else {
        "the CTA".to_owned()
    };
    let (what, help) = match cluster.actors.get(visit.stamp.actor) {
        Actor::Mbarrier(_) => (
            "this copy moves bytes of its shared memory",
            COPY_ENDS_FIRST,
        ),
        _ => ("this accesses its shared memory", ENDS_FIRST),
    };
    let message =
        format!("{owner} may end while {what}: none of its threads waits until that is over");
    let trouble = Trouble::new(FaultKind::Race, visit.lanes, message).help(help);
    let place = (cluster.ctas[visit.cta].index, visit.warp, visit.stamp.step);
    Err(report::fault(
        context.program,
        context.code,
        *trouble,
        place,
    ))
}

/// mbarriers that still expect bytes, or have got some that nobody expected.
fn check_bytes(context: &Context<'_>, cluster: &Cluster, cta: &Cta) -> Result<(), Box<Fault>> {
    let uneven = |(_, mbarrier): &(_, &super::mbarrier::Mbarrier)| mbarrier.bytes != 0;
    let Some((&address, mbarrier)) = cta.mbarriers.iter().find(uneven) else {
        return Ok(());
    };
    let (trouble, by) = mbarrier.uneven_bytes(address, "the kernel ends");
    let place = (cluster.ctas[by.cta].index, by.warp, by.step);
    Err(report::fault(
        context.program,
        context.code,
        *trouble,
        place,
    ))
}
