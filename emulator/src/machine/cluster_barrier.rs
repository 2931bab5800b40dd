//! The barrier of a cluster (PTX ISA 9.7.13.3).

use super::cta::Cluster;
use super::order::Knowledge;
use super::run::{Flow, Scene, Stepped, Worker};
use super::warp::{Wait, Warp};
use crate::fault::{FaultKind, Trouble};

/// One phase of the barrier. Threads that have ended count as arrived.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClusterBarrier {
    phase: u64,
    arriving: Knowledge,
    completed: Knowledge,
}

impl Worker<'_> {
    pub(crate) fn cluster_arrive(&mut self, scene: &mut Scene<'_>, releases: bool) -> Stepped {
        if scene.warp.cluster_arrivals & scene.mask != 0 {
            let message =
                "barrier.cluster.arrive twice without barrier.cluster.wait in between".to_owned();
            return Err(Trouble::new(FaultKind::IllegalOperand, scene.mask, message));
        }
        scene.warp.cluster_arrivals |= scene.mask;
        scene.warp.cluster_phase = scene.cluster.barrier.phase;
        let arriving = &mut scene.cluster.barrier.arriving;
        if releases {
            arriving.join(&scene.warp.knows);
        } else {
            arriving.came.join(&scene.warp.knows.came);
        }
        scene.warp.release();
        scene.cluster.finish_cluster_phase(Some(&mut *scene.warp));
        Ok(())
    }

    pub(crate) fn cluster_wait(&mut self, scene: &mut Scene<'_>) -> Stepped<Flow> {
        let missing = scene.mask & !scene.warp.cluster_arrivals;
        let is_over = scene.cluster.barrier.phase > scene.warp.cluster_phase;
        if missing != 0 && !is_over || missing == scene.mask {
            let message =
                "barrier.cluster.wait without barrier.cluster.arrive before it".to_owned();
            return Err(Trouble::new(FaultKind::IllegalOperand, missing, message));
        }
        if !is_over {
            return Ok(Flow::Park(Wait::Cluster));
        }
        scene.warp.cluster_arrivals &= !scene.mask;
        scene.warp.knows.join(&scene.cluster.barrier.completed);
        Ok(Flow::Next)
    }
}

impl Cluster {
    /// A warp has ended, which counts as an arrival.
    pub(crate) fn leave_barrier(&mut self, warp: &mut Warp) {
        self.barrier.arriving.came.join(&warp.knows.came);
        self.finish_cluster_phase(Some(warp));
    }

    /// Completes the phase when every living thread has arrived.
    pub(crate) fn finish_cluster_phase(&mut self, running: Option<&mut Warp>) {
        let phase = self.barrier.phase;
        let has_come = |warp: &Warp| {
            warp.alive & !warp.cluster_arrivals == 0
                && (warp.alive == 0 || warp.cluster_phase == phase)
        };
        let others = self
            .ctas
            .iter()
            .flat_map(|cta| &cta.warps)
            .filter(|warp| warp.exists != 0);
        let all =
            others.clone().all(has_come) && running.as_ref().is_none_or(|warp| has_come(warp));
        let anyone = others.clone().any(|warp| warp.alive != 0)
            || running.as_ref().is_some_and(|warp| warp.alive != 0);
        if !all || !anyone {
            return;
        }
        self.barrier.phase += 1;
        let arrived = std::mem::take(&mut self.barrier.arriving);
        self.barrier.completed.join(&arrived);
        let wake = |warp: &mut Warp| {
            for path in warp
                .paths
                .iter_mut()
                .filter(|path| path.wait == Wait::Cluster)
            {
                path.wait = Wait::Ready;
            }
        };
        self.ctas
            .iter_mut()
            .flat_map(|cta| &mut cta.warps)
            .for_each(wake);
        running.map(wake);
    }
}
