//! Attention and its gradients in f64.

use super::call::{Call, Scores};
use crate::numbers::{Number, fractions};
use crate::tensor::Tensor;

/// Numbers that heads have.
pub(super) struct Factors {
    pub(super) slopes: Vec<f32>,
    pub(super) sinks: Vec<f32>,
}

impl Factors {
    pub(super) fn new(call: &Call) -> Factors {
        let slopes = fractions::<f32>(call.heads(), 11);
        Factors {
            slopes: slopes.into_iter().map(|slope| slope.abs() / 8.0).collect(),
            sinks: fractions(call.heads(), 12),
        }
    }
}

/// Results by their places in buffers; none where no result is stored.
pub(super) struct Wanted {
    pub(super) out: Vec<Option<f64>>,
    pub(super) lse: Vec<Option<f64>>,
    /// Of Q, K and V, row by row: where it begins, and its elements.
    pub(super) gradients: [Vec<(usize, Vec<f64>)>; 3],
}

/// Rows of a tensor, by batch, head and token.
struct Rows<'a, T> {
    tensor: &'a Tensor<T, 4>,
    numbers: Vec<f64>,
}

impl<T: Number> Rows<'_, T> {
    fn row(&self, [batch, head, token]: [usize; 3]) -> &[f64] {
        let first = self.tensor.at([batch, head, token, 0]);
        &self.numbers[first..first + self.tensor.shape[3]]
    }
}

/// A query's keys: their numbers, weights, and derivatives of scores by products.
struct Seen {
    keys: Vec<usize>,
    shares: Vec<f64>,
    slopes: Vec<f64>,
    lse: f64,
}

fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}

fn add(to: &mut [f64], factor: f64, x: &[f64]) {
    to.iter_mut().zip(x).for_each(|(to, x)| *to += factor * x);
}

/// The softmax of scores by a product of each key, at a position among so many keys.
fn attend(
    call: &Call,
    factors: &Factors,
    head: usize,
    (place, keys): (i64, usize),
    product: impl Fn(usize) -> f64,
) -> Seen {
    let scale = call.scale();
    let keys: Vec<usize> = (0..keys)
        .filter(|&key| call.mask.sees(place, key as i64))
        .collect();
    let score = |&key: &usize| {
        let score = product(key) * scale;
        match call.scores {
            Scores::Plain => (score, scale),
            Scores::Softcap(cap) => {
                let cap = f64::from(cap);
                let share = (score / cap).tanh();
                (cap * share, scale * (1.0 - share * share))
            }
            Scores::Alibi => {
                let distance = (place - key as i64).abs() as f64;
                (score - f64::from(factors.slopes[head]) * distance, scale)
            }
        }
    };
    let (scores, slopes): (Vec<f64>, Vec<f64>) = keys.iter().map(score).unzip();
    let sink = call.has_sinks.then(|| f64::from(factors.sinks[head]));
    let all = || scores.iter().copied().chain(sink);
    let max = all().fold(f64::NEG_INFINITY, f64::max);
    let lse = if max == f64::NEG_INFINITY {
        max
    } else {
        max + all().map(|score| (score - max).exp()).sum::<f64>().ln()
    };
    let shares = scores.iter().map(|score| (score - lse).exp()).collect();
    Seen {
        keys,
        shares,
        slopes,
        lse,
    }
}

impl Wanted {
    pub(super) fn of<T: Number>(
        call: &Call,
        inputs: &[Tensor<T, 4>; 4],
        out: &Tensor<T, 4>,
        gradients: &[Tensor<T, 4>; 3],
    ) -> Wanted {
        let [q, k, v, dout] = inputs.each_ref().map(|tensor| Rows {
            tensor,
            numbers: tensor.numbers(),
        });
        let factors = Factors::new(call);
        let [batches, heads, tokens, _] = out.shape;
        let mut lse = vec![None; batches * heads * tokens];
        let mut of_out = vec![None; out.buffer.len()];
        let mut sums = gradients
            .each_ref()
            .map(|tensor| vec![0.0; tensor.buffer.len()]);
        for sequence in 0..call.batches {
            // Where the sequence is in tensors: its batch, and the first token of queries and of keys.
            let offsets = [0, 1].map(|side| call.offsets(side));
            let lengths = offsets
                .each_ref()
                .map(|offsets| (offsets[sequence + 1] - offsets[sequence]) as usize);
            let firsts = offsets.each_ref().map(|offsets| {
                if call.is_ragged {
                    offsets[sequence] as usize
                } else {
                    0
                }
            });
            let batch = if call.is_ragged { 0 } else { sequence };
            for (head, query) in
                (0..heads).flat_map(|head| (0..lengths[0]).map(move |query| (head, query)))
            {
                let last = if call.mask.from_first {
                    0
                } else {
                    lengths[1] as i64 - lengths[0] as i64
                };
                let at = [batch, head, firsts[0] + query];
                let key = |key: usize| [batch, head / call.group, firsts[1] + key];
                let seen = attend(
                    call,
                    &factors,
                    head,
                    (query as i64 + last, lengths[1]),
                    |at_key| dot(q.row(at), k.row(key(at_key))),
                );
                let mut row = vec![0.0; call.depths[1]];
                let mut products = Vec::new();
                for (&share, &at_key) in seen.shares.iter().zip(&seen.keys) {
                    add(&mut row, share, v.row(key(at_key)));
                    products.push(dot(dout.row(at), v.row(key(at_key))));
                }
                let delta = dot(&seen.shares, &products);
                for (number, &at_key) in seen.keys.iter().enumerate() {
                    let share = seen.shares[number];
                    let slope = share * (products[number] - delta) * seen.slopes[number];
                    let mut add_to =
                        |which: usize, [batch, head, token]: [usize; 3], factor: f64, x: &[f64]| {
                            let first = gradients[which].at([batch, head, token, 0]);
                            add(&mut sums[which][first..first + x.len()], factor, x);
                        };
                    add_to(0, at, slope, k.row(key(at_key)));
                    add_to(1, key(at_key), slope, q.row(at));
                    add_to(2, key(at_key), share, dout.row(at));
                }
                let first = out.at([at[0], at[1], at[2], 0]);
                row.iter()
                    .enumerate()
                    .for_each(|(column, x)| of_out[first + column] = Some(*x));
                lse[(at[0] * heads + head) * tokens + at[2]] = Some(seen.lse);
            }
        }
        let rows = |which: usize| {
            let tensor = &gradients[which];
            let [batches, heads, tokens, depth] = tensor.shape;
            let rows = (0..batches * heads * tokens).map(|row| {
                tensor.at([row / tokens / heads, row / tokens % heads, row % tokens, 0])
            });
            rows.map(|first| (first, sums[which][first..first + depth].to_vec()))
                .collect()
        };
        Wanted {
            out: of_out,
            lse,
            gradients: [rows(0), rows(1), rows(2)],
        }
    }
}

/// Compares elements of a buffer within an absolute and a relative error, and those where no result is stored with what they were.
pub(super) fn near(
    name: &str,
    found: &[f64],
    wanted: &[Option<f64>],
    before: &[f64],
    [absolute, relative]: [f64; 2],
) {
    for (at, found) in found.iter().enumerate() {
        let Some(want) = wanted[at] else {
            assert!(
                before.get(at) == Some(found),
                "{name}[{at}], where no result is stored, is {found}"
            );
            continue;
        };
        let is_same = found.is_infinite() && found.total_cmp(&want).is_eq();
        let allowed = absolute + relative * want.abs();
        assert!(
            is_same || (found - want).abs() <= allowed,
            "{name}[{at}]: found {found}, expected {want} within {allowed}"
        );
    }
}

/// Compares rows within some hundredths, times `factor`, of their largest element and of what is usual in all rows, and `absolute`, and what is between rows with what it was.
pub(super) fn near_in_rows(
    name: &str,
    found: &[f64],
    wanted: &[(usize, Vec<f64>)],
    before: &[f64],
    [factor, absolute]: [f64; 2],
) {
    let elements: usize = wanted.iter().map(|(_, row)| row.len()).sum();
    let squares: f64 = wanted.iter().flat_map(|(_, row)| row).map(|x| x * x).sum();
    let usual = (squares / elements.max(1) as f64).sqrt();
    let mut all = before.to_vec();
    let mut allowed = vec![0.0; before.len()];
    for (first, row) in wanted {
        let largest = row.iter().fold(0.0_f64, |largest, x| largest.max(x.abs()));
        let of_row = factor * (2e-2 * largest + 3e-2 * usual + 1e-4) + absolute;
        all[*first..first + row.len()].copy_from_slice(row);
        allowed[*first..first + row.len()].fill(of_row);
    }
    for (at, found) in found.iter().enumerate() {
        let (want, allowed) = (all[at], allowed[at]);
        assert!(
            (found - want).abs() <= allowed,
            "{name}[{at}]: found {found}, expected {want} within {allowed}"
        );
    }
}
