//! Normally distributed elements, drawn once.

use std::sync::OnceLock;

use tilekit::prelude::*;

/// Elements that are drawn; tensors repeat them, each from another place on.
const DRAWN: usize = (1 << 21) + 1;

fn drawn() -> &'static [bf16] {
    static KEPT: OnceLock<Vec<bf16>> = OnceLock::new();
    KEPT.get_or_init(|| {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut uniform = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            ((state >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
        };
        let mut one = || {
            let radius = (-2.0 * uniform().ln()).sqrt();
            bf16::from_f64(radius * (std::f64::consts::TAU * uniform()).cos())
        };
        (0..DRAWN).map(|_| one()).collect()
    })
}

/// `len` elements of N(0, 1).
pub(crate) fn normal(len: usize, seed: usize) -> Vec<bf16> {
    let drawn = drawn();
    let mut all = Vec::with_capacity(len + DRAWN);
    all.extend_from_slice(&drawn[seed * 99_991 % DRAWN..]);
    while all.len() < len {
        all.extend_from_slice(drawn);
    }
    all.truncate(len);
    all
}
