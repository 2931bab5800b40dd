//! Shapes: nothing here computes.

use super::trace::{self, here};
use super::{Element, IntoDims, Pointers, Scalar, Tensor};

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

            /// Dimensions of 1 repeated until the shape, of the same rank, is reached. The layout stays, and each thread has
            /// its elements again: nothing moves.
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
