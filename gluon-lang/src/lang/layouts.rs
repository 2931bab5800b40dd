//! Changing and fixing layouts.

use super::trace::{self, here};
use super::{Element, Pointers, Tensor};
use layout::Layout;

macro_rules! layout_methods {
    ($($handle:ident)*) => {$(
        impl<T: Element> $handle<T> {
            /// The same elements in another layout: a register permutation, shuffles, or an exchange through shared memory, as the two
            /// layouts require. The users of the result determine `Coalesced` and `Auto`.
            ///
            /// `cargo tilekit inspect` says what each costs that is left, and `#[kernel(deny(conversions))]` makes one that
            /// moves data an error (TK0030).
            #[inline]
            #[track_caller]
            pub fn convert_layout(self, layout: impl Into<Layout>) -> Self {
                Self::wrap(trace::convert_layout(self.value(), layout.into(), false, here()))
            }

            /// The same, and an error if an element would move to another thread.
            #[inline]
            #[track_caller]
            pub fn convert_layout_trivial(self, layout: impl Into<Layout>) -> Self {
                Self::wrap(trace::convert_layout(self.value(), layout.into(), true, here()))
            }

            /// Sets the layout of a value whose layout is `Auto`. Moves no data.
            #[inline]
            #[track_caller]
            pub fn set_layout(self, layout: impl Into<Layout>) -> Self {
                Self::wrap(trace::set_layout(self.value(), layout.into(), here()))
            }
        }
    )*};
}

layout_methods!(Tensor Pointers);
