//! Products on the tensor cores.

use smallvec::smallvec;

use super::super::{At, with};
use ir::Type;
use ir::elem::Elem;
use ir::entity::Value;
use ir::ops::create::Const;
use ir::ops::dot::{DotFma, MmaV2};
use ir::ops::wgmma::{AccumulatorBegin, InputPrecision, WgmmaStart, WgmmaWait};
use layout::{Dims, Wgmma};

/// An accumulator of zeros.
#[inline(never)]
pub(crate) fn accumulator_zeros(shape: Dims, elem: Elem, layout: Wgmma, at: At) -> Value {
    with(at, |trace| {
        let zero = if elem.is_float() {
            Const::float(0.0)
        } else {
            Const::Int(0)
        };
        let init = trace.constant(zero, Type::tensor(shape, elem, layout), at);
        let ty = trace.ty(init).clone();
        trace.push1(AccumulatorBegin { init }, ty, at)
    })
}

/// An accumulator that begins with a tensor.
#[inline(never)]
pub(crate) fn accumulator_of(init: Value, at: At) -> Value {
    with(at, |trace| {
        let ty = trace.ty(init).clone();
        trace.push1(AccumulatorBegin { init }, ty, at)
    })
}

/// Starts a product.
#[inline(never)]
pub(crate) fn wgmma(
    accumulator: Value,
    [a, b]: [Value; 2],
    metadata: Option<Value>,
    keep: Option<Value>,
    (precision, promote_every): (InputPrecision, u32),
    at: At,
) -> Value {
    with(at, |trace| {
        let ty = trace.ty(accumulator).clone();
        let op = WgmmaStart {
            precision,
            promote_every,
            a,
            b,
            accumulator,
            use_accumulator: keep.into(),
            metadata: metadata.into(),
        };
        trace.push1(op, ty, at)
    })
}

/// Waits for products; with `is_done` the accumulator is a tensor from here on.
#[inline(never)]
pub(crate) fn wgmma_wait(accumulator: Value, pending: u32, is_done: bool, at: At) -> Value {
    with(at, |trace| {
        let ty = trace.ty(accumulator).clone();
        let declared = match &ty {
            Type::InFlight(t) if is_done => Type::Tensor(t.clone()),
            _ => ty,
        };
        let op = WgmmaWait {
            pending,
            accumulators: smallvec![accumulator],
        };
        trace.push1(op, declared, at)
    })
}

/// The product of two tensors by the tensor cores of each warp, added to a third.
#[inline(never)]
pub(crate) fn mma_v2([a, b, accumulator]: [Value; 3], precision: InputPrecision, at: At) -> Value {
    with(at, |trace| {
        let ty = trace.ty(accumulator).clone();
        let op = MmaV2 {
            precision,
            a,
            b,
            accumulator,
        };
        trace.push1(op, ty, at)
    })
}

/// The product of two tensors element by element, added to a third.
#[inline(never)]
pub(crate) fn dot_fma([a, b, accumulator]: [Value; 3], at: At) -> Value {
    with(at, |trace| {
        let ty = trace.ty(accumulator).clone();
        let op = DotFma { a, b, accumulator };
        trace.push1(op, ty, at)
    })
}
