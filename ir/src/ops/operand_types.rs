//! Which types operands may have, and how those of two differ.

use crate::elem::Elem;
use crate::entity::Value;
use crate::{Func, OpError, Type};
use diag::{Code, as_written};

/// Floats with arithmetic: all but those of a byte or less, which are only converted and moved.
pub(super) fn is_computed_float(elem: Elem) -> bool {
    matches!(elem, Elem::Data(d) if d.is_float() && !d.is_narrow_float())
}

/// The type of the elements.
pub(super) fn element(ty: &Type) -> Result<Elem, OpError> {
    ty.elem()
        .ok_or_else(|| OpError::new(Code::ElementMismatch, format!("{ty} has no elements")))
}

/// The op does not exist for this element type.
pub(super) fn no_such_op(op: &str, elem: Elem) -> OpError {
    OpError::new(
        Code::ElementMismatch,
        format!("there is no `{op}` for {elem}"),
    )
}

/// The one type of all operands, or what differs.
pub(super) fn same_type(func: &Func, op: &str, operands: &[Value]) -> Result<Type, OpError> {
    let first = func.ty(operands[0]);
    for other in &operands[1..] {
        if func.ty(*other) != first {
            return Err(mismatch(op, operands[0], first, *other, func.ty(*other)));
        }
    }
    Ok(first.clone())
}

/// How two types differ: elements, rank, shape or layout.
pub(super) fn mismatch(op: &str, a: Value, a_ty: &Type, b: Value, b_ty: &Type) -> OpError {
    let (code, what) = match (a_ty, b_ty) {
        (Type::Tensor(x), Type::Tensor(y)) if x.rank() != y.rank() => (Code::RankMismatch, "rank"),
        (Type::Tensor(x), Type::Tensor(y)) if x.shape != y.shape => (Code::ShapeMismatch, "shape"),
        (Type::Tensor(x), Type::Tensor(y)) if x.layout != y.layout => {
            (Code::LayoutMismatch, "layout")
        }
        _ => (Code::ElementMismatch, "type"),
    };
    OpError::new(
        code,
        format!(
            "the operands of `{}` differ in {what}: {a_ty} and {b_ty}",
            as_written(op)
        ),
    )
    .typed(a, a_ty)
    .typed(b, b_ty)
}
