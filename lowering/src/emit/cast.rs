//! Conversions between all element types.

use ir::elem::{DType, Elem};
use ir::entity::{Inst, Value};
use ir::ops::cast::{Cast, Rounding as Mode};
use ir::ops::pointer::{PeerPtr, PeerTable};
use ptx::{BinaryOp, Compare, Operand, Rounding, Type};

use super::code::Code;
use super::element::{Element, arithmetic};
use super::integer::{int_type, is_signed};
use super::{Emitted, Emitter, Lower};

impl Lower for PeerPtr {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let (from, address) = (cx.elem(self.address), cx.elements(self.address)[0]);
        let pointer = cx.code.pointer(address, from);
        cx.set_result(inst, vec![pointer]);
        Ok(())
    }
}

impl Lower for PeerTable {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let table = cx.elements(self.table);
        cx.set_result(inst, table);
        Ok(())
    }
}

impl Emitter<'_> {
    pub(super) fn cast(&mut self, inst: Inst, op: &Cast) {
        let (from, to) = (self.elem(op.operand), self.elem(self.func.result(inst)));
        let elements = self.elements(op.operand);
        let (source, target) = match (from, to) {
            (Elem::Data(source), Elem::Data(target)) => (source, target),
            (Elem::Data(_), Elem::Ptr(_)) => {
                // An address that was a number is a generic one.
                let pointers: Vec<Element> = elements
                    .iter()
                    .map(|&e| self.code.pointer(e, from))
                    .collect();
                self.set_result(inst, pointers);
                return;
            }
            // A global address is its own generic one (CUDA's unified addressing).
            (Elem::Ptr(_), _) => return self.set_result(inst, elements),
        };
        let results = if source == target {
            elements.to_vec()
        } else if target.is_float() && target.bits() <= 16 {
            self.to_small_floats(&elements, source, target, op.rounding)
        } else if source.is_int() && target.is_int() {
            let sums = self.sums_stay(op.operand, source, target);
            elements
                .iter()
                .map(|&e| self.code.int_to_int(e, source, target, sums))
                .collect()
        } else {
            elements
                .iter()
                .map(|&e| self.code.cast_one(e, source, target, op.rounding))
                .collect()
        };
        self.set_result(inst, results);
    }

    /// May 32-bit sums be widened apart, because no element's register leaves the type's bounds?
    fn sums_stay(&self, operand: Value, source: DType, target: DType) -> bool {
        use crate::analysis::axis::Range;
        let is_widening = source.bits() == 32 && target.bits() == 64;
        let (Some(range), Some(whole)) = (self.axes.range(operand), Range::of_type(source)) else {
            return false;
        };
        let fits = |element: &Element| match *element {
            Element::Sum(_, add) => {
                let add = i128::from(add);
                range.low - add >= whole.low && range.high - add <= whole.high
            }
            _ => true,
        };
        is_widening && self.elements(operand).iter().all(fits)
    }

    /// To floats of 16 bits and less, several at a time where the hardware has it.
    fn to_small_floats(
        &mut self,
        elements: &[Element],
        source: DType,
        target: DType,
        mode: Mode,
    ) -> Vec<Element> {
        let code = &mut self.code;
        if target.is_narrow_float() {
            let wide: Vec<Operand> = elements
                .iter()
                .map(|&e| code.to_f32_for_narrow(e, source, target))
                .collect();
            return code.to_narrow_floats(&wide, target, mode);
        }
        let exact_in_f32 = matches!(source, DType::F32 | DType::F16 | DType::Bf16 | DType::I1)
            || source.is_narrow_float()
            || source.is_int() && source.bits() <= 16;
        if exact_in_f32 {
            let wide: Vec<Operand> = elements.iter().map(|&e| code.to_f32(e, source)).collect();
            return code.narrow(&wide, target.into(), rounding(mode));
        }
        // 32- and 64-bit integers and f64 are rounded once, straight to the target.
        let ty = arithmetic(target.into());
        elements
            .iter()
            .map(|&e| {
                let operand = code.operand(e, source.into());
                code.convert(ty, arithmetic(source.into()), Some(rounding(mode)), operand)
                    .into()
            })
            .collect()
    }
}

fn rounding(mode: Mode) -> Rounding {
    match mode {
        Mode::Default => Rounding::Rn,
        Mode::Zero => Rounding::Rz,
    }
}

impl Code {
    fn pointer(&mut self, element: Element, from: Elem) -> Element {
        let reg = self.whole(element, from);
        self.to_global(reg).into()
    }

    /// One element to a boolean, an integer, f32 or f64.
    fn cast_one(&mut self, e: Element, source: DType, target: DType, mode: Mode) -> Element {
        match target {
            DType::I1 => self.to_bool(e, source),
            DType::F32 if source == DType::F64 => {
                let operand = self.operand(e, source.into());
                self.convert(Type::F32, Type::F64, Some(rounding(mode)), operand)
                    .into()
            }
            DType::F32 if source.is_int() => {
                let operand = self.operand(e, source.into());
                self.convert(
                    Type::F32,
                    arithmetic(source.into()),
                    Some(rounding(mode)),
                    operand,
                )
                .into()
            }
            DType::F32 => self.to_f32(e, source).into(),
            DType::F64 => self.to_f64(e, source, mode),
            _ if source == DType::I1 => self.bool_to_int(e, target),
            _ => self.float_to_int(e, source, target),
        }
    }

    fn to_bool(&mut self, e: Element, source: DType) -> Element {
        if source.bits() <= 16 && source.is_float() {
            let wide = self.to_f32(e, source);
            return self
                .setp(Compare::Neu, Type::F32, wide, Operand::f32(0.0))
                .into();
        }
        let operand = self.operand(e, source.into());
        match source {
            DType::F32 => self.setp(Compare::Neu, Type::F32, operand, Operand::f32(0.0)),
            DType::F64 => self.setp(Compare::Neu, Type::F64, operand, Operand::f64(0.0)),
            _ => self.setp(
                Compare::Ne,
                super::integer::bits(source.into()),
                operand,
                0_u32,
            ),
        }
        .into()
    }

    fn bool_to_int(&mut self, e: Element, target: DType) -> Element {
        if e.as_int().is_some() {
            return e;
        }
        let p = self.whole(e, Elem::I1);
        self.selp(super::integer::bits(target.into()), 1_u32, 0_u32, p)
            .into()
    }

    fn int_to_int(&mut self, e: Element, source: DType, target: DType, sums_stay: bool) -> Element {
        if let Some(value) = e.as_int() {
            return Element::int(super::integer::wrapped(
                int_value(value, source),
                target.into(),
            ));
        }
        match (source.bits(), target.bits()) {
            (64, 64) | (32, 32) => e,
            (64, _) => {
                // Truncation keeps sums: both are modulo 2^32.
                if let (Element::Sum(reg, add), 32) = (e, target.bits()) {
                    let low = self.convert(Type::U32, Type::U64, None, reg);
                    return self.add_int(low.into(), add, target.into());
                }
                let reg = self.whole(e, source.into());
                let low = self.convert(Type::U32, Type::U64, None, reg);
                self.cut(low.into(), target.into())
            }
            (_, 64) => {
                let (wide, narrow) = if is_signed(source.into()) {
                    (Type::S64, Type::S32)
                } else {
                    (Type::U64, Type::U32)
                };
                if let (Element::Sum(reg, add), true) = (e, sums_stay) {
                    let reg = self.convert(wide, narrow, None, reg);
                    return self.add_int(reg.into(), add, target.into());
                }
                let reg = self.whole(e, source.into());
                self.convert(wide, narrow, None, reg).into()
            }
            (from, to) => {
                let reg = self.whole(e, source.into());
                // A wider type holds an extended narrower one as it is, unless a sign becomes magnitude.
                let fits = from < to && (is_signed(target.into()) || !is_signed(source.into()));
                if fits || to == 32 {
                    reg.into()
                } else {
                    self.cut(reg.into(), target.into())
                }
            }
        }
    }

    /// Any element but f64 and wide integers as f32, exactly.
    pub(super) fn to_f32(&mut self, e: Element, source: DType) -> Operand {
        if let Some(format) = source.narrow_float() {
            return self.from_narrow_float(e, source, format);
        }
        match source {
            DType::F32 => self.operand(e, source.into()),
            DType::F16 | DType::Bf16 => self.widen(e, source.into()),
            DType::I1 => {
                let p = self.whole(e, Elem::I1);
                self.selp(Type::F32, Operand::f32(1.0), Operand::f32(0.0), p)
                    .into()
            }
            _ => {
                let operand = self.operand(e, source.into());
                self.convert(
                    Type::F32,
                    arithmetic(source.into()),
                    Some(Rounding::Rn),
                    operand,
                )
                .into()
            }
        }
    }

    fn to_f64(&mut self, e: Element, source: DType, mode: Mode) -> Element {
        if source.is_int() {
            let operand = self.operand(e, source.into());
            return self
                .convert(
                    Type::F64,
                    arithmetic(source.into()),
                    Some(rounding(mode)),
                    operand,
                )
                .into();
        }
        let wide = self.to_f32(e, source);
        self.convert(Type::F64, Type::F32, None, wide).into()
    }

    /// Towards zero, saturating, NaN to 0.
    fn float_to_int(&mut self, e: Element, source: DType, target: DType) -> Element {
        let (x, ty) = if source == DType::F64 {
            (self.operand(e, source.into()), Type::F64)
        } else {
            (self.to_f32(e, source), Type::F32)
        };
        let wide = int_type(target.bits(), target.is_signed_int());
        let mut int = self.convert(arithmetic(wide.into()), ty, Some(Rounding::Rzi), x);
        // The machine saturates to the width of its own type, and gives 0 for NaN only from f32 to 32 bits (PTX ISA
        // 9.7.9.21).
        if ty == Type::F64 || target.bits() == 64 {
            let number = self.setp(Compare::Num, ty, x, x);
            int = self.selp(super::integer::bits(wide.into()), int, 0_u32, number);
        }
        if target.bits() >= 32 {
            return int.into();
        }
        self.saturated(int.into(), target)
    }

    fn saturated(&mut self, int: Operand, target: DType) -> Element {
        let bits = target.bits();
        if target.is_signed_int() {
            let most = (1_i64 << (bits - 1)) - 1;
            let low = self.binary(BinaryOp::Max, Type::S32, int, -most - 1);
            self.binary(BinaryOp::Min, Type::S32, low, most).into()
        } else {
            self.binary(BinaryOp::Min, Type::U32, int, (1_i64 << bits) - 1)
                .into()
        }
    }
}

/// The value of an integer constant, where a 64-bit unsigned one is kept as its two's complement.
fn int_value(value: i64, source: DType) -> i128 {
    if source == DType::U64 {
        i128::from(value as u64)
    } else {
        i128::from(value)
    }
}
