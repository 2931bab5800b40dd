//! The largest elements of rows, block by block.

use gluon_lang::lang::prelude::*;

/// The `k` largest of two lists of `k`, each from the largest down, and their places; the lists are vectors of one layout. Of equal
/// elements those of `first` come first, so that blocks in the order of their places keep the lowest places, as
/// [`top_k`](Tensor::top_k) does.
///
/// ```text
/// let (mut largest, mut places) = block(0).top_k(K, 0);
/// for number in range(1, blocks) {
///     let (values, at) = block(number).top_k(K, 0);
///     (largest, places) = merge_top_k((largest, places), (values, at + number * BLOCK));
/// }
/// ```
#[device]
pub fn merge_top_k<T: Numeric>(
    first: (Tensor<T>, Tensor<i32>),
    second: (Tensor<T>, Tensor<i32>),
) -> (Tensor<T>, Tensor<i32>) {
    let k = first.0.shape().first().map_or(1, |k| *k as usize);
    let layout = first.0.layout();
    // Concatenated, so that an index tells which list it is from.
    let values = join(first.0, second.0).transpose().reshape([2 * k]);
    let places = join(first.1, second.1).transpose().reshape([2 * k]);
    let (largest, at) = values.top_k(k, 0);
    let places = places.gather(at, 0);
    (
        largest.convert_layout(layout.clone()),
        places.convert_layout(layout),
    )
}
