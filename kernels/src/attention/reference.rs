//! Attention on the host in f64, which cases compare with.

use tilekit::prelude::*;

use super::blocks::lists::{BlockKind, UNIT};
use super::dropout::Dropout;
use super::inputs::Inputs;
use super::plan::{Mask, Sizes};

/// The properties of a case besides its sizes.
#[derive(Clone, Copy)]
pub(super) struct Setup {
    pub(super) mask: Mask,
    pub(super) scores: Scores,
    pub(super) has_sinks: bool,
    pub(super) dropout: Option<Dropout>,
    /// Concatenated sequences of several lengths, two of which have no queries or no keys.
    pub(super) is_ragged: bool,
    /// The order in memory is batch, tokens, heads, depth.
    pub(super) tokens_first: bool,
    /// How a block of queries sees a block of keys, of 128 each, by batch, head and their numbers.
    pub(super) blocks: Option<fn([usize; 4]) -> BlockKind>,
    /// Normal Q and K are [`spread`](Setup::spread), others are not.
    pub(super) inputs: Inputs,
    /// Standard deviation of Q; that of a score is its product with that of K.
    pub(super) spread: f64,
}

/// The change of scores.
#[derive(Clone, Copy)]
pub(super) enum Scores {
    Plain,
    Softcap(f64),
    Alibi,
}

impl Setup {
    /// The tolerance of outputs, which are rounded by as much as `absolute`, and of LSE. `tanh.approx` has an error of 2^-11 of the cap.
    pub(super) fn tolerances(self, absolute: f64) -> [Tolerance; 2] {
        let of_cap = match self.scores {
            Scores::Softcap(cap) => cap / 2048.0,
            Scores::Plain | Scores::Alibi => 0.0,
        };
        let of_out = Close {
            relative: 8e-3,
            absolute: absolute + 2.0 * of_cap,
        };
        let of_lse = Close {
            relative: 1e-5,
            absolute: 1e-4 + of_cap,
        };
        [of_out, of_lse]
    }
}

/// No mask, and no change of scores.
pub(super) const FULL: Setup = Setup {
    mask: Mask {
        left: None,
        right: None,
        chunk: None,
        from_first: false,
    },
    scores: Scores::Plain,
    has_sinks: false,
    dropout: None,
    is_ragged: false,
    tokens_first: false,
    blocks: None,
    inputs: Inputs::Normal,
    spread: 1.0,
};

/// A causal mask.
pub(super) const CAUSAL: Setup = Setup {
    mask: Mask {
        right: Some(0),
        ..FULL.mask
    },
    ..FULL
};

/// A window, and the order batch, tokens, heads, depth.
pub(super) const WINDOW: Setup = Setup {
    mask: Mask {
        left: Some(70),
        right: Some(9),
        ..FULL.mask
    },
    tokens_first: true,
    ..FULL
};

/// The case's problem on the host.
pub(super) struct Attention {
    pub(super) sizes: Sizes,
    pub(super) setup: Setup,
    /// The first token of each sequence, and the end of the last one, for queries and for keys.
    pub(super) offsets: [Vec<usize>; 2],
}

impl Attention {
    pub(super) fn new(sizes: Sizes, setup: Setup) -> Attention {
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

    pub(super) fn scale(&self) -> f64 {
        1.0 / (self.sizes.depths[0] as f64).sqrt()
    }

    /// Shape of a tensor of all tokens of queries or keys, with its heads and columns, in the order of memory.
    pub(super) fn shape(&self, side: usize, heads: usize, columns: usize) -> [usize; 4] {
        let (batch, tokens) = self.rows(side);
        if self.setup.tokens_first {
            [batch, tokens, heads, columns]
        } else {
            [batch, heads, tokens, columns]
        }
    }

    /// Batches and tokens of a tensor.
    pub(super) fn rows(&self, side: usize) -> (usize, usize) {
        let offsets = &self.offsets[side];
        if self.setup.is_ragged {
            (1, offsets[self.sizes.batch])
        } else {
            (self.sizes.batch, offsets[1])
        }
    }

    /// Elements from one batch, head and token to the next.
    pub(super) fn strides(&self, side: usize, heads: usize, columns: usize) -> [usize; 3] {
        let [_, outer, inner, columns] = self.shape(side, heads, columns);
        let [slow, fast] = [inner * columns, columns];
        if self.setup.tokens_first {
            [outer * slow, fast, slow]
        } else {
            [outer * slow, slow, fast]
        }
    }

    /// The offset of a row, given by batch, head, and token of its sequence.
    pub(super) fn place(&self, side: usize, heads: usize, columns: usize, at: [usize; 3]) -> usize {
        let [batch, head, token] = at;
        let strides = self.strides(side, heads, columns);
        let (in_batch, token) = if self.setup.is_ragged {
            (0, self.offsets[side][batch] + token)
        } else {
            (batch, token)
        };
        in_batch * strides[0] + head * strides[1] + token * strides[2]
    }

    /// The sinks that heads have, if any.
    pub(super) fn sinks(&self, sinks: &Input<f32>) -> Vec<f64> {
        if self.setup.has_sinks {
            numbers(sinks)
        } else {
            Vec::new()
        }
    }

    pub(super) fn lengths(&self, batch: usize) -> [usize; 2] {
        [0, 1].map(|side| self.offsets[side][batch + 1] - self.offsets[side][batch])
    }

    /// Whether a query sees a key, by their positions.
    pub(super) fn sees(&self, place: i64, key: i64) -> bool {
        let Mask {
            left, right, chunk, ..
        } = self.setup.mask;
        let in_chunk = |chunk: usize| place.max(0) / chunk as i64 == key / chunk as i64;
        left.is_none_or(|left| key >= place - left as i64)
            && right.is_none_or(|right| key <= place + right as i64)
            && chunk.is_none_or(in_chunk)
    }

    pub(super) fn score(&self, product: f64, slope: f64, distance: i64) -> f64 {
        let score = product * self.scale();
        match self.setup.scores {
            Scores::Plain => score,
            Scores::Softcap(cap) => cap * (score / cap).tanh(),
            Scores::Alibi => score - slope * distance.abs() as f64,
        }
    }

    /// Calls with batch, head and token of every query.
    pub(super) fn each_query(&self, mut call: impl FnMut([usize; 3])) {
        for batch in 0..self.sizes.batch {
            for head in 0..self.sizes.heads {
                for token in 0..self.lengths(batch)[0] {
                    call([batch, head, token]);
                }
            }
        }
    }

    /// The keys that a query sees, with their weights in its output.
    fn attended(&self, [q, k]: [&[f64]; 2], [slopes, sinks]: [&[f64]; 2], at: [usize; 3]) -> Seen {
        let [batch, head, token] = at;
        let Sizes {
            heads,
            kv_heads,
            depths: [depth, _],
            ..
        } = self.sizes;
        let [queries, keys] = self.lengths(batch);
        let of_query = self.place(0, heads, depth, at);
        let query = &q[of_query..of_query + depth];
        let place = if self.setup.mask.from_first {
            token as i64
        } else {
            (token + keys) as i64 - queries as i64
        };
        let seen = (0..keys).filter(|&key| match self.setup.blocks {
            None => self.sees(place, key as i64),
            Some(kind) => match kind([batch, head, token / UNIT, key / UNIT]) {
                BlockKind::Hidden => false,
                BlockKind::Partial => self.sees(place, key as i64),
                BlockKind::Full => true,
            },
        });
        let keys: Vec<usize> = seen.collect();
        let product = |key: usize| {
            let row = self.place(1, kv_heads, depth, [batch, head * kv_heads / heads, key]);
            dot(query, &k[row..row + depth])
        };
        let slope = slopes.get(head).copied().unwrap_or(0.0);
        let scores: Vec<f64> = keys
            .iter()
            .map(|&key| self.score(product(key), slope, place - key as i64))
            .collect();
        let sink = sinks.get(head).copied().unwrap_or(f64::NEG_INFINITY);
        let max = scores.iter().copied().fold(sink, f64::max);
        let exponential = |score: f64| {
            if score > f64::NEG_INFINITY {
                (score - max).exp()
            } else {
                0.0
            }
        };
        let total = scores.iter().copied().map(exponential).sum::<f64>() + exponential(sink);
        let lse = if total > 0.0 {
            max + total.ln()
        } else {
            f64::NEG_INFINITY
        };
        let shares = scores.iter().map(|score| (score - lse).exp()).collect();
        Seen {
            keys,
            scores,
            shares,
            lse,
        }
    }

    /// What the weight of a key is multiplied by.
    fn kept(&self, [sequence, head, query]: [usize; 3], key: usize) -> f64 {
        let factor = |dropout: Dropout| dropout.factor([sequence, head, query, key]);
        self.setup.dropout.map_or(1.0, factor)
    }

    /// The output in f64 in the order of memory, and LSE.
    pub(super) fn reference(&self, [q, k, v]: [&[f64]; 3], factors: [&[f64]; 2]) -> [Vec<f64>; 2] {
        let Sizes {
            heads,
            kv_heads,
            depths: [_, columns],
            ..
        } = self.sizes;
        let (batches, tokens) = self.rows(0);
        let mut out = vec![0.0; batches * tokens * heads * columns];
        let mut lse = vec![0.0; batches * tokens * heads];
        self.each_query(|at| {
            let [batch, head, token] = at;
            let seen = self.attended([q, k], factors, at);
            let to = self.place(0, heads, columns, at);
            for (&share, &key) in seen.shares.iter().zip(&seen.keys) {
                let share = share * self.kept(at, key);
                let row = self.place(1, kv_heads, columns, [batch, head * kv_heads / heads, key]);
                add(&mut out[to..to + columns], share, &v[row..row + columns]);
            }
            let (in_batch, line) = if self.setup.is_ragged {
                (0, self.offsets[0][batch] + token)
            } else {
                (batch, token)
            };
            lse[(in_batch * heads + head) * tokens + line] = seen.lse;
        });
        [out, lse]
    }

    /// Gradients of Q, K and V for that of the output, in the order of memory.
    pub(super) fn gradients(
        &self,
        [q, k, v, dout]: [&[f64]; 4],
        factors: [&[f64]; 2],
    ) -> [Vec<f64>; 3] {
        let Sizes {
            heads,
            kv_heads,
            depths: [depth, columns],
            ..
        } = self.sizes;
        let mut dq = vec![0.0; q.len()];
        let [mut dk, mut dv] = [k, v].map(|x| vec![0.0; x.len()]);
        self.each_query(|at| {
            let [batch, head, _] = at;
            let seen = self.attended([q, k], factors, at);
            let of_query = self.place(0, heads, depth, at);
            let of_out = self.place(0, heads, columns, at);
            let query = &q[of_query..of_query + depth];
            let dout = &dout[of_out..of_out + columns];
            let row = |key, columns| {
                let row = self.place(1, kv_heads, columns, [batch, head * kv_heads / heads, key]);
                row..row + columns
            };
            let of_v = |&key: &usize| self.kept(at, key) * dot(dout, &v[row(key, columns)]);
            let dp: Vec<f64> = seen.keys.iter().map(of_v).collect();
            let delta = dot(&seen.shares, &dp);
            for (number, &key) in seen.keys.iter().enumerate() {
                let share = seen.shares[number];
                let ds = share * (dp[number] - delta) * self.slope(seen.scores[number]);
                add(&mut dv[row(key, columns)], share * self.kept(at, key), dout);
                add(&mut dk[row(key, depth)], ds, query);
                add(&mut dq[of_query..of_query + depth], ds, &k[row(key, depth)]);
            }
        });
        [dq, dk, dv]
    }

    /// The derivative of a score with respect to the product of query and key.
    fn slope(&self, score: f64) -> f64 {
        match self.setup.scores {
            Scores::Plain | Scores::Alibi => self.scale(),
            Scores::Softcap(cap) => self.scale() * (1.0 - (score / cap).powi(2)),
        }
    }
}

/// The keys that a query sees, their scores, and their weights in the output.
struct Seen {
    keys: Vec<usize>,
    scores: Vec<f64>,
    shares: Vec<f64>,
    lse: f64,
}

fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}

fn add(sums: &mut [f64], factor: f64, terms: &[f64]) {
    for (sum, term) in sums.iter_mut().zip(terms) {
        *sum += factor * term;
    }
}

/// Elements as f64.
pub(super) fn numbers<T: DeviceElement>(x: &Input<T>) -> Vec<f64> {
    x.host().iter().map(|x| x.number().to_f64()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pseudo-random numbers between -1 and 1.
    fn numbers(len: usize, seed: u64) -> Vec<f64> {
        let mut state = seed;
        let next = |_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 40) as f64 / f64::from(1 << 23) - 1.0
        };
        (0..len).map(next).collect()
    }

    /// The step of a central difference.
    const STEP: f64 = 1e-5;

    /// Central differences of `sum of out * dout` against the gradients, for every element of Q, K and V.
    fn check(setup: Setup, batch: usize, has_sinks: bool) {
        let sizes = Sizes {
            batch,
            heads: 4,
            kv_heads: 2,
            queries: 5,
            keys: 7,
            depths: [3, 2],
        };
        let attention = Attention::new(sizes, setup);
        let len = |side, heads, columns| attention.shape(side, heads, columns).iter().product();
        let mut qkv = [
            numbers(len(0, 4, 3), 1),
            numbers(len(1, 2, 3), 2),
            numbers(len(1, 2, 2), 3),
        ];
        let dout = numbers(len(0, 4, 2), 4);
        let slopes = [0.1, 0.2, 0.3, 0.4];
        let sinks = if has_sinks {
            vec![0.5, -0.5, 0.0, 1.0]
        } else {
            Vec::new()
        };
        let factors: [&[f64]; 2] = [&slopes, &sinks];
        let gradients = attention.gradients([&qkv[0], &qkv[1], &qkv[2], &dout], factors);
        for (side, gradient) in gradients.iter().enumerate() {
            for (at, found) in gradient.iter().enumerate() {
                let before = qkv[side][at];
                let [low, high] = [-STEP, STEP].map(|step| {
                    qkv[side][at] = before + step;
                    let out = &attention.reference([&qkv[0], &qkv[1], &qkv[2]], factors)[0];
                    dot(out, &dout)
                });
                qkv[side][at] = before;
                let difference = (high - low) / (2.0 * STEP);
                assert!(
                    (difference - found).abs() < 1e-7,
                    "{side}, {at}: {found}, by differences {difference}"
                );
            }
        }
    }

    #[test]
    fn gradients_are_what_finite_differences_give() {
        check(FULL, 2, false);
        check(
            Setup {
                scores: Scores::Softcap(0.7),
                ..CAUSAL
            },
            1,
            true,
        );
        let mask = Mask {
            left: Some(2),
            right: Some(1),
            ..FULL.mask
        };
        check(
            Setup {
                mask,
                scores: Scores::Alibi,
                ..WINDOW
            },
            2,
            false,
        );
        let dropout = Some(Dropout { rate: 0.4, seed: 1 });
        check(Setup { dropout, ..CAUSAL }, 2, true);
        let mask = Mask {
            chunk: Some(3),
            ..CAUSAL.mask
        };
        check(
            Setup {
                mask,
                is_ragged: true,
                ..FULL
            },
            4,
            false,
        );
    }
}
