//! Integer arithmetic on elements. Integers of 8 and 16 bits are computed in 32 and cut back where bits may be lost.

use ir::elem::{DType, Elem};
use ir::ops::arith::{BinaryOp as Op, UnaryOp};
use ptx::{BinaryOp, Compare, Operand, Reg, TernaryOp, Type};

use super::code::Code;
use super::element::{Element, arithmetic};

/// May the constant part of a value of this type be kept apart? That takes arithmetic modulo the register's width.
fn keeps_sums(elem: Elem) -> bool {
    matches!(elem.bits(), 32 | 64) && !elem.is_float()
}

/// `value` as an element of this type holds it: wrapped to its width, sign- or zero-extended.
pub(super) fn wrapped(value: i128, elem: Elem) -> i64 {
    let bits = elem.bits();
    let low = value & ((1_i128 << bits) - 1);
    let is_signed = matches!(elem, Elem::Data(d) if d.is_signed_int());
    let is_negative = low >> (bits - 1) & 1 == 1;
    let value = if is_signed && is_negative {
        low - (1_i128 << bits)
    } else {
        low
    };
    value as i64
}

/// The constant of a sum, as small as the width allows.
fn summand(value: i64, elem: Elem) -> i64 {
    if elem.bits() == 32 {
        i64::from(value as i32)
    } else {
        value
    }
}

/// Register and constant of an element that can be taken apart so.
fn parts(element: Element) -> Option<(Option<Reg>, i64)> {
    match element {
        Element::Whole(Operand::Reg(reg)) => Some((Some(reg), 0)),
        Element::Whole(Operand::Int(value)) => Some((None, value)),
        Element::Sum(reg, add) => Some((Some(reg), add)),
        _ => None,
    }
}

fn joined(reg: Option<Reg>, add: i64, elem: Elem) -> Element {
    match (reg, summand(add, elem)) {
        (None, _) => Element::int(wrapped(add.into(), elem)),
        (Some(reg), 0) => reg.into(),
        (Some(reg), add) => Element::Sum(reg, add),
    }
}

impl Code {
    /// `element + value`.
    pub(super) fn add_int(&mut self, element: Element, value: i64, elem: Elem) -> Element {
        match parts(element) {
            Some((reg, add)) if keeps_sums(elem) => joined(reg, add.wrapping_add(value), elem),
            _ => self.int_binary(
                Op::Add,
                element,
                Element::int(wrapped(value.into(), elem)),
                elem,
            ),
        }
    }

    /// `a op b` on integers or booleans; divisions are in [`Code::quotient`] and [`Code::remainder`].
    pub(super) fn int_binary(&mut self, op: Op, a: Element, b: Element, elem: Elem) -> Element {
        if elem.is_bool() {
            return self.bool_binary(op, a, b);
        }
        if let (Some(x), Some(y)) = (a.as_int(), b.as_int())
            && let Some(value) = folded(op, i128::from(x), i128::from(y))
        {
            return Element::int(wrapped(value, elem));
        }
        if let Some(sum) = self.sum(op, a, b, elem) {
            return sum;
        }
        match op {
            Op::Add => self.wrapping(BinaryOp::Add, a, b, elem),
            Op::Sub => self.wrapping(BinaryOp::Sub, a, b, elem),
            Op::Mul => self.product(a, b, elem),
            Op::MulHigh => self.product_high(a, b, elem),
            Op::Min | Op::MinNan => self.plain(BinaryOp::Min, arithmetic(elem), a, b, elem),
            Op::Max | Op::MaxNan => self.plain(BinaryOp::Max, arithmetic(elem), a, b, elem),
            Op::And => self.plain(BinaryOp::And, bits(elem), a, b, elem),
            Op::Or => self.plain(BinaryOp::Or, bits(elem), a, b, elem),
            Op::Xor => self.plain(BinaryOp::Xor, bits(elem), a, b, elem),
            Op::Shl => self.shift_left(a, b, elem),
            Op::Shr => self.shift_right(a, b, elem),
            Op::Div => self.quotient(a, b, elem, false),
            Op::Rem => self.remainder(a, b, elem, false),
            Op::CopySign => panic!("the verifier admits no sign of integers"),
        }
    }

    fn bool_binary(&mut self, op: Op, a: Element, b: Element) -> Element {
        let op = match op {
            Op::And => BinaryOp::And,
            Op::Or => BinaryOp::Or,
            _ => BinaryOp::Xor,
        };
        match (op, a.as_int(), b.as_int()) {
            (BinaryOp::And, Some(1), _) | (BinaryOp::Or | BinaryOp::Xor, Some(0), _) => return b,
            (BinaryOp::And, _, Some(1)) | (BinaryOp::Or | BinaryOp::Xor, _, Some(0)) => return a,
            (BinaryOp::And, Some(0), _) | (BinaryOp::And, _, Some(0)) => return Element::int(0),
            _ => {}
        }
        let (a, b) = (self.whole(a, Elem::I1), self.whole(b, Elem::I1));
        self.binary(op, Type::Pred, a, b).into()
    }

    /// What can be done on register and constant apart.
    fn sum(&mut self, op: Op, a: Element, b: Element, elem: Elem) -> Option<Element> {
        if !keeps_sums(elem) {
            return None;
        }
        let ((x, add_x), (y, add_y)) = (parts(a)?, parts(b)?);
        let ty = arithmetic(elem);
        match op {
            Op::Add => {
                let reg = match (x, y) {
                    (Some(x), Some(y)) => Some(self.binary(BinaryOp::Add, ty, x, y)),
                    (x, y) => x.or(y),
                };
                Some(joined(reg, add_x.wrapping_add(add_y), elem))
            }
            Op::Sub => {
                let reg = match (x, y) {
                    (Some(x), Some(y)) => self.binary(BinaryOp::Sub, ty, x, y),
                    (Some(x), None) => x,
                    // The constant goes into the subtraction itself.
                    (None, _) => return None,
                };
                Some(joined(Some(reg), add_x.wrapping_sub(add_y), elem))
            }
            Op::Mul => match (x, y) {
                (Some(x), None) if add_x != 0 => Some(self.scaled(x, add_x, add_y, elem)),
                (None, Some(y)) if add_y != 0 => Some(self.scaled(y, add_y, add_x, elem)),
                _ => None,
            },
            Op::Shl => match (x, y) {
                (Some(x), None)
                    if add_x != 0 && (0..i64::from(elem.bits()) - 1).contains(&add_y) =>
                {
                    Some(self.scaled(x, add_x, 1 << add_y, elem))
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// `(reg + add) * factor`.
    fn scaled(&mut self, reg: Reg, add: i64, factor: i64, elem: Elem) -> Element {
        let scaled = self.product(reg.into(), Element::int(factor), elem);
        self.add_int(scaled, add.wrapping_mul(factor), elem)
    }

    /// An operation that may leave the width of the type.
    fn wrapping(&mut self, op: BinaryOp, a: Element, b: Element, elem: Elem) -> Element {
        let wide = self.plain(op, arithmetic(elem), a, b, elem);
        self.cut(wide, elem)
    }

    fn plain(&mut self, op: BinaryOp, ty: Type, a: Element, b: Element, elem: Elem) -> Element {
        let (a, b) = (self.operand(a, elem), self.operand(b, elem));
        self.binary(op, ty, a, b).into()
    }

    /// The low bits of a 32-bit result, extended as the type wants it.
    pub(super) fn cut(&mut self, element: Element, elem: Elem) -> Element {
        let bits = elem.bits();
        if bits >= 32 {
            return element;
        }
        if let Some(value) = element.as_int() {
            return Element::int(wrapped(value.into(), elem));
        }
        let reg = self.whole(element, Elem::I32);
        if matches!(elem, Elem::Data(d) if d.is_signed_int()) {
            self.ternary(TernaryOp::Bfe, Type::S32, reg, 0_u32, bits)
                .into()
        } else {
            self.binary(BinaryOp::And, Type::B32, reg, (1_u32 << bits) - 1)
                .into()
        }
    }

    fn product(&mut self, a: Element, b: Element, elem: Elem) -> Element {
        let (a, b) = if a.as_int().is_some() { (b, a) } else { (a, b) };
        match b.as_int() {
            Some(0) => return Element::int(0),
            Some(1) => return a,
            Some(factor) if factor > 0 && (factor as u64).is_power_of_two() => {
                let a = self.operand(a, elem);
                let shifted = self.binary(BinaryOp::Shl, bits(elem), a, factor.trailing_zeros());
                return self.cut(shifted.into(), elem);
            }
            _ => {}
        }
        self.wrapping(BinaryOp::MulLo, a, b, elem)
    }

    fn product_high(&mut self, a: Element, b: Element, elem: Elem) -> Element {
        let ty = arithmetic(elem);
        if elem.bits() >= 32 {
            return self.plain(BinaryOp::MulHi, ty, a, b, elem);
        }
        // Both factors have at most 16 bits, so the whole product is there.
        let (a, b) = (self.operand(a, elem), self.operand(b, elem));
        let whole = self.binary(BinaryOp::MulLo, ty, a, b);
        self.binary(BinaryOp::Shr, ty, whole, elem.bits()).into()
    }

    /// The count of a shift as `shl` and `shr` take it: 32 bits, and what is past the width stays so.
    fn shift_count(&mut self, count: Element, elem: Elem) -> Operand {
        if let Some(value) = count.as_int() {
            let value = wrapped(value.into(), elem) as u64;
            // A count is a number of the element's type; a negative one is past every width.
            return Operand::Int(value.min(64) as i64);
        }
        let operand = self.operand(count, elem);
        if elem.bits() < 64 {
            return operand;
        }
        let small = self.binary(BinaryOp::Min, Type::U64, operand, 64_u32);
        self.convert(Type::U32, Type::U64, None, small).into()
    }

    fn shift_left(&mut self, a: Element, b: Element, elem: Elem) -> Element {
        let (a, count) = (self.operand(a, elem), self.shift_count(b, elem));
        let shifted = self.binary(BinaryOp::Shl, bits(elem), a, count);
        self.cut(shifted.into(), elem)
    }

    fn shift_right(&mut self, a: Element, b: Element, elem: Elem) -> Element {
        let (a, count) = (self.operand(a, elem), self.shift_count(b, elem));
        self.binary(BinaryOp::Shr, arithmetic(elem), a, count)
            .into()
    }

    /// `-x`, `|x|` or the complement of an integer or boolean.
    pub(super) fn int_unary(&mut self, op: UnaryOp, a: Element, elem: Elem) -> Element {
        if elem.is_bool() {
            if let Some(value) = a.as_int() {
                return Element::int(1 - value);
            }
            let a = self.whole(a, elem);
            return self.unary(ptx::UnaryOp::Not, Type::Pred, a).into();
        }
        match op {
            UnaryOp::Neg => self.int_binary(Op::Sub, Element::int(0), a, elem),
            UnaryOp::Not => {
                let a = self.operand(a, elem);
                let complement = self.unary(ptx::UnaryOp::Not, bits(elem), a);
                self.cut(complement.into(), elem)
            }
            _ if matches!(elem, Elem::Data(d) if d.is_unsigned_int()) => a,
            _ => {
                let a = self.operand(a, elem);
                let magnitude = self.unary(ptx::UnaryOp::Abs, arithmetic(elem), a);
                self.cut(magnitude.into(), elem)
            }
        }
    }

    /// A comparison of integers, pointers or booleans.
    pub(super) fn int_compare(
        &mut self,
        compare: Compare,
        a: Element,
        b: Element,
        elem: Elem,
    ) -> Element {
        if elem.is_bool() {
            let (a, b) = (self.bits32(a, elem), self.bits32(b, elem));
            return self.setp(compare, Type::U32, a, b).into();
        }
        // The wrapped constant of a sum is no bound of it, so sums are computed before they are compared.
        let (a, b) = (self.operand(a, elem), self.operand(b, elem));
        let ty = match (arithmetic(elem), compare) {
            (ty, Compare::Eq | Compare::Ne) => bits_of(ty),
            (ty, _) => ty,
        };
        self.setp(compare, ty, a, b).into()
    }
}

/// The type of an operation that looks at bits alone.
pub(super) fn bits(elem: Elem) -> Type {
    bits_of(arithmetic(elem))
}

fn bits_of(ty: Type) -> Type {
    if ty.bits() == 64 {
        Type::B64
    } else {
        Type::B32
    }
}

/// The value of an operation on constants, before it is wrapped; none where the machine decides.
fn folded(op: Op, a: i128, b: i128) -> Option<i128> {
    match op {
        Op::Add => Some(a + b),
        Op::Sub => Some(a - b),
        Op::Mul => Some(a * b),
        Op::And => Some(a & b),
        Op::Or => Some(a | b),
        Op::Xor => Some(a ^ b),
        Op::Shl if (0..64).contains(&b) => Some(a << b),
        _ => None,
    }
}

/// The type in which a value of `dtype` divides: 32 bits for all narrower ones.
pub(super) fn is_signed(elem: Elem) -> bool {
    matches!(elem, Elem::Data(d) if d.is_signed_int())
}

/// The integer type of a width.
pub(super) fn int_type(bits: u32, signed: bool) -> DType {
    match (bits, signed) {
        (64, true) => DType::I64,
        (64, false) => DType::U64,
        (_, true) => DType::I32,
        (_, false) => DType::U32,
    }
}
