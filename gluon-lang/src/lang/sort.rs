//! Sorts along one dimension.
//!
//! Floats are ordered by value, -0 before 0, and NaN beyond the infinity of its sign. The result is the same for every
//! layout and in every run. Bit-identical elements are interchangeable, so stability has no meaning for a sort; [`top_k`](Tensor::top_k)
//! also returns coordinates, the lower one first. The axis has any extent.

use super::trace::{self, here};
use super::{HostInt, Numeric, Tensor};

impl<T: Numeric> Tensor<T> {
    /// The elements along `axis` from the smallest to the largest.
    #[inline]
    #[track_caller]
    pub fn sort(self, axis: usize) -> Tensor<T> {
        Tensor::wrap(trace::sort(self.value(), axis, false, here()))
    }

    /// The elements along `axis` from the largest to the smallest.
    #[inline]
    #[track_caller]
    pub fn sort_descending(self, axis: usize) -> Tensor<T> {
        Tensor::wrap(trace::sort(self.value(), axis, true, here()))
    }

    /// The `k` largest elements along `axis` from the largest down, and their coordinates along it; of equal elements the
    /// one with the lower coordinate comes first. `k` is a power of two, or all of them, and dimension `axis` of the results has that size.
    /// A small `k` costs far less than a full sort. The results stay in the threads that hold the first places: where this
    /// tensor's layout puts so few elements elsewhere, theirs is a `Linear` one, and where CTAs of a cluster split the
    /// dimension, all of them may hold the results.
    #[inline]
    #[track_caller]
    pub fn top_k(self, k: impl HostInt, axis: usize) -> (Tensor<T>, Tensor<i32>) {
        let [largest, places] = trace::top_k(self.value(), k.to_i128(), axis, here());
        (Tensor::wrap(largest), Tensor::wrap(places))
    }
}
