//! Elementwise arithmetic: which rule an element type goes by.

use ir::elem::{DType, Elem};
use ir::entity::{Inst, Value};
use ir::ops::arith::{Binary, BinaryOp as Op, Compare, CompareOp, Fma, Select, Unary};
use ir::ops::cast::{Bitcast, Cast};
use ir::ops::pointer::PtrAdd;
use ir::ops::rounded::{Direction, Rounded, RoundedOp};
use ptx::{BinaryOp, Operand, Reg, RegClass, TernaryOp, Type};

use super::code::{Code, move_type};
use super::element::{Element, Elements, arithmetic, class};
use super::{Emitted, Emitter, Lower};

impl Lower for Unary {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let elem = cx.elem(self.operand);
        if elem.is_float() {
            cx.float_unary(inst, self);
        } else {
            cx.map(inst, [self.operand], |code, [a]| {
                code.int_unary(self.op, a, elem)
            });
        }
        Ok(())
    }
}

impl Lower for Binary {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let elem = cx.elem(self.lhs);
        if elem.is_float() {
            cx.float_binary(inst, self);
            return Ok(());
        }
        let is_non_negative = cx.axes.range(self.lhs).is_some_and(|r| r.low >= 0);
        cx.map(inst, [self.lhs, self.rhs], |code, [a, b]| match self.op {
            Op::Div => code.quotient(a, b, elem, is_non_negative),
            Op::Rem => code.remainder(a, b, elem, is_non_negative),
            op => code.int_binary(op, a, b, elem),
        });
        Ok(())
    }
}

impl Lower for Compare {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let elem = cx.elem(self.lhs);
        cx.map(inst, [self.lhs, self.rhs], |code, [a, b]| {
            if elem.is_float() {
                code.float_compare(self.op, a, b, elem)
            } else {
                code.int_compare(comparison(self.op), a, b, elem)
            }
        });
        Ok(())
    }
}

fn comparison(op: CompareOp) -> ptx::Compare {
    match op {
        CompareOp::Eq => ptx::Compare::Eq,
        CompareOp::Ne => ptx::Compare::Ne,
        CompareOp::Lt => ptx::Compare::Lt,
        CompareOp::Le => ptx::Compare::Le,
        CompareOp::Gt => ptx::Compare::Gt,
        CompareOp::Ge => ptx::Compare::Ge,
    }
}

/// The comparison of floats, where `ne` alone holds for NaN.
pub(super) fn float_comparison(op: CompareOp) -> ptx::Compare {
    match op {
        CompareOp::Ne => ptx::Compare::Neu,
        op => comparison(op),
    }
}

impl Lower for Select {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let elem = cx.elem(self.yes);
        cx.map(
            inst,
            [self.condition, self.yes, self.no],
            |code, [p, yes, no]| code.select(p, yes, no, elem),
        );
        Ok(())
    }
}

impl Code {
    /// `p ? yes : no`.
    pub(super) fn select(&mut self, p: Element, yes: Element, no: Element, elem: Elem) -> Element {
        match p.as_int() {
            Some(0) => return no,
            Some(_) => return yes,
            None if yes == no => return yes,
            None => {}
        }
        let p = self.whole(p, Elem::I1);
        if elem.is_bool() {
            // (p and yes) or (not p and no)
            let not = self.unary(ptx::UnaryOp::Not, Type::Pred, p);
            let yes = self.int_binary(Op::And, p.into(), yes, elem);
            let no = self.int_binary(Op::And, not.into(), no, elem);
            return self.int_binary(Op::Or, yes, no, elem);
        }
        let (yes, no) = (self.operand(yes, elem), self.operand(no, elem));
        self.selp(move_type(class(elem)), yes, no, p).into()
    }
}

impl Lower for Fma {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let elem = cx.elem(self.a);
        cx.map(inst, [self.a, self.b, self.c], |code, all| {
            let [a, b, c] = all.map(|e| code.operand(e, elem));
            code.fma(arithmetic(elem), a, b, c).into()
        });
        Ok(())
    }
}

impl Lower for Rounded {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let elem = cx.elem(self.operands[0]);
        let lists: Vec<_> = self.operands.iter().map(|v| cx.elements(*v)).collect();
        let count = lists[0].len();
        let results: Vec<Element> = (0..count)
            .map(|at| {
                let of_operand = |list: &Elements| cx.code.operand(list[at], elem);
                let operands: Vec<Operand> = lists.iter().map(of_operand).collect();
                cx.code.rounded(self, arithmetic(elem), &operands).into()
            })
            .collect();
        cx.set_result(inst, results);
        Ok(())
    }
}

impl Code {
    fn rounded(&mut self, op: &Rounded, ty: Type, operands: &[Operand]) -> Reg {
        let rounding = Some(match op.direction {
            Direction::Nearest => ptx::Rounding::Rn,
            Direction::Zero => ptx::Rounding::Rz,
            Direction::Down => ptx::Rounding::Rm,
            Direction::Up => ptx::Rounding::Rp,
        });
        let unary = |op| ptx::Unary {
            rounding,
            ..ptx::Unary::new(op, ty, ptx::Dest::Sink, operands[0])
        };
        let binary = |op| ptx::Binary {
            rounding,
            ..ptx::Binary::new(op, ty, ptx::Dest::Sink, operands[0], operands[1])
        };
        match op.op {
            RoundedOp::Add => self.binary_with(binary(BinaryOp::Add)),
            RoundedOp::Sub => self.binary_with(binary(BinaryOp::Sub)),
            RoundedOp::Mul => self.binary_with(binary(BinaryOp::Mul)),
            RoundedOp::Div => self.binary_with(binary(BinaryOp::Div)),
            RoundedOp::Sqrt => self.unary_with(unary(ptx::UnaryOp::Sqrt)),
            RoundedOp::Rcp => self.unary_with(unary(ptx::UnaryOp::Rcp)),
            RoundedOp::Fma => {
                let [a, b, c] = [operands[0], operands[1], operands[2]];
                self.ternary_with(ptx::Ternary {
                    rounding,
                    ..ptx::Ternary::new(TernaryOp::Fma, ty, ptx::Dest::Sink, a, b, c)
                })
            }
        }
    }
}

impl Lower for Cast {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        cx.cast(inst, self);
        Ok(())
    }
}

impl Lower for Bitcast {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let (from, to) = (cx.elem(self.operand), cx.elem(cx.func.result(inst)));
        cx.map(inst, [self.operand], |code, [a]| code.bitcast(a, from, to));
        Ok(())
    }
}

impl Code {
    fn bitcast(&mut self, a: Element, from: Elem, to: Elem) -> Element {
        // Packed elements are bits already, whatever they are called.
        if let Element::Part(..) = a {
            return a;
        }
        if from == to {
            return a;
        }
        let (source, target) = (class(from), class(to));
        if from.bits() < 32 {
            if source == target && source == RegClass::B16 {
                return a;
            }
            let bits = self.bits32(a, from);
            return match target {
                RegClass::B16 => {
                    let word = match bits {
                        Operand::Reg(reg) => reg,
                        other => self.mov(Type::B32, other),
                    };
                    Element::Part(word, 0)
                }
                _ => self.cut(bits.into(), to),
            };
        }
        if let Some(value) = a.as_int().filter(|_| source == target) {
            return Element::int(super::integer::wrapped(value.into(), to));
        }
        if source == target {
            return a;
        }
        let operand = self.whole(a, from);
        self.mov_bits(target, operand).into()
    }
}

impl Lower for PtrAdd {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let Elem::Ptr(pointee) = cx.elem(self.ptr) else {
            panic!("the verifier admits only pointers here");
        };
        let elem = cx.elem(self.offset);
        let (ptrs, offsets) = (cx.elements(self.ptr), cx.elements(self.offset));
        let scale = i64::from(pointee.bytes());
        let is_wide = elem.bits() == 64;
        let bases = if is_wide {
            Bases::default()
        } else {
            Bases::of(cx, self.offset, elem)
        };
        let elements: Vec<Element> = ptrs
            .iter()
            .zip(offsets.iter())
            .map(|(&ptr, &offset)| {
                let code = &mut cx.code;
                let (reg, add) = if is_wide {
                    apart(offset)
                } else {
                    bases.apart(code, offset, elem)
                };
                code.moved_pointer(ptr, reg, add, scale, elem)
            })
            .collect();
        cx.set_result(inst, elements);
        Ok(())
    }
}

/// Register and constant of an offset.
fn apart(offset: Element) -> (Option<Reg>, i64) {
    match offset {
        Element::Whole(Operand::Reg(reg)) => (Some(reg), 0),
        Element::Sum(reg, add) => (Some(reg), add),
        Element::Whole(Operand::Int(value)) => (None, value),
        other => panic!("{other:?} is no offset"),
    }
}

/// How 32-bit offsets of one thread are taken apart before they are widened.
///
/// Widening a sum is widening its register only if the sum does not leave 32 bits. That is so where its bounds say it;
/// else the smallest sum of each register is computed in 32 bits first, and the others lie behind it, for the indices
/// that one thread holds of one tensor do not wrap around: one that did would leave the tensor.
#[derive(Default)]
struct Bases {
    /// The smallest constant added to each register.
    least: Vec<(Reg, i64)>,
    /// Sums can be widened apart as they are.
    is_exact: bool,
    /// Sums can not be taken apart: unsigned numbers may start below zero.
    is_opaque: bool,
}

impl Bases {
    fn of(cx: &Emitter<'_>, offset: Value, elem: Elem) -> Bases {
        let mut bases = Bases::default();
        let elements = cx.elements(offset);
        let Some(whole) = elem.data().and_then(crate::analysis::axis::Range::of_type) else {
            return bases;
        };
        let range = cx.axes.range(offset).unwrap_or(whole);
        bases.is_exact = elements.iter().all(|e| match e {
            Element::Sum(_, add) => {
                let add = i128::from(*add);
                range.low - add >= whole.low && range.high - add <= whole.high
            }
            _ => true,
        });
        bases.is_opaque = !bases.is_exact && !super::integer::is_signed(elem);
        for (reg, add) in elements.iter().filter_map(|&e| match apart(e) {
            (Some(reg), add) => Some((reg, add)),
            _ => None,
        }) {
            match bases.least.iter_mut().find(|(r, _)| *r == reg) {
                Some((_, least)) => *least = add.min(*least),
                None => bases.least.push((reg, add)),
            }
        }
        bases
    }

    fn apart(&self, code: &mut Code, offset: Element, elem: Elem) -> (Option<Reg>, i64) {
        let (Some(reg), add) = apart(offset) else {
            return apart(offset);
        };
        if self.is_exact {
            return (Some(reg), add);
        }
        if self.is_opaque {
            return (Some(code.whole(offset, elem)), 0);
        }
        let least = self
            .least
            .iter()
            .find(|(r, _)| *r == reg)
            .map_or(0, |(_, least)| *least);
        // A constant that only moves up needs no instruction of its own.
        let least = least.min(0);
        (
            Some(code.whole(Element::Sum(reg, least), elem)),
            add - least,
        )
    }
}

impl Code {
    /// `ptr + (reg + add) * scale`.
    fn moved_pointer(
        &mut self,
        ptr: Element,
        reg: Option<Reg>,
        add: i64,
        scale: i64,
        elem: Elem,
    ) -> Element {
        let (base, base_add) = apart(ptr);
        let constant = base_add.wrapping_add(add.wrapping_mul(scale));
        let Some(reg) = reg else {
            return match base {
                Some(base) => Element::Sum(base, constant),
                None => Element::int(constant),
            };
        };
        let base: Operand = base.map_or(Operand::Int(0), Operand::Reg);
        let moved = if elem.bits() == 64 {
            let bytes = if scale == 1 {
                reg
            } else {
                self.binary(BinaryOp::Shl, Type::B64, reg, scale.trailing_zeros())
            };
            self.binary(BinaryOp::Add, Type::S64, base, bytes)
        } else {
            let ty = if elem == Elem::Data(DType::U32) {
                Type::U32
            } else {
                Type::S32
            };
            self.ternary(TernaryOp::MadWide, ty, reg, scale, base)
        };
        Element::Sum(moved, constant)
    }
}
