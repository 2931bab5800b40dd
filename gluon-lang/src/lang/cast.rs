//! Conversions between element types.

use super::trace::{self, here};
use super::{Element, Pointers, Ptr, Scalar, Tensor};
use ir::elem::{DType, Elem};
use ir::ops::cast::Rounding;

/// A type that elements can be converted to: every element type.
pub trait CastTo: Element {}

impl<T: Element> CastTo for T {}

macro_rules! casts {
    ($($handle:ident)*) => {$(
        impl<T: Element> $handle<T> {
            /// Each element as a `U`: floats round to nearest even, floats to integers towards zero and saturating, wider
            /// integers keep their low bits, floats of a byte or less saturate, and an [`E8m0`](super::E8m0) is of the magnitude.
            #[inline]
            #[track_caller]
            pub fn cast<U: CastTo>(self) -> $handle<U> {
                self.cast_rounded(Rounding::Default)
            }

            /// Each element as a `U`, rounded as said.
            #[inline]
            #[track_caller]
            pub fn cast_rounded<U: CastTo>(self, rounding: Rounding) -> $handle<U> {
                $handle::wrap(trace::cast(self.value(), Elem::Data(U::DTYPE), rounding, here()))
            }

            /// The bits of each element as a `U`, which has the same width.
            #[inline]
            #[track_caller]
            pub fn bitcast<U: Element>(self) -> $handle<U> {
                $handle::wrap(trace::bitcast(self.value(), Elem::Data(U::DTYPE), here()))
            }
        }
    )*};
}

casts!(Scalar Tensor);

macro_rules! pointer_casts {
    ($pointer:ident, $number:ident) => {
        impl<T: Element> $pointer<T> {
            /// The same addresses, pointing to elements of type `U`.
            #[inline]
            #[track_caller]
            pub fn cast<U: Element>(self) -> $pointer<U> {
                $pointer::wrap(trace::cast(
                    self.value(),
                    Elem::Ptr(U::DTYPE),
                    Rounding::Default,
                    here(),
                ))
            }

            /// The addresses, in bytes.
            #[inline]
            #[track_caller]
            pub fn address(self) -> $number<u64> {
                $number::wrap(trace::cast(
                    self.value(),
                    Elem::Data(DType::U64),
                    Rounding::Default,
                    here(),
                ))
            }
        }

        impl $number<u64> {
            /// These addresses of global memory as pointers to elements of type `T`.
            #[inline]
            #[track_caller]
            pub fn to_pointer<T: Element>(self) -> $pointer<T> {
                $pointer::wrap(trace::cast(
                    self.value(),
                    Elem::Ptr(T::DTYPE),
                    Rounding::Default,
                    here(),
                ))
            }
        }
    };
}

pointer_casts!(Ptr, Scalar);
pointer_casts!(Pointers, Tensor);
