//! Sorting: floats as integers of the same order, and elements packed with their index into one word.

use super::super::{At, Trace, with};
use diag::Code;
use ir::OpError;
use ir::Type;
use ir::elem::{DType, Elem};
use ir::entity::Value;
use ir::ops::Scratch;
use ir::ops::arith::{Binary, BinaryOp, Precision, Unary, UnaryOp};
use ir::ops::cast::{Bitcast, Cast, Rounding};
use ir::ops::create::Const;
use ir::ops::sort::{Sort, can_keep};

/// All elements along an axis in order.
#[inline(never)]
pub(crate) fn sort(operand: Value, axis: usize, is_descending: bool, at: At) -> Value {
    with(at, |trace| {
        let Some((dtype, size)) = trace.sortable(operand, axis, at) else {
            return trace.builder.poison();
        };
        let keys = trace.ordered(operand, dtype, at);
        let how = (axis, size, is_descending);
        let sorted = trace.sorted(&[keys], how, at)[0];
        trace.unordered(sorted, dtype, at)
    })
}

/// The largest elements along an axis in descending order, and where they stood.
#[inline(never)]
pub(crate) fn top_k(operand: Value, k: i128, axis: usize, at: At) -> [Value; 2] {
    with(at, |trace| {
        let Some((dtype, size)) = trace.sortable(operand, axis, at) else {
            return [trace.builder.poison(), trace.builder.poison()];
        };
        let fits = |k: &u32| can_keep(*k, size);
        let Some(k) = u32::try_from(k).ok().filter(fits) else {
            let message = format!("`top_k` of {k} of {size} elements");
            let error = OpError::new(Code::ShapeChange, message);
            let error = error.typed(operand, trace.ty(operand)).help(format!(
                "keep a power of two below {size}, or all {size}, and mask the rest"
            ));
            let poison = trace.fail(error, at);
            return [poison, poison];
        };
        let Some(index) = trace.index_along("`top_k`", operand, axis, at) else {
            return [trace.builder.poison(), trace.builder.poison()];
        };
        let keys = trace.ordered(operand, dtype, at);
        // The lower of two places is the larger word, so that it comes first where elements are equal.
        let places = trace.unary_of(UnaryOp::Not, index, at);
        let how = (axis, k, true);
        let [keys, places] = match dtype.bits() {
            64 => {
                let sorted = trace.sorted(&[keys, places], how, at);
                [sorted[0], sorted[1]]
            }
            bits => {
                let half = if bits <= 16 && size <= 1 << 16 {
                    16
                } else {
                    32
                };
                let packed = trace.packed(keys, places, half, at);
                let sorted = trace.sorted(&[packed], how, at)[0];
                trace.unpacked(sorted, ordered_type(dtype), half, at)
            }
        };
        let places = trace.unary_of(UnaryOp::Not, places, at);
        [trace.unordered(keys, dtype, at), places]
    })
}

/// The integers that stand for elements of a type in a sort.
fn ordered_type(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::Bf16 => DType::I16,
        DType::F32 => DType::I32,
        DType::F64 => DType::I64,
        other => other,
    }
}

impl Trace {
    /// Element type and size of what is sorted; `None` if it is no tensor or has no such axis, which is reported.
    fn sortable(&mut self, operand: Value, axis: usize, at: At) -> Option<(DType, u32)> {
        let Type::Tensor(t) = self.ty(operand).clone() else {
            return None;
        };
        let Some(&size) = t.shape.get(axis) else {
            let message = format!(
                "a sort along dimension {axis} of a tensor of rank {}",
                t.rank()
            );
            let last = t.rank() - 1;
            let help = format!("dimensions count from 0, and the last one here is {last}");
            let error = OpError::new(Code::NoSuchAxis, message);
            self.fail(error.typed(operand, t).help(help), at);
            return None;
        };
        Some((t.elem.data()?, size))
    }

    fn sorted(
        &mut self,
        operands: &[Value],
        (axis, count, is_descending): (usize, u32, bool),
        at: At,
    ) -> Vec<Value> {
        let declared: Vec<Type> = operands.iter().map(|v| self.ty(*v).clone()).collect();
        let op = Sort {
            axis: axis as u32,
            count,
            is_descending,
            scratch: Scratch::NONE,
            operands: operands.iter().copied().collect(),
        };
        self.push(op, &declared, at).to_vec()
    }

    /// Floats as integers of the same order.
    fn ordered(&mut self, value: Value, dtype: DType, at: At) -> Value {
        let to = ordered_type(dtype);
        if to == dtype {
            return value;
        }
        let ty = self.ty(value).with_elem(to);
        let bits = self.push1(Bitcast { operand: value }, ty, at);
        self.turned(bits, to, at)
    }

    /// The way back.
    fn unordered(&mut self, value: Value, dtype: DType, at: At) -> Value {
        let from = ordered_type(dtype);
        if from == dtype || self.is_poison(value) {
            return value;
        }
        let bits = self.turned(value, from, at);
        let ty = self.ty(bits).with_elem(dtype);
        self.push1(Bitcast { operand: bits }, ty, at)
    }

    /// Below zero, all bits but the sign the other way round: more is less there. Its own opposite.
    fn turned(&mut self, bits: Value, dtype: DType, at: At) -> Value {
        let last = i128::from(dtype.bits()) - 1;
        let sign = self.binary_with(BinaryOp::Shr, bits, last, at);
        let others = self.binary_with(BinaryOp::And, sign, (1 << last) - 1, at);
        self.binary_of(BinaryOp::Xor, bits, others, at)
    }

    /// The key above the low bits of the place, in a word of twice that many bits.
    fn packed(&mut self, keys: Value, places: Value, half: u32, at: At) -> Value {
        let is_signed = matches!(self.ty(keys).elem(), Some(Elem::Data(d)) if d.is_signed_int());
        let word = match (half, is_signed) {
            (16, true) => DType::I32,
            (16, false) => DType::U32,
            (_, true) => DType::I64,
            (_, false) => DType::U64,
        };
        let wide = self.cast_to(keys, word, at);
        let high = self.binary_with(BinaryOp::Shl, wide, half.into(), at);
        // Without the sign, so that it fills nothing above.
        let places = self.cast_to(places, DType::U32, at);
        let places = self.cast_to(places, word, at);
        let low = if half == 16 {
            self.binary_with(BinaryOp::And, places, 0xffff, at)
        } else {
            places
        };
        self.binary_of(BinaryOp::Or, high, low, at)
    }

    fn unpacked(&mut self, word: Value, key: DType, half: u32, at: At) -> [Value; 2] {
        let high = self.binary_with(BinaryOp::Shr, word, half.into(), at);
        let keys = self.cast_to(high, key, at);
        let places = self.cast_to(word, DType::I32, at);
        if half == 32 {
            return [keys, places];
        }
        // Bits that were cut off were all set.
        let high = -0x1_0000;
        [keys, self.binary_with(BinaryOp::Or, places, high, at)]
    }

    fn cast_to(&mut self, operand: Value, to: DType, at: At) -> Value {
        let from = self.ty(operand).clone();
        if from.elem() == Some(to.into()) || from.is_poison() {
            return operand;
        }
        let rounding = Rounding::Default;
        self.push1(Cast { rounding, operand }, from.with_elem(to), at)
    }

    fn unary_of(&mut self, op: UnaryOp, operand: Value, at: At) -> Value {
        let ty = self.ty(operand).clone();
        let precision = Precision::Default;
        self.push1(
            Unary {
                op,
                precision,
                operand,
            },
            ty,
            at,
        )
    }

    fn binary_with(&mut self, op: BinaryOp, lhs: Value, rhs: i128, at: At) -> Value {
        let ty = self.ty(lhs).clone();
        let rhs = self.constant(Const::Int(rhs), ty, at);
        self.binary_of(op, lhs, rhs, at)
    }

    fn binary_of(&mut self, op: BinaryOp, lhs: Value, rhs: Value, at: At) -> Value {
        let ty = self.ty(lhs).clone();
        let precision = Precision::Default;
        self.push1(
            Binary {
                op,
                precision,
                lhs,
                rhs,
            },
            ty,
            at,
        )
    }
}
