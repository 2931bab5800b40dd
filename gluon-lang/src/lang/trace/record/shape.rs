//! Shapes and layouts.

use super::super::{At, with};
use diag::Code;
use ir::OpError;
use ir::Type;
use ir::entity::Value;
use ir::ops::layout::{ConvertLayout, SetLayout};
use ir::ops::part::{Cat, Part};
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

/// Elements `start..end` of a dimension.
#[inline(never)]
pub(crate) fn slice_of(operand: Value, axis: usize, start: i128, end: i128, at: At) -> Value {
    with(at, |trace| {
        let ty = trace.ty(operand).clone();
        let bounds = (u32::try_from(start), u32::try_from(end - start));
        let (Ok(start), Ok(length @ 1..)) = bounds else {
            if trace.is_poison(operand) {
                return operand;
            }
            let message = format!("`slice({axis}, {start}..{end})` has no element");
            let error = OpError::new(Code::ConstantRange, message);
            return trace.fail(
                error.help("give a range `start..end` with start below end"),
                at,
            );
        };
        let op = Part {
            axis: u32::try_from(axis).unwrap_or(u32::MAX),
            start,
            length,
            operand,
        };
        trace.push1(op, ty, at)
    })
}

/// `count` equal pieces of a dimension. After a mistake, which is reported once, all are poison.
#[inline(never)]
pub(crate) fn chunks(operand: Value, axis: usize, count: usize, at: At) -> Vec<Value> {
    let size = with(at, |trace| {
        let size = *trace.ty(operand).shape().get(axis).unwrap_or(&1);
        if (size as usize).is_multiple_of(count) || axis >= trace.ty(operand).shape().len() {
            return Some(size);
        }
        let message =
            format!("{count} equal chunks of dimension {axis}, which has {size} elements");
        let error = OpError::new(Code::ShapeChange, message)
            .origin(operand, "it was made here")
            .help(format!(
                "use a number of chunks that divides {size}, or `slice`, for pieces of different lengths"
            ));
        trace.fail(error, at);
        None
    });
    let length = size.map(|size| (i128::from(size) / count as i128).max(1));
    let mut pieces = Vec::with_capacity(count);
    let mut is_wrong = length.is_none();
    for piece in 0..count {
        let length = length.unwrap_or(1);
        let start = piece as i128 * length;
        let value = if is_wrong {
            with(at, |trace| trace.builder.poison())
        } else {
            slice_of(operand, axis, start, start + length, at)
        };
        is_wrong = is_wrong || with(at, |trace| trace.is_poison(value));
        pieces.push(value);
    }
    pieces
}

/// Tensors one after the other along a dimension.
#[inline(never)]
pub(crate) fn cat(operands: &[Value], axis: usize, at: At) -> Value {
    with(at, |trace| {
        let ty = trace.ty(operands[0]).clone();
        let op = Cat {
            axis: u32::try_from(axis).unwrap_or(u32::MAX),
            operands: operands.iter().copied().collect(),
        };
        trace.push1(op, ty, at)
    })
}

/// The last two dimensions as one.
#[inline(never)]
pub(crate) fn merge_last(operand: Value, at: At) -> Value {
    with(at, |trace| {
        let Type::Tensor(t) = trace.ty(operand).clone() else {
            return operand;
        };
        let [.., rows, columns] = t.shape[..] else {
            return operand;
        };
        let last = t.rank() - 1;
        let shape = t.shape.without(last).with(last - 1, rows * columns);
        let ty = Type::tensor(shape, t.elem, Layout::Auto);
        trace.push1(Reshape { operand }, ty, at)
    })
}

/// Is the extent of dimension `axis` a multiple of `of`? If not, that is reported, with what needs it.
#[inline(never)]
pub(crate) fn has_groups(value: Value, axis: usize, of: u32, what: &str, at: At) -> bool {
    with(at, |trace| {
        let size = trace.ty(value).shape().get(axis).copied();
        if trace.is_poison(value) || size.is_some_and(|size| size.is_multiple_of(of)) {
            return !trace.is_poison(value);
        }
        let found = match size {
            Some(size) => format!("{size} elements"),
            None => "none".to_owned(),
        };
        let message =
            format!("{what} takes groups of {of} elements of dimension {axis}, which has {found}");
        let error = OpError::new(Code::ShapeMismatch, message)
            .origin(value, "it was made here")
            .help(format!(
                "use a multiple of {of} elements along dimension {axis}"
            ));
        trace.fail(error, at);
        false
    })
}

/// Has the tensor this shape? If not, that is reported.
#[inline(never)]
pub(crate) fn has_shape(value: Value, wanted: &Dims, what: &str, at: At) -> bool {
    with(at, |trace| {
        if trace.is_poison(value) || trace.ty(value).shape() == &wanted[..] {
            return !trace.is_poison(value);
        }
        let message = format!(
            "{what} are {wanted}, these are {}",
            Dims::from(trace.ty(value).shape())
        );
        let error = OpError::new(Code::ShapeMismatch, message)
            .origin(value, "they were made here")
            .help(format!("give them the shape {wanted}"));
        trace.fail(error, at);
        false
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
            let message = format!("`scalar` takes a tensor of rank 0, this is {t}");
            let error = OpError::new(Code::RankMismatch, message)
                .origin(value, "it was made here")
                .help("reduce every dimension before `scalar`");
            trace.fail(error, at)
        }
        _ => value,
    })
}
