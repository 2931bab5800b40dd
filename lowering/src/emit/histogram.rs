//! Histograms: counters in shared memory, each element counted by the one thread that owns it.

use gluon_lang::elem::Elem;
use gluon_lang::entity::Inst;
use gluon_lang::ops::gather::Histogram;
use ptx::{AccessSem, AtomOp, BinaryOp, Compare, Operand, Predicate, Space, Type};

use super::element::Element;
use super::flat::Flat;
use super::{Emitted, Emitter, Lower};

impl Lower for Histogram {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let result = cx.tensor(cx.func.result(inst));
        let (bins, counters) = (result.shape[0], cx.distribution(result));
        let flat = Flat::new(&counters.map, 0, Elem::I32, self.scratch.start);
        let zeros = vec![Element::int(0); counters.registers()];
        flat.store(&counters, &zeros, cx);
        cx.meet();
        let elem = cx.elem(self.operand);
        let values = cx.elements(self.operand);
        let base = cx.shared_place(self.scratch.start, Operand::Int(0));
        for turn in cx.turns(self.operand, self.mask.expand()) {
            let value = cx.code.index_word(values[turn.register], elem);
            // Numbers below zero are beyond the last bin as well.
            let is_counted = cx.code.setp(Compare::Lt, Type::U32, value, bins);
            let is_counted = match turn.guard {
                Some(guard) => cx.code.both(is_counted, guard.reg),
                None => is_counted,
            };
            let moved = cx.code.binary(BinaryOp::Shl, Type::B32, value, 2_u32);
            let to = cx.code.address_of(base, moved);
            let count = ptx::Red {
                sem: Some(AccessSem::Relaxed),
                scope: Some(ptx::Scope::Cta),
                space: Some(Space::Shared),
                ..ptx::Red::new(AtomOp::Add, Type::U32, to, Operand::Int(1))
            };
            cx.code.push_guarded(Some(Predicate::is(is_counted)), count);
        }
        cx.meet();
        let counts = flat.load(&counters, cx);
        cx.set_result(inst, counts);
        Ok(())
    }
}
