//! `remove-conversions`: fewer and smaller layout conversions.
//!
//! - A conversion of a conversion is one conversion.
//! - What is the same in every element is made in the layout wanted.
//! - `op(convert a, convert b)` with `a` and `b` in one layout becomes `convert op(a, b)`: one instead of two.
//! - `convert op(a)` becomes `op(convert a)` where `a` has fewer bytes than the result: a cast to a wider type, a
//!   comparison read backward.
//!
//! Conversions that must be free, and kernels that allow none, are held to it here.

use cranelift_entity::SecondaryMap;
use gluon_lang::diag::{Code, Diagnostic, Diagnostics};
use gluon_lang::entity::{Inst, Region, Value};
use gluon_lang::ir::{Func, TensorType, Type};
use gluon_lang::layout::{Layout, relate};
use gluon_lang::ops::create::{Constant, Splat};
use gluon_lang::ops::layout::ConvertLayout;
use gluon_lang::ops::{LayoutRule, Op, Scratch, Values};

use super::replace::Replaced;
use crate::analysis::conversions;

/// Removes, merges and moves conversions.
pub fn run(func: &mut Func, found: &mut Diagnostics) {
    if !func
        .walk()
        .iter()
        .any(|inst| conversion(func, *inst).is_some())
    {
        return;
    }
    check_trivial(func, found);
    let uses = func.use_counts();
    let mut moved = Moved {
        func,
        uses,
        replaced: Replaced::default(),
    };
    moved.region(moved.func.body);
    if func.contracts.denies_conversions {
        check_denied(func, found);
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
        if new.len() != old.len() {
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
            if self.is_remade(inst) {
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
    fn is_remade(&mut self, inst: Inst) -> bool {
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
        let bits = |v: Value| {
            self.func
                .ty(v)
                .elem()
                .map_or(0, gluon_lang::elem::Elem::bits)
        };
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
        let bits = |v: Value| func.ty(v).elem().map_or(0, gluon_lang::elem::Elem::bits);
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
        let maker = self
            .func
            .def_inst(operand)
            .map(|inst| self.func.op(inst).clone());
        match maker {
            Some(Op::Constant(Constant { value })) => {
                self.make(Constant { value }.into(), ty, at, out)
            }
            Some(Op::Splat(Splat { value })) => {
                self.uses[value] += 1;
                self.make(Splat { value }.into(), ty, at, out)
            }
            _ => operand,
        }
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

/// One result, no effects, every element by itself.
fn is_elementwise(func: &Func, inst: Inst) -> bool {
    let op = func.op(inst);
    let rules = op.rules();
    let is_tensor = |v: &Value| func.ty(*v).as_tensor().is_some();
    let shape_stays = || {
        let shape = func.ty(func.result(inst)).shape();
        op.operands().iter().all(|v| func.ty(*v).shape() == shape)
    };
    func.results(inst).len() == 1
        && rules.effects().is_pure()
        && rules.layout_rule() == LayoutRule::Same
        && op.regions().is_empty()
        && func.results(inst).iter().all(is_tensor)
        && shape_stays()
}

/// Is it the same in every element, so that it is as easily made in any layout?
fn is_uniform(func: &Func, value: Value) -> bool {
    let maker = func.def_inst(value).map(|inst| func.op(inst));
    matches!(maker, Some(Op::Constant(_) | Op::Splat(_)))
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

/// Does every thread already hold what it shall hold?
fn is_free(func: &Func, inst: Inst) -> bool {
    let Some(op) = conversion(func, inst) else {
        return true;
    };
    let tensors = func
        .ty(op.operand)
        .as_tensor()
        .zip(func.ty(func.result(inst)).as_tensor());
    tensors.is_none_or(|(from, to)| {
        let maps = from
            .layout
            .linear(&from.shape)
            .ok()
            .zip(to.layout.linear(&to.shape).ok());
        from.layout == to.layout
            || maps.is_some_and(|(a, b)| relate::registers_in(&a, &b).is_some())
    })
}

fn check_trivial(func: &Func, found: &mut Diagnostics) {
    for inst in func.walk() {
        if conversion(func, inst).is_some_and(|c| c.is_trivial) && !is_free(func, inst) {
            let d = moves(
                func,
                inst,
                "this conversion must be trivial, and it moves data between threads",
            );
            found.push(d.help("convert between layouts that place every element in the same thread, or allow it to cost"));
        }
    }
}

fn check_denied(func: &Func, found: &mut Diagnostics) {
    for inst in func.walk() {
        if !is_free(func, inst) {
            let d = moves(
                func,
                inst,
                "this conversion moves data between threads, and the kernel denies conversions",
            );
            found.push(
                d.help("make both sides from one layout, or take `conversions` out of `deny(..)`"),
            );
        }
    }
}

fn moves(func: &Func, inst: Inst, message: &str) -> Diagnostic {
    let operand = conversion(func, inst).map(|c| c.operand);
    let mut d = Diagnostic::error(Code::ConversionCost, func.place(inst), message);
    for (value, what) in operand
        .map(|v| (v, "from"))
        .into_iter()
        .chain([(func.result(inst), "to")])
    {
        let ty = func.ty(value);
        d = d.note(format!("{what} {ty}"));
        if let Some(map) = ty.as_tensor().and_then(|t| t.layout.linear(&t.shape).ok()) {
            d = d.note(format!("which is {map}"));
        }
    }
    if let Some(cost) = conversions::cost(func, inst) {
        d = d.note(format!("a warp takes {cost}"));
    }
    d
}

#[cfg(test)]
mod tests {
    use crate::test::{apply, check, check_error};

    const HEAD: &str = "
        #blocked = Blocked([4], [32], [4], [0])
        #blocked1 = Blocked([1], [32], [4], [0])
        kernel @k(%n: i32) warps(4) stage(resolved) {
          %a = arange {start=0, end=512} : tensor<512xi32, #blocked>
          %b = arange {start=0, end=512} : tensor<512xi32, #blocked1>
          print [%b] {prefix=\"b\"}";

    #[track_caller]
    fn check_body(body: &str, expected: &str) {
        let kernel = |body: &str| {
            let lines: Vec<String> = body
                .lines()
                .map(|l| format!("\n          {}", l.trim()))
                .collect();
            format!("{HEAD}{}\n          return\n        }}", lines.concat())
        };
        check("remove-conversions", &kernel(body), &kernel(expected));
    }

    #[test]
    fn two_in_a_row_are_one() {
        check_body(
            "%c = convert_layout %a : tensor<512xi32, #blocked1>
            %d = convert_layout %c : tensor<512xi32, #blocked>
            print [%d] {prefix=\"d\"}",
            "%c = convert_layout %a : tensor<512xi32, #blocked1>
            print [%a] {prefix=\"d\"}",
        );
    }

    #[test]
    fn what_is_the_same_everywhere_is_made_where_it_is_wanted() {
        check_body(
            "%z = constant {value=1.0} : tensor<512xf32, #blocked>
            %c = convert_layout %z : tensor<512xf32, #blocked1>
            %s = splat %n : tensor<512xi32, #blocked>
            %d = convert_layout %s : tensor<512xi32, #blocked1>
            print [%c, %d] {prefix=\"c\"}",
            "%z = constant {value=1.0} : tensor<512xf32, #blocked>
            %c = constant {value=1.0} : tensor<512xf32, #blocked1>
            %s = splat %n : tensor<512xi32, #blocked>
            %d = splat %n : tensor<512xi32, #blocked1>
            print [%c, %d] {prefix=\"c\"}",
        );
    }

    #[test]
    fn two_side_by_side_sink() {
        check_body(
            "%t = unary %a {op=neg} : tensor<512xi32, #blocked>
            %c = convert_layout %a : tensor<512xi32, #blocked1>
            %d = convert_layout %t : tensor<512xi32, #blocked1>
            %s = binary %c, %d {op=add} : tensor<512xi32, #blocked1>
            print [%s] {prefix=\"s\"}",
            "%t = unary %a {op=neg} : tensor<512xi32, #blocked>
            %c = convert_layout %a : tensor<512xi32, #blocked1>
            %d = convert_layout %t : tensor<512xi32, #blocked1>
            %0 = binary %a, %t {op=add} : tensor<512xi32, #blocked>
            %s = convert_layout %0 : tensor<512xi32, #blocked1>
            print [%s] {prefix=\"s\"}",
        );
        // Where one is wanted converted anyway, nothing is won.
        let used = "%t = unary %a {op=neg} : tensor<512xi32, #blocked>
            %c = convert_layout %a : tensor<512xi32, #blocked1>
            %d = convert_layout %t : tensor<512xi32, #blocked1>
            %s = binary %c, %d {op=add} : tensor<512xi32, #blocked1>
            print [%s, %d] {prefix=\"s\"}";
        check_body(used, used);
    }

    #[test]
    fn a_conversion_rises_above_a_widening_cast() {
        check_body(
            "%w = cast %a : tensor<512xi64, #blocked>
            %c = convert_layout %w : tensor<512xi64, #blocked1>
            print [%c] {prefix=\"c\"}",
            "%w = cast %a : tensor<512xi64, #blocked>
            %0 = convert_layout %a : tensor<512xi32, #blocked1>
            %c = cast %0 : tensor<512xi64, #blocked1>
            print [%c] {prefix=\"c\"}",
        );
        // A narrowing one leaves less to convert.
        let narrow = "%w = cast %a : tensor<512xi16, #blocked>
            %c = convert_layout %w : tensor<512xi16, #blocked1>
            print [%c] {prefix=\"c\"}";
        check_body(narrow, narrow);
    }

    #[test]
    fn what_must_be_trivial_is_held_to_it() {
        let text = format!(
            "{HEAD}\n          %c = convert_layout %a {{is_trivial=true}} : tensor<512xi32, #blocked1>\n          print [%c] {{prefix=\"c\"}}\n          return\n        }}"
        );
        check_error(
            "remove-conversions",
            &text,
            "
            error[TK0030]: this conversion must be trivial, and it moves data between threads
              --> test.tile:7:3
              = note: from tensor<512xi32, Blocked([4], [32], [4], [0])>
              = note: which is register=[[1], [2]] lane=[[4], [8], [16], [32], [64]] warp=[[128], [256]] block=[] -> dim0 512
              = note: to tensor<512xi32, Blocked([1], [32], [4], [0])>
              = note: which is register=[[128], [256]] lane=[[1], [2], [4], [8], [16]] warp=[[32], [64]] block=[] -> dim0 512
              = note: a warp takes 1 store, 1 load, 8 wavefronts, 1 barrier of the CTA, 2048 bytes of shared memory
              = help: convert between layouts that place every element in the same thread, or allow it to cost",
        );
        let free = text.replace(
            "Blocked([1], [32], [4], [0])",
            "Linear(register=[[2], [1]], lane=[[4], [8], [16], [32], [64]], warp=[[128], [256]])",
        );
        let (_, found) = apply("remove-conversions", &free);
        assert!(found.is_empty(), "{found}");
    }

    #[test]
    fn a_kernel_may_deny_conversions() {
        let text = format!(
            "{}\n          %c = convert_layout %a : tensor<512xi32, #blocked1>\n          print [%c] {{prefix=\"c\"}}\n          return\n        }}",
            HEAD.replace("warps(4)", "warps(4) deny(conversions)")
        );
        let (_, found) = apply("remove-conversions", &text);
        assert!(
            found.to_string().starts_with(
                "error[TK0030]: this conversion moves data between threads, and the kernel denies"
            ),
            "{found}"
        );
    }
}
