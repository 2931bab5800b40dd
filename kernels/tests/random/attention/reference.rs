//! Attention and its gradients in f64.

use tilekit::reference::{add, dot};

use super::call::Call;
use super::query::{Factors, Query, Rows};
use crate::numbers::Number;
use crate::tensor::Tensor;

/// Results by their places in buffers; none where no result is stored.
pub(super) struct Wanted {
    pub(super) out: Vec<Option<f64>>,
    pub(super) lse: Vec<Option<f64>>,
    /// Of Q, K and V, row by row: where it begins, and its elements.
    pub(super) gradients: [Vec<(usize, Vec<f64>)>; 3],
}

impl Wanted {
    pub(super) fn of<T: Number>(
        call: &Call,
        inputs: &[Tensor<T, 4>; 4],
        out: &Tensor<T, 4>,
        gradients: &[Tensor<T, 4>; 3],
    ) -> Wanted {
        let [q, k, v, dout] = inputs.each_ref().map(Rows::of);
        let factors = Factors::of(call.heads());
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
            for (head, number) in
                (0..heads).flat_map(|head| (0..lengths[0]).map(move |query| (head, query)))
            {
                let last = if call.mask.from_first {
                    0
                } else {
                    lengths[1] as i64 - lengths[0] as i64
                };
                let at = [batch, head, firsts[0] + number];
                let key = |key: usize| [batch, head / call.group, firsts[1] + key];
                let query = Query {
                    place: number as i64 + last,
                    mask: call.mask,
                    scale: call.scale(),
                    scores: call.scores,
                    slope: f64::from(factors.slopes[head]),
                    sink: call.has_sinks.then(|| f64::from(factors.sinks[head])),
                };
                let cell = |key: usize| [sequence, head, number, key];
                let sees = |&key: &usize| call.sees(cell(key), query.place);
                let keys = (0..lengths[1]).filter(sees).collect();
                let seen = query.attend_to(keys, |at_key| dot(q.row(at), k.row(key(at_key))));
                let kept = |at_key: usize| call.beside.factor(cell(at_key));
                let mut row = vec![0.0; call.depths[1]];
                for (&share, &at_key) in seen.shares.iter().zip(&seen.keys) {
                    add(&mut row, share * kept(at_key), v.row(key(at_key)));
                }
                let of_dout =
                    |&at_key: &usize| kept(at_key) * dot(dout.row(at), v.row(key(at_key)));
                let products: Vec<f64> = seen.keys.iter().map(of_dout).collect();
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
                    add_to(2, key(at_key), share * kept(at_key), dout.row(at));
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
