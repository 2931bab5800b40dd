//! Arithmetic of float constants, rounded as the hardware rounds it.
//!
//! Matches on ops: it evaluates the arithmetic of each op that has an exact result.

use std::cmp::Ordering;

use ir::elem::{DType, Elem};
use ir::nearest::{nearest_bf16, nearest_f16};
use ir::ops::Op;
use ir::ops::arith::{BinaryOp, CompareOp, UnaryOp};
use ir::ops::cast::Rounding;
use ir::ops::create::Const;
use ir::{Func, Type};

use super::outcome::Outcome;

/// The result of an op all of whose operands are constants, as far as it is exactly known.
pub(super) fn computed(func: &Func, op: &Op, ty: &Type) -> Option<Outcome> {
    let to = ty.elem().and_then(Elem::data)?;
    let value = match op {
        Op::Unary(op) => unary(op.op, float(func, op.operand, to)?),
        Op::Binary(op) => binary(
            op.op,
            float(func, op.lhs, to)?,
            float(func, op.rhs, to)?,
            to,
        ),
        Op::Compare(op) => {
            let from = func
                .ty(op.lhs)
                .elem()
                .and_then(Elem::data)
                .filter(|d| d.is_float())?;
            let (lhs, rhs) = (float(func, op.lhs, from)?, float(func, op.rhs, from)?);
            return Some(Outcome::constant(Const::Int(
                compare(op.op, lhs, rhs).into(),
            )));
        }
        Op::Cast(op) if op.rounding == Rounding::Default => {
            let from = func.ty(op.operand).elem().and_then(Elem::data)?;
            cast(func.constant(op.operand)?, from, to)
        }
        _ => None,
    };
    value.map(|value| Outcome::constant(Const::float(value)))
}

/// A constant as an element of type `dtype` holds it; `None` for floats of a byte or less, which nothing computes with.
fn float(func: &Func, value: ir::entity::Value, dtype: DType) -> Option<f64> {
    match func.constant(value)? {
        Const::Float(bits) => rounded(f64::from_bits(bits), dtype),
        Const::Int(_) => None,
    }
}

/// The nearest value of a float type, ties to even.
fn rounded(value: f64, dtype: DType) -> Option<f64> {
    match dtype {
        DType::F64 => Some(value),
        DType::F32 => Some(f64::from(value as f32)),
        DType::F16 => Some(nearest_f16(value).to_f64()),
        DType::Bf16 => Some(nearest_bf16(value).to_f64()),
        _ => None,
    }
}

fn unary(op: UnaryOp, value: f64) -> Option<f64> {
    match op {
        UnaryOp::Neg => Some(-value),
        UnaryOp::Abs => Some(value.abs()),
        UnaryOp::Floor => Some(value.floor()),
        UnaryOp::Ceil => Some(value.ceil()),
        UnaryOp::Rint => Some(value.round_ties_even()),
        UnaryOp::Trunc => Some(value.trunc()),
        // The hardware approximates the rest, each in its own way.
        _ => None,
    }
}

/// Sums and products of two binary32 or narrower numbers are rounded once from binary64, which is exact enough that
/// the second rounding is the only one (more than twice the digits and two).
fn binary(op: BinaryOp, lhs: f64, rhs: f64, dtype: DType) -> Option<f64> {
    let exact = match op {
        BinaryOp::Add => lhs + rhs,
        BinaryOp::Sub => lhs - rhs,
        BinaryOp::Mul => lhs * rhs,
        BinaryOp::Div => lhs / rhs,
        // Which of two zeros is the smaller is for the machine to say.
        BinaryOp::Min | BinaryOp::Max if are_both_zeros(lhs, rhs) => return None,
        BinaryOp::Min => lhs.min(rhs),
        BinaryOp::Max => lhs.max(rhs),
        _ => return None,
    };
    // What NaN a machine makes is its own affair.
    if exact.is_nan() {
        None
    } else {
        rounded(exact, dtype)
    }
}

/// Are they zeros of both signs?
fn are_both_zeros(lhs: f64, rhs: f64) -> bool {
    lhs.to_bits() ^ rhs.to_bits() == 1 << 63 && lhs.to_bits() << 1 == 0
}

/// As the language has it: no comparison holds of NaN but `ne`.
fn compare(op: CompareOp, lhs: f64, rhs: f64) -> bool {
    let order = lhs.partial_cmp(&rhs);
    match op {
        CompareOp::Eq => order == Some(Ordering::Equal),
        CompareOp::Ne => order != Some(Ordering::Equal),
        CompareOp::Lt => lhs < rhs,
        CompareOp::Le => lhs <= rhs,
        CompareOp::Gt => lhs > rhs,
        CompareOp::Ge => lhs >= rhs,
    }
}

/// To a float; to an integer the axis analysis knows nothing of floats, so that is left to the machine.
fn cast(value: Const, from: DType, to: DType) -> Option<f64> {
    match value {
        Const::Float(bits) => {
            let held = rounded(f64::from_bits(bits), from)?;
            if held.is_nan() {
                None
            } else {
                rounded(held, to)
            }
        }
        // Integers of up to 53 bits are exact on the way.
        Const::Int(i) if i.unsigned_abs() < 1 << 53 => rounded(i as f64, to),
        Const::Int(_) => None,
    }
}
