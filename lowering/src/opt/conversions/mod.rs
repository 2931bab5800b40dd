//! `remove-conversions`: fewer and smaller layout conversions.
//!
//! - A conversion of a conversion is one conversion.
//! - What is the same in every element is made in the layout wanted.
//! - `op(convert a, convert b)` with `a` and `b` in one layout becomes `convert op(a, b)`: one instead of two.
//! - `convert op(a)` becomes `op(convert a)` where `a` has fewer bytes than the result: a cast to a wider type, a
//!   comparison read backward.
//!
//! Conversions that must be free, and kernels that allow none, are held to it here.
//!
//! Matches on ops: it removes the op `convert_layout`.

mod contracts;
#[cfg(test)]
mod tests;

use cranelift_entity::SecondaryMap;
use diag::Diagnostics;
use ir::entity::{Inst, Region, Value};
use ir::ops::create::Uniform;
use ir::ops::layout::ConvertLayout;
use ir::ops::{Op, Scratch, Values};
use ir::{Func, TensorType, Type};
use layout::Layout;

use super::replace::Replaced;

/// Removes, merges and moves conversions.
pub fn run(func: &mut Func, found: &mut Diagnostics) {
    if !func
        .walk()
        .iter()
        .any(|inst| conversion(func, *inst).is_some())
    {
        return;
    }
    contracts::check_trivial(func, found);
    let uses = func.use_counts();
    let mut moved = Moved {
        func,
        uses,
        replaced: Replaced::default(),
    };
    moved.region(moved.func.body);
    if func.contracts.denies_conversions {
        contracts::check_denied(func, found);
    }
}

struct Moved<'f> {
    func: &'f mut Func,
    uses: SecondaryMap<Value, u32>,
    replaced: Replaced,
}

impl Moved<'_> {
    fn region(&mut self, region: Region) {
        let old = self.func.region(region).insts.clone();
        let mut new = Vec::with_capacity(old.len());
        for &inst in &old {
            self.inst(inst, &mut new);
        }
        // One may be gone and another be new.
        if new != old {
            self.func.set_insts(region, new);
        }
    }

    fn inst(&mut self, inst: Inst, out: &mut Vec<Inst>) {
        self.replaced.apply(self.func, inst);
        for region in self.func.op(inst).regions() {
            self.region(region);
        }
        if conversion(self.func, inst).is_some() {
            self.merge(inst);
            if self.is_rematerialized(inst) {
                out.push(inst);
            } else if !self.is_undone(inst) {
                self.rise(inst, out);
            }
        } else {
            self.sink(inst, out);
        }
    }

    /// A conversion of a conversion starts where the first one does.
    fn merge(&mut self, inst: Inst) {
        let Some(outer) = conversion(self.func, inst).cloned() else {
            return;
        };
        let inner = self
            .func
            .def_inst(outer.operand)
            .and_then(|i| conversion(self.func, i))
            .cloned();
        if let Some(inner) = inner {
            // Whether each of them was trivial has been checked; of both together nobody said so.
            let merged = ConvertLayout {
                is_trivial: inner.is_trivial && outer.is_trivial,
                scratch: Scratch::NONE,
                operand: inner.operand,
            };
            self.uses[outer.operand] -= 1;
            self.uses[inner.operand] += 1;
            self.func.replace_op(inst, merged);
        }
    }

    /// A conversion of what is the same everywhere becomes what made that.
    fn is_rematerialized(&mut self, inst: Inst) -> bool {
        let Some(&ConvertLayout { operand, .. }) = conversion(self.func, inst) else {
            return false;
        };
        if !is_uniform(self.func, operand) {
            return false;
        }
        let Some(maker) = self.func.def_inst(operand) else {
            return false;
        };
        let op = self.func.op(maker).clone();
        self.uses[operand] -= 1;
        for value in op.operands() {
            self.uses[value] += 1;
        }
        self.func.replace_op(inst, op);
        true
    }

    /// A conversion back to where the value came from is that value.
    fn is_undone(&mut self, inst: Inst) -> bool {
        let Some(&ConvertLayout { operand, .. }) = conversion(self.func, inst) else {
            return false;
        };
        let result = self.func.result(inst);
        let is_same = self.func.ty(operand) == self.func.ty(result);
        if is_same {
            self.uses[operand] += self.uses[result];
            self.replaced.replace(self.func, result, operand);
        }
        is_same
    }

    /// `convert op(a)` as `op(convert a)`, in place, if that moves fewer bytes.
    fn rise(&mut self, inst: Inst, out: &mut Vec<Inst>) {
        let rising = self.rising(inst);
        let Some((maker, moved)) = rising else {
            return out.push(inst);
        };
        let result = self.func.result(inst);
        let Some(layout) = self.func.ty(result).layout().cloned() else {
            return out.push(inst);
        };
        let mut op = self.func.op(maker).clone();
        let mut operands = Values::new();
        for operand in op.operands() {
            let converted = if operand == moved {
                self.convert(operand, &layout, inst, out)
            } else {
                self.made_in(operand, &layout, inst, out)
            };
            operands.push(converted);
        }
        let mut next = operands.into_iter();
        op.rules_mut()
            .visit_mut(&mut |v| *v = next.next().unwrap_or(*v));
        self.func.replace_op(inst, op);
        out.push(inst);
    }

    /// The op that a conversion should rise above and its only operand that is not the same everywhere.
    fn rising(&self, inst: Inst) -> Option<(Inst, Value)> {
        let op = conversion(self.func, inst)?;
        let maker = self.func.def_inst(op.operand)?;
        if self.uses[op.operand] != 1 || !is_elementwise(self.func, maker) {
            return None;
        }
        let mut others = self
            .func
            .op(maker)
            .operands()
            .into_iter()
            .filter(|v| !is_uniform(self.func, *v));
        let moved = others.next()?;
        let is_only_one = others.all(|v| v == moved);
        let bits = |v: Value| self.func.ty(v).elem().map_or(0, ir::elem::Elem::bits);
        (is_only_one && bits(moved) < bits(op.operand)).then_some((maker, moved))
    }

    /// `op(convert a, convert b)` as `convert op(a, b)`, if all come from one layout and nobody else wants them converted.
    fn sink(&mut self, inst: Inst, out: &mut Vec<Inst>) {
        let Some(layout) = self.sinking(inst) else {
            return out.push(inst);
        };
        let mut op = self.func.op(inst).clone();
        let mut operands = Values::new();
        for operand in op.operands() {
            let source = self
                .func
                .def_inst(operand)
                .and_then(|i| conversion(self.func, i))
                .map(|c| c.operand);
            operands.push(match source {
                Some(source) => {
                    self.uses[operand] -= 1;
                    self.uses[source] += 1;
                    source
                }
                None => self.made_in(operand, &layout, inst, out),
            });
        }
        let mut next = operands.into_iter();
        op.rules_mut()
            .visit_mut(&mut |v| *v = next.next().unwrap_or(*v));
        let ty = in_layout(self.func.ty(self.func.result(inst)), &layout);
        let loc = self.func.loc(inst);
        let inner = self.func.make_inst(op, std::iter::once(ty).collect(), loc);
        let operand = self.func.result(inner);
        self.uses[operand] = 1;
        out.push(inner);
        self.func.replace_op(
            inst,
            ConvertLayout {
                is_trivial: false,
                scratch: Scratch::NONE,
                operand,
            },
        );
        out.push(inst);
    }

    /// The layout in which an op should run instead: that of two or more operands before their conversion.
    fn sinking(&self, inst: Inst) -> Option<Layout> {
        let func = &*self.func;
        if !is_elementwise(func, inst) {
            return None;
        }
        let mut from: Option<&Layout> = None;
        let mut sources: Values = Values::new();
        for operand in func.op(inst).operands() {
            if is_uniform(func, operand) {
                continue;
            }
            let source = conversion(func, func.def_inst(operand)?)?.operand;
            let layout = func.ty(source).layout()?;
            if self.uses[operand] != 1 || from.is_some_and(|l| l != layout) {
                return None;
            }
            from = Some(layout);
            sources.push(source);
        }
        let bits = |v: Value| func.ty(v).elem().map_or(0, ir::elem::Elem::bits);
        let before: u32 = sources.iter().map(|v| bits(*v)).sum();
        let is_cheaper = sources.len() > 1 && bits(func.result(inst)) <= before;
        is_cheaper.then(|| from.cloned()).flatten()
    }

    fn convert(&mut self, operand: Value, layout: &Layout, at: Inst, out: &mut Vec<Inst>) -> Value {
        let op = ConvertLayout {
            is_trivial: false,
            scratch: Scratch::NONE,
            operand,
        };
        self.uses[operand] += 1;
        self.make(op.into(), in_layout(self.func.ty(operand), layout), at, out)
    }

    /// What is the same everywhere, made anew in another layout.
    fn made_in(&mut self, operand: Value, layout: &Layout, at: Inst, out: &mut Vec<Inst>) -> Value {
        let ty = in_layout(self.func.ty(operand), layout);
        let Some(uniform) = uniform(self.func, operand) else {
            return operand;
        };
        if let Uniform::Scalar(scalar) = uniform {
            self.uses[scalar] += 1;
        }
        self.make(uniform.into(), ty, at, out)
    }

    fn make(&mut self, op: Op, ty: Type, at: Inst, out: &mut Vec<Inst>) -> Value {
        let loc = self.func.loc(at);
        let inst = self.func.make_inst(op, std::iter::once(ty).collect(), loc);
        out.push(inst);
        let value = self.func.result(inst);
        self.uses[value] = 1;
        value
    }
}

fn conversion(func: &Func, inst: Inst) -> Option<&ConvertLayout> {
    match func.op(inst) {
        Op::ConvertLayout(op) => Some(op),
        _ => None,
    }
}

/// One tensor, every element of it computed by itself.
fn is_elementwise(func: &Func, inst: Inst) -> bool {
    let [result] = func.results(inst) else {
        return false;
    };
    func.op(inst).rules().is_elementwise() && func.ty(*result).as_tensor().is_some()
}

/// Is it the same in every element, so that it is as easily made in any layout?
fn is_uniform(func: &Func, value: Value) -> bool {
    uniform(func, value).is_some()
}

fn uniform(func: &Func, value: Value) -> Option<Uniform> {
    func.op(func.def_inst(value)?).rules().uniform()
}

fn in_layout(ty: &Type, layout: &Layout) -> Type {
    match ty {
        Type::Tensor(t) => Type::Tensor(TensorType {
            layout: layout.clone(),
            ..t.clone()
        }),
        other => other.clone(),
    }
}
