//! Elementwise arithmetic.

use super::super::operand::Raw;
use super::super::{At, Trace, with};
use diag::{Code, as_written};
use ir::OpError;
use ir::elem::{DType, Elem};
use ir::entity::Value;
use ir::ops::Op;
use ir::ops::arith::{
    Binary, BinaryOp, Compare, CompareOp, Fma, Precision, Rescale, Select, Unary, UnaryOp,
};
use ir::ops::cast::{Bitcast, Cast, Rounding};
use ir::ops::create::Const;
use ir::ops::pointer::{PeerPtr, PeerTable, PtrAdd};
use ir::ops::rounded::{Direction, Rounded, RoundedOp};

/// `lhs op rhs`.
#[inline(never)]
pub(crate) fn binary(op: BinaryOp, lhs: Raw, rhs: Raw, elem: Elem, at: At) -> Value {
    binary_with(op, Precision::Default, lhs, rhs, elem, at)
}

/// `lhs op rhs`, as exact as wanted.
#[inline(never)]
pub(crate) fn binary_with(
    op: BinaryOp,
    precision: Precision,
    lhs: Raw,
    rhs: Raw,
    elem: Elem,
    at: At,
) -> Value {
    with(at, |trace| {
        let is_division = matches!(op, BinaryOp::Div | BinaryOp::Rem) && elem.is_int();
        if is_division && matches!(rhs, Raw::Const(Const::Int(0))) {
            let message = format!(
                "the divisor of `{}` is the constant 0",
                as_written(op.name())
            );
            let error = OpError::new(Code::ConstantRange, message);
            return trace.fail(error.note("use another divisor"), at);
        }
        trace.elementwise(op.name(), &[(lhs, elem), (rhs, elem)], at, |v| {
            Binary {
                op,
                precision,
                lhs: v[0],
                rhs: v[1],
            }
            .into()
        })
    })
}

/// `lhs op rhs`, giving booleans.
#[inline(never)]
pub(crate) fn compare(op: CompareOp, lhs: Raw, rhs: Raw, elem: Elem, at: At) -> Value {
    with(at, |trace| {
        trace.elementwise(op.name(), &[(lhs, elem), (rhs, elem)], at, |v| {
            Compare {
                op,
                lhs: v[0],
                rhs: v[1],
            }
            .into()
        })
    })
}

/// `op operand`.
#[inline(never)]
pub(crate) fn unary(op: UnaryOp, precision: Precision, operand: Value, at: At) -> Value {
    with(at, |trace| {
        let ty = trace.ty(operand).clone();
        let op = Unary {
            op,
            precision,
            operand,
        };
        trace.push1(op, ty, at)
    })
}

/// `if condition { yes } else { no }`, for each element.
#[inline(never)]
pub(crate) fn select(condition: Raw, yes: Raw, no: Raw, elem: Elem, at: At) -> Value {
    with(at, |trace| {
        let operands = [(condition, Elem::I1), (yes, elem), (no, elem)];
        trace.elementwise("select", &operands, at, |v| {
            Select {
                condition: v[0],
                yes: v[1],
                no: v[2],
            }
            .into()
        })
    })
}

/// `a * b + c`.
#[inline(never)]
pub(crate) fn fma(a: Raw, b: Raw, c: Raw, elem: Elem, at: At) -> Value {
    with(at, |trace| {
        trace.elementwise("fma", &[(a, elem), (b, elem), (c, elem)], at, |v| {
            Fma {
                a: v[0],
                b: v[1],
                c: v[2],
            }
            .into()
        })
    })
}

/// `operand * factor`, where the factor is mostly 1.
#[inline(never)]
pub(crate) fn rescale(operand: Raw, factor: Raw, elem: Elem, at: At) -> Value {
    with(at, |trace| {
        trace.elementwise("rescale", &[(operand, elem), (factor, elem)], at, |v| {
            Rescale {
                operand: v[0],
                factor: v[1],
            }
            .into()
        })
    })
}

/// Arithmetic rounded as said.
#[inline(never)]
pub(crate) fn rounded(
    op: RoundedOp,
    direction: Direction,
    operands: &[(Raw, Elem)],
    at: At,
) -> Value {
    with(at, |trace| {
        trace.elementwise(op.name(), operands, at, |v| {
            Rounded {
                op,
                direction,
                operands: v.iter().copied().collect(),
            }
            .into()
        })
    })
}

/// Conversion of each element.
#[inline(never)]
pub(crate) fn cast(operand: Value, to: Elem, rounding: Rounding, at: At) -> Value {
    with(at, |trace| {
        let from = trace.ty(operand).clone();
        if from.elem() == Some(to) {
            return operand;
        }
        let ty = from.with_elem(to);
        trace.push1(Cast { rounding, operand }, ty, at)
    })
}

/// The bits of each element as another type.
#[inline(never)]
pub(crate) fn bitcast(operand: Value, to: Elem, at: At) -> Value {
    with(at, |trace| {
        let from = trace.ty(operand).clone();
        if from.elem() == Some(to) {
            return operand;
        }
        trace.push1(Bitcast { operand }, from.with_elem(to), at)
    })
}

/// The pointer at an address in memory of another rank.
#[inline(never)]
pub(crate) fn peer_ptr(address: Value, pointee: DType, at: At) -> Value {
    with(at, |trace| {
        let ty = ir::Type::Scalar(Elem::Ptr(pointee));
        trace.push1(PeerPtr { address }, ty, at)
    })
}

/// A table of the addresses of all ranks.
#[inline(never)]
pub(crate) fn peer_table(table: Value, at: At) -> Value {
    with(at, |trace| {
        let ty = trace.ty(table).clone();
        trace.push1(PeerTable { table }, ty, at)
    })
}

/// Pointers moved by `offset` elements.
#[inline(never)]
pub(crate) fn ptr_add(ptr: Value, pointee: DType, offset: Raw, index: DType, at: At) -> Value {
    with(at, |trace| {
        let operands = [
            (Raw::Value(ptr), Elem::Ptr(pointee)),
            (offset, index.into()),
        ];
        trace.elementwise("ptr_add", &operands, at, |v| {
            PtrAdd {
                ptr: v[0],
                offset: v[1],
            }
            .into()
        })
    })
}

impl Trace {
    /// Fits the operands to each other and appends the op made of them. The result has the last operand's form.
    pub(super) fn elementwise(
        &mut self,
        name: &str,
        operands: &[(Raw, Elem)],
        at: At,
        op: impl FnOnce(&[Value]) -> Op,
    ) -> Value {
        match self.fit(name, operands, at) {
            Some(fitted) => {
                let ty = self.ty(fitted[fitted.len() - 1]).clone();
                self.push1(op(&fitted), ty, at)
            }
            None => self.builder.poison(),
        }
    }
}
