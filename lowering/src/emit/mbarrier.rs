//! mbarriers (PTX ISA 9.7.13.15), and the election of the thread that arrives for a warp, warpgroup or partition.

use ir::elem::Elem;
use ir::entity::{Inst, Value};
use ir::ops::Op;
use ir::ops::arith::BinaryOp;
use ir::ops::mbarrier::{
    Arrivers, MbarrierArrive, MbarrierExpect, MbarrierInit, MbarrierInvalidate, MbarrierTryWait,
    MbarrierWait,
};
use ptx::{Addr, ArriveOp, Dest, MbarSpace, Operand, Predicate, Reg, RegClass, WaitOp};

use super::element::Element;
use super::{Emitted, Emitter, Lower};

const IN_CTA: Option<MbarSpace> = Some(MbarSpace::Cta);

/// The bits of a thread's number below its warp and its warpgroup.
const LANE_BITS: u32 = 31;
const WARPGROUP_BITS: u32 = 127;

impl Lower for MbarrierInit {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let addr = cx.view_address(self.barrier, 0);
        let guard = cx.one_thread(None);
        let init = ptx::MbarrierInit {
            space: IN_CTA,
            ..ptx::MbarrierInit::new(addr, self.count)
        };
        cx.code.push_guarded(guard, init);
        if !cx.is_followed_by_init(inst) {
            // One fence after the last initialization makes all mbarriers visible to TMA and to other CTAs.
            cx.code.push_guarded(guard, ptx::FenceMbarrierInit::new());
        }
        Ok(())
    }
}

impl Lower for MbarrierInvalidate {
    fn lower(&self, _: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let addr = cx.view_address(self.barrier, 0);
        let guard = cx.one_thread(None);
        let end = ptx::MbarrierInval {
            space: IN_CTA,
            ..ptx::MbarrierInval::new(addr)
        };
        cx.code.push_guarded(guard, end);
        Ok(())
    }
}

impl Lower for MbarrierExpect {
    fn lower(&self, _: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let addr = cx.view_address(self.barrier, 0);
        let guard = cx.one_thread(self.predicate.expand());
        let known = Element::int(self.bytes.into());
        let bytes = match self.count.expand() {
            Some(count) => {
                let count = cx.scalar(count);
                cx.code.int_binary(BinaryOp::Add, count, known, Elem::I32)
            }
            None => known,
        };
        let arrive = ptx::MbarrierArrive {
            space: IN_CTA,
            count: Some(cx.code.operand(bytes, Elem::I32)),
            ..ptx::MbarrierArrive::new(ArriveOp::ExpectTx, Dest::Sink, addr)
        };
        cx.code.push_guarded(guard, arrive);
        Ok(())
    }
}

impl Lower for MbarrierArrive {
    fn lower(&self, _: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let predicate = self.predicate.expand();
        let guard = match self.by {
            Arrivers::Partition => {
                cx.sync_partition();
                cx.one_thread(predicate)
            }
            Arrivers::Warp => {
                // The elected lane arrives for all lanes of the warp. Of what the others accessed by themselves only `bar.warp.sync` informs
                // it (PTX ISA 9.7.13.1); where they did not, `redundant` drops the barrier.
                cx.sync_warp();
                cx.thread_where_clear(LANE_BITS, predicate)
            }
            Arrivers::Warpgroup => cx.thread_where_clear(WARPGROUP_BITS, predicate),
            Arrivers::Thread => cx.every_thread(predicate),
        };
        let addr = cx.view_address(self.barrier, 0);
        let (space, addr) = match self.cta.expand() {
            // Without an order of its own: a release at the scope of the cluster would flush all of the CTA's memory at
            // every arrival, and the default releases what the CTA did.
            Some(cta) => (MbarSpace::Cluster, cx.in_cta(addr, cta)),
            None => (MbarSpace::Cta, addr),
        };
        let arrive = ptx::MbarrierArrive {
            space: Some(space),
            count: (self.count != 1).then(|| Operand::from(self.count)),
            ..ptx::MbarrierArrive::new(ArriveOp::Arrive, Dest::Sink, addr)
        };
        cx.code.push_guarded(guard, arrive);
        Ok(())
    }
}

impl Lower for MbarrierWait {
    fn lower(&self, _: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let wait = cx.try_phase(self.barrier, self.phase);
        let skip = self.predicate.expand().map(|p| cx.predicate(p));
        let over = cx.code.label("waited");
        if let Some(predicate) = skip {
            cx.code.branch(Some(Predicate::not(predicate)), over, false);
        }
        let again = cx.code.label("wait");
        cx.code.bind(again);
        let done = wait.done.reg();
        cx.code.push(wait);
        if let Some(done) = done {
            cx.code.branch(Some(Predicate::not(done)), again, false);
        }
        if skip.is_some() {
            cx.code.bind(over);
        }
        Ok(())
    }
}

impl Lower for MbarrierTryWait {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let mut wait = cx.try_phase(self.barrier, self.phase);
        if let Some(time) = self.suspend.expand() {
            let time = cx.scalar(time);
            wait.hint = Some(cx.code.operand(time, Elem::I32));
        }
        let done = wait.done.reg();
        cx.code.push(wait);
        let done = done.expect("the answer was asked for");
        cx.set_result(inst, vec![Element::from(done)]);
        Ok(())
    }
}

impl Emitter<'_> {
    /// The question whether a phase is complete.
    fn try_phase(&mut self, barrier: Value, phase: Value) -> ptx::MbarrierWait {
        let addr = self.view_address(barrier, 0);
        let phase = self.scalar(phase);
        let phase = match self.code.operand(phase, Elem::I32) {
            // The parity is the lowest bit, of a constant too that is known since folding.
            Operand::Int(phase) => Operand::Int(phase & 1),
            phase => phase,
        };
        let done = self.code.reg(RegClass::Pred);
        ptx::MbarrierWait {
            space: IN_CTA,
            ..ptx::MbarrierWait::new(WaitOp::TryParity, done, addr, phase)
        }
    }

    /// Does another barrier's beginning follow, with nothing between that could use this one?
    fn is_followed_by_init(&self, inst: Inst) -> bool {
        let insts = &self.func.region(self.func.parent(inst)).insts;
        let after = insts.iter().skip_while(|i| **i != inst).skip(1);
        let mut acting = after.map(|i| self.func.op(*i)).filter(|op| {
            let effects = op.rules().effects();
            effects.is_ordered || !effects.reads.is_none() || !effects.writes.is_none()
        });
        matches!(acting.next(), Some(Op::MbarrierInit(_)))
    }

    /// A predicate in a register.
    pub(super) fn predicate(&mut self, value: Value) -> Reg {
        let element = self.scalar(value);
        self.code.whole(element, Elem::I1)
    }

    /// Holds in one thread, and there only if `predicate` does.
    pub(super) fn one_thread(&mut self, predicate: Option<Value>) -> Option<Predicate> {
        self.thread_where_clear(self.code.partition.thread_bits(), predicate)
    }

    /// Holds in the threads that hold tiles, and there only if `predicate` does.
    pub(super) fn every_thread(&mut self, predicate: Option<Value>) -> Option<Predicate> {
        if self.code.partition.followers == 0 {
            return predicate.map(|p| Predicate::is(self.predicate(p)));
        }
        self.thread_where_clear(0, predicate)
    }

    /// Holds in those threads whose number has no bit of `mask`, and there only if `predicate` does.
    fn thread_where_clear(&mut self, mask: u32, predicate: Option<Value>) -> Option<Predicate> {
        if self.code.partition.is_one_thread {
            return predicate.map(|p| Predicate::is(self.predicate(p)));
        }
        let first = self.code.thread_bits_clear(mask);
        let Some(predicate) = predicate else {
            return Some(Predicate::is(first));
        };
        let asked = self.scalar(predicate);
        let both = self
            .code
            .int_binary(BinaryOp::And, first.into(), asked, Elem::I1);
        Some(Predicate::is(self.code.whole(both, Elem::I1)))
    }

    /// The place that a place in this CTA's shared memory has in another CTA of the cluster.
    pub(super) fn in_cta(&mut self, addr: Addr, cta: Value) -> Addr {
        let ptx::Base::Reg(base) = addr.base else {
            panic!("an address of shared memory begins at a register");
        };
        let rank = self.scalar(cta);
        let rank = self.code.operand(rank, Elem::I32);
        Addr::reg(self.code.mapa(base, rank), addr.offset)
    }
}
