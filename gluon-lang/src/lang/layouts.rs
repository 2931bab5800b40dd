//! Changing and fixing layouts.

use super::trace::{self, here};
use super::{Element, Pointers, Tensor};
use layout::Layout;

macro_rules! layout_methods {
    ($($handle:ident)*) => {$(
        impl<T: Element> $handle<T> {
            /// The same elements in another layout of the same shape: nothing, a register permutation, shuffles or a trip
            /// through shared memory, whichever the two layouts need. `Coalesced` and `Auto` are found by what uses the result.
            ///
            /// `cargo tilekit inspect` says what each costs that is left, and `#[kernel(deny(conversions))]` makes one that
            /// moves data an error (TK0030).
            #[inline]
            #[track_caller]
            pub fn convert_layout(self, layout: impl Into<Layout>) -> Self {
                Self::wrap(trace::convert_layout(self.value(), layout.into(), false, here()))
            }

            /// The same, and a mistake if an element would have to go to another thread.
            #[inline]
            #[track_caller]
            pub fn convert_layout_trivial(self, layout: impl Into<Layout>) -> Self {
                Self::wrap(trace::convert_layout(self.value(), layout.into(), true, here()))
            }

            /// Decides the layout of a value whose layout is `Auto`. Moves nothing.
            #[inline]
            #[track_caller]
            pub fn set_layout(self, layout: impl Into<Layout>) -> Self {
                Self::wrap(trace::set_layout(self.value(), layout.into(), here()))
            }
        }
    )*};
}

layout_methods!(Tensor Pointers);
