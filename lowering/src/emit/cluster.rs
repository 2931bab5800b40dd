//! Clusters of CTAs, and launches that overlap (PTX ISA 9.7.13.3, 9.7.13.14).

use gluon_lang::entity::Inst;
use gluon_lang::ops::cluster::{ClusterBarrier, ClusterRank, LaunchDependents, LaunchWait};
use ptx::{
    AccessSem, ClusterBar, ClusterBarOp, GridDepControl, GridDepOp, Mapa, Operand, Reg, RegClass,
    Special, Type,
};

use super::code::{Code, key};
use super::{Emitted, Emitter, Lower};

impl Lower for ClusterBarrier {
    fn lower(&self, _: Inst, cx: &mut Emitter<'_>) -> Emitted {
        cx.code
            .push(cluster_barrier(ClusterBarOp::Arrive, self.is_relaxed));
        cx.code.push(cluster_barrier(ClusterBarOp::Wait, false));
        Ok(())
    }
}

fn cluster_barrier(op: ClusterBarOp, is_relaxed: bool) -> ClusterBar {
    ClusterBar {
        sem: is_relaxed.then_some(AccessSem::Relaxed),
        aligned: true,
        ..ClusterBar::new(op)
    }
}

impl Lower for ClusterRank {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let rank = cx
            .code
            .in_prologue(|code| code.mov(Type::U32, Special::ClusterCtaRank));
        cx.set_result(inst, vec![rank.into()]);
        Ok(())
    }
}

impl Lower for LaunchWait {
    fn lower(&self, _: Inst, cx: &mut Emitter<'_>) -> Emitted {
        cx.code.push(GridDepControl::new(GridDepOp::Wait));
        Ok(())
    }
}

impl Lower for LaunchDependents {
    fn lower(&self, _: Inst, cx: &mut Emitter<'_>) -> Emitted {
        cx.code
            .push(GridDepControl::new(GridDepOp::LaunchDependents));
        Ok(())
    }
}

impl Code {
    /// The address in the cluster's window of what lies at `address` in the shared memory of the CTA of this rank.
    pub(super) fn mapa(&mut self, address: Reg, rank: Operand) -> Reg {
        let key = key(16, 0, Type::U32, 0, &[address.into(), rank]);
        self.pure(key, RegClass::B32, |reg| {
            Mapa {
                space: Some(ptx::Space::SharedCluster),
                ..Mapa::new(Type::U32, reg, address, rank)
            }
            .into()
        })
    }
}
