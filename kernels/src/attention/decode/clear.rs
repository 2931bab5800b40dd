//! Rows of values that no key has.

use tilekit::prelude::*;

/// Clears the rows of values from `left` on. Memory past the last key may hold NaN, and P of 0 times NaN is NaN.
#[device]
pub(in crate::attention) fn clear_from<T: Element>(values: Smem<T>, left: Scalar<i32>) {
    let [count, columns] = [0, 1].map(|dim| values.shape()[dim] as usize);
    if left < count as i32 {
        const AT_ONCE: usize = 16;
        let lanes = 1 << (columns / 8).trailing_zeros().min(5);
        let layout = Blocked::new([1, 8], [32 / lanes, lanes], [4, 1], [1, 0]);
        for first in (0..count).step_by(AT_ONCE) {
            let part = values.slice(0, first..first + AT_ONCE);
            let row = arange(first..first + AT_ONCE, Slice::new(1, layout.clone()));
            let is_key = (row < left).expand_dims(1);
            let kept = part.load(layout.clone());
            part.store(select(is_key, kept, zeros_like(kept)));
        }
        fence_async_shared();
    }
}
