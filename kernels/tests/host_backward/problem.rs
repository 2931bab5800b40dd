//! Heads on the host, their gradients in f64, and calls that are compared with these.

use tilekit::prelude::*;
use tilekit::reference::{Matrix, product, products_of_rows};
use tilekit_kernels::attention::{Attention, Forward, Gradients, Options, Upstream};

/// Numbers without a pattern between -1 and 1.
pub(crate) fn numbers(len: usize, seed: u64) -> Vec<bf16> {
    let of = |at: usize| {
        let bits = (at as u64 + seed * 1_000_003).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let bits = (bits ^ (bits >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bf16::from_f32((bits >> 40) as f32 / (1 << 23) as f32 - 1.0)
    };
    (0..len).map(of).collect()
}

/// Both passes of these Q, K and V, whose output has this shape and the gradient `dout`.
pub(crate) fn differentiated(
    (attention, stream): (&Attention, &Stream),
    qkv: [&TensorView<bf16>; 3],
    (dout, shape): (&TensorView<bf16>, [usize; 4]),
    options: &Options,
) -> (Forward<bf16>, Gradients<bf16>) {
    let forward = attention.forward(stream, qkv, options).unwrap();
    let upstream = Upstream {
        out: &forward.out.view(shape),
        lse: &forward.lse,
        dout,
    };
    let gradients = attention.backward(stream, qkv, upstream, options).unwrap();
    stream.synchronize().unwrap();
    (forward, gradients)
}

/// Heads on the host: queries, keys, depth.
pub(crate) struct Problem {
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) queries: usize,
    pub(crate) keys: usize,
    pub(crate) depth: usize,
}

impl Problem {
    fn tokens(&self, side: usize) -> [usize; 2] {
        [[self.heads, self.queries], [self.kv_heads, self.keys]][side]
    }

    /// Gradients of `[heads, tokens, depth]` in f64; `score(product)` gives a score and its derivative.
    pub(crate) fn gradients(
        &self,
        qkvd: [&[bf16]; 4],
        sees: impl Fn(usize, usize) -> bool,
        score: impl Fn(f64) -> (f64, f64),
    ) -> [Vec<f64>; 3] {
        self.gradients_of(qkvd, sees, |_, _, product| score(product))
    }

    /// Those of scores that depend on query and key.
    pub(crate) fn gradients_of(
        &self,
        [q, k, v, dout]: [&[bf16]; 4],
        sees: impl Fn(usize, usize) -> bool,
        score: impl Fn(usize, usize, f64) -> (f64, f64),
    ) -> [Vec<f64>; 3] {
        let depth = self.depth;
        let [q, k, v, dout] =
            [q, k, v, dout].map(|x| x.iter().map(|x| x.to_f64()).collect::<Vec<_>>());
        let (mut dq, [mut dk, mut dv]) = (Vec::new(), [&k, &v].map(|x| vec![0.0; x.len()]));
        let [queries, keys] = [self.queries, self.keys];
        for head in 0..self.heads {
            let of_head = head * queries * depth..(head + 1) * queries * depth;
            let base = head * self.kv_heads / self.heads * keys * depth;
            let of_keys = base..base + keys * depth;
            let [q, dout] = [&q, &dout].map(|x| &x[of_head.clone()]);
            let [k, v] = [&k, &v].map(|x| &x[of_keys.clone()]);
            let products = products_of_rows([queries, keys, depth], q, k);
            let dp = products_of_rows([queries, keys, depth], dout, v);
            let [mut p, mut ds] = [(); 2].map(|()| vec![0.0; queries * keys]);
            for query in 0..queries {
                let seen: Vec<usize> = (0..keys).filter(|&key| sees(query, key)).collect();
                let at = |key: usize| query * keys + key;
                let score = |&key: &usize| score(query, key, products[at(key)]);
                let scores: Vec<(f64, f64)> = seen.iter().map(score).collect();
                let max = scores.iter().map(|s| s.0).fold(f64::NEG_INFINITY, f64::max);
                let total: f64 = scores.iter().map(|s| (s.0 - max).exp()).sum();
                for (score, &key) in scores.iter().zip(&seen) {
                    p[at(key)] = (score.0 - max).exp() / total;
                }
                let delta: f64 = seen.iter().map(|&key| p[at(key)] * dp[at(key)]).sum();
                for (score, &key) in scores.iter().zip(&seen) {
                    ds[at(key)] = p[at(key)] * (dp[at(key)] - delta) * score.1;
                }
            }
            let rows = |x| Matrix::rows(x, depth);
            let [p, ds] = [&p, &ds].map(|x| Matrix::rows(x, keys));
            dq.extend(product([queries, depth, keys], ds, rows(k)));
            let of_dk = product([keys, depth, queries], ds.transposed(), rows(q));
            let of_dv = product([keys, depth, queries], p.transposed(), rows(dout));
            for (to, x) in [(&mut dk, of_dk), (&mut dv, of_dv)] {
                let sums = to[of_keys.clone()].iter_mut().zip(x);
                sums.for_each(|(sum, x)| *sum += x);
            }
        }
        [dq, dk, dv]
    }
}

#[track_caller]
pub(crate) fn near(found: &[bf16], wanted: &[f64], what: &str) {
    assert_eq!(found.len(), wanted.len(), "{what}");
    for (at, (found, wanted)) in found.iter().zip(wanted).enumerate() {
        let found = found.to_f64();
        assert!(
            (found - wanted).abs() <= 1e-2 + 1e-2 * wanted.abs(),
            "{what}[{at}]: found {found}, expected {wanted}"
        );
    }
}

/// Forward and backward of dense tensors of one batch.
#[track_caller]
pub(crate) fn check(
    problem: &Problem,
    options: &Options<'_>,
    sees: impl Fn(usize, usize) -> bool,
    score: impl Fn(f64) -> (f64, f64),
) {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let attention = Attention::new(&device);
    let depth = problem.depth;
    let len = |side: usize| problem.tokens(side).iter().product::<usize>() * depth;
    let host = [0, 1, 1, 0].map(len);
    let host = [0, 1, 2, 3].map(|at| numbers(host[at], at as u64));
    let [q, k, v, dout] = [0, 1, 2, 3].map(|at| Buffer::from_slice(&device, &host[at]).unwrap());
    let shape = |side: usize| {
        let [heads, tokens] = problem.tokens(side);
        [1, heads, tokens, depth]
    };
    let (q, dout) = (q.view(shape(0)), dout.view(shape(0)));
    let (k, v) = (k.view(shape(1)), v.view(shape(1)));
    let forward = attention.forward(&stream, [&q, &k, &v], options).unwrap();
    let upstream = Upstream {
        out: &forward.out.view(shape(0)),
        lse: &forward.lse,
        dout: &dout,
    };
    let wanted = problem.gradients([&host[0], &host[1], &host[2], &host[3]], &sees, &score);
    // Twice: the workspace of the stream is as it was.
    for _ in 0..2 {
        let Gradients { dq, dk, dv } = attention
            .backward(&stream, [&q, &k, &v], upstream, options)
            .unwrap();
        stream.synchronize().unwrap();
        near(&dq.to_vec().unwrap(), &wanted[0], "dq");
        near(&dk.to_vec().unwrap(), &wanted[1], "dk");
        near(&dv.to_vec().unwrap(), &wanted[2], "dv");
    }
}

pub(crate) fn scaled(depth: usize) -> impl Fn(f64) -> (f64, f64) {
    let scale = 1.0 / (depth as f64).sqrt();
    move |product| (product * scale, scale)
}
