//! Meeting points of threads.

use gluon_lang::entity::Inst;
use gluon_lang::ops::sync::Barrier;

use super::{Emitted, Emitter, Lower};

impl Lower for Barrier {
    fn lower(&self, _: Inst, cx: &mut Emitter<'_>) -> Emitted {
        cx.meet();
        Ok(())
    }
}

impl Emitter<'_> {
    /// The lanes of each warp meet.
    pub(super) fn meet_warp(&mut self) {
        if !self.code.partition.is_one_thread {
            self.code.push(ptx::BarWarpSync::new(u32::MAX));
        }
    }

    /// All threads of all CTAs of the cluster meet, and see what the others wrote.
    pub(super) fn meet_cluster(&mut self) {
        for op in [ptx::ClusterBarOp::Arrive, ptx::ClusterBarOp::Wait] {
            self.code.push(ptx::ClusterBar {
                aligned: true,
                ..ptx::ClusterBar::new(op)
            });
        }
    }
}
