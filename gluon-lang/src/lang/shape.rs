//! Shapes and views of tensors.

use super::trace::{self, here};
use super::{Element, HostInt, IntoDims, Pointers, Scalar, Tensor};
use std::ops::Range;

macro_rules! shape_methods {
    ($($handle:ident)*) => {$(
        impl<T: Element> $handle<T> {
            /// A dimension of 1 put in before dimension `axis`. The layout must be `Slice(axis, parent)`, and the result has
            /// that of the parent; or open, `Auto` or `Coalesced` (TK0002).
            #[inline]
            #[track_caller]
            pub fn expand_dims(self, axis: usize) -> Self {
                Self::wrap(trace::expand_dims(self.value(), axis, here()))
            }

            /// Dimensions of 1 repeated until the shape, of the same rank, is reached. The layout does not change, and no element moves.
            #[inline]
            #[track_caller]
            pub fn broadcast_to(self, shape: impl IntoDims) -> Self {
                Self::wrap(trace::broadcast_to(self.value(), shape.into_dims(), here()))
            }

            /// The same elements in row-major order, counted in another shape of as many (TK0013). No element moves: the
            /// layout of the result says where they are, by its bases if it has no other name.
            #[inline]
            #[track_caller]
            pub fn reshape(self, shape: impl IntoDims) -> Self {
                Self::wrap(trace::reshape(self.value(), Some(shape.into_dims()), here()))
            }

            /// All elements in row-major order, as a vector.
            #[inline]
            #[track_caller]
            pub fn ravel(self) -> Self {
                Self::wrap(trace::reshape(self.value(), None, here()))
            }

            /// Dimension `i` of the result is dimension `order[i]` of this. No element moves.
            #[inline]
            #[track_caller]
            pub fn permute(self, order: impl IntoDims) -> Self {
                Self::wrap(trace::permute(self.value(), Some(order.into_dims()), here()))
            }

            /// The dimensions in the opposite order. No element moves.
            #[inline]
            #[track_caller]
            pub fn transpose(self) -> Self {
                Self::wrap(trace::permute(self.value(), None, here()))
            }

            /// The last dimension, which is 2, taken apart.
            #[inline]
            #[track_caller]
            pub fn split(self) -> (Self, Self) {
                let (first, second) = trace::split(self.value(), here());
                (Self::wrap(first), Self::wrap(second))
            }

            /// The elements `range` of dimension `axis`. No element moves: lanes and warps must step within the largest power of
            /// two that divides where the range begins, and within its length; larger steps are taken by registers (TK0013).
            #[inline]
            #[track_caller]
            pub fn slice<H: HostInt>(self, axis: usize, range: Range<H>) -> Self {
                let (start, end) = (range.start.to_i128(), range.end.to_i128());
                Self::wrap(trace::slice_of(self.value(), axis, start, end, here()))
            }

            /// `N` pieces of equal length of dimension `axis`, each a [slice](Self::slice).
            #[inline]
            #[track_caller]
            pub fn chunks<const N: usize>(self, axis: usize) -> [Self; N] {
                const { assert!(N > 0, "there is one piece at least") };
                let pieces = trace::chunks(self.value(), axis, N, here());
                std::array::from_fn(|piece| Self::wrap(pieces[piece]))
            }

            /// This and then `other` along dimension `axis`; see [`cat`].
            #[inline]
            #[track_caller]
            pub fn cat(self, other: Self, axis: usize) -> Self {
                Self::wrap(trace::cat(&[self.value(), other.value()], axis, here()))
            }

            /// This and `other`, element by element in turn along the last dimension, which becomes twice as long.
            #[inline]
            #[track_caller]
            pub fn interleave(self, other: Self) -> Self {
                let at = here();
                let joined = trace::join(self.value(), other.value(), at);
                Self::wrap(trace::merge_last(joined, at))
            }

            /// This and `other` side by side along a new last dimension of 2.
            #[inline]
            #[track_caller]
            pub fn join(self, other: Self) -> Self {
                Self::wrap(trace::join(self.value(), other.value(), here()))
            }
        }
    )*};
}

shape_methods!(Tensor Pointers);

/// Two tensors side by side along a new last dimension of 2.
#[inline]
#[track_caller]
pub fn join<T: Element>(first: Tensor<T>, second: Tensor<T>) -> Tensor<T> {
    first.join(second)
}

/// The concatenation of tensors along dimension `axis`; their other extents are equal. No element moves between threads. The layout is that of the first, whose missing steps along the dimension registers take; the
/// others must have the layouts of their ranges of it (TK0001).
#[inline]
#[track_caller]
pub fn cat<T: Element, const N: usize>(parts: [Tensor<T>; N], axis: usize) -> Tensor<T> {
    const { assert!(N > 0, "there is one part at least") };
    Tensor::wrap(trace::cat(&parts.map(Tensor::value), axis, here()))
}

/// Two tensors, element by element in turn along the last dimension, which becomes twice as long.
#[inline]
#[track_caller]
pub fn interleave<T: Element>(first: Tensor<T>, second: Tensor<T>) -> Tensor<T> {
    first.interleave(second)
}

impl<T: Element> Tensor<T> {
    /// A tensor of rank 0, which a reduction of a vector leaves, as the scalar that it is.
    #[inline]
    #[track_caller]
    pub fn scalar(self) -> Scalar<T> {
        Scalar::wrap(trace::to_scalar(self.value(), here()))
    }
}

impl<T: Element> Scalar<T> {
    /// This as a tensor of rank 0, for code that works on tensors of any rank.
    #[inline]
    pub fn tensor(self) -> Tensor<T> {
        Tensor::wrap(self.value())
    }
}
