//! Data-dependent movement: gathers and histograms.

use super::mix::Operand;
use super::trace::{self, here};
use super::{Element, HostInt, Int, Tensor};
use layout::Layout;

impl<T: Element> Tensor<T> {
    /// For each index, the element at that coordinate along `axis`, and at the index's own coordinates along the other
    /// dimensions, in which both have one shape. The result has the shape and layout of the indices.
    ///
    /// Every index must be below the size of the dimension; the result of others is undefined. If each warp owns the elements that it
    /// looks up, it uses shuffles; if the CTAs of a cluster split the dimension, they read each other's shared memory between two cluster
    /// barriers.
    #[inline]
    #[track_caller]
    pub fn gather<I: Int>(self, indices: Tensor<I>, axis: usize) -> Tensor<T> {
        Tensor::wrap(trace::gather(self.value(), indices.value(), axis, here()))
    }
}

macro_rules! histograms {
    ($($ty:ty)*) => {$(
        impl Tensor<$ty> {
            /// The number of occurrences of each integer from 0 below `bins` in this vector; other integers are not counted. The
            /// result is a vector in `layout`. CTAs of a cluster that split this vector exchange their counts; if they split the bins,
            /// each reads the others' counts of its bins, between two cluster barriers.
            #[inline]
            #[track_caller]
            pub fn histogram(self, bins: impl HostInt, layout: impl Into<Layout>) -> Tensor<i32> {
                let (bins, layout) = (bins.to_i128(), layout.into());
                Tensor::wrap(trace::histogram(self.value(), None, bins, layout, here()))
            }

            /// The same of the elements where `mask` is true.
            #[inline]
            #[track_caller]
            pub fn histogram_where(
                self,
                mask: impl Operand<bool>,
                bins: impl HostInt,
                layout: impl Into<Layout>,
            ) -> Tensor<i32> {
                let (mask, bins, layout) = (mask.into_raw(), bins.to_i128(), layout.into());
                Tensor::wrap(trace::histogram(self.value(), Some(mask), bins, layout, here()))
            }
        }
    )*};
}

histograms!(i32 u32);
