//! Accumulators that begin at zero, and need no zeroes in their registers: the first product that is added says that what
//! is there does not count (PTX ISA, `wgmma`, scale-d). In a loop that is the first iteration; where the loop is not entered
//! at all, cold code writes the zeroes that were never needed.

use ir::entity::{Inst, Region, Value};
use ir::ops::Op;
use ir::ops::control::For;
use ptx::{Compare, Operand, Predicate, Reg};

use super::Emitter;
use super::element::{Element, arithmetic};
use super::scale_d::Blank;
use super::wgmma::zero;

impl Emitter<'_> {
    /// May this beginning of an accumulator leave its registers as they are?
    pub(super) fn begins_blank(&self, begin: Inst, init: Value) -> bool {
        let is_zero = |e: &Element| matches!(e, Element::Whole(Operand::F32(0) | Operand::Int(0)));
        let result = self.func.result(begin);
        self.elements(init).iter().all(is_zero)
            && self
                .only_user(result, self.func.parent(begin))
                .is_some_and(|user| match self.func.op(user) {
                    Op::For(op) => self.adds_from_blank(user, op, result),
                    _ => self.adds_to(user, result),
                })
    }

    /// Does every iteration of a loop begin the use of the accumulator that it carries with a product, and is what the loop
    /// leaves waited for?
    fn adds_from_blank(&self, inst: Inst, op: &For, init: Value) -> bool {
        let Some(at) = op.inits.iter().position(|v| *v == init) else {
            return false;
        };
        let param = self.func.region(op.body).params[at + 1];
        let adds = |user| self.adds_to(user, param);
        let is_waited_for = |user| {
            let results = self.func.results(user);
            matches!(self.func.op(user), Op::WgmmaWait(_))
                && results
                    .iter()
                    .all(|v| self.func.ty(*v).as_tensor().is_some())
        };
        let result = self.func.results(inst)[at];
        self.only_user(param, op.body).is_some_and(adds)
            && self
                .only_user(result, self.func.parent(inst))
                .is_some_and(is_waited_for)
    }

    /// The only user of a value, if it stands in this region.
    fn only_user(&self, value: Value, region: Region) -> Option<Inst> {
        match self.uses().of_value(value) {
            [user] if self.func.parent(*user) == region => Some(*user),
            _ => None,
        }
    }

    /// Is it a product that the tensor cores add to the accumulator by themselves?
    fn adds_to(&self, user: Inst, to: Value) -> bool {
        match self.func.op(user) {
            Op::WgmmaStart(op) => op.accumulator == to && op.promote_every == 0,
            _ => false,
        }
    }

    /// Where in what a loop carries its blank accumulators are.
    pub(super) fn carried_blank(&self, op: &For) -> Vec<usize> {
        let inits = op.inits.iter().enumerate();
        let blank = inits.filter(|(_, init)| self.blank[**init].is_some());
        blank.map(|(at, _)| at).collect()
    }

    /// At the beginning of a loop's body: the accumulators are blank while the index is the first.
    pub(super) fn enter_blank(&mut self, blank: &[usize], op: &For, index: Reg) {
        if blank.is_empty() {
            return;
        }
        let elem = self.elem(op.low);
        let low = self.scalar(op.low);
        let low = self.code.operand(low, elem);
        let is_later = self.code.setp(Compare::Ne, arithmetic(elem), index, low);
        for at in blank {
            let param = self.func.region(op.body).params[at + 1];
            self.blank[param] = Some(Blank::Unless(is_later));
        }
    }

    /// After a loop that is not entered where `none` holds: its accumulators are blank there.
    pub(super) fn leave_blank(&mut self, blank: &[usize], inst: Inst, none: Option<Reg>) {
        for &at in blank {
            let result = self.func.results(inst)[at];
            self.blank[result] = none.map(Blank::If);
        }
    }

    /// Writes the zeroes that an accumulator counts as, where its registers hold nothing. Products before have been waited
    /// for.
    pub(super) fn clear_blank(&mut self, accumulator: Value, registers: &[Reg]) {
        let Some(Blank::If(none)) = self.blank[accumulator] else {
            return;
        };
        let zero = zero(self.elem(accumulator));
        let (clear, back) = (self.code.label("clear"), self.code.label("cleared"));
        self.code.branch(Some(Predicate::is(none)), clear, true);
        self.code.bind(back);
        self.code.out_of_line(clear, back, |code| {
            for &reg in registers {
                code.copy(reg, zero);
            }
        });
    }
}
