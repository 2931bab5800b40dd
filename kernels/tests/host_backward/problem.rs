//! Heads on the host, their gradients in f64, and calls that are compared with these.

use tilekit::prelude::*;
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
        let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
        let [mut dq, mut dk, mut dv] = [&q, &k, &v].map(|x| vec![0.0; x.len()]);
        for row in 0..self.heads * self.queries {
            let (head, query) = (row / self.queries, row % self.queries);
            let base = head * self.kv_heads / self.heads * self.keys;
            let of_row = row * depth..(row + 1) * depth;
            let seen: Vec<usize> = (0..self.keys).filter(|&key| sees(query, key)).collect();
            let rows: Vec<_> = seen
                .iter()
                .map(|key| (base + key) * depth..(base + key + 1) * depth)
                .collect();
            let scores: Vec<(f64, f64)> = rows
                .iter()
                .zip(&seen)
                .map(|(at, &key)| score(query, key, dot(&q[of_row.clone()], &k[at.clone()])))
                .collect();
            let max = scores.iter().map(|s| s.0).fold(f64::NEG_INFINITY, f64::max);
            let total: f64 = scores.iter().map(|s| (s.0 - max).exp()).sum();
            let p: Vec<f64> = scores.iter().map(|s| (s.0 - max).exp() / total).collect();
            let dp: Vec<f64> = rows
                .iter()
                .map(|at| dot(&dout[of_row.clone()], &v[at.clone()]))
                .collect();
            let delta = dot(&p, &dp);
            for (at, row) in rows.iter().enumerate() {
                let ds = p[at] * (dp[at] - delta) * scores[at].1;
                for column in 0..depth {
                    dv[row.start + column] += p[at] * dout[of_row.start + column];
                    dk[row.start + column] += ds * q[of_row.start + column];
                    dq[of_row.start + column] += ds * k[row.start + column];
                }
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
    // Twice: the workspace of the stream is as it was.
    for _ in 0..2 {
        let Gradients { dq, dk, dv } = attention
            .backward(&stream, [&q, &k, &v], upstream, options)
            .unwrap();
        stream.synchronize().unwrap();
        let wanted = problem.gradients([&host[0], &host[1], &host[2], &host[3]], &sees, &score);
        near(&dq.to_vec().unwrap(), &wanted[0], "dq");
        near(&dk.to_vec().unwrap(), &wanted[1], "dk");
        near(&dv.to_vec().unwrap(), &wanted[2], "dv");
    }
}

pub(crate) fn scaled(depth: usize) -> impl Fn(f64) -> (f64, f64) {
    let scale = 1.0 / (depth as f64).sqrt();
    move |product| (product * scale, scale)
}
