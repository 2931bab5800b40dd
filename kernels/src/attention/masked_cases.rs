//! Cases of attention forward with masks, sequences of any lengths, strides and modified scores, against f64.

use tilekit::prelude::*;

use super::forward::reset;
use super::mainloop::ROWS;
use super::masked::{forward_masked, masked_arguments};
use super::modifier::{Alibi, Modifier, Plain, Softcap};
use super::plan::{Mask, Numbers, Sizes, Tile};

/// What a case has besides its sizes.
#[derive(Clone, Copy)]
struct Setup {
    mask: Mask,
    scores: Scores,
    has_sinks: bool,
    /// Sequences of several lengths, one after the other, two of which have no queries or no keys.
    is_ragged: bool,
    /// Tokens are outside of heads in memory.
    tokens_first: bool,
    /// Deviation of Q: scores have it times that of K.
    spread: f64,
}

/// What is done to scores.
#[derive(Clone, Copy)]
enum Scores {
    Plain,
    Softcap(f64),
    Alibi,
}

const FULL: Setup = Setup {
    mask: Mask {
        left: None,
        right: None,
        chunk: None,
        from_first: false,
    },
    scores: Scores::Plain,
    has_sinks: false,
    is_ragged: false,
    tokens_first: false,
    spread: 1.0,
};

const CAUSAL: Setup = Setup {
    mask: Mask {
        right: Some(0),
        ..FULL.mask
    },
    ..FULL
};

const WINDOW: Setup = Setup {
    mask: Mask {
        left: Some(70),
        right: Some(9),
        ..FULL.mask
    },
    tokens_first: true,
    ..FULL
};

/// The case's problem on the host.
struct Attention {
    sizes: Sizes,
    setup: Setup,
    /// Tokens where each sequence begins, and the last one ends, of queries and of keys.
    offsets: [Vec<usize>; 2],
}

impl Attention {
    fn new(sizes: Sizes, setup: Setup) -> Attention {
        let of_batch = |batch: usize, all: usize| {
            if !setup.is_ragged {
                return all;
            }
            // The first is the longest; later ones take a half, none, a third, ..
            match batch {
                0 => all,
                2 => 0,
                batch => (all / (batch + 1)).max(1),
            }
        };
        let lengths = |all: usize, skip: usize| {
            let mut offsets = vec![0];
            for batch in 0..sizes.batch {
                let length = of_batch(batch * skip % 5, all);
                offsets.push(offsets[batch] + length);
            }
            offsets
        };
        Attention {
            sizes,
            setup,
            offsets: [lengths(sizes.queries, 1), lengths(sizes.keys, 2)],
        }
    }

    fn scale(&self) -> f64 {
        1.0 / (self.sizes.depths[0] as f64).sqrt()
    }

    /// Shape of a tensor of all tokens of queries or keys, with its heads and columns, in the order of memory.
    fn shape(&self, side: usize, heads: usize, columns: usize) -> [usize; 4] {
        let (batch, tokens) = self.rows(side);
        if self.setup.tokens_first {
            [batch, tokens, heads, columns]
        } else {
            [batch, heads, tokens, columns]
        }
    }

    /// Batches and tokens of a tensor.
    fn rows(&self, side: usize) -> (usize, usize) {
        let offsets = &self.offsets[side];
        if self.setup.is_ragged {
            (1, offsets[self.sizes.batch])
        } else {
            (self.sizes.batch, offsets[1])
        }
    }

    /// Elements from one batch, head and token to the next.
    fn strides(&self, side: usize, heads: usize, columns: usize) -> [usize; 3] {
        let [_, outer, inner, columns] = self.shape(side, heads, columns);
        let [slow, fast] = [inner * columns, columns];
        if self.setup.tokens_first {
            [outer * slow, fast, slow]
        } else {
            [outer * slow, slow, fast]
        }
    }

    /// Where a row begins: of a batch, head, and token of its sequence.
    fn place(&self, side: usize, heads: usize, columns: usize, at: [usize; 3]) -> usize {
        let [batch, head, token] = at;
        let strides = self.strides(side, heads, columns);
        let (in_batch, token) = if self.setup.is_ragged {
            (0, self.offsets[side][batch] + token)
        } else {
            (batch, token)
        };
        in_batch * strides[0] + head * strides[1] + token * strides[2]
    }

    fn lengths(&self, batch: usize) -> [usize; 2] {
        [0, 1].map(|side| self.offsets[side][batch + 1] - self.offsets[side][batch])
    }

    /// Whether a query sees a key, by their places.
    fn sees(&self, place: i64, key: i64) -> bool {
        let Mask {
            left, right, chunk, ..
        } = self.setup.mask;
        let in_chunk = |chunk: usize| place.max(0) / chunk as i64 == key / chunk as i64;
        left.is_none_or(|left| key >= place - left as i64)
            && right.is_none_or(|right| key <= place + right as i64)
            && chunk.is_none_or(in_chunk)
    }

    fn score(&self, product: f64, slope: f64, distance: i64) -> f64 {
        let score = product * self.scale();
        match self.setup.scores {
            Scores::Plain => score,
            Scores::Softcap(cap) => cap * (score / cap).tanh(),
            Scores::Alibi => score - slope * distance.abs() as f64,
        }
    }

    /// Calls with batch, head and token of every query.
    fn each_query(&self, mut call: impl FnMut([usize; 3])) {
        for batch in 0..self.sizes.batch {
            for head in 0..self.sizes.heads {
                for token in 0..self.lengths(batch)[0] {
                    call([batch, head, token]);
                }
            }
        }
    }

    /// The output in f64 in the order of memory, and LSE.
    fn reference(&self, [q, k, v]: [&[f64]; 3], [slopes, sinks]: [&[f64]; 2]) -> [Vec<f64>; 2] {
        let Sizes {
            heads,
            kv_heads,
            depths: [depth, columns],
            ..
        } = self.sizes;
        let (batches, tokens) = self.rows(0);
        let mut out = vec![0.0; batches * tokens * heads * columns];
        let mut lse = vec![0.0; batches * tokens * heads];
        self.each_query(|[batch, head, token]| {
            let [queries, keys] = self.lengths(batch);
            let of_query = self.place(0, heads, depth, [batch, head, token]);
            let query = &q[of_query..of_query + depth];
            let place = if self.setup.mask.from_first {
                token as i64
            } else {
                (token + keys) as i64 - queries as i64
            };
            let head_of_keys = head * kv_heads / heads;
            let row = |key, columns| self.place(1, kv_heads, columns, [batch, head_of_keys, key]);
            let seen: Vec<usize> = (0..keys)
                .filter(|&key| self.sees(place, key as i64))
                .collect();
            let scores: Vec<f64> = seen
                .iter()
                .map(|&key| {
                    let at = row(key, depth);
                    let pairs = query.iter().zip(&k[at..at + depth]);
                    let product = pairs.map(|(x, y)| x * y).sum();
                    let slope = slopes.get(head).copied().unwrap_or(0.0);
                    self.score(product, slope, place - key as i64)
                })
                .collect();
            let sink = sinks.get(head).copied().unwrap_or(f64::NEG_INFINITY);
            let max = scores.iter().copied().fold(sink, f64::max);
            let weights: Vec<f64> = scores.iter().map(|score| (score - max).exp()).collect();
            let total: f64 = weights.iter().sum::<f64>()
                + if sink > f64::NEG_INFINITY {
                    (sink - max).exp()
                } else {
                    0.0
                };
            let to = self.place(0, heads, columns, [batch, head, token]);
            for (weight, &key) in weights.iter().zip(&seen) {
                let at = row(key, columns);
                for (sum, v) in out[to..to + columns].iter_mut().zip(&v[at..at + columns]) {
                    *sum += weight / total * v;
                }
            }
            let (in_batch, line) = if self.setup.is_ragged {
                (0, self.offsets[0][batch] + token)
            } else {
                (batch, token)
            };
            lse[(in_batch * heads + head) * tokens + line] = if total > 0.0 {
                max + total.ln()
            } else {
                f64::NEG_INFINITY
            };
        });
        [out, lse]
    }
}

/// Elements as f64.
fn numbers<T: DeviceElement>(x: &Input<T>) -> Vec<f64> {
    x.host().iter().map(|x| x.number().to_f64()).collect()
}

/// A case of one instance.
fn masked<
    T,
    const D: usize,
    const DV: usize,
    const GROUPS: usize,
    const KEYS: usize,
    const TURNS: bool,
    const PACK: usize,
    M: Modifier,
>(
    case: &mut Case,
    setup: Setup,
) -> CaseResult
where
    T: Float + Factor<T, f32> + DeviceElement,
{
    let [batch, kv_heads, query_heads, queries, keys] =
        ["batch", "kv_heads", "query_heads", "queries", "keys"].map(|name| case.size(name));
    let heads = kv_heads * query_heads;
    let sizes = Sizes {
        batch,
        heads,
        kv_heads,
        queries,
        keys,
        depths: [D, DV],
    };
    let attention = Attention::new(sizes, setup);
    let spread = setup.spread * 3f64.sqrt();
    let q = case.uniform::<T>("q", attention.shape(0, heads, D), -spread..spread);
    let k = case.normal::<T>("k", attention.shape(1, kv_heads, D));
    let v = case.normal::<T>("v", attention.shape(1, kv_heads, DV));
    let (batches, tokens) = attention.rows(0);
    let out = case.output::<T>("out", attention.shape(0, heads, DV));
    let lse = case.output::<f32>("lse", [batches, heads, tokens]);
    let counter = case.output::<i32>("counter", [1]);
    let offsets = [0, 1].map(|side| {
        let offsets = attention.offsets[side].clone();
        case.input::<i32>(
            ["query_offsets", "key_offsets"][side],
            [batch + 1],
            move |at| offsets[at] as i32,
        )
    });
    let sinks = case.normal::<f32>("sinks", [heads]);
    let data = case.uniform::<f32>("data", [heads], 0.0..0.5);
    case.launch(reset, 1, (&counter,))?;
    case.expect(&counter, |[_]| 0_i64, Exactly)?;

    let tile = Tile {
        rows: GROUPS * ROWS,
        keys: KEYS,
        pack: PACK,
    };
    let numbers_of_launch = Numbers::new(sizes, setup.mask, tile, size_of::<T>());
    let cap = match setup.scores {
        Scores::Softcap(cap) => cap,
        Scores::Plain | Scores::Alibi => 1.0,
    };
    let factors = M::factors(attention.scale() as f32, cap as f32);
    // Small cases have few programs, so that each computes several tiles.
    let programs = if numbers_of_launch.tiles < 16 {
        numbers_of_launch.tiles.min(3)
    } else {
        numbers_of_launch.tiles.min(132)
    };
    let [of_q, of_k, of_v, of_out] = [
        (0, heads, D),
        (1, kv_heads, D),
        (1, kv_heads, DV),
        (0, heads, DV),
    ]
    .map(|(side, heads, columns)| attention.strides(side, heads, columns));
    let packs = |[batch, head, token]: [usize; 3]| [batch, head * PACK, token, head, 1];
    let (_, keys_in_all) = attention.rows(1);
    let rows = |strides: [usize; 3]| [strides[0], strides[1], strides[2], 1];
    let q_map = q
        .view()
        .with_shape([batches, heads / PACK, tokens, PACK, D])
        .with_strides(packs(of_q));
    let k_map = k
        .view()
        .with_shape([batches, kv_heads, keys_in_all, D])
        .with_strides(rows(of_k));
    let v_map = v
        .view()
        .with_shape([batches, kv_heads, keys_in_all, DV])
        .with_strides(rows(of_v));
    let out_map = out
        .view()
        .with_shape([batches, heads / PACK, tokens, PACK, DV])
        .with_strides(packs(of_out));
    let out_strides = [of_out[1], of_out[2]];
    case.launch(
        forward_masked::<T, D, DV, GROUPS, KEYS, TURNS, PACK, M>,
        programs,
        masked_arguments!(
            maps: [&q_map, &k_map, &v_map, &out_map],
            results: [&out, &lse, &counter],
            offsets: [&offsets[0], &offsets[1]],
            data: [&sinks, &data],
            numbers: numbers_of_launch,
            flags: [setup.is_ragged, setup.has_sinks],
            factors: factors,
            strides: out_strides,
            lse_stride: tokens
        ),
    )?;
    let reference = || {
        let slopes = numbers(&data);
        let sinks = if setup.has_sinks {
            numbers(&sinks)
        } else {
            Vec::new()
        };
        attention.reference(
            [&numbers(&q), &numbers(&k), &numbers(&v)],
            [&slopes, &sinks],
        )
    };
    // P and results are rounded to `T`, half a step of 2^-8 each; `tanh.approx` errs by 2^-11 of the cap.
    let of_cap = match setup.scores {
        Scores::Softcap(cap) => cap / 2048.0,
        Scores::Plain | Scores::Alibi => 0.0,
    };
    let tolerance = Close {
        relative: 8e-3,
        absolute: 4e-3 + 2.0 * of_cap,
    };
    case.expect_all(&out, || reference()[0].clone(), tolerance)?;
    let tolerance = Close {
        relative: 1e-5,
        absolute: 1e-4 + of_cap,
    };
    case.expect_all(&lse, || reference()[1].clone(), tolerance)?;
    case.expect(&counter, |[_]| 0_i64, Exactly)?;
    case.does_tensor_flops::<T>(2 * heads * batch * queries * keys * (D + DV));
    case.moves_bytes(size_of::<T>() * batch * (heads * queries + kv_heads * keys) * (D + DV));
    Ok(())
}

macro_rules! cases {
    ($($name:ident: <$ty:ty, $d:literal, $dv:literal, $groups:literal, $keys:literal, $turns:literal, $pack:literal, $modifier:ty>, $setup:expr,
       batch = $batch:tt, kv_heads = $kv:tt, query_heads = $g:tt, queries = $queries:tt, keys = $ks:tt;)*) => {$(
        #[case(sizes(batch = $batch, kv_heads = $kv, query_heads = $g, queries = $queries, keys = $ks))]
        fn $name(case: &mut Case) -> CaseResult {
            masked::<$ty, $d, $dv, $groups, $keys, $turns, $pack, $modifier>(case, $setup)
        }
    )*};
}

cases! {
    masked_64_causal: <bf16, 64, 64, 3, 128, true, 1, Plain>, CAUSAL,
        batch = [2], kv_heads = [1], query_heads = [2], queries = [1, 63, 65, 127, 129, 300], keys = [130, 63, 64, 400, 129, 20];
    masked_64_window: <bf16, 64, 64, 3, 128, true, 1, Plain>, WINDOW,
        batch = [1], kv_heads = [1], query_heads = [1], queries = [4099, 500], keys = [4099, 900];
    masked_96: <bf16, 96, 96, 2, 128, true, 1, Plain>, FULL,
        batch = [1], kv_heads = [1, 1, 7], query_heads = [1, 2, 8], queries = [1, 129, 63], keys = [65, 300, 63];
    masked_96_causal: <bf16, 96, 96, 2, 128, true, 1, Plain>, CAUSAL,
        batch = [1], kv_heads = [2], query_heads = [1], queries = [65, 127, 257], keys = [65, 127, 257];
    masked_128: <bf16, 128, 128, 2, 128, true, 1, Plain>, FULL,
        batch = [1, 1, 2], kv_heads = [1, 7, 1], query_heads = [8, 8, 1], queries = [1, 63, 129], keys = [65, 127, 260];
    masked_128_chunked: <bf16, 128, 128, 2, 128, true, 1, Plain>,
        Setup { mask: Mask { chunk: Some(100), ..CAUSAL.mask }, tokens_first: true, ..FULL },
        batch = [2], kv_heads = [1], query_heads = [2], queries = [129, 370], keys = [129, 370];
    masked_128_from_first: <bf16, 128, 128, 2, 128, true, 1, Plain>,
        Setup { mask: Mask { from_first: true, ..CAUSAL.mask }, ..FULL },
        batch = [1], kv_heads = [1], query_heads = [1], queries = [129, 300], keys = [257, 100];
    masked_128_ragged: <bf16, 128, 128, 2, 128, true, 1, Plain>, Setup { is_ragged: true, tokens_first: true, ..CAUSAL },
        batch = [5, 3], kv_heads = [1, 2], query_heads = [2, 1], queries = [150, 300], keys = [200, 129];
    masked_128_sinks: <bf16, 128, 128, 2, 128, true, 1, Plain>, Setup { has_sinks: true, ..WINDOW },
        batch = [1], kv_heads = [1], query_heads = [2], queries = [200, 300], keys = [200, 20];
    masked_128_overlong: <bf16, 128, 128, 2, 128, true, 1, Plain>, Setup { spread: 1e4, ..CAUSAL },
        batch = [1], kv_heads = [1], query_heads = [1], queries = [200], keys = [200];
    masked_128_packed: <bf16, 128, 128, 2, 128, true, 8, Plain>, Setup { tokens_first: true, ..CAUSAL },
        batch = [2, 1, 1], kv_heads = [1, 7, 1], query_heads = [8, 8, 16], queries = [1, 7, 40], keys = [300, 129, 200];
    masked_128_packed_ragged: <bf16, 128, 128, 2, 128, true, 8, Plain>, Setup { is_ragged: true, ..CAUSAL },
        batch = [4], kv_heads = [1], query_heads = [8], queries = [33], keys = [150];
    masked_128_softcap: <bf16, 128, 128, 2, 128, true, 1, Softcap>, Setup { scores: Scores::Softcap(5.0), spread: 4.0, ..CAUSAL },
        batch = [1], kv_heads = [1], query_heads = [2], queries = [200], keys = [300];
    masked_128_alibi: <bf16, 128, 128, 2, 128, true, 1, Alibi>, Setup { scores: Scores::Alibi, ..CAUSAL },
        batch = [1], kv_heads = [1], query_heads = [2], queries = [200], keys = [300];
    masked_128_f16: <f16, 128, 128, 2, 128, true, 1, Plain>, CAUSAL,
        batch = [1], kv_heads = [1], query_heads = [2], queries = [127, 200], keys = [129, 300];
    masked_192: <bf16, 192, 128, 2, 112, true, 1, Plain>, CAUSAL,
        batch = [1], kv_heads = [1], query_heads = [2], queries = [1, 65, 200], keys = [65, 65, 300];
    masked_256: <bf16, 256, 256, 2, 64, false, 1, Plain>, CAUSAL,
        batch = [1], kv_heads = [1], query_heads = [2], queries = [63, 200], keys = [129, 300];
}
