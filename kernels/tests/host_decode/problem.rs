//! The numbers of a call, and its results in f64.

use tilekit::prelude::*;

/// Numbers that repeat after no tensor's extent.
pub(super) fn numbers(len: usize, seed: usize) -> Vec<bf16> {
    let of = |at: usize| ((at * 37 + seed * 101) % 211) as f32 / 105.0 - 1.0;
    (0..len).map(|at| bf16::from_f32(of(at))).collect()
}

/// A row of the output in f64: a query and the rows of keys and values that it sees.
pub(super) fn attend(query: &[bf16], keys: &[&[bf16]], values: &[&[bf16]]) -> Vec<f64> {
    let scale = 1.0 / (query.len() as f64).sqrt();
    let scores: Vec<f64> = keys
        .iter()
        .map(|key| {
            query
                .iter()
                .zip(*key)
                .map(|(x, y)| x.to_f64() * y.to_f64())
                .sum::<f64>()
                * scale
        })
        .collect();
    let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = scores.iter().map(|score| (score - max).exp()).sum();
    let mut out = vec![0.0; query.len()];
    for (score, row) in scores.iter().zip(values) {
        for (sum, value) in out.iter_mut().zip(*row) {
            *sum += (score - max).exp() / total * value.to_f64();
        }
    }
    out
}
