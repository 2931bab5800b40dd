//! `range(low, high).step(s)`: the bounds of a loop that the kernel runs.

use std::marker::PhantomData;

use super::loop_values::RangeValues;
use super::mix::{Operand, ScalarOperand};
use super::trace::{self, HostLoop, KernelLoop, Raw, here};
use super::{Element, HostInt, HostNumber, HostValue, Index, Scalar};
use ir::elem::Elem;
use ir::entity::Value;

/// The indices of a runtime loop: from `low` below `high` by `step`.
#[derive(Clone, Copy, Debug)]
#[must_use = "a range does nothing until a `for` iterates over it"]
pub struct Range<T> {
    values: RangeValues,
    index: PhantomData<*const T>,
}

/// Two ends of a range: scalars of one integer type of 32 or 64 bits, or host integers. Host integers take the type of
/// the other end, and together that of the host, `i32` for `usize`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` and `{H}` are not the bounds of a range",
    note = "both bounds are scalars of one type (i32, i64, u32 or u64) or host integers"
)]
pub trait RangeEnds<H> {
    /// The type of the index.
    type Index: Index;
    /// Both ends, before they are fitted.
    #[doc(hidden)]
    fn ends(self, high: H) -> (Raw, Raw);
}

impl<T: Index, R: ScalarOperand<T>> RangeEnds<R> for Scalar<T> {
    type Index = T;
    fn ends(self, high: R) -> (Raw, Raw) {
        (self.raw(), high.into_raw())
    }
}

impl<T: Index, L: HostNumber + HostValue<T>> RangeEnds<Scalar<T>> for L {
    type Index = T;
    fn ends(self, high: Scalar<T>) -> (Raw, Raw) {
        (Operand::<T>::into_raw(self), high.raw())
    }
}

impl<L: HostInt + HostValue<L::Index>> RangeEnds<L> for L {
    type Index = L::Index;
    fn ends(self, high: L) -> (Raw, Raw) {
        (
            Raw::Const(HostValue::constant(self)),
            Raw::Const(HostValue::constant(high)),
        )
    }
}

/// The indices from `low` below `high`: a `for` over them is a runtime loop. A `for` over anything else is a host loop, which unrolls.
#[inline]
#[track_caller]
pub fn range<L: RangeEnds<H>, H>(low: L, high: H) -> Range<L::Index> {
    let (low, high) = low.ends(high);
    let values = trace::range_values(low, high, Elem::Data(<L::Index as Element>::DTYPE), here());
    Range {
        values,
        index: PhantomData,
    }
}

impl<T> Range<T> {
    pub(crate) fn same(&self) -> Self {
        Self { ..*self }
    }

    pub(crate) fn values_mut(&mut self) -> [&mut Value; 3] {
        let RangeValues {
            low, high, step, ..
        } = &mut self.values;
        [low, high, step]
    }
}

/// The indices of a [`Range`] from the last to the first.
#[derive(Clone, Copy, Debug)]
#[must_use = "a range does nothing until a `for` iterates over it"]
pub struct Reversed<T>(Range<T>);

impl<T: Index> Range<T> {
    /// The same indices, the last one first.
    #[inline]
    pub fn rev(self) -> Reversed<T> {
        Reversed(self)
    }

    /// The indices `low`, `low + step`, `low + 2 * step` and so on: below `high` where the step is positive, above `high` where it is
    /// negative, as in Python. A host number of 0 is an error. A runtime step may have either sign, and the loop does not run if it is 0;
    /// one computed from `num_programs` alone is assumed to be positive, which saves the test of its sign.
    #[inline]
    #[track_caller]
    pub fn step(mut self, step: impl ScalarOperand<T>) -> Self {
        let (step, direction) = trace::range_step(step.into_raw(), Elem::Data(T::DTYPE), here());
        self.values.step = step;
        self.values.direction = direction;
        self
    }
}

/// What a `for` in a kernel can go over: host iterators, and [`Range`].
#[diagnostic::on_unimplemented(
    message = "a `for` in a kernel cannot iterate over `{Self}`",
    note = "write `range(low, high)` for a runtime loop; host iterators unroll"
)]
pub trait IntoLoop {
    /// Follows the loop.
    type Loop;
    /// Starts the loop.
    #[track_caller]
    fn into_loop(self) -> Self::Loop;
}

impl<I: IntoIterator> IntoLoop for I {
    type Loop = HostLoop<I::IntoIter>;
    #[inline]
    fn into_loop(self) -> Self::Loop {
        HostLoop(self.into_iter())
    }
}

impl<T: Index> IntoLoop for Range<T> {
    type Loop = KernelLoop<T>;
    #[inline]
    #[track_caller]
    fn into_loop(self) -> KernelLoop<T> {
        let at = here();
        let (values, map) = trace::loop_range(self.values, T::DTYPE, at);
        KernelLoop::new(values, None, map, at)
    }
}

impl<T: Index> IntoLoop for Reversed<T> {
    type Loop = KernelLoop<T>;
    #[inline]
    #[track_caller]
    fn into_loop(self) -> KernelLoop<T> {
        let at = here();
        let (values, map) = trace::loop_range(self.0.values, T::DTYPE, at);
        let ends = trace::range_ends(values, map.counted(T::DTYPE), at);
        KernelLoop::new(values, Some(ends), map, at)
    }
}

/// What may stand left of the `..` that a `for` goes over, with an `H` on its right: host values. Loops of the kernel go
/// over [`range`].
#[diagnostic::on_unimplemented(
    message = "`{Self}..{H}` is a host range, whose loop unrolls, and its bounds are not host values of one type",
    label = "for a runtime loop write `range(low, high)`"
)]
pub trait HostEnd<H> {
    /// The type of the items.
    type Item;
    /// `self..high`
    #[doc(hidden)]
    fn up_to(self, high: H) -> std::ops::Range<Self::Item>;
    /// `self..=high`
    #[doc(hidden)]
    fn through(self, high: H) -> std::ops::RangeInclusive<Self::Item>;
}

/// No end of anything. With one implementation alone rustc would want both ends to be of one type and stop at that, before
/// it says what is wanted.
#[derive(Clone, Copy, Debug)]
pub enum NoEnd {}

macro_rules! no_end {
    ($($ty:ty)*) => {$(
        impl HostEnd<NoEnd> for $ty {
            type Item = $ty;
            fn up_to(self, high: NoEnd) -> std::ops::Range<$ty> {
                match high {}
            }
            fn through(self, high: NoEnd) -> std::ops::RangeInclusive<$ty> {
                match high {}
            }
        }
    )*};
}

no_end!(i8 i16 i32 i64 isize u8 u16 u32 u64 usize);

impl<T> HostEnd<T> for T
where
    std::ops::Range<T>: Iterator,
{
    type Item = T;
    #[inline]
    fn up_to(self, high: T) -> std::ops::Range<T> {
        self..high
    }
    #[inline]
    fn through(self, high: T) -> std::ops::RangeInclusive<T> {
        self..=high
    }
}
