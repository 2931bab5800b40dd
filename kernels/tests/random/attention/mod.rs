//! Attention and its gradients, of random sizes, places, masks and options.

mod call;
mod reference;

use tilekit::prelude::*;
use tilekit_kernels::attention::{Attention, Lengths, Operand, Options, Upstream};

use crate::calls::{device, each};
use crate::numbers::{Number, fractions};
use crate::tensor::Tensor;
use call::{Call, Scores};
use reference::{Factors, Wanted, near, near_in_rows};

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

    /// The call forward and backward.
    fn run(&self, attention: &Attention, device: &Device) {
        let of = |numbers: &[i32]| Buffer::from_slice(device, numbers).unwrap();
        let offsets = [0, 1].map(|side| of(&self.call.offsets(side)));
        let factors = Factors::new(&self.call);
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
            softcap: match self.call.scores {
                Scores::Softcap(cap) => Some(cap),
                Scores::Plain | Scores::Alibi => None,
            },
            alibi: matches!(self.call.scores, Scores::Alibi).then_some(&slopes),
            sinks: self.call.has_sinks.then_some(&sinks),
            lengths: self.call.is_ragged.then_some(lengths),
            deterministic: self.call.deterministic,
            ..Options::default()
        };
        let stream = Stream::new(device).unwrap();
        let [q, k, v, dout] = self.inputs.each_ref().map(|tensor| tensor.view(0));
        let out = self.out.view(0);
        let [dq, dk, dv] = self.gradients.each_ref().map(|tensor| tensor.view(0));
        attention
            .forward_into(&stream, [&q, &k, &v], &out, &self.lse, &options)
            .unwrap();
        let upstream = Upstream {
            out: &out,
            lse: &self.lse,
            dout: &dout,
        };
        attention
            .backward_into(&stream, [&q, &k, &v], upstream, [&dq, &dk, &dv], &options)
            .unwrap();
        stream.synchronize().unwrap();
    }
}

fn check<T: Operand + Number>(count: u32) {
    let device = device();
    let attention = Attention::new(&device);
    each(count, &Call::any(), |call| {
        let problem = Problem::<T>::new(&device, call);
        let before = problem.gradients.each_ref().map(Tensor::numbers);
        let untouched = problem.out.numbers();
        problem.run(&attention, &device);
        let wanted = Wanted::of(
            &problem.call,
            &problem.inputs,
            &problem.out,
            &problem.gradients,
        );
        let cap = match problem.call.scores {
            Scores::Softcap(cap) => f64::from(cap) / 2048.0,
            Scores::Plain | Scores::Alibi => 0.0,
        };
        near(
            "out",
            &problem.out.numbers(),
            &wanted.out,
            &untouched,
            [4e-3 + 2.0 * cap, 8e-3],
        );
        let lse = problem.lse.to_vec().unwrap();
        let lse: Vec<f64> = lse.into_iter().map(f64::from).collect();
        near("lse", &lse, &wanted.lse, &[], [1e-4 + cap, 1e-5]);
        // Where dP and its weighted mean are nearly the same, what is left of them is what the output was rounded by.
        let [_, columns] = problem.call.depths;
        let of_delta = T::ROUNDING * problem.call.scale() * (columns as f64).sqrt();
        let of_delta = [of_delta, of_delta, 0.0];
        for (at, name) in ["dq", "dk", "dv"].into_iter().enumerate() {
            let found = problem.gradients[at].numbers();
            near_in_rows(
                name,
                &found,
                &wanted.gradients[at],
                &before[at],
                [1.0 + 20.0 * cap, of_delta[at]],
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
