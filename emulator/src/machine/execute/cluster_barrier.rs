//! The barrier of a cluster (PTX ISA 9.7.13.3).

use crate::fault::{FaultKind, Stepped, Trouble};
use crate::machine::state::cluster::Cluster;
use crate::machine::state::costs::CLUSTER_WAKE;
use crate::machine::state::scene::{Flow, Scene, Worker};
use crate::machine::state::warp::{Wait, Warp};

impl Worker<'_> {
    pub(crate) fn cluster_arrive(&mut self, scene: &mut Scene<'_>, releases: bool) -> Stepped {
        if scene.warp.cluster_arrivals & scene.mask != 0 {
            let message =
                "barrier.cluster.arrive twice without barrier.cluster.wait in between".to_owned();
            return Err(Trouble::new(FaultKind::IllegalOperand, scene.mask, message));
        }
        scene.warp.cluster_arrivals |= scene.mask;
        scene.warp.cluster_phase = scene.cluster.barrier.phase;
        scene.warp.converge(scene.mask);
        let arriving_at = &mut scene.cluster.barrier.arriving_at;
        *arriving_at = scene.warp.time.now.max(*arriving_at);
        let arriving = &mut scene.cluster.barrier.arriving;
        if releases {
            scene.warp.release_to(scene.mask, arriving);
        } else {
            scene
                .warp
                .release_order_to(scene.mask, &mut arriving.ordered);
        }
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
        let completed = &scene.cluster.barrier.completed;
        scene
            .warp
            .acquire(scene.mask, |clocks| clocks.join(completed));
        scene.warp.converge(scene.mask);
        let completed_at = scene.cluster.barrier.completed_at;
        scene.warp.time.wait_until(completed_at + CLUSTER_WAKE);
        Ok(Flow::Next)
    }
}

impl Cluster {
    /// A warp has exited, which counts as an arrival.
    pub(crate) fn leave_barrier(&mut self, warp: &mut Warp) {
        warp.release_order_to(u32::MAX, &mut self.barrier.arriving.ordered);
        self.finish_cluster_phase(Some(warp));
    }

    /// Completes the phase when every living thread has arrived.
    pub(crate) fn finish_cluster_phase(&mut self, running: Option<&mut Warp>) {
        let phase = self.barrier.phase;
        let has_arrived = |warp: &Warp| {
            warp.alive & !warp.cluster_arrivals == 0
                && (warp.alive == 0 || warp.cluster_phase == phase)
        };
        let others = self
            .ctas
            .iter()
            .flat_map(|cta| &cta.warps)
            .filter(|warp| warp.exists != 0);
        let all = others.clone().all(has_arrived)
            && running.as_ref().is_none_or(|warp| has_arrived(warp));
        let anyone = others.clone().any(|warp| warp.alive != 0)
            || running.as_ref().is_some_and(|warp| warp.alive != 0);
        if !all || !anyone {
            return;
        }
        self.barrier.phase += 1;
        let arrived = std::mem::take(&mut self.barrier.arriving);
        self.barrier.completed.join(&arrived);
        self.barrier.completed_at = std::mem::take(&mut self.barrier.arriving_at);
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

impl Cluster {
    /// The last lanes of a warp have exited; the barrier of the cluster counts it as arrived.
    pub(crate) fn end_warp(&mut self, cta: usize, warp: &mut Warp) {
        warp.release_order_to(u32::MAX, &mut self.ctas[cta].at_end);
        if self.ctas.len() > 1 {
            self.leave_barrier(warp);
        }
    }
}
