//! Normally distributed elements.

use tilekit::prelude::*;

/// Elements that are drawn; longer tensors repeat them.
const DRAWN: usize = 1 << 22;

/// `len` elements of N(0, 1).
pub(crate) fn normal<T: DeviceElement>(len: usize, seed: u64) -> Vec<T> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut uniform = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ((state >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    };
    let mut drawn: Vec<T> = (0..len.min(DRAWN))
        .map(|_| {
            let radius = (-2.0 * uniform().ln()).sqrt();
            let angle = std::f64::consts::TAU * uniform();
            T::nearest(Number::Float(radius * angle.cos())).unwrap()
        })
        .collect();
    while drawn.len() < len {
        let more = drawn.len().min(len - drawn.len());
        drawn.extend_from_within(..more);
    }
    drawn
}
