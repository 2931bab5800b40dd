//! Accesses to the shared memory of another CTA of the cluster, which lives as long as that CTA.

use crate::fault::{FaultKind, Stepped, Trouble};
use crate::lanes::LANES;
use crate::machine::order::{ActorId, Stamp};
use crate::machine::state::cluster::RemoteAccess;
use crate::machine::state::scene::{Scene, Worker};

pub(crate) const ENDS_FIRST: &str = "the CTA must not exit before this access is over: put a cluster barrier after it (`cluster_barrier_relaxed()`), or have \
                          the CTA wait for the phase of an mbarrier that it completes";

impl Worker<'_> {
    /// The executing warp accesses shared memory of another CTA, which must have started, and must not exit before.
    pub(crate) fn access_remote(
        &self,
        scene: &mut Scene<'_>,
        cta: usize,
        lanes: u32,
        stamp: Stamp,
    ) -> Stepped {
        if !self.context.launch.checks.races {
            return Ok(());
        }
        let ordered = &scene
            .warp
            .clocks
            .of(lanes.trailing_zeros() as usize % LANES)
            .ordered;
        let warps = scene.cluster.ctas[cta].warps.len();
        let mut actors = (cta * warps..(cta + 1) * warps).map(ActorId::new);
        if !actors.any(|warp| ordered.includes(warp, 1)) {
            let message = format!(
                "an access to the shared memory of CTA {cta} of the cluster, and nothing orders it after the start of that CTA"
            );
            let help = "put a cluster barrier first (`cluster_barrier_relaxed()`, or `cluster_barrier()` where it orders memory)";
            return Err(Trouble::new(FaultKind::Race, lanes, message).help(help));
        }
        scene.note_remote_access(cta, lanes, stamp);
        Ok(())
    }
}

impl Scene<'_> {
    /// The access must be over before the CTA exits.
    pub(crate) fn note_remote_access(&mut self, cta: usize, lanes: u32, stamp: Stamp) {
        let remote = RemoteAccess {
            stamp,
            cta: self.cta,
            warp: self.warp.index,
            lanes,
        };
        self.cluster.ctas[cta]
            .remote_accesses
            .insert(stamp.actor, remote);
    }
}
