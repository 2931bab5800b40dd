//! Loops, branches and their ends.
//!
//! What is loop-carried, and what a branch results in, has one set of registers for its whole life; they are written at the
//! end of every way that leads there. All conditions are the same in every thread of the CTA, so all branches are uniform.

use ir::elem::{DType, Elem};
use ir::entity::{Inst, Region, Value};
use ir::ops::control::{Condition, For, If, Return, While, Yield, yielded};
use ir::ops::create::Const;
use ir::ops::rotation::rotation;
use ir::ops::{self, arith::BinaryOp as Op, flow};
use ptx::{Compare, Operand, Predicate, Reg, RegClass};

use crate::analysis::axis::Range;

use super::code::Code;
use super::element::{Element, Elements, arithmetic, class};
use super::loop_end::Ways;
use super::{Emitted, Emitter, Lower};

impl Lower for For {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let elem = cx.elem(self.low);
        let params = cx.func.region(self.body).params.clone();
        let carried: Vec<Slot> = self.inits.iter().map(|v| cx.slot(*v)).collect();
        let blank = cx.carried_blank(self);
        let low = cx.scalar(self.low);
        let high = cx.scalar(self.high);
        let high = cx.code.operand(high, elem);
        let index = cx.code.reg(class(elem));
        let low = cx.code.operand(low, elem);
        cx.code.copy(index, low);
        let (head, end) = (cx.code.label("for"), cx.code.label("done"));
        // The first test stands before the loop and the others at its end, so that an iteration has one branch.
        let is_entered = cx.is_entered(self);
        let none = (!is_entered).then(|| cx.code.setp(Compare::Ge, arithmetic(elem), low, high));
        if let Some(none) = none {
            cx.code.branch(Some(Predicate::is(none)), end, true);
        }
        // What follows is not computed where the loop is not entered: code behind the loop may not reuse it.
        if none.is_some() {
            cx.code.open();
        }
        let step = cx.scalar(self.step);
        let limit = (!cx.stays_in_type(self)).then(|| cx.code.last_start(high, step, elem));
        cx.code.bind(head);
        if cx.multiplies(self.body) {
            cx.code.keep_rolled();
        }
        cx.code.open();
        cx.set(params[0], vec![Element::from(index)]);
        for (param, slot) in params[1..].iter().zip(&carried) {
            cx.set(*param, slot.elements());
        }
        cx.enter_blank(&blank, self, index);
        cx.enter_restarted(inst, &carried);
        let stops = flow::stops_early(cx.func, cx.func.op(inst));
        let again = if stops { cx.code.label("again") } else { head };
        let ways = Ways {
            carried: &carried,
            again,
            left: &carried,
            done: end,
        };
        cx.loop_body(self.body, &ways)?;
        if stops {
            cx.code.bind(again);
        }
        // Neither the index nor the test is remembered: the register is written again.
        let again = cx.code.reg(RegClass::Pred);
        let test = |bound: Operand| {
            let dst = ptx::PairDest::from(again);
            ptx::Setp::new(Compare::Lt, arithmetic(elem), dst, index, bound)
        };
        if let Some(limit) = limit {
            cx.code.push(test(limit));
        }
        let next = cx.code.int_binary(Op::Add, index.into(), step, elem);
        let next = cx.code.operand(next, elem);
        cx.code.copy(index, next);
        if limit.is_none() {
            cx.code.push(test(high));
        }
        cx.code.branch(Some(Predicate::is(again)), head, true);
        cx.code.close();
        if none.is_some() {
            cx.code.close();
        }
        cx.code.bind(end);
        let results = cx.func.results(inst).to_vec();
        for (result, slot) in results.into_iter().zip(&carried) {
            cx.set(result, slot.elements());
        }
        cx.leave_blank(&blank, inst, none);
        Ok(())
    }
}

impl Emitter<'_> {
    /// Accumulators that end in the loop and begin again have the registers of their slots.
    fn enter_restarted(&mut self, inst: Inst, carried: &[Slot]) {
        if !carried.iter().any(|slot| slot.is_in_flight) {
            return;
        }
        let rotation = rotation(self.func, inst)
            .expect("the verifier lets no loop carry accumulators that exchange registers");
        for (slot, begin) in rotation.restarted {
            let registers = carried[slot].regs.clone();
            self.continued[self.func.result(begin)] = Some(registers);
        }
    }

    /// Does the region start products on the tensor cores? A loop that does is left rolled: copies of its products would write
    /// the same registers, which ptxas does not survive (see [`wgmma`](super::wgmma)), and the tensor cores are busy either way.
    fn multiplies(&self, region: Region) -> bool {
        let mut insts = Vec::new();
        self.func.walk_region(region, &mut insts);
        let is_product = |inst: Inst| matches!(self.func.op(inst), ops::Op::WgmmaStart(_));
        insts.into_iter().any(is_product)
    }

    /// Is the first index surely below the bound?
    fn is_entered(&self, op: &For) -> bool {
        let ends = (self.axes.range(op.low), self.axes.range(op.high));
        matches!(ends, (Some(low), Some(high)) if low.high < high.low)
    }

    /// Can the index be moved one step past the last iteration without wrapping around?
    fn stays_in_type(&self, op: &For) -> bool {
        let whole = self.elem(op.low).data().and_then(Range::of_type);
        let (high, step) = (self.axes.range(op.high), self.axes.range(op.step));
        match (whole, high, step) {
            // The last index is below the bound, so what follows it is at most a step minus one past the bound.
            (Some(whole), Some(high), Some(step)) => high.high + step.high - 1 <= whole.high,
            _ => false,
        }
    }
}

impl Code {
    /// Below this index another iteration follows: `high - step`, or the least number of the type where that is less.
    fn last_start(&mut self, high: Operand, step: Element, elem: Elem) -> Operand {
        let lowest = elem
            .data()
            .and_then(Range::of_type)
            .map_or(0, |r| r.low as i64);
        let least = self.int_binary(Op::Add, Element::int(lowest), step, elem);
        let high = self.int_binary(Op::Max, high.into(), least, elem);
        let limit = self.int_binary(Op::Sub, high, step, elem);
        self.operand(limit, elem)
    }
}

impl Lower for While {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let carried: Vec<Slot> = self.inits.iter().map(|v| cx.slot(*v)).collect();
        let passed = self.inits.iter().map(|&v| {
            if cx.is_in_flight(v) {
                cx.slot(v)
            } else {
                cx.empty_slot(v)
            }
        });
        let passed: Vec<Slot> = passed.collect();
        let (head, end) = (cx.code.label("while"), cx.code.label("done"));
        cx.code.bind(head);
        if cx.multiplies(self.before) || cx.multiplies(self.after) {
            cx.code.keep_rolled();
        }
        cx.code.open();
        cx.set_params(self.before, &carried);
        cx.region(self.before)?;
        let Some(ops::Op::Condition(condition)) = cx.func.terminator(self.before) else {
            panic!("the verifier ends the test of a `while` in a condition");
        };
        let go_on = cx.scalar(condition.condition);
        let go_on = cx.code.whole(go_on, Elem::I1);
        let values = yielded(cx.func, self.before).to_vec();
        cx.yield_values(&passed, &values);
        // The test of a `loop` says nothing.
        if cx.func.constant(condition.condition) != Some(Const::Int(1)) {
            cx.code.branch(Some(Predicate::not(go_on)), end, true);
        }
        cx.set_params(self.after, &passed);
        let ways = Ways {
            carried: &carried,
            again: head,
            left: &passed,
            done: end,
        };
        cx.loop_body(self.after, &ways)?;
        cx.code.branch(None, head, true);
        cx.code.close();
        cx.code.bind(end);
        let results = cx.func.results(inst).to_vec();
        for (result, slot) in results.into_iter().zip(&passed) {
            cx.set(result, slot.elements());
        }
        Ok(())
    }
}

impl Lower for If {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let results = cx.func.results(inst).to_vec();
        let slots: Vec<Slot> = results.iter().map(|v| cx.empty_slot(*v)).collect();
        let condition = cx.scalar(self.condition);
        let condition = cx.code.whole(condition, Elem::I1);
        let has_else = !slots.is_empty() || cx.func.region(self.otherwise).insts.len() > 1;
        let (otherwise, end) = (cx.code.label("else"), cx.code.label("endif"));
        let skip = if has_else { otherwise } else { end };
        cx.code.branch(Some(Predicate::not(condition)), skip, true);
        cx.arm(self.then, &slots)?;
        if has_else {
            cx.code.branch(None, end, true);
            cx.code.bind(otherwise);
            cx.arm(self.otherwise, &slots)?;
        }
        cx.code.bind(end);
        let given = yielded(cx.func, self.then).to_vec();
        for ((result, slot), given) in results.into_iter().zip(&slots).zip(given) {
            // An accumulator keeps its registers through both arms.
            let elements = if cx.is_in_flight(result) {
                cx.elements(given)
            } else {
                slot.elements()
            };
            cx.set(result, elements);
        }
        Ok(())
    }
}

impl Lower for Yield {
    /// The op that owns the region takes the values up.
    fn lower(&self, _: Inst, _: &mut Emitter<'_>) -> Emitted {
        Ok(())
    }
}

impl Lower for Condition {
    /// The op that owns the region takes the values up.
    fn lower(&self, _: Inst, _: &mut Emitter<'_>) -> Emitted {
        Ok(())
    }
}

impl Lower for Return {
    fn lower(&self, _: Inst, cx: &mut Emitter<'_>) -> Emitted {
        cx.code.push(ptx::Ret::new());
        Ok(())
    }
}

/// The registers of one variable that is written more than once.
pub(super) struct Slot {
    elem: Elem,
    regs: Vec<Reg>,
    /// Registers hold two half floats each, or four floats of 8 bits, as memory, arithmetic in pairs and the tensor cores do.
    is_packed: bool,
    /// They belong to an accumulator in flight.
    is_in_flight: bool,
}

/// Elements that a 32-bit register of a [`Slot`] holds. Integers of 8 and 16 bits are computed in 32 bits, one in a register; floats of 8 bits are
/// only converted and multiplied by the tensor cores, which take words.
fn packed(elem: Elem) -> usize {
    match elem.bytes() {
        1 if elem.data().is_some_and(DType::is_narrow_float) => 4,
        2 if class(elem) == RegClass::B16 => 2,
        _ => 1,
    }
}

impl Slot {
    fn elements(&self) -> Elements {
        if self.is_packed {
            let bits = 8 * self.elem.bytes() as usize;
            let parts = |&reg: &Reg| {
                let shifts = (0..32).step_by(bits);
                shifts.map(move |shift| Element::Part(reg, shift as u8))
            };
            return self.regs.iter().flat_map(parts).collect();
        }
        self.regs.iter().map(|&reg| Element::from(reg)).collect()
    }
}

impl Emitter<'_> {
    /// Registers for a value of the type of `like`; none for an accumulator, which has its own already.
    fn empty_slot(&mut self, like: Value) -> Slot {
        let elem = self.held(like);
        let ty = self.func.ty(like);
        if self.is_in_flight(like) {
            return Slot {
                elem,
                regs: Vec::new(),
                is_packed: false,
                is_in_flight: true,
            };
        }
        let count = self.count(ty);
        let per_word = packed(elem);
        let is_packed = per_word > 1 && count.is_multiple_of(per_word);
        let (class, count) = if is_packed {
            (RegClass::B32, count / per_word)
        } else {
            (class(elem), count)
        };
        Slot {
            elem,
            regs: (0..count).map(|_| self.code.reg(class)).collect(),
            is_packed,
            is_in_flight: false,
        }
    }

    fn is_in_flight(&self, value: Value) -> bool {
        self.func.ty(value).as_in_flight().is_some()
    }

    /// Registers that begin with a value. An accumulator stays in its own.
    fn slot(&mut self, init: Value) -> Slot {
        if self.is_in_flight(init) {
            return Slot {
                elem: self.elem(init),
                regs: self.in_flight(init),
                is_packed: false,
                is_in_flight: true,
            };
        }
        let slot = self.empty_slot(init);
        self.yield_values(std::slice::from_ref(&slot), &[init]);
        slot
    }

    fn set_params(&mut self, region: Region, slots: &[Slot]) {
        let params = self.func.region(region).params.clone();
        for (param, slot) in params.iter().zip(slots) {
            self.set(*param, slot.elements());
        }
    }

    fn arm(&mut self, region: Region, slots: &[Slot]) -> Emitted {
        self.code.open();
        self.region(region)?;
        let values = yielded(self.func, region).to_vec();
        self.yield_values(slots, &values);
        self.code.close();
        Ok(())
    }

    /// Writes values into slots, all at once: a value may be what another slot held before.
    pub(super) fn yield_values(&mut self, slots: &[Slot], values: &[Value]) {
        let mut moves: Vec<(Reg, Operand)> = Vec::new();
        for (slot, &value) in slots.iter().zip(values) {
            let elements = self.elements(value);
            let operands: Vec<Operand> = if slot.is_packed {
                self.code.pack_words(&elements, slot.elem)
            } else {
                let each = elements.iter();
                each.map(|&e| self.code.operand(e, slot.elem)).collect()
            };
            for (&reg, from) in slot.regs.iter().zip(operands) {
                if from != Operand::Reg(reg) {
                    moves.push((reg, from));
                }
            }
        }
        self.code.move_all(&moves);
    }
}

impl Code {
    /// Copies all at once. A source that another copy overwrites first is saved.
    fn move_all(&mut self, moves: &[(Reg, Operand)]) {
        let written: std::collections::HashSet<Reg> = moves.iter().map(|(to, _)| *to).collect();
        let saved: Vec<Operand> = moves
            .iter()
            .map(|&(to, from)| match from {
                Operand::Reg(reg) if written.contains(&reg) => {
                    let spare = self.reg(self.class(to));
                    self.copy(spare, from);
                    spare.into()
                }
                _ => from,
            })
            .collect();
        for (&(to, _), from) in moves.iter().zip(saved) {
            self.copy(to, from);
        }
    }
}
