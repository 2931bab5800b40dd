//! Attention and its gradients, of random sizes, places, masks and options.

mod beside;
mod call;
pub(crate) mod mask;
mod narrow;
pub(crate) mod query;
mod reference;

use tilekit::prelude::*;
use tilekit_kernels::attention::{Attention, Lengths, Operand, Options, Plain, Result, Upstream};

use crate::broken::{Broken, Views, refused};
use crate::calls::{device, each};
use crate::near::{near, near_in_rows};
use crate::numbers::{Number, fractions};
use crate::tensor::Tensor;
use call::Call;
use mask::Scores;
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

    /// The call forward and backward, or one of both with a view broken: Q, K, V, the output, and backward dO and the gradients.
    fn run(&self, attention: &Attention, device: &Device, broken: Option<Broken>) -> Result<()> {
        let views = Views {
            broken,
            count: 8,
            results: 5..8,
            is_fixed: |_, _| true,
        };
        let of_forward = Views {
            count: 4,
            results: 3..4,
            ..views.clone()
        };
        let of = |numbers: &[i32]| Buffer::from_slice(device, numbers).unwrap();
        let offsets = [0, 1].map(|side| of(&self.call.offsets(side)));
        let factors = Factors::of(self.call.heads());
        let numbers = |numbers: &[f32]| Buffer::from_slice(device, numbers).unwrap();
        let (slopes, sinks) = (numbers(&factors.slopes), numbers(&factors.sinks));
        let longest = [0, 1].map(|side| self.call.longest(side));
        let lengths = Lengths {
            query_offsets: &offsets[0],
            key_offsets: &offsets[1],
            longest: longest[0],
            longest_keys: longest[1],
        };
        let mask = self.call.mask;
        let options = Options {
            causal: mask.causal,
            window: mask.window,
            chunk: mask.chunk,
            from_first: mask.from_first,
            scale: self.call.scale,
            softcap: self.call.scores.softcap(),
            alibi: matches!(self.call.scores, Scores::Alibi).then_some(&slopes),
            sinks: self.call.has_sinks.then_some(&sinks),
            lengths: self.call.is_ragged.then_some(lengths),
            deterministic: self.call.deterministic,
            dropout: self.call.beside.dropout(),
        };
        let blocks = self.call.beside.blocks().map(|blocks| {
            let lists = [self.call.batches, self.call.heads()];
            blocks.mask(device, lists, self.call.tokens)
        });
        let stream = Stream::new(device).unwrap();
        let [q, k, v, dout] = self.inputs.each_ref().map(|tensor| tensor.view(0));
        let out = self.out.view(0);
        let [dq, dk, dv] = self.gradients.each_ref().map(|tensor| tensor.view(0));
        if broken.is_none_or(Broken::is_first) {
            let all = [&q, &k, &v, &out];
            let [q, k, v, out] = [0, 1, 2, 3].map(|at| of_forward.view(at, all[at]));
            let (qkv, lse) = ([&q, &k, &v], &self.lse);
            match &blocks {
                None => attention.forward_into(&stream, qkv, &out, lse, &options),
                Some(mask) => attention
                    .forward_blocks::<_, Plain>(&stream, qkv, &out, lse, mask, &options, None),
            }?;
        }
        let all = [q, k, v, out, dout, dq, dk, dv];
        let mut all = all
            .iter()
            .enumerate()
            .map(|(at, view)| views.view(at, view));
        let [q, k, v, out, dout, dq, dk, dv] = std::array::from_fn(|_| all.next().unwrap());
        let upstream = Upstream {
            out: &out,
            lse: &self.lse,
            dout: &dout,
        };
        let (qkv, gradients) = ([&q, &k, &v], [&dq, &dk, &dv]);
        match &blocks {
            None => attention.backward_into(&stream, qkv, upstream, gradients, &options),
            Some(mask) => attention.backward_blocks::<_, Plain>(
                &stream, qkv, upstream, gradients, mask, &options, None,
            ),
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
