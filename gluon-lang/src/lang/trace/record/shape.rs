//! Shapes and layouts.

use super::super::{At, with};
use diag::Code;
use ir::OpError;
use ir::Type;
use ir::entity::Value;
use ir::ops::layout::{ConvertLayout, SetLayout};
use ir::ops::shape::{Broadcast, ExpandDims, Join, Permute, Reshape, Split};
use layout::{Dims, Layout};

/// A dimension of 1 before dimension `axis`.
#[inline(never)]
pub(crate) fn expand_dims(operand: Value, axis: usize, at: At) -> Value {
    with(at, |trace| {
        let ty = trace.ty(operand).clone();
        let axis = u32::try_from(axis).unwrap_or(u32::MAX);
        trace.push1(ExpandDims { axis, operand }, ty, at)
    })
}

/// Dimensions of 1 repeated; a scalar is spread over the whole shape.
#[inline(never)]
pub(crate) fn broadcast_to(operand: Value, shape: Dims, at: At) -> Value {
    with(at, |trace| match trace.ty(operand).clone() {
        Type::Tensor(t) if t.shape == shape => operand,
        Type::Tensor(t) => trace.push1(
            Broadcast { operand },
            Type::tensor(shape, t.elem, t.layout),
            at,
        ),
        Type::Scalar(_) => trace.spread(operand, &shape, &Layout::Auto, at),
        _ => trace.builder.poison(),
    })
}

/// The same elements in another shape; no shape means a vector.
#[inline(never)]
pub(crate) fn reshape(operand: Value, shape: Option<Dims>, at: At) -> Value {
    with(at, |trace| {
        let Type::Tensor(t) = trace.ty(operand).clone() else {
            let ty = trace.ty(operand).clone();
            return trace.push1(Reshape { operand }, ty, at);
        };
        let shape = shape.unwrap_or_else(|| Dims::from([t.len() as u32]));
        trace.push1(
            Reshape { operand },
            Type::tensor(shape, t.elem, Layout::Auto),
            at,
        )
    })
}

/// Dimension `i` of the result is dimension `order[i]`; no order reverses them.
#[inline(never)]
pub(crate) fn permute(operand: Value, order: Option<Dims>, at: At) -> Value {
    with(at, |trace| {
        let ty = trace.ty(operand).clone();
        let order = order.unwrap_or_else(|| (0..ty.shape().len() as u32).rev().collect());
        trace.push1(Permute { order, operand }, ty, at)
    })
}

/// The two halves of the last dimension, which is 2.
#[inline(never)]
pub(crate) fn split(operand: Value, at: At) -> (Value, Value) {
    with(at, |trace| {
        let ty = trace.ty(operand).clone();
        let results = trace.push(Split { operand }, &[ty.clone(), ty], at);
        (results[0], results[1])
    })
}

/// Two tensors side by side along a new last dimension.
#[inline(never)]
pub(crate) fn join(lhs: Value, rhs: Value, at: At) -> Value {
    with(at, |trace| {
        let elems = [lhs, rhs].map(|v| trace.ty(v).elem());
        let [Some(a), Some(b)] = elems else {
            return trace.builder.poison();
        };
        let operands = [
            (super::super::Raw::Value(lhs), a),
            (super::super::Raw::Value(rhs), b),
        ];
        trace.elementwise("join", &operands, at, |v| {
            Join {
                lhs: v[0],
                rhs: v[1],
            }
            .into()
        })
    })
}

/// The same elements in another layout.
#[inline(never)]
pub(crate) fn convert_layout(operand: Value, layout: Layout, is_trivial: bool, at: At) -> Value {
    with(at, |trace| {
        let declared = relaid(trace.ty(operand), layout);
        trace.push1(
            ConvertLayout {
                is_trivial,
                scratch: ir::ops::Scratch::NONE,
                operand,
            },
            declared,
            at,
        )
    })
}

/// The layout of a value that has none yet.
#[inline(never)]
pub(crate) fn set_layout(operand: Value, layout: Layout, at: At) -> Value {
    with(at, |trace| {
        let declared = relaid(trace.ty(operand), layout);
        trace.push1(SetLayout { operand }, declared, at)
    })
}

fn relaid(ty: &Type, layout: Layout) -> Type {
    match ty {
        Type::Tensor(t) => Type::tensor(t.shape.clone(), t.elem, layout),
        other => other.clone(),
    }
}

/// A tensor of rank 0 as what it is: one scalar.
#[inline(never)]
pub(crate) fn to_scalar(value: Value, at: At) -> Value {
    with(at, |trace| match trace.ty(value) {
        Type::Tensor(t) => {
            let message = format!("`scalar` wants a tensor of rank 0, this is {t}");
            let error = OpError::new(Code::RankMismatch, message)
                .origin(value, "it was made here")
                .help("reduce every dimension first");
            trace.fail(error, at)
        }
        _ => value,
    })
}
