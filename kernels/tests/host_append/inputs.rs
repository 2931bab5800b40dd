//! Sizes of caches, numbers in them, and their buffers.

use tilekit::prelude::*;

pub(crate) const DEPTH: usize = 64;
pub(crate) const PAGE: usize = 16;

/// Numbers that repeat after no tensor's extent.
pub(crate) fn numbers(len: usize, seed: usize) -> Vec<bf16> {
    let of = |at: usize| ((at * 37 + seed * 101) % 211) as f32 / 105.0 - 1.0;
    (0..len).map(|at| bf16::from_f32(of(at))).collect()
}

pub(crate) fn buffer<T: DeviceElement>(device: &Device, data: &[T]) -> Buffer<T> {
    Buffer::from_slice(device, data).unwrap()
}
