//! Clusters of CTAs, and launches that overlap (PTX ISA 9.7.13.3, 9.7.13.13).

use ir::entity::Inst;
use ir::ops::cluster::{
    ClusterArrive, ClusterBarrier, ClusterRank, ClusterWait, ExchangeInit, LaunchDependents,
    LaunchWait, RemoteLoad, RemoteStore,
};
use ir::ops::flow;
use ptx::{
    AccessSem, Addr, ClusterBar, ClusterBarOp, GridDepControl, GridDepOp, Mapa, MbarSpace, Operand,
    Predicate, Reg, RegClass, Space, Special, Type,
};

use super::code::{Code, Kind, key};
use super::element::Element;
use super::shared::View;
use super::vector::{Shape, plain_load, plain_store};
use super::{Emitted, Emitter, Lower};

impl Lower for ClusterBarrier {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        cx.cluster_barrier(inst, ClusterBarOp::Arrive, self.is_relaxed);
        cx.cluster_barrier(inst, ClusterBarOp::Wait, false);
        Ok(())
    }
}

impl Lower for ClusterArrive {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        cx.cluster_barrier(inst, ClusterBarOp::Arrive, self.is_relaxed);
        Ok(())
    }
}

impl Lower for ClusterWait {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        cx.cluster_barrier(inst, ClusterBarOp::Wait, false);
        Ok(())
    }
}

impl Emitter<'_> {
    fn cluster_barrier(&mut self, inst: Inst, op: ClusterBarOp, is_relaxed: bool) {
        self.code.push(ClusterBar {
            sem: is_relaxed.then_some(AccessSem::Relaxed),
            // A partition that one thread executes joins the others without the rest of its warp.
            aligned: !self.is_after_join(inst),
            ..ClusterBar::new(op)
        });
    }

    /// Does the instruction stand behind `warp_specialize`?
    fn is_after_join(&self, inst: Inst) -> bool {
        let body = &self.func.region(self.func.body).insts;
        let join = body
            .iter()
            .position(|i| flow::has_partitions(self.func.op(*i)));
        join.is_some_and(|join| body[join..].contains(&inst))
    }
}

impl Lower for ExchangeInit {
    fn lower(&self, _: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let base = cx.shared_address(0);
        let guard = cx.one_thread(None);
        for &at in &self.barriers {
            // One thread arrives for its CTA; the rest of a phase are bytes.
            let init = ptx::MbarrierInit {
                space: Some(MbarSpace::Cta),
                ..ptx::MbarrierInit::new(Addr::reg(base, at as i32), 1_u32)
            };
            cx.code.push_guarded(guard, init);
        }
        cx.code.push_guarded(guard, ptx::FenceMbarrierInit::new());
        Ok(())
    }
}

impl Lower for RemoteLoad {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let result = cx.func.result(inst);
        let distribution = cx.distribution(cx.tensor(result));
        let view = View::of(cx, self.view);
        let plan = cx.local_plan(inst);
        let mut loaded = vec![Element::int(0); distribution.registers()];
        for access in &plan.accesses {
            let addr = cx.access_address(&view, &plan, access.offset);
            let addr = cx.in_cta(addr, self.cta);
            let shape = Shape::new(view.ty.elem, access.registers.len());
            let regs = cx.code.vector_regs(shape, None);
            cx.code
                .load_into(shape, &regs, addr, None, &plain_load(Space::SharedCluster));
            let elements = cx.code.vector_elements(shape, &regs);
            for (&register, element) in access.registers.iter().zip(elements) {
                loaded[register as usize] = element;
            }
        }
        let elements: Vec<Element> = plan.originals.iter().map(|&r| loaded[r as usize]).collect();
        cx.set(result, elements);
        Ok(())
    }
}

impl Lower for RemoteStore {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let view = View::of(cx, self.view);
        let distribution = cx.distribution(cx.tensor(self.value));
        let elements = cx.elements(self.value);
        let plan = cx.local_plan(inst);
        let owner = distribution.owner(&mut cx.code).map(Predicate::is);
        for access in &plan.accesses {
            let addr = cx.access_address(&view, &plan, access.offset);
            let addr = cx.in_cta(addr, self.cta);
            let registers = access.registers.iter();
            let values: Vec<Element> = registers.map(|&r| elements[r as usize]).collect();
            let shape = Shape::new(view.ty.elem, values.len());
            let like = plain_store(Space::SharedCluster);
            cx.code.store(shape, &values, addr, owner, &like);
        }
        Ok(())
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
        let key = key(Kind::InPeer, 0, Type::U32, 0, &[address.into(), rank]);
        self.pure(key, RegClass::B32, |reg| {
            Mapa {
                space: Some(Space::SharedCluster),
                ..Mapa::new(Type::U32, reg, address, rank)
            }
            .into()
        })
    }
}
