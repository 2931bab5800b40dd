//! Loops, branches and their ends.
//!
//! What goes round a loop, and what leaves a branch, has one set of registers for its whole life; they are written at the
//! end of every way that leads there. All conditions are the same in every thread of the CTA, so all branches are uniform.

use gluon_lang::elem::Elem;
use gluon_lang::entity::{Inst, Value};
use gluon_lang::ops::control::{Condition, For, If, Return, While, Yield, yielded};
use ptx::{Compare, Operand, Predicate, Reg};

use super::code::Code;
use super::element::{Element, Elements, arithmetic, class};
use super::{Emitted, Emitter, Lower};

impl Lower for For {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let elem = cx.elem(self.low);
        let params = cx.func.region(self.body).params.clone();
        let carried: Vec<Slot> = self.inits.iter().map(|v| cx.slot(*v)).collect();
        let low = cx.scalar(self.low);
        let high = cx.scalar(self.high);
        let high = cx.code.operand(high, elem);
        let index = cx.code.reg(class(elem));
        let low = cx.code.operand(low, elem);
        cx.code.copy(index, low);
        let (head, end) = (cx.code.label("for"), cx.code.label("done"));
        // The first test stands before the loop and the others at its end, so that an iteration has one branch.
        let is_entered = matches!((cx.scalar(self.low).as_int(), cx.scalar(self.high).as_int()), (Some(l), Some(h)) if l < h);
        if !is_entered {
            let none = cx.code.setp(Compare::Ge, arithmetic(elem), low, high);
            cx.code.branch(Some(Predicate::is(none)), end, true);
        }
        cx.code.bind(head);
        cx.code.open();
        cx.set(params[0], vec![Element::from(index)]);
        for (param, slot) in params[1..].iter().zip(&carried) {
            cx.set(*param, slot.elements());
        }
        cx.region(self.body)?;
        let ends: Vec<Value> = yielded(cx.func, self.body).to_vec();
        let step = cx.scalar(self.step);
        cx.hand_on(&carried, &ends);
        let next = cx.code.int_binary(
            gluon_lang::ops::arith::BinaryOp::Add,
            index.into(),
            step,
            elem,
        );
        let next = cx.code.operand(next, elem);
        cx.code.copy(index, next);
        // The register was written since: what is known of it is known no more.
        let again = cx.code.reg(ptx::RegClass::Pred);
        cx.code.push(ptx::Setp::new(
            Compare::Lt,
            arithmetic(elem),
            ptx::PairDest::from(again),
            index,
            high,
        ));
        cx.code.branch(Some(Predicate::is(again)), head, true);
        cx.code.close();
        cx.code.bind(end);
        let results = cx.func.results(inst).to_vec();
        for (result, slot) in results.into_iter().zip(&carried) {
            cx.set(result, slot.elements());
        }
        Ok(())
    }
}

impl Lower for While {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let carried: Vec<Slot> = self.inits.iter().map(|v| cx.slot(*v)).collect();
        let passed: Vec<Slot> = self.inits.iter().map(|v| cx.empty_slot(*v)).collect();
        let (head, end) = (cx.code.label("while"), cx.code.label("done"));
        cx.code.bind(head);
        cx.code.open();
        cx.set_params(self.before, &carried);
        cx.region(self.before)?;
        let Some(gluon_lang::ops::Op::Condition(condition)) = cx.func.terminator(self.before)
        else {
            panic!("the verifier ends the test of a `while` in a condition");
        };
        let go_on = cx.scalar(condition.condition);
        let go_on = cx.code.whole(go_on, Elem::I1);
        let values = yielded(cx.func, self.before).to_vec();
        cx.hand_on(&passed, &values);
        cx.code.branch(Some(Predicate::not(go_on)), end, true);
        cx.set_params(self.after, &passed);
        cx.region(self.after)?;
        let ends = yielded(cx.func, self.after).to_vec();
        cx.hand_on(&carried, &ends);
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
        for (result, slot) in results.into_iter().zip(&slots) {
            cx.set(result, slot.elements());
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
struct Slot {
    elem: Elem,
    regs: Vec<Reg>,
}

impl Slot {
    fn elements(&self) -> Elements {
        self.regs.iter().map(|&reg| Element::from(reg)).collect()
    }
}

impl Emitter<'_> {
    /// Registers for a value of the type of `like`.
    fn empty_slot(&mut self, like: Value) -> Slot {
        let elem = self.elem(like);
        let count = self.count(self.func.ty(like));
        Slot {
            elem,
            regs: (0..count).map(|_| self.code.reg(class(elem))).collect(),
        }
    }

    /// Registers that begin with a value.
    fn slot(&mut self, init: Value) -> Slot {
        let slot = self.empty_slot(init);
        self.hand_on(std::slice::from_ref(&slot), &[init]);
        slot
    }

    fn set_params(&mut self, region: gluon_lang::entity::Region, slots: &[Slot]) {
        let params = self.func.region(region).params.clone();
        for (param, slot) in params.iter().zip(slots) {
            self.set(*param, slot.elements());
        }
    }

    fn arm(&mut self, region: gluon_lang::entity::Region, slots: &[Slot]) -> Emitted {
        self.code.open();
        self.region(region)?;
        let values = yielded(self.func, region).to_vec();
        self.hand_on(slots, &values);
        self.code.close();
        Ok(())
    }

    /// Writes values into slots, all at once: a value may be what another slot held before.
    fn hand_on(&mut self, slots: &[Slot], values: &[Value]) {
        let mut moves: Vec<(Reg, Operand)> = Vec::new();
        for (slot, &value) in slots.iter().zip(values) {
            let elements = self.elements(value);
            for (&reg, &element) in slot.regs.iter().zip(elements.iter()) {
                let from = self.code.operand(element, slot.elem);
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
