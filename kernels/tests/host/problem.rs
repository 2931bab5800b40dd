//! The numbers of a call, and its results in f64.

use tilekit::prelude::*;
use tilekit_kernels::attention::{Attention, Options};

/// Numbers that repeat after no tensor's extent.
pub(super) fn numbers<T: Rounded>(len: usize, seed: usize) -> Vec<T> {
    let of = |at: usize| ((at * 37 + seed * 101) % 211) as f32 / 105.0 - 1.0;
    (0..len).map(|at| T::of(of(at))).collect()
}

/// An element of a test's tensors.
pub(super) trait Rounded: DeviceElement {
    fn of(number: f32) -> Self;
    fn back(self) -> f64;
}

impl Rounded for bf16 {
    fn of(number: f32) -> Self {
        bf16::from_f32(number)
    }
    fn back(self) -> f64 {
        self.to_f64()
    }
}

impl Rounded for f16 {
    fn of(number: f32) -> Self {
        f16::from_f32(number)
    }
    fn back(self) -> f64 {
        self.to_f64()
    }
}

/// Queries, keys, depth, and values of one head, on the host.
struct Head<'a> {
    q: &'a [f64],
    k: &'a [f64],
    v: &'a [f64],
    depths: [usize; 2],
}

impl Head<'_> {
    /// Output and LSE of a query to the keys `seen`, whose scores are changed by `score(score, key)`.
    fn attend(
        &self,
        query: usize,
        seen: &[usize],
        score: impl Fn(f64, usize) -> f64,
    ) -> (Vec<f64>, f64) {
        let [depth, columns] = self.depths;
        let scores: Vec<f64> = seen
            .iter()
            .map(|&key| {
                let [x, y] = [&self.q[query * depth..], &self.k[key * depth..]];
                let product: f64 = x.iter().zip(y).take(depth).map(|(x, y)| x * y).sum();
                score(product / (depth as f64).sqrt(), key)
            })
            .collect();
        let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let total: f64 = scores.iter().map(|score| (score - max).exp()).sum();
        let mut out = vec![0.0; columns];
        for (score, &key) in scores.iter().zip(seen) {
            let weight = (score - max).exp() / total;
            for (sum, v) in out.iter_mut().zip(&self.v[key * columns..]) {
                *sum += weight * v;
            }
        }
        let lse = if seen.is_empty() {
            f64::NEG_INFINITY
        } else {
            max + total.ln()
        };
        (out, lse)
    }
}

#[track_caller]
pub(super) fn near(found: f64, wanted: f64, what: &str) {
    let is_same = found.is_infinite() && found.total_cmp(&wanted).is_eq();
    let is_near = is_same || (found - wanted).abs() <= 4e-3 + 8e-3 * wanted.abs();
    assert!(is_near, "{what}: found {found}, expected {wanted}");
}

/// Compares a result of `[heads, queries]` rows, each query of which sees the keys that `sees` says.
pub(super) fn check_heads<T: Rounded>(
    [q, k, v]: [&[T]; 3],
    (out, lse): (&[T], &[f32]),
    [heads, kv_heads, queries, keys, depth, columns]: [usize; 6],
    sees: impl Fn(usize, usize) -> bool,
    score: impl Fn(f64, usize, usize) -> f64,
) {
    let back = |x: &[T]| x.iter().map(|x| x.back()).collect::<Vec<f64>>();
    let [q, k, v] = [back(q), back(k), back(v)];
    for head in 0..heads {
        let kv = head * kv_heads / heads;
        let q = &q[head * queries * depth..];
        let (k, v) = (&k[kv * keys * depth..], &v[kv * keys * columns..]);
        let on_host = Head {
            q,
            k,
            v,
            depths: [depth, columns],
        };
        for query in 0..queries {
            let seen: Vec<usize> = (0..keys).filter(|&key| sees(query, key)).collect();
            let (wanted, of_lse) = on_host.attend(query, &seen, |s, key| score(s, query, key));
            let row = head * queries + query;
            for (column, wanted) in wanted.iter().enumerate() {
                let found = out[row * columns + column].back();
                near(
                    found,
                    *wanted,
                    &format!("head {head}, query {query}, column {column}"),
                );
            }
            near(
                f64::from(lse[row]),
                of_lse,
                &format!("LSE of head {head}, query {query}"),
            );
        }
    }
}

/// One call on dense tensors of one batch.
pub(super) fn check<T: Rounded + tilekit_kernels::attention::Operand>(
    sizes: [usize; 6],
    options: &Options<'_>,
    sees: impl Fn(usize, usize) -> bool,
) {
    let [heads, kv_heads, queries, keys, depth, columns] = sizes;
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let attention = Attention::new(&device);
    let host = [
        numbers::<T>(heads * queries * depth, 1),
        numbers::<T>(kv_heads * keys * depth, 2),
        numbers::<T>(kv_heads * keys * columns, 3),
    ];
    let [q, k, v] = [0, 1, 2].map(|at| Buffer::from_slice(&device, &host[at]).unwrap());
    let q = q.view([1, heads, queries, depth]);
    let (k, v) = (
        k.view([1, kv_heads, keys, depth]),
        v.view([1, kv_heads, keys, columns]),
    );
    // Twice: the workspace of the stream is as it was.
    for _ in 0..2 {
        let result = attention.forward(&stream, [&q, &k, &v], options).unwrap();
        stream.synchronize().unwrap();
        let found = (
            &result.out.to_vec().unwrap()[..],
            &result.lse.to_vec().unwrap()[..],
        );
        let of_default = (depth as f64).sqrt();
        let factor = options
            .scale
            .map_or(1.0, |scale| f64::from(scale) * of_default);
        check_heads(
            [&host[0], &host[1], &host[2]],
            found,
            sizes,
            &sees,
            |s, _, _| s * factor,
        );
    }
}
