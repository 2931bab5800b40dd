//! Attention and its gradients, of random sizes, places, masks and options.

mod beside;
mod call;
pub(crate) mod mask;
mod modified;
mod narrow;
pub(crate) mod query;
mod reference;

use tilekit::prelude::*;
use tilekit_kernels::attention::{
    Attention, Differentiable, Lengths, Operand, Options, Plain, Result, Upstream,
};

use crate::broken::{Broken, Views, refused};
use crate::calls::{device, each};
use crate::near::{near, near_in_rows};
use crate::numbers::{Number, fractions};
use crate::tensor::Tensor;
use call::Call;
use mask::Scores;
use modified::Biased;
use query::Factors;
use reference::Wanted;

/// The tensors of a call.
struct Problem<T> {
    call: Call,
    /// Q, K, V, and the gradient of the output.
    inputs: [Tensor<T, 4>; 4],
    out: Tensor<T, 4>,
    lse: Buffer<f32>,
    gradients: [Tensor<T, 4>; 3],
}

impl<T: Operand + Number> Problem<T> {
    fn new(device: &Device, call: Call) -> Problem<T> {
        let tensor = |at: usize, seed: u64| {
            Tensor::new(device, call.shape(at), &call.places[at], |len| {
                fractions(len, seed)
            })
        };
        let [batches, heads, tokens, _] = call.shape(0);
        let lse = Buffer::from_slice(device, &vec![f32::NAN; batches * heads * tokens]).unwrap();
        Problem {
            inputs: [tensor(0, 1), tensor(1, 2), tensor(2, 3), tensor(3, 4)],
            out: tensor(3, 5),
            gradients: [tensor(0, 6), tensor(1, 7), tensor(2, 8)],
            lse,
            call,
        }
    }

    /// The call forward and backward, or one of both with a view or a list broken: Q, K, V, the output, and backward dO and the gradients; then the LSE, slopes, sinks and offsets.
    fn run(&self, attention: &Attention, device: &Device, broken: Option<Broken>) -> Result<()> {
        match self.call.scores {
            Scores::Biased(true) => self.run_with::<Biased<true>>(attention, device, broken),
            Scores::Biased(false) => self.run_with::<Biased<false>>(attention, device, broken),
            _ => self.run_with::<Plain>(attention, device, broken),
        }
    }

    /// By a modifier, where the scores have one.
    fn run_with<M: Differentiable>(
        &self,
        attention: &Attention,
        device: &Device,
        broken: Option<Broken>,
    ) -> Result<()> {
        // Offsets are no list of a call without them.
        let lists = if self.call.is_ragged { 5 } else { 3 };
        let views = Views {
            broken,
            count: 8 + lists,
            results: 5..8,
            is_fixed: |_, _| true,
        };
        let of_forward = Views {
            count: 4 + lists,
            results: 3..4,
            ..views.clone()
        };
        let is_forward = broken.is_none_or(Broken::is_first);
        let (of_lists, first) = if is_forward {
            (&of_forward, 4)
        } else {
            (&views, 8)
        };
        let resized = |list: usize, len: usize| of_lists.length(first + list, len, &[len]);
        let of = |list: usize, mut numbers: Vec<f32>| {
            numbers.resize(resized(list, numbers.len()), 0.0);
            Buffer::from_slice(device, &numbers).unwrap()
        };
        let offsets = [0, 1].map(|side| {
            let mut offsets = self.call.offsets(side);
            if self.call.is_ragged {
                offsets.resize(resized(3 + side, offsets.len()), 0);
            }
            Buffer::from_slice(device, &offsets).unwrap()
        });
        let factors = Factors::of(self.call.heads());
        let biases = Buffer::from_slice(device, &factors.biases()).unwrap();
        let (slopes, sinks) = (of(1, factors.slopes), of(2, factors.sinks));
        let has = |list: usize, has: bool| has || of_lists.is_broken(first + list);
        let lengths = Lengths {
            query_offsets: &offsets[0],
            key_offsets: &offsets[1],
            longest: self.call.longest(0),
            longest_keys: self.call.longest(1),
        };
        let Call { mask, scores, .. } = self.call;
        let options = Options {
            causal: mask.causal,
            window: mask.window,
            chunk: mask.chunk,
            from_first: mask.from_first,
            scale: self.call.scale,
            softcap: scores.softcap(),
            alibi: has(1, matches!(scores, Scores::Alibi)).then_some(&slopes),
            sinks: has(2, self.call.has_sinks).then_some(&sinks),
            lengths: self.call.is_ragged.then_some(lengths),
            deterministic: self.call.deterministic,
            dropout: self.call.beside.dropout(),
        };
        let data = Some(&biases).filter(|_| matches!(scores, Scores::Biased(_)));
        let blocks = self.call.beside.blocks().map(|blocks| {
            let lists = [self.call.batches, self.call.heads()];
            blocks.mask(device, lists, self.call.tokens)
        });
        let short = of_lists
            .is_broken(first)
            .then(|| of(0, vec![0.0; self.lse.len()]));
        let lse = short.as_ref().unwrap_or(&self.lse);
        let stream = Stream::new(device).unwrap();
        let [q, k, v, dout] = self.inputs.each_ref().map(|tensor| tensor.view(0));
        let out = self.out.view(0);
        let [dq, dk, dv] = self.gradients.each_ref().map(|tensor| tensor.view(0));
        if is_forward {
            let all = [&q, &k, &v, &out];
            let [q, k, v, out] = [0, 1, 2, 3].map(|at| of_forward.view(at, all[at]));
            let qkv = [&q, &k, &v];
            match (&blocks, data) {
                (Some(mask), _) => {
                    attention.forward_blocks::<_, M>(&stream, qkv, &out, lse, mask, &options, data)
                }
                (None, Some(_)) => {
                    attention.forward_modified::<_, M>(&stream, qkv, &out, lse, &options, data)
                }
                (None, None) => attention.forward_into(&stream, qkv, &out, lse, &options),
            }?;
        }
        let all = [q, k, v, out, dout, dq, dk, dv];
        let mut all = all
            .iter()
            .enumerate()
            .map(|(at, view)| views.view(at, view));
        let [q, k, v, out, dout, dq, dk, dv] = std::array::from_fn(|_| all.next().unwrap());
        let (out, dout) = (&out, &dout);
        let upstream = Upstream { out, lse, dout };
        let (qkv, gradients) = ([&q, &k, &v], [&dq, &dk, &dv]);
        match (&blocks, data) {
            (Some(mask), _) => attention
                .backward_blocks::<_, M>(&stream, qkv, upstream, gradients, mask, &options, data),
            (None, Some(_)) => attention
                .backward_modified::<_, M>(&stream, qkv, upstream, gradients, &options, data),
            (None, None) => attention.backward_into(&stream, qkv, upstream, gradients, &options),
        }?;
        stream.synchronize()?;
        Ok(())
    }
}

fn check<T: Operand + Number>(count: u32) {
    let device = device();
    let attention = Attention::new(&device);
    each(count, &Call::any(), |call| {
        let problem = Problem::<T>::new(&device, call);
        let before = problem.gradients.each_ref().map(Tensor::numbers);
        let untouched = problem.out.numbers();
        problem.run(&attention, &device, None).unwrap();
        let wanted = Wanted::of(
            &problem.call,
            &problem.inputs,
            &problem.out,
            &problem.gradients,
        );
        let cap = problem.call.scores.error();
        let kept = problem.call.beside.kept();
        near(
            "out",
            &problem.out.numbers(),
            &wanted.out,
            &untouched,
            [kept * (4e-3 + 2.0 * cap), kept * 8e-3],
        );
        let lse = problem.lse.to_vec().unwrap();
        let lse: Vec<f64> = lse.into_iter().map(f64::from).collect();
        near("lse", &lse, &wanted.lse, &[], [1e-4 + cap, 1e-5]);
        // Where dP and its weighted mean are nearly the same, what is left of them is what the output was rounded by.
        let [_, columns] = problem.call.depths;
        let of_delta = T::ROUNDING * problem.call.scale() * (columns as f64).sqrt();
        // A key has that of all queries that see it: where keys are few, of many.
        let [queries, keys] = problem.call.tokens.map(|tokens| tokens as f64);
        let of_key = (queries * problem.call.group as f64 / keys.max(1.0)).sqrt();
        let of_delta = [of_delta, of_delta * of_key.max(1.0), 0.0];
        for (at, name) in ["dq", "dk", "dv"].into_iter().enumerate() {
            let found = problem.gradients[at].numbers();
            near_in_rows(
                name,
                &found,
                &wanted.gradients[at],
                &before[at],
                [kept * (1.0 + 20.0 * cap), kept * of_delta[at]],
            );
        }
    });
}

#[test]
fn of_bf16() {
    check::<bf16>(6);
}

#[test]
fn of_f16() {
    check::<f16>(4);
}

#[test]
fn broken() {
    let device = device();
    let attention = Attention::new(&device);
    each(60, &(Call::any(), Broken::any()), |(call, broken)| {
        let problem = Problem::<bf16>::new(&device, call);
        let results = || {
            let [dq, dk, dv] = problem.gradients.each_ref().map(Tensor::numbers);
            [problem.out.numbers(), dq, dk, dv]
        };
        let before = results();
        let result = problem.run(&attention, &device, Some(broken));
        let pairs: Vec<_> = before
            .into_iter()
            .zip(results())
            .map(|(before, after)| [before, after])
            .collect();
        refused(result, &pairs);
    });
}
