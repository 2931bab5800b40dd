//! Values from nothing.

use super::super::{At, Raw, with};
use super::{binary, cast};
use crate::lang::loop_values::{Direction, RangeValues};
use diag::Code;
use ir::OpError;
use ir::Type;
use ir::elem::{DType, Elem};
use ir::entity::Value;
use ir::ops::arith::BinaryOp;
use ir::ops::cast::Rounding;
use ir::ops::cluster::{ClusterId, NumClusters};
use ir::ops::create::{Arange, Const, GridAxis, NumPrograms, ProgramId};
use layout::{Dims, Layout};

/// A scalar constant.
#[inline(never)]
pub(crate) fn scalar_constant(value: Const, elem: Elem, at: At) -> Value {
    with(at, |trace| trace.constant(value, Type::scalar(elem), at))
}

/// A tensor whose every element is a host number.
#[inline(never)]
pub(crate) fn full_constant(
    value: Const,
    elem: Elem,
    shape: Dims,
    layout: Layout,
    at: At,
) -> Value {
    with(at, |trace| {
        trace.constant(value, Type::tensor(shape, elem, layout), at)
    })
}

/// A tensor of the shape and layout of `like` whose every element is a host number.
#[inline(never)]
pub(crate) fn full_constant_like(value: Const, elem: Elem, like: Value, at: At) -> Value {
    with(at, |trace| {
        let ty = trace.ty(like).with_elem(elem);
        trace.constant(value, ty, at)
    })
}

/// A tensor whose every element is a scalar of the kernel.
#[inline(never)]
pub(crate) fn full_scalar(
    value: Value,
    elem: Elem,
    shape: &Dims,
    layout: &Layout,
    at: At,
) -> Value {
    with(at, |trace| {
        let value = trace.widened(value, elem, at);
        trace.spread(value, shape, layout, at)
    })
}

/// A tensor of the shape and layout of `like` whose every element is a scalar of the kernel.
#[inline(never)]
pub(crate) fn full_scalar_like(value: Value, like: Value, at: At) -> Value {
    with(at, |trace| {
        let Some(t) = trace.ty(like).as_tensor().cloned() else {
            return value;
        };
        trace.spread(value, &t.shape, &t.layout, at)
    })
}

/// The integers from `start` to `end`.
#[inline(never)]
pub(crate) fn arange(start: i128, end: i128, elem: Elem, layout: Layout, at: At) -> Value {
    with(at, |trace| {
        let len = end - start;
        let fits = |i: i128| elem.data().is_some_and(|d| Const::Int(i).fits(d));
        if len <= 0 || !fits(start) || !fits(end - 1) {
            let message = if len <= 0 {
                format!("`arange({start}..{end})` has no element")
            } else {
                format!("`arange({start}..{end})` exceeds {elem}")
            };
            return trace.fail(OpError::new(Code::ConstantRange, message), at);
        }
        let ty = Type::tensor([u32::try_from(len).unwrap_or(u32::MAX)], elem, layout);
        let op = Arange {
            start: start as i64,
            end: end as i64,
        };
        trace.push1(op, ty, at)
    })
}

/// What is asked of the grid along one dimension.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Grid {
    ProgramId,
    NumPrograms,
    ClusterId,
    NumClusters,
}

/// The place in the grid, or its size.
#[inline(never)]
pub(crate) fn grid(axis: usize, what: Grid, at: At) -> Value {
    with(at, |trace| {
        let Some(axis) = [GridAxis::X, GridAxis::Y, GridAxis::Z].get(axis).copied() else {
            let name = match what {
                Grid::ProgramId => "program_id",
                Grid::NumPrograms => "num_programs",
                Grid::ClusterId => "cluster_id",
                Grid::NumClusters => "num_clusters",
            };
            let message = format!("`{name}({axis})`: a grid has the dimensions 0, 1 and 2");
            return trace.fail(OpError::new(Code::NoSuchAxis, message), at);
        };
        let ty = Type::scalar(Elem::I32);
        match what {
            Grid::ProgramId => trace.push1(ProgramId { axis }, ty, at),
            Grid::NumPrograms => trace.push1(NumPrograms { axis }, ty, at),
            Grid::ClusterId => trace.push1(ClusterId { axis }, ty, at),
            Grid::NumClusters => trace.push1(NumClusters { axis }, ty, at),
        }
    })
}

/// The ends of a loop, and a step of 1.
#[inline(never)]
pub(crate) fn range_values(low: Raw, high: Raw, elem: Elem, at: At) -> RangeValues {
    with(at, |trace| {
        let fitted = trace.fit(
            "range",
            &[(low, elem), (high, elem), (Raw::Const(Const::Int(1)), elem)],
            at,
        );
        let values = fitted.unwrap_or_else(|| (0..3).map(|_| trace.builder.poison()).collect());
        RangeValues {
            low: values[0],
            high: values[1],
            step: values[2],
            direction: Direction::Up,
        }
    })
}

/// The sum of the first and the last index of a loop, which the difference to an index mirrors. Of a loop that does not run
/// it is any number.
#[inline(never)]
pub(crate) fn range_ends(range: RangeValues, elem: DType, at: At) -> Value {
    let (low, high) = (Raw::Value(range.low), Raw::Value(range.high));
    let one = Raw::Const(Const::Int(1));
    // The distance between two signed numbers may be none of their type.
    let unsigned = Elem::Data(if elem.bits() == 64 {
        DType::U64
    } else {
        DType::U32
    });
    let elem = Elem::Data(elem);
    let past_last = binary(BinaryOp::Sub, high, one, elem, at);
    if is_one(range.step, at) {
        return binary(BinaryOp::Add, low, Raw::Value(past_last), elem, at);
    }
    let as_unsigned = |value| Raw::Value(cast(value, unsigned, Rounding::Default, at));
    let span = binary(BinaryOp::Sub, Raw::Value(past_last), low, elem, at);
    let step = as_unsigned(range.step);
    let beyond = binary(BinaryOp::Rem, as_unsigned(span), step, unsigned, at);
    let beyond = Raw::Value(cast(beyond, elem, Rounding::Default, at));
    let last = binary(BinaryOp::Sub, Raw::Value(past_last), beyond, elem, at);
    binary(BinaryOp::Add, low, Raw::Value(last), elem, at)
}

fn is_one(value: Value, at: At) -> bool {
    with(at, |trace| {
        trace.builder.func().constant(value) == Some(Const::Int(1))
    })
}
