//! Attention on the host in f64, which cases compare with.

use tilekit::prelude::*;
use tilekit::reference::{Matrix, add, product};

use super::blocks::lists::{BlockKind, UNIT};
use super::dropout::Dropout;
use super::plan::{Mask, Sizes};
use super::setup::{Scores, Setup};

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

    /// Calls with some queries of a head after others.
    fn each_block(&self, mut call: impl FnMut(Block)) {
        for (batch, head) in (0..self.sizes.batch)
            .flat_map(|batch| (0..self.sizes.heads).map(move |head| (batch, head)))
        {
            let [queries, keys] = self.lengths(batch);
            for first in (0..queries).step_by(QUERIES) {
                call(Block {
                    batch,
                    head,
                    first,
                    queries: QUERIES.min(queries - first),
                    keys,
                });
            }
        }
    }

    /// Where the rows of a block begin in a tensor of queries or keys with this many columns, and elements from one to the next.
    fn first_row(&self, side: usize, columns: usize, of: Block) -> (usize, usize) {
        let Sizes {
            heads, kv_heads, ..
        } = self.sizes;
        let (heads, head, token) = match side {
            0 => (heads, of.head, of.first),
            _ => (kv_heads, of.head * kv_heads / heads, 0),
        };
        let first = self.place(side, heads, columns, [of.batch, head, token]);
        (first, self.strides(side, heads, columns)[2])
    }

    /// The rows of a block.
    fn rows_of<'x>(&self, x: &'x [f64], (side, columns): (usize, usize), of: Block) -> Matrix<'x> {
        let (first, stride) = self.first_row(side, columns, of);
        // A sequence without keys may begin behind the last one.
        Matrix::rows(&x[first.min(x.len())..], stride)
    }

    /// What each query of a block sees.
    fn attended(&self, [q, k]: [&[f64]; 2], [slopes, sinks]: [&[f64]; 2], of: Block) -> Vec<Seen> {
        let depth = self.sizes.depths[0];
        let (q, k) = (
            self.rows_of(q, (0, depth), of),
            self.rows_of(k, (1, depth), of),
        );
        let products = product([of.queries, of.keys, depth], q, k.transposed());
        let slope = slopes.get(of.head).copied().unwrap_or(0.0);
        let sink = sinks.get(of.head).copied().unwrap_or(f64::NEG_INFINITY);
        let of_query = |number: usize| {
            let at = of.query(number);
            let place = self.position(at);
            let seen: Vec<usize> = (0..of.keys).filter(|&key| self.attends(at, key)).collect();
            let score = |&key: &usize| {
                let product = products[number * of.keys + key];
                self.score(product, slope, place - key as i64)
            };
            let scores: Vec<f64> = seen.iter().map(score).collect();
            Seen::new(seen, scores, sink)
        };
        (0..of.queries).map(of_query).collect()
    }

    /// The position of a query among the keys.
    fn position(&self, [batch, _, token]: [usize; 3]) -> i64 {
        let [queries, keys] = self.lengths(batch);
        if self.setup.mask.from_first {
            token as i64
        } else {
            (token + keys) as i64 - queries as i64
        }
    }

    /// Whether a query has a part of this key.
    fn attends(&self, at: [usize; 3], key: usize) -> bool {
        let [batch, head, token] = at;
        let sees = || self.sees(self.position(at), key as i64);
        match self.setup.blocks {
            None => sees(),
            Some(kind) => match kind([batch, head, token / UNIT, key / UNIT]) {
                BlockKind::Hidden => false,
                BlockKind::Partial => sees(),
                BlockKind::Full => true,
            },
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
            depths: [_, columns],
            ..
        } = self.sizes;
        let (batches, tokens) = self.rows(0);
        let mut out = vec![0.0; batches * tokens * heads * columns];
        let mut lse = vec![0.0; batches * tokens * heads];
        self.each_block(|of| {
            let seen = self.attended([q, k], factors, of);
            let mut weights = vec![0.0; of.queries * of.keys];
            self.each_pair(&seen, of, |at, pair| weights[at] = pair.share * pair.kept);
            let size = [of.queries, columns, of.keys];
            let v = self.rows_of(v, (1, columns), of);
            let rows = product(size, Matrix::rows(&weights, of.keys), v);
            self.add_rows(&mut out, (0, columns), of, &rows);
            let (in_batch, before) = if self.setup.is_ragged {
                (0, self.offsets[0][of.batch])
            } else {
                (of.batch, 0)
            };
            let first = (in_batch * heads + of.head) * tokens + before + of.first;
            for (lse, seen) in lse[first..].iter_mut().zip(&seen) {
                *lse = seen.lse;
            }
        });
        [out, lse]
    }

    /// Gradients of Q, K and V for that of the output, in the order of memory.
    pub(super) fn gradients(
        &self,
        [q, k, v, dout]: [&[f64]; 4],
        factors: [&[f64]; 2],
    ) -> [Vec<f64>; 3] {
        let [depth, columns] = self.sizes.depths;
        let [mut dq, mut dk, mut dv] = [q, k, v].map(|x| vec![0.0; x.len()]);
        self.each_block(|of| {
            let Block { queries, keys, .. } = of;
            let of_dout = self.rows_of(dout, (0, columns), of);
            let of_v = self.rows_of(v, (1, columns), of);
            let dp = product([queries, keys, columns], of_dout, of_v.transposed());
            let seen = self.attended([q, k], factors, of);
            let [weights, ds] = self.differentiated(&seen, of, &dp);
            let [weights, ds] = [&weights, &ds].map(|x| Matrix::rows(x, keys));
            let rows = product([keys, columns, queries], weights.transposed(), of_dout);
            self.add_rows(&mut dv, (1, columns), of, &rows);
            let of_q = self.rows_of(q, (0, depth), of);
            let rows = product([keys, depth, queries], ds.transposed(), of_q);
            self.add_rows(&mut dk, (1, depth), of, &rows);
            let rows = product([queries, depth, keys], ds, self.rows_of(k, (1, depth), of));
            self.add_rows(&mut dq, (0, depth), of, &rows);
        });
        [dq, dk, dv]
    }

    /// The weights of keys in the outputs of a block, and the gradient of the products of queries and keys, by the gradient `dp` of these weights.
    fn differentiated(&self, seen: &[Seen], of: Block, dp: &[f64]) -> [Vec<f64>; 2] {
        let mut deltas = vec![0.0; of.queries];
        self.each_pair(seen, of, |at, pair| {
            deltas[at / of.keys] += pair.share * pair.kept * dp[at];
        });
        let [mut weights, mut ds] = [(); 2].map(|()| vec![0.0; of.queries * of.keys]);
        self.each_pair(seen, of, |at, pair| {
            weights[at] = pair.share * pair.kept;
            let of_share = pair.kept * dp[at] - deltas[at / of.keys];
            ds[at] = pair.share * of_share * self.slope(pair.score);
        });
        [weights, ds]
    }

    /// Calls with the place of each query and key that it sees, in a matrix of a block's queries and keys.
    fn each_pair(&self, seen: &[Seen], of: Block, mut call: impl FnMut(usize, Pair)) {
        for (number, seen) in seen.iter().enumerate() {
            for (place, &key) in seen.keys.iter().enumerate() {
                let pair = Pair {
                    share: seen.shares[place],
                    score: seen.scores[place],
                    kept: self.kept(of.query(number), key),
                };
                call(number * of.keys + key, pair);
            }
        }
    }

    /// Adds the rows of a block to a tensor of queries or keys.
    fn add_rows(&self, to: &mut [f64], (side, columns): (usize, usize), of: Block, rows: &[f64]) {
        let (first, stride) = self.first_row(side, columns, of);
        for (number, row) in rows.chunks(columns).enumerate() {
            add(&mut to[first + number * stride..], 1.0, row);
        }
    }

    /// The derivative of a score with respect to the product of query and key.
    fn slope(&self, score: f64) -> f64 {
        match self.setup.scores {
            Scores::Plain | Scores::Alibi => self.scale(),
            Scores::Softcap(cap) => self.scale() * (1.0 - (score / cap).powi(2)),
        }
    }
}

/// The most queries whose scores are in memory at once: sequences may have tens of thousands of keys.
const QUERIES: usize = 256;

/// Queries of a head, and all its keys.
#[derive(Clone, Copy)]
struct Block {
    batch: usize,
    head: usize,
    first: usize,
    queries: usize,
    keys: usize,
}

impl Block {
    /// Batch, head and token of a query.
    fn query(self, number: usize) -> [usize; 3] {
        [self.batch, self.head, self.first + number]
    }
}

/// The keys that a query sees, their scores, and their weights in the output.
struct Seen {
    keys: Vec<usize>,
    scores: Vec<f64>,
    shares: Vec<f64>,
    lse: f64,
}

impl Seen {
    fn new(keys: Vec<usize>, scores: Vec<f64>, sink: f64) -> Seen {
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
}

/// A query and a key that it sees.
struct Pair {
    share: f64,
    score: f64,
    /// What dropout multiplies the share by.
    kept: f64,
}

/// Elements as f64.
pub(super) fn numbers<T: DeviceElement>(x: &Input<T>) -> Vec<f64> {
    x.host().iter().map(|x| x.number().to_f64()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attention::setup::{CAUSAL, FULL, WINDOW};
    use tilekit::reference::dot;

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
