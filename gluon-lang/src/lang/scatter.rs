//! Atomic scatters into shared memory: `bins.at_indices(digits, 0).mask(inside).atomic_add(1)`.

use std::marker::PhantomData;

use super::mix::Operand;
use super::trace::{self, Raw, here};
use super::{Element, Int, Smem, Tensor};
use ir::entity::Value;
use ir::ops::atomic::AtomicOp;

/// The places of a shared tile that indices name along one dimension.
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is changed before an atomic"]
pub struct Indexed<T> {
    view: Value,
    indices: Value,
    axis: usize,
    mask: Option<Raw>,
    element: PhantomData<T>,
}

impl<T: Element> Smem<T> {
    /// For each index: the place at the index along `axis`, and at the index's own coordinates along the other dimensions,
    /// to be changed by an atomic. Indices must lie inside, where the mask is true.
    #[inline]
    pub fn at_indices<I: Int>(self, indices: Tensor<I>, axis: usize) -> Indexed<T> {
        Indexed {
            view: self.value(),
            indices: indices.value(),
            axis,
            mask: None,
            element: PhantomData,
        }
    }
}

macro_rules! atomics {
    ($($(#[$doc:meta])* $name:ident $fetch:ident = $op:ident;)*) => {
        /// Each as one step for each index, relaxed and among the threads of the CTA: several indices of one place all
        /// count. A barrier stands before what reads the tile.
        impl<T: Element> Indexed<T> {
            /// Updates only where this is true.
            #[inline]
            pub fn mask(mut self, mask: impl Operand<bool>) -> Self {
                self.mask = Some(mask.into_raw());
                self
            }

            $(
                $(#[$doc])*
                #[inline]
                #[track_caller]
                pub fn $name(self, values: impl Operand<T>) {
                    let place = (self.view, self.indices, self.axis);
                    let values = values.into_raw();
                    trace::smem_atomic_scatter(AtomicOp::$op, place, values, self.mask, here());
                }

                $(#[$doc])*
                ///
                /// Returns the old value; 0 where the mask is false. Updates of one element by several indices are atomic, in unspecified
                /// order.
                #[inline]
                #[track_caller]
                pub fn $fetch(self, values: impl Operand<T>) -> Tensor<T> {
                    let place = (self.view, self.indices, self.axis);
                    let values = values.into_raw();
                    Tensor::wrap(trace::smem_atomic_fetch(AtomicOp::$op, place, values, self.mask, here()))
                }
            )*
        }
    };
}

atomics! {
    /// Adds.
    atomic_add fetch_add = Add;
    /// The smaller stays.
    atomic_min fetch_min = Min;
    /// The larger stays.
    atomic_max fetch_max = Max;
    /// Bitwise and.
    atomic_and fetch_and = And;
    /// Bitwise or.
    atomic_or fetch_or = Or;
    /// Bitwise exclusive or.
    atomic_xor fetch_xor = Xor;
    /// One of the new values stays.
    atomic_xchg fetch_xchg = Exchange;
}
