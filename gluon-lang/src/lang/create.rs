//! Tensors and scalars from nothing.

use std::ops::Range;

use super::mix::ScalarOperand;
use super::trace::{self, Grid, Raw, here};
use super::{Element, HostInt, HostValue, IntoDims, Scalar, Tensor};
use ir::elem::Elem;
use ir::ops::create::Const;
use layout::Layout;

/// A host value as a scalar of the kernel, so that loops and branches of the kernel can change it.
#[inline]
#[track_caller]
pub fn scalar<T: Element>(value: T) -> Scalar<T> {
    Scalar::wrap(trace::scalar_constant(
        Element::constant(value),
        Elem::Data(T::DTYPE),
        here(),
    ))
}

impl<T: Element> Scalar<T> {
    /// A number of the host as a scalar of `T`, which must hold it: `Scalar::<i32>::of(STAGES - 1)`. Where the number has the
    /// type already, [`scalar`] is shorter.
    #[inline]
    #[track_caller]
    pub fn of(value: impl HostValue<T>) -> Self {
        Self::wrap(trace::scalar_constant(
            value.constant(),
            Elem::Data(T::DTYPE),
            here(),
        ))
    }
}

/// The integers of the range, one after the other: a vector of `i32`. Its length is a multiple of what
/// the threads of its layout cover at once.
#[inline]
#[track_caller]
pub fn arange<H: HostInt>(range: Range<H>, layout: impl Into<Layout>) -> Tensor<i32> {
    let (start, end) = (range.start.to_i128(), range.end.to_i128());
    Tensor::wrap(trace::arange(start, end, Elem::I32, layout.into(), here()))
}

/// A tensor whose every element is `value`.
#[inline]
#[track_caller]
pub fn full<T: Element>(
    shape: impl IntoDims,
    value: impl ScalarOperand<T>,
    layout: impl Into<Layout>,
) -> Tensor<T> {
    let (shape, layout) = (shape.into_dims(), layout.into());
    Tensor::wrap(match value.into_raw() {
        Raw::Const(value) => {
            trace::full_constant(value, Elem::Data(T::DTYPE), shape, layout, here())
        }
        Raw::Value(value) => {
            trace::full_scalar(value, Elem::Data(T::DTYPE), &shape, &layout, here())
        }
    })
}

/// A tensor of zeros; of booleans, of `false`.
#[inline]
#[track_caller]
pub fn zeros<T: Element>(shape: impl IntoDims, layout: impl Into<Layout>) -> Tensor<T> {
    let (shape, layout) = (shape.into_dims(), layout.into());
    Tensor::wrap(trace::full_constant(
        zero::<T>(),
        Elem::Data(T::DTYPE),
        shape,
        layout,
        here(),
    ))
}

/// A tensor of the shape and layout of `like` whose every element is `value`.
#[inline]
#[track_caller]
pub fn full_like<T: Element>(like: Tensor<T>, value: impl ScalarOperand<T>) -> Tensor<T> {
    Tensor::wrap(match value.into_raw() {
        Raw::Const(value) => {
            trace::full_constant_like(value, Elem::Data(T::DTYPE), like.value(), here())
        }
        Raw::Value(value) => trace::full_scalar_like(value, like.value(), here()),
    })
}

/// A tensor of zeros of the shape and layout of `like`.
#[inline]
#[track_caller]
pub fn zeros_like<T: Element>(like: Tensor<T>) -> Tensor<T> {
    Tensor::wrap(trace::full_constant_like(
        zero::<T>(),
        Elem::Data(T::DTYPE),
        like.value(),
        here(),
    ))
}

/// The index of this CTA in dimension `axis` (0, 1 or 2) of the grid. CTAs of a cluster have different ones, and
/// [`cluster_id`](super::cluster_id) in common.
#[inline]
#[track_caller]
pub fn program_id(axis: usize) -> Scalar<i32> {
    Scalar::wrap(trace::grid(axis, Grid::ProgramId, here()))
}

/// The number of CTAs in dimension `axis` (0, 1 or 2) of the grid.
#[inline]
#[track_caller]
pub fn num_programs(axis: usize) -> Scalar<i32> {
    Scalar::wrap(trace::grid(axis, Grid::NumPrograms, here()))
}

fn zero<T: Element>() -> Const {
    if T::DTYPE.is_float() {
        Const::float(0.0)
    } else {
        Const::Int(0)
    }
}
