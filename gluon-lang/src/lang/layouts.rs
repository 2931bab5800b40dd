//! Changing and fixing layouts.

use super::trace::{self, here};
use super::{Element, Pointers, Tensor};
use crate::layout::Layout;

macro_rules! layout_methods {
    ($($handle:ident)*) => {$(
        impl<T: Element> $handle<T> {
            /// The same elements in another layout: nothing, a register permutation, shuffles or a trip through shared
            /// memory, whichever the two layouts need.
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
