//! Arithmetic that leaves one operand as it is, or whose result no operand decides.
//!
//! Matches on ops: an algebraic identity is a pattern of certain ops.

use ir::elem::{DType, Elem};
use ir::entity::Value;
use ir::ops::Op;
use ir::ops::arith::{Binary, BinaryOp, Compare, CompareOp, Unary, UnaryOp};
use ir::ops::cast::{Cast, Rounding};
use ir::ops::create::Const;
use ir::{Func, Type};

use super::outcome::Outcome;

/// What an op that adds nothing comes to.
pub(super) fn simplified(func: &Func, op: &Op, ty: &Type) -> Option<Outcome> {
    match op {
        Op::Unary(op) => unary(func, op),
        Op::Binary(op) => binary(func, op, ty),
        Op::Compare(op) => compare(func, op, ty),
        Op::Select(op) if op.yes == op.no => Some(Outcome::value(op.yes)),
        Op::Select(op) => {
            let chosen = if func.constant_int(op.condition)? != 0 {
                op.yes
            } else {
                op.no
            };
            Some(Outcome::value(chosen))
        }
        Op::Cast(op) if func.ty(op.operand) == ty => Some(Outcome::value(op.operand)),
        Op::Cast(op) => cast_of_cast(func, op, ty),
        Op::Bitcast(op) if func.ty(op.operand) == ty => Some(Outcome::value(op.operand)),
        Op::Bitcast(op) => match made_by(func, op.operand)? {
            Op::Bitcast(inner) => Some(Outcome::Op(inner.clone().into())),
            _ => None,
        },
        Op::PtrAdd(op) if func.constant_int(op.offset) == Some(0) => Some(Outcome::value(op.ptr)),
        Op::ConvertLayout(op) if func.ty(op.operand) == ty => Some(Outcome::value(op.operand)),
        Op::Broadcast(op) if func.ty(op.operand) == ty => Some(Outcome::value(op.operand)),
        Op::Reshape(op) if func.ty(op.operand) == ty => Some(Outcome::value(op.operand)),
        _ => None,
    }
}

fn made_by(func: &Func, value: Value) -> Option<&Op> {
    func.def_inst(value).map(|inst| func.op(inst))
}

/// Twice the same of these is nothing: `-(-x)`, `!!x`; once and again is once: `||x||`.
fn unary(func: &Func, op: &Unary) -> Option<Outcome> {
    let Op::Unary(inner) = made_by(func, op.operand)? else {
        return None;
    };
    match (op.op, inner.op) {
        (UnaryOp::Neg, UnaryOp::Neg) | (UnaryOp::Not, UnaryOp::Not) => {
            Some(Outcome::value(inner.operand))
        }
        (a, b) if a == b && is_idempotent(a) => Some(Outcome::value(op.operand)),
        _ => None,
    }
}

fn is_idempotent(op: UnaryOp) -> bool {
    matches!(
        op,
        UnaryOp::Abs | UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Rint | UnaryOp::Trunc
    )
}

fn binary(func: &Func, op: &Binary, ty: &Type) -> Option<Outcome> {
    let (lhs, rhs) = (func.constant(op.lhs), func.constant(op.rhs));
    if lhs.is_some() && rhs.is_none() && op.op.commutes() {
        return Some(Outcome::Op(
            Binary {
                lhs: op.rhs,
                rhs: op.lhs,
                ..op.clone()
            }
            .into(),
        ));
    }
    if op.lhs == op.rhs
        && let Some(outcome) = with_itself(op, ty)
    {
        return Some(outcome);
    }
    match rhs? {
        Const::Int(value) => with_integer(op, value, ty),
        Const::Float(_) if is_float(ty) => with_float(op, rhs?.as_f64()),
        Const::Float(_) => None,
    }
}

fn with_itself(op: &Binary, ty: &Type) -> Option<Outcome> {
    match op.op {
        BinaryOp::And
        | BinaryOp::Or
        | BinaryOp::Min
        | BinaryOp::Max
        | BinaryOp::MinNan
        | BinaryOp::MaxNan => Some(Outcome::value(op.lhs)),
        BinaryOp::Sub | BinaryOp::Xor if !is_float(ty) => Some(Outcome::constant(Const::Int(0))),
        _ => None,
    }
}

fn with_integer(op: &Binary, value: i128, ty: &Type) -> Option<Outcome> {
    let is_neutral = match op.op {
        BinaryOp::Add
        | BinaryOp::Sub
        | BinaryOp::Or
        | BinaryOp::Xor
        | BinaryOp::Shl
        | BinaryOp::Shr => value == 0,
        BinaryOp::Mul | BinaryOp::Div => value == 1,
        BinaryOp::And => value == all_bits(ty)?,
        _ => false,
    };
    if is_neutral {
        return Some(Outcome::value(op.lhs));
    }
    let zero = || Some(Outcome::constant(Const::Int(0)));
    match op.op {
        BinaryOp::Mul | BinaryOp::And if value == 0 => zero(),
        BinaryOp::Rem if value == 1 => zero(),
        BinaryOp::Or if value == all_bits(ty)? => Some(Outcome::constant(Const::Int(value))),
        _ => None,
    }
}

/// Only what is exact for every float, infinities, NaN and both zeros included.
fn with_float(op: &Binary, value: f64) -> Option<Outcome> {
    let is = |other: f64| value.to_bits() == other.to_bits();
    let is_neutral = match op.op {
        BinaryOp::Add => is(-0.0),
        BinaryOp::Sub => is(0.0),
        BinaryOp::Mul | BinaryOp::Div => is(1.0),
        _ => false,
    };
    is_neutral.then(|| Outcome::value(op.lhs))
}

/// The integer of a type with every bit set.
fn all_bits(ty: &Type) -> Option<i128> {
    let dtype = ty.elem()?.data()?;
    Some(if dtype.is_signed_int() {
        -1
    } else {
        (1 << dtype.bits()) - 1
    })
}

fn compare(func: &Func, op: &Compare, ty: &Type) -> Option<Outcome> {
    let (lhs, rhs) = (func.constant(op.lhs), func.constant(op.rhs));
    if lhs.is_some() && rhs.is_none() {
        return Some(Outcome::Op(
            Compare {
                op: op.op.mirrored(),
                lhs: op.rhs,
                rhs: op.lhs,
            }
            .into(),
        ));
    }
    debug_assert!(ty.elem() == Some(Elem::I1), "a comparison gives booleans");
    // NaN differs from itself, so this is for integers and pointers alone.
    if op.lhs == op.rhs && !is_float(func.ty(op.lhs)) {
        let holds = matches!(op.op, CompareOp::Eq | CompareOp::Le | CompareOp::Ge);
        return Some(Outcome::constant(Const::Int(holds.into())));
    }
    None
}

/// A cast through a type that holds every value of the first one is a cast from the first one.
fn cast_of_cast(func: &Func, op: &Cast, ty: &Type) -> Option<Outcome> {
    let Op::Cast(inner) = made_by(func, op.operand)? else {
        return None;
    };
    let between = func.ty(op.operand).elem()?.data()?;
    let first = func.ty(inner.operand).elem()?.data()?;
    let last = ty.elem()?.data()?;
    // With the first type equal to the last nothing is left to round.
    let is_exact = holds_all(between, first) && (op.rounding == Rounding::Default || first == last);
    is_exact.then(|| {
        Outcome::Op(
            Cast {
                operand: inner.operand,
                ..op.clone()
            }
            .into(),
        )
    })
}

/// Does `wide` hold every value of `narrow`, so that what it converts to next is the same?
fn holds_all(wide: DType, narrow: DType) -> bool {
    if wide == narrow {
        return true;
    }
    if narrow.is_float() {
        return match narrow {
            DType::F16 | DType::Bf16 => matches!(wide, DType::F32 | DType::F64),
            DType::F32 => wide == DType::F64,
            DType::E4m3 | DType::E5m2 | DType::E4m3b15 => {
                matches!(wide, DType::F16 | DType::F32 | DType::F64)
            }
            DType::E2m1 => {
                matches!(wide, DType::E4m3 | DType::E5m2 | DType::F16 | DType::Bf16)
                    || matches!(wide, DType::F32 | DType::F64)
            }
            DType::E8m0 => matches!(wide, DType::Bf16 | DType::F32 | DType::F64),
            _ => false,
        };
    }
    if wide.is_float() {
        return false;
    }
    if wide.is_signed_int() {
        narrow.bits() < wide.bits()
    } else {
        !narrow.is_signed_int() && narrow.bits() < wide.bits()
    }
}

fn is_float(ty: &Type) -> bool {
    ty.elem().is_some_and(Elem::is_float)
}
