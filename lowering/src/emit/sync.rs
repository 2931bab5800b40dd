//! Barriers of warps, CTAs and clusters.

use ir::entity::Inst;
use ir::ops::Op;
use ir::ops::sync::{Barrier, NamedArrive, NamedSync};

use super::partition::Partition;
use super::{Emitted, Emitter, Lower};

impl Lower for Barrier {
    fn lower(&self, _: Inst, cx: &mut Emitter<'_>) -> Emitted {
        cx.sync_partition();
        Ok(())
    }
}

impl Lower for NamedSync {
    fn lower(&self, _: Inst, cx: &mut Emitter<'_>) -> Emitted {
        cx.arrive_at_named(ptx::BarOp::Sync, self.number, self.threads);
        Ok(())
    }
}

impl Lower for NamedArrive {
    fn lower(&self, _: Inst, cx: &mut Emitter<'_>) -> Emitted {
        cx.arrive_at_named(ptx::BarOp::Arrive, self.number, self.threads);
        Ok(())
    }
}

impl Emitter<'_> {
    /// The barriers that the author named come after those of the CTA and of its partitions. An immediate tells ptxas that
    /// no others are used.
    fn arrive_at_named(&mut self, op: ptx::BarOp, number: u32, threads: u32) {
        let parting = self
            .func
            .walk()
            .into_iter()
            .find_map(|inst| match self.func.op(inst) {
                Op::WarpSpecialize(op) => Some(op.own_barriers()),
                _ => None,
            });
        let first = parting.expect("the verifier admits named barriers in partitions alone");
        self.code.push(ptx::Bar {
            threads: Some(threads.into()),
            ..ptx::Bar::new(op, first + number)
        });
    }

    /// `bar.warp.sync` of all lanes.
    pub(super) fn sync_warp(&mut self) {
        if !self.code.partition.is_one_thread {
            self.code.push(ptx::BarWarpSync::new(u32::MAX));
        }
    }

    /// A cluster barrier with release and acquire semantics.
    pub(super) fn sync_cluster(&mut self) {
        for op in [ptx::ClusterBarOp::Arrive, ptx::ClusterBarOp::Wait] {
            self.code.push(ptx::ClusterBar {
                aligned: true,
                ..ptx::ClusterBar::new(op)
            });
        }
    }
}

impl Emitter<'_> {
    /// A barrier of all threads of the partition: `bar.warp.sync` where that is one warp.
    pub(super) fn sync_partition(&mut self) {
        let Partition {
            warps,
            barrier,
            followers,
            is_one_thread,
            ..
        } = self.code.partition;
        if is_one_thread || warps == 1 && followers == 0 {
            self.sync_warp();
        } else if barrier == 0 {
            self.code.push(ptx::Bar::new(ptx::BarOp::Sync, 0));
        } else {
            self.code.push(ptx::Bar {
                threads: Some((warps * 32).into()),
                ..ptx::Bar::new(ptx::BarOp::Sync, barrier)
            });
        }
    }
}
