//! Tensors of attention whose tokens are divided among ranks, and what comes out of it in f64.

use tilekit::prelude::*;
use tilekit::reference::{add, dot};
use tilekit::{TensorView, World};
use tilekit_kernels::attention::ring::{Placement, RingOptions, ShardGradients};
use tilekit_kernels::attention::{Operand, Result};
use tilekit_kernels::parallel::Parallel;

/// An element of a test's tensors.
pub(crate) trait Real: Operand {
    fn of(number: f64) -> Self;
    fn back(self) -> f64;
}

impl Real for bf16 {
    fn of(number: f64) -> Self {
        bf16::from_f64(number)
    }
    fn back(self) -> f64 {
        self.to_f64()
    }
}

impl Real for f16 {
    fn of(number: f64) -> Self {
        f16::from_f64(number)
    }
    fn back(self) -> f64 {
        self.to_f64()
    }
}

/// Batch, heads of Q, heads of K and V, tokens of a rank; elements of a row of Q and K, and of one of V.
pub(crate) type Size = ([usize; 4], [usize; 2]);

/// How tensors lie: batch, tokens, heads, depth, with so many elements between the rows; or batch, heads, tokens, depth.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Lies {
    TokensFirst(usize),
    HeadsFirst,
}
pub(crate) use Lies::{HeadsFirst, TokensFirst};

/// A tensor on each rank.
pub(crate) struct Shards<T> {
    shape: [usize; 4],
    strides: [usize; 4],
    pub(crate) buffers: Vec<Buffer<T>>,
}

impl<T: Real> Shards<T> {
    pub(crate) fn new(
        world: &World,
        shape: [usize; 4],
        lies: Lies,
        number: impl Fn(usize, usize) -> f64,
    ) -> Shards<T> {
        let [batch, heads, tokens, depth] = shape;
        let strides = match lies {
            HeadsFirst => [heads * tokens * depth, tokens * depth, depth, 1],
            TokensFirst(more) => {
                let row = heads * depth + more;
                [tokens * row, depth, row, 1]
            }
        };
        let ranks = world.devices().iter().enumerate();
        let buffers = ranks.map(|(rank, device)| {
            let numbers: Vec<T> = (0..batch * strides[0])
                .map(|at| T::of(number(rank, at)))
                .collect();
            Buffer::from_slice(device, &numbers).unwrap()
        });
        Shards {
            shape,
            strides,
            buffers: buffers.collect(),
        }
    }

    pub(crate) fn views(&self) -> Vec<TensorView<'_, T>> {
        let buffers = self.buffers.iter();
        buffers
            .map(|buffer| buffer.view(self.shape).with_strides(self.strides))
            .collect()
    }

    /// By rank and `[batch, head, token]`, rows.
    pub(crate) fn rows(&self) -> impl Fn(usize, [usize; 3]) -> Vec<f64> {
        let all = self.buffers.iter().map(|buffer| buffer.to_vec().unwrap());
        let (all, strides, depth): (Vec<Vec<T>>, _, _) =
            (all.collect(), self.strides, self.shape[3]);
        move |rank, at| {
            let first: usize = at
                .iter()
                .zip(&strides)
                .map(|(at, stride)| at * stride)
                .sum();
            all[rank][first..first + depth]
                .iter()
                .map(|x| x.back())
                .collect()
        }
    }
}

/// A number between -2 and 2 that looks drawn.
pub(crate) fn drawn(seed: usize, at: usize) -> f64 {
    let mixed = (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (seed as u64) << 32;
    let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed >> 40) as f64 / (1 << 22) as f64 - 2.0
}

/// Rows by rank and `[batch, head, token]`.
type Rows<'a> = dyn Fn(usize, [usize; 3]) -> Vec<f64> + 'a;

/// The tensors of a call.
pub(crate) struct Call<'a, T> {
    size: Size,
    ranks: usize,
    options: RingOptions<'a>,
    /// Sinks of heads, as the buffers of the options have them.
    sinks: Vec<f64>,
    pub(crate) qkv: [Shards<T>; 3],
    out: Shards<T>,
    lse: Vec<Buffer<f32>>,
    dout: Shards<T>,
    gradients: [Shards<T>; 3],
}

/// What a query makes of the keys that it sees.
struct Row {
    /// Rank and token of a key, its weight, and how its score grows with the product.
    seen: Vec<(usize, usize, f64, f64)>,
    out: Vec<f64>,
    lse: f64,
}

impl<'a, T: Real> Call<'a, T> {
    pub(crate) fn new(world: &World, size: Size, lies: Lies, options: RingOptions<'a>) -> Self {
        let ([batch, heads, kv_heads, tokens], [depth, values]) = size;
        let shards = |seed: usize, heads, depth| {
            let number = move |rank, at| drawn(seed + 10 * rank, at);
            Shards::new(world, [batch, heads, tokens, depth], lies, number)
        };
        let nothing =
            |heads, depth| Shards::new(world, [batch, heads, tokens, depth], lies, |_, _| f64::NAN);
        let lse = world.devices().iter();
        let of_rank = options.sinks.map(|sinks| sinks[0].to_vec().unwrap());
        Call {
            size,
            ranks: world.ranks(),
            options,
            sinks: of_rank
                .unwrap_or_default()
                .into_iter()
                .map(f64::from)
                .collect(),
            qkv: [
                shards(1, heads, depth),
                shards(2, kv_heads, depth),
                shards(3, kv_heads, values),
            ],
            out: nothing(heads, values),
            lse: lse
                .map(|device| {
                    Buffer::from_slice(device, &vec![f32::NAN; batch * heads * tokens]).unwrap()
                })
                .collect(),
            dout: shards(4, heads, values),
            gradients: [
                nothing(heads, depth),
                nothing(kv_heads, depth),
                nothing(kv_heads, values),
            ],
        }
    }

    pub(crate) fn run(&self, parallel: &Parallel<'_>) -> Result<()> {
        let [q, k, v] = self.qkv.each_ref().map(Shards::views);
        let lse: Vec<_> = self.lse.iter().collect();
        parallel.ring_attention([&q, &k, &v], &self.out.views(), &lse, &self.options)
    }

    pub(crate) fn differentiate(&self, parallel: &Parallel<'_>) -> Result<()> {
        let dq = self.gradients[0].views();
        self.differentiate_into(parallel, &dq)
    }

    /// The same with the gradient of Q elsewhere.
    pub(crate) fn differentiate_into(
        &self,
        parallel: &Parallel<'_>,
        dq: &[TensorView<'_, T>],
    ) -> Result<()> {
        let [q, k, v] = self.qkv.each_ref().map(Shards::views);
        let [_, dk, dv] = self.gradients.each_ref().map(Shards::views);
        let lse: Vec<_> = self.lse.iter().collect();
        let of = ShardGradients {
            out: &self.out.views(),
            lse: &lse,
            dout: &self.dout.views(),
            gradients: [dq, &dk, &dv],
        };
        parallel.ring_attention_backward([&q, &k, &v], of, &self.options)
    }

    fn position(&self, rank: usize, token: usize) -> usize {
        let tokens = self.size.0[3];
        match self.options.placement {
            Placement::Contiguous => rank * tokens + token,
            Placement::ZigZag => {
                let half = tokens / 2;
                let chunk = [rank, 2 * self.ranks - 1 - rank][token / half];
                chunk * half + token % half
            }
        }
    }

    fn sees(&self, own: usize, key: usize) -> bool {
        let [left, right] = self.options.window;
        let right = if self.options.causal { Some(0) } else { right };
        left.is_none_or(|left| key + left >= own) && right.is_none_or(|right| key <= own + right)
    }

    fn scale(&self) -> f64 {
        let depth = self.size.1[0] as f64;
        self.options.scale.map_or(1.0 / depth.sqrt(), f64::from)
    }

    /// The row of a query, `[batch, head, token]` of a rank.
    fn row(&self, rank: usize, [batch, head, token]: [usize; 3], [q, k, v]: [&Rows<'_>; 3]) -> Row {
        let ([_, heads, kv_heads, tokens], [_, values]) = self.size;
        let at = |key: usize| [batch, head / (heads / kv_heads), key];
        let own = self.position(rank, token);
        let all = (0..self.ranks * tokens).map(|key| (key / tokens, key % tokens));
        let all = all.filter(|&(of, key)| self.sees(own, self.position(of, key)));
        let query = q(rank, [batch, head, token]);
        let scores = all.map(|(of, key)| {
            let product = dot(&query, &k(of, at(key))) * self.scale();
            let Some(cap) = self.options.softcap.map(f64::from) else {
                return (of, key, product, 1.0);
            };
            let tanh = (product / cap).tanh();
            (of, key, cap * tanh, 1.0 - tanh * tanh)
        });
        let mut seen: Vec<(usize, usize, f64, f64)> = scores.collect();
        let sink = self.sinks.get(head).copied().unwrap_or(f64::NEG_INFINITY);
        let most = seen.iter().map(|of| of.2).fold(sink, f64::max);
        let total = seen.iter().map(|of| (of.2 - most).exp()).sum::<f64>() + (sink - most).exp();
        let mut out = vec![0.0; values];
        for (of, key, score, _) in &mut seen {
            *score = (*score - most).exp() / total;
            add(&mut out, *score, &v(*of, at(*key)));
        }
        Row {
            seen,
            out,
            lse: most + total.ln(),
        }
    }

    /// Every query of every rank.
    fn each_query(&self, mut call: impl FnMut(usize, [usize; 3])) {
        let [batch, heads, _, tokens] = self.size.0;
        for rank in 0..self.ranks {
            for line in 0..batch * heads {
                (0..tokens).for_each(|token| call(rank, [line / heads, line % heads, token]));
            }
        }
    }

    /// Compares every element with f64.
    pub(crate) fn check(&self) {
        let ([_, heads, _, tokens], _) = self.size;
        let ([q, k, v], out) = (self.qkv.each_ref().map(Shards::rows), self.out.rows());
        let lse: Vec<Vec<f32>> = self.lse.iter().map(|lse| lse.to_vec().unwrap()).collect();
        self.each_query(|rank, at @ [batch, head, token]| {
            let want = self.row(rank, at, [&q, &k, &v]);
            for (column, (got, want)) in out(rank, at).iter().zip(want.out).enumerate() {
                assert!(
                    (got - want).abs() <= 8e-3 + 8e-3 * want.abs(),
                    "rank {rank}, row {at:?}, column {column}: {got}, not {want}"
                );
            }
            let got = f64::from(lse[rank][(batch * heads + head) * tokens + token]);
            // `tanh.approx` has an error of 2^-11 of the cap.
            let allowed = 2e-4
                + self
                    .options
                    .softcap
                    .map_or(0.0, |cap| f64::from(cap) / 2048.0);
            assert!(
                (got - want.lse).abs() <= allowed,
                "LSE of rank {rank}, row {at:?}: {got}, not {}",
                want.lse
            );
        });
    }

    /// Compares every element of the gradients with f64.
    pub(crate) fn check_gradients(&self) {
        let ([batch, heads, kv_heads, tokens], [depth, values]) = self.size;
        let ([q, k, v], dout) = (self.qkv.each_ref().map(Shards::rows), self.dout.rows());
        let group = heads / kv_heads;
        let of_rank =
            |heads: usize, columns: usize| vec![vec![0.0; columns]; batch * heads * tokens];
        let mut want = [(heads, depth), (kv_heads, depth), (kv_heads, values)]
            .map(|(heads, columns)| vec![of_rank(heads, columns); self.ranks]);
        self.each_query(|rank, at @ [batch, head, token]| {
            let row = self.row(rank, at, [&q, &k, &v]);
            let (query, dout) = (q(rank, at), dout(rank, at));
            let delta = dot(&row.out, &dout);
            for (of, key, weight, slope) in row.seen {
                let place = [batch, head / group, key];
                let of_key = (batch * kv_heads + head / group) * tokens + key;
                add(&mut want[2][of][of_key], weight, &dout);
                let of_score = weight * (dot(&dout, &v(of, place)) - delta) * slope * self.scale();
                add(&mut want[1][of][of_key], of_score, &query);
                let of_query = (batch * heads + head) * tokens + token;
                add(&mut want[0][rank][of_query], of_score, &k(of, place));
            }
        });
        for (side, (name, heads)) in [("dq", heads), ("dk", kv_heads), ("dv", kv_heads)]
            .into_iter()
            .enumerate()
        {
            let got = self.gradients[side].rows();
            for rank in 0..self.ranks {
                for (row, want) in want[side][rank].iter().enumerate() {
                    let (line, token) = (row / tokens, row % tokens);
                    let got = got(rank, [line / heads, line % heads, token]);
                    for (column, (got, want)) in got.iter().zip(want).enumerate() {
                        // Each rank rounds what it has of a key.
                        assert!(
                            (got - want).abs() <= 2e-2 + 1e-2 * want.abs(),
                            "{name} of rank {rank}, row {row}, column {column}: {got}, not {want}"
                        );
                    }
                }
            }
        }
    }

    pub(crate) fn bits(&self) -> Vec<(Vec<u64>, Vec<u32>)> {
        let of_rank = |(out, lse): (&Buffer<T>, &Buffer<f32>)| {
            let out = out.to_vec().unwrap();
            let lse = lse.to_vec().unwrap();
            let out = out.into_iter().map(|x| x.back().to_bits()).collect();
            (out, lse.into_iter().map(f32::to_bits).collect())
        };
        self.out
            .buffers
            .iter()
            .zip(&self.lse)
            .map(of_rank)
            .collect()
    }

    /// Gradients of all ranks, by side.
    pub(crate) fn gradient_bits(&self) -> Vec<Vec<u64>> {
        let buffers = self.gradients.iter().flat_map(|side| &side.buffers);
        let bits = |buffer: &Buffer<T>| {
            buffer
                .to_vec()
                .unwrap()
                .into_iter()
                .map(|x| x.back().to_bits())
                .collect()
        };
        buffers.map(bits).collect()
    }
}

pub(crate) const FULL: RingOptions<'static> = RingOptions {
    causal: false,
    window: [None; 2],
    placement: Placement::Contiguous,
    scale: None,
    softcap: None,
    sinks: None,
    deterministic: false,
};
pub(crate) const CAUSAL: RingOptions<'static> = RingOptions {
    causal: true,
    ..FULL
};
pub(crate) const ZIGZAG: RingOptions<'static> = RingOptions {
    placement: Placement::ZigZag,
    ..CAUSAL
};
