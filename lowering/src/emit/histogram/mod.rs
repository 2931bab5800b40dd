//! Histograms: counters in shared memory, each element counted by the one thread that owns it. Last, CTAs of a cluster that
//! split the elements add up what they counted: of all bins, which they send each other, or each of its share of the bins,
//! which it reads in the memory of the others.

mod shares;

use std::rc::Rc;

use ir::elem::Elem;
use ir::entity::Inst;
use ir::ops::arith::BinaryOp as Op;
use ir::ops::gather::Histogram;
use ptx::{AccessSem, AtomOp, BinaryOp, Compare, Operand, Predicate, Space, Type};

use super::distribute::Distribution;
use super::element::Element;
use super::flat::Flat;
use super::peers::Exchange;
use super::{Emitted, Emitter, Lower};
use crate::analysis::scratch::histogram::{Shares, Sizes};

impl Lower for Histogram {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let result = cx.tensor(cx.func.result(inst));
        let (bins, counters) = (result.shape[0], cx.distribution(result));
        let shares = Shares::of(cx.func, inst, self);
        let all = match shares {
            Some(_) => shares::all_bins(&counters.map, cx.func.warps_at(inst)),
            None => Rc::clone(&counters),
        };
        let flat = Flat::new(&all.map, 0, Elem::I32, self.scratch.start);
        let zeros = vec![Element::int(0); all.registers()];
        flat.store(&all, &zeros, cx);
        cx.sync_partition();
        let elem = cx.elem(self.operand);
        let values = cx.elements(self.operand);
        let base = cx.shared_place(self.scratch.start, Operand::Int(0));
        for turn in cx.turns(self.operand, self.mask.expand()) {
            let value = cx.code.whole(values[turn.register], elem);
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
        if let Some(shares) = shares {
            let counts = shares.add_up(&flat, &counters, cx);
            cx.set_result(inst, counts);
            return Ok(());
        }
        cx.sync_partition();
        let mut counts = flat.load(&counters, cx);
        if let Some(sizes) = Sizes::new(cx.func, inst, self) {
            sizes.add_up(self, &counters, &mut counts, cx);
        }
        cx.set_result(inst, counts);
        Ok(())
    }
}

impl Sizes {
    /// Each CTA sends its counts to all others, and adds up what they send.
    fn add_up(
        &self,
        op: &Histogram,
        counters: &Distribution,
        counts: &mut [Element],
        cx: &mut Emitter<'_>,
    ) {
        let bin = |packed: u64| counters.coordinate(packed, 0);
        let numbers: Vec<u32> = counters.thread_bases().map(bin).collect();
        let exchange = Exchange {
            area: &self.area,
            place: op.scratch.start + self.start,
            rank_bits: &self.rank_bits,
            sender_numbers: &numbers,
            thread_numbers: &numbers,
            elems: &[Elem::I32],
        };
        let own = (0..counts.len()).filter(|&register| counters.is_own(register));
        let tuples: Vec<(u32, Vec<Element>)> = own
            .map(|register| (bin(counters.offsets[register]), vec![counts[register]]))
            .collect();
        let sent: Vec<_> = tuples.iter().map(|(bin, count)| (*bin, count)).collect();
        let wanted: Vec<u32> = tuples.iter().map(|(bin, _)| *bin).collect();
        let mut sums = exchange.run(&sent, &wanted, cx).into_iter().map(|parts| {
            let parts = parts.into_iter().map(|part| part[0]);
            let sum = parts.reduce(|a, b| cx.code.int_binary(Op::Add, a, b, Elem::I32));
            sum.expect("every part has a count")
        });
        for register in 0..counts.len() {
            let original = counters.original(register);
            counts[register] = if original == register {
                sums.next().expect("every register of its own was sent")
            } else {
                counts[original]
            };
        }
    }
}
