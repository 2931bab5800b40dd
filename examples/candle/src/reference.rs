//! The operations on the CPU, by loops with sums in f64.

use candle_core::{CpuStorage, Layout, Result, bail};
use half::bf16;

use crate::operations::{EPSILON, scale};
use crate::tilekit::Heads;

/// The elements of a tensor of bf16, in the order of its dimensions.
pub fn elements((storage, layout): (&CpuStorage, &Layout)) -> Result<Vec<f32>> {
    let CpuStorage::BF16(all) = storage else {
        bail!("operations of TileKit take tensors of bf16 here")
    };
    let element = |at: usize| all[layout.start_offset() + offset(layout, at)].to_f32();
    Ok((0..layout.shape().elem_count()).map(element).collect())
}

/// Where element `at`, in the order of the dimensions, is behind the first one.
fn offset(layout: &Layout, mut at: usize) -> usize {
    let mut offset = 0;
    for (extent, stride) in layout.dims().iter().zip(layout.stride()).rev() {
        offset += at % extent * stride;
        at /= extent;
    }
    offset
}

/// The result of an operation in bf16.
pub fn stored(values: &[f32]) -> CpuStorage {
    CpuStorage::BF16(values.iter().copied().map(bf16::from_f32).collect())
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter()
        .zip(b)
        .map(|(a, b)| f64::from(*a) * f64::from(*b))
        .sum()
}

/// `x · weightᵀ` of `x: [m, k]` and `weight: [n, k]`.
pub fn product(x: &[f32], weight: &[f32], [m, n, k]: [usize; 3]) -> Vec<f32> {
    let element = |at: usize| {
        let (row, column) = (at / n * k, at % n * k);
        dot(&x[row..row + k], &weight[column..column + k]) as f32
    };
    (0..m * n).map(element).collect()
}

/// Rows of `weight.len()` elements over the root of their mean square, times `weight`.
pub fn rms_norm(x: &[f32], weight: &[f32]) -> Vec<f32> {
    let columns = weight.len();
    let row = |row: &[f32]| {
        let by = (dot(row, row) / columns as f64 + f64::from(EPSILON))
            .sqrt()
            .recip();
        row.iter()
            .zip(weight)
            .map(|(x, w)| (f64::from(*x) * by * f64::from(*w)) as f32)
            .collect::<Vec<_>>()
    };
    x.chunks(columns.max(1)).flat_map(row).collect()
}

/// `silu(gate) * up`.
pub fn gated(gate: &[f32], up: &[f32]) -> Vec<f32> {
    gate.iter()
        .zip(up)
        .map(|(gate, up)| gate / (1.0 + (-gate).exp()) * up)
        .collect()
}

/// Causal attention of `q: [heads, tokens, depth]` over `k`, `v: [kv_heads, tokens, depth]`: `[tokens, heads, depth]`.
pub fn attention([q, k, v]: [&[f32]; 3], sizes: Heads) -> Vec<f32> {
    let Heads {
        heads,
        kv_heads,
        tokens,
        depth,
    } = sizes;
    let of = |x: &[f32], head: usize, token: usize| {
        let first = (head * tokens + token) * depth;
        x[first..first + depth].to_vec()
    };
    let mut out = vec![0.0; tokens * heads * depth];
    for (at, row) in out.chunks_mut(depth.max(1)).enumerate() {
        let (token, head) = (at / heads, at % heads);
        let shared = head * kv_heads / heads;
        let q = of(q, head, token);
        let scores: Vec<f64> = (0..=token)
            .map(|key| dot(&q, &of(k, shared, key)) * scale(depth))
            .collect();
        let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
        let sum: f64 = weights.iter().sum();
        for (column, element) in row.iter_mut().enumerate() {
            let value = |(key, weight): (usize, &f64)| {
                weight * f64::from(v[(shared * tokens + key) * depth + column])
            };
            *element = (weights.iter().enumerate().map(value).sum::<f64>() / sum) as f32;
        }
    }
    out
}
