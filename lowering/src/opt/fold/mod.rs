//! `fold`: computes what is known, and replaces what does nothing.
//!
//! Integers are taken from the axis analysis, so a comparison whose outcome the bounds decide is folded too. What a
//! constant condition or trip count leaves of a branch or loop moves into the region around it.
//!
//! Matches on ops: promises are made of the ops that `Assumed` reads.

mod control;
mod float;
mod identity;
mod implied;
mod memory;
mod moved;
mod outcome;

#[cfg(test)]
mod tests;

use cranelift_entity::EntitySet;
use diag::Diagnostics;
use ir::Func;
use ir::elem::Elem;
use ir::entity::{Inst, Region, Value};
use ir::ops::arith::BinaryOp;
use ir::ops::control::handed_on_by;
use ir::ops::create::{Const, Uniform};
use ir::ops::{Op, Values};

use self::outcome::Outcome;
use super::replace::Replaced;
use crate::analysis::axis::Axes;

/// Folds everything, in one walk in program order.
pub fn run(func: &mut Func, _: &mut Diagnostics) {
    let axes = Axes::of(func);
    let promised = promises(func);
    let mut fold = Fold {
        func,
        axes,
        promised,
        replaced: Replaced::default(),
    };
    fold.region(fold.func.body);
}

/// What the author's promises are made of. They hold because they are promised: folded to constants they would be gone, and
/// what they say unknown to all that comes after.
fn promises(func: &Func) -> EntitySet<Inst> {
    let insts = func.region(func.body).insts.iter();
    let mut open: Vec<Value> = insts
        .filter_map(|inst| func.op(*inst).rules().promise())
        .collect();
    let mut promised = EntitySet::new();
    while let Some(value) = open.pop() {
        let Some(inst) = func.def_inst(value) else {
            continue;
        };
        let is_part = match func.op(inst) {
            Op::Compare(_) => true,
            Op::Binary(op) => matches!(op.op, BinaryOp::And | BinaryOp::Rem),
            _ => false,
        };
        if is_part && promised.insert(inst) {
            open.extend(func.op(inst).operands());
        }
    }
    promised
}

struct Fold<'f> {
    func: &'f mut Func,
    axes: Axes,
    promised: EntitySet<Inst>,
    replaced: Replaced,
}

impl Fold<'_> {
    fn region(&mut self, region: Region) {
        let mut out = Vec::with_capacity(self.func.region(region).insts.len());
        self.insts(region, &mut out);
        self.func.set_insts(region, out);
    }

    /// Folds the instructions of a region and appends what is left of them.
    fn insts(&mut self, region: Region, out: &mut Vec<Inst>) {
        for inst in self.func.region(region).insts.clone() {
            self.inst(inst, out);
        }
    }

    fn inst(&mut self, inst: Inst, out: &mut Vec<Inst>) {
        self.replaced.apply(self.func, inst);
        loop {
            match self.outcome(inst) {
                None => break,
                Some(Outcome::Op(op)) => self.func.replace_op(inst, op),
                Some(Outcome::Nothing) => return,
                Some(Outcome::Values(values)) => {
                    return self.replaced.replace_results(self.func, inst, &values);
                }
                Some(Outcome::Inline { region, params }) => {
                    return self.inline(inst, region, &params, out);
                }
            }
        }
        for region in self.func.op(inst).regions() {
            self.region(region);
        }
        out.push(inst);
    }

    /// One step; nothing is left to do with what a promise is made of, unless it is made of constants.
    fn outcome(&self, inst: Inst) -> Option<Outcome> {
        let operands = self.func.op(inst).operands();
        let mut constants = operands.iter().map(|v| self.func.constant(*v));
        let is_kept = self.promised.contains(inst) && !constants.all(|c| c.is_some());
        if is_kept {
            return None;
        }
        outcome(self.func, &self.axes, inst)
    }

    /// Moves the instructions of `region` out; what it yields are the results of `inst`.
    fn inline(&mut self, inst: Inst, region: Region, params: &[Value], out: &mut Vec<Inst>) {
        let declared = self.func.region(region).params.clone();
        for (param, &value) in declared.into_iter().zip(params) {
            self.replaced.replace(self.func, param, value);
        }
        self.insts(region, out);
        let end = out.pop().expect("a region ends in its terminator");
        let yielded = Values::from_slice(handed_on_by(self.func.op(end)));
        self.replaced.replace_results(self.func, inst, &yielded);
    }
}

/// One step; `None` when nothing is left to do.
fn outcome(func: &Func, axes: &Axes, inst: Inst) -> Option<Outcome> {
    let op = func.op(inst);
    if matches!(op.rules().uniform(), Some(Uniform::Constant(_))) {
        return None;
    }
    if let Some(value) = known_integer(func, axes, inst) {
        return Some(Outcome::constant(Const::Int(value)));
    }
    let result = func.results(inst).first().copied();
    let ty = result.map(|v| func.ty(v));
    let elementwise = ty.and_then(|ty| identity::simplified(func, op, ty));
    elementwise
        .or_else(|| ty.and_then(|ty| float::computed(func, op, ty)))
        .or_else(|| implied::comparison(func, axes, op))
        .or_else(|| ty.and_then(|_| moved::uniform(func, op)))
        .or_else(|| memory::without_mask(func, op))
        .or_else(|| control::decided(func, axes, op))
}

/// The integer or boolean that every element of the only result is.
fn known_integer(func: &Func, axes: &Axes, inst: Inst) -> Option<i128> {
    let [result] = func.results(inst) else {
        return None;
    };
    let is_countable = matches!(func.ty(*result).elem(), Some(Elem::Data(d)) if !d.is_float());
    let op = func.op(inst);
    let is_free = op.rules().effects().is_droppable() && op.regions().is_empty();
    if is_countable && is_free {
        axes.constant(*result)
    } else {
        None
    }
}
