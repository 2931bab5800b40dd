//! The case of attention: random queries, keys and values of all heads, and a reference in f64.

use tilekit::prelude::*;

/// Queries, keys, values and the output, all of `[heads, tokens, depth]`.
pub(super) struct Attention<T> {
    shape: [usize; 3],
    is_causal: bool,
    inputs: [Input<T>; 3],
    out: Output<T>,
}

/// What a kernel is launched with: Q, K, V, the output, `tokens` and `log2_scale`.
type Arguments<'a, T> = (
    &'a Input<T>,
    &'a Input<T>,
    &'a Input<T>,
    &'a Output<T>,
    i32,
    f32,
);

impl<T: DeviceElement> Attention<T> {
    /// Attention of the case's sizes `heads` and `tokens`; if causal, a query sees the keys up to its own place.
    pub(super) fn new(case: &mut Case, depth: usize, is_causal: bool) -> Self {
        let shape = [case.size("heads"), case.size("tokens"), depth];
        Attention {
            shape,
            is_causal,
            inputs: ["q", "k", "v"].map(|name| case.normal::<T>(name, shape)),
            out: case.output::<T>("out", shape),
        }
    }

    /// A program for each block of so many queries of each head.
    pub(super) fn grid(&self, queries: usize) -> Grid {
        let [heads, tokens, _] = self.shape;
        grid([tokens.div_ceil(queries), heads])
    }

    pub(super) fn arguments(&self) -> Arguments<'_, T> {
        let ([q, k, v], [_, tokens, _]) = (&self.inputs, self.shape);
        let log2_scale = (self.scale() * LOG2_E) as f32;
        (q, k, v, &self.out, tokens as i32, log2_scale)
    }

    fn scale(&self) -> f64 {
        1.0 / (self.shape[2] as f64).sqrt()
    }

    /// Compares all of the output, and counts the work.
    pub(super) fn expect(&self, case: &mut Case) -> CaseResult {
        // Weights and results are rounded to `T`, half a step of 2^-8 each.
        let tolerance = Close {
            relative: 8e-3,
            absolute: 4e-3,
        };
        case.expect_part_in_units(&self.out, self.shape, || self.reference(), tolerance)?;
        let [heads, tokens, depth] = self.shape;
        let products = 4 * heads * tokens * tokens * depth;
        case.does_tensor_flops::<T>(if self.is_causal {
            products / 2
        } else {
            products
        });
        case.moves_bytes(4 * size_of::<T>() * heads * tokens * depth);
        Ok(())
    }

    /// The whole result in f64.
    fn reference(&self) -> Vec<f64> {
        let [heads, tokens, depth] = self.shape;
        let numbers = |x: &Input<T>| x.host().iter().map(|x| x.number().to_f64()).collect();
        let [q, k, v]: [Vec<f64>; 3] = self.inputs.each_ref().map(numbers);
        let of = |x: usize| x * depth..(x + 1) * depth;
        let row = |row: usize| {
            let head = row / tokens * tokens;
            let end = if self.is_causal {
                row + 1
            } else {
                head + tokens
            };
            self.attend(
                &q[of(row)],
                (head..end).map(|key| (&k[of(key)], &v[of(key)])),
            )
        };
        (0..heads * tokens).flat_map(row).collect()
    }

    /// What one query gets of the keys that it sees and their values.
    fn attend<'a>(
        &self,
        query: &[f64],
        seen: impl Iterator<Item = (&'a [f64], &'a [f64])> + Clone,
    ) -> Vec<f64> {
        let dot = |key: &[f64]| query.iter().zip(key).map(|(x, y)| x * y).sum::<f64>();
        let scores: Vec<f64> = (seen.clone())
            .map(|(key, _)| dot(key) * self.scale())
            .collect();
        let max = scores.iter().copied().fold(f64::MIN, f64::max);
        let weights: Vec<f64> = scores.iter().map(|score| (score - max).exp()).collect();
        let mut sums = vec![0.0; query.len()];
        for (weight, (_, value)) in weights.iter().zip(seen) {
            for (sum, v) in sums.iter_mut().zip(value) {
                *sum += weight * v;
            }
        }
        let total: f64 = weights.iter().sum();
        sums.iter().map(|sum| sum / total).collect()
    }
}
