//! Attention of 8-bit floats.

use proptest::prelude::*;
use tilekit::prelude::*;
use tilekit::reference::dot;
use tilekit_kernels::attention::{Attention, Factors, Options, Result};

use super::mask::{Mask, Scores, scale};
use super::query::{Query, Rows};
use crate::broken::{Broken, Views, refused};
use crate::calls::{device, each, extent, is_on_gpu};
use crate::near::{Within, exact, near};
use crate::numbers::{Number, factors, fractions};
use crate::tensor::{MemoryLayout, Tensor, rows};

/// A call.
#[derive(Clone, Debug)]
struct Call {
    batches: usize,
    kv_heads: usize,
    /// Query heads for each head of keys and values.
    group: usize,
    tokens: usize,
    depth: usize,
    causal: bool,
    scale: Option<f32>,
    /// Of Q, K, V and the output.
    places: [MemoryLayout<4>; 4],
}

impl Call {
    fn any() -> impl Strategy<Value = Call> {
        let [most, products] = if is_on_gpu() {
            [4000, 1 << 26]
        } else {
            [400, 1 << 22]
        };
        let depth = prop_oneof![Just(64_usize), Just(128), Just(256)];
        let group = prop_oneof![2 => Just(1_usize), 1 => 2..9_usize];
        let sizes = (1..4_usize, 1..4_usize, group, extent(most), depth);
        let places = [rows(16), rows(16), rows(16), rows(8)];
        let call = (sizes, any::<bool>(), scale(), places);
        let call = call.prop_map(|(sizes, causal, scale, places)| {
            let (batches, kv_heads, group, tokens, depth) = sizes;
            Call {
                batches,
                kv_heads,
                group,
                tokens: tokens.max(1),
                depth,
                causal,
                scale,
                places,
            }
        });
        call.prop_filter("too long on the host", move |call| {
            let heads = call.batches * call.kv_heads * call.group;
            heads * call.tokens * call.tokens * call.depth <= products
        })
    }

    fn heads(&self, at: usize) -> usize {
        if at == 1 || at == 2 {
            self.kv_heads
        } else {
            self.kv_heads * self.group
        }
    }

    fn shape(&self, at: usize) -> [usize; 4] {
        [self.batches, self.heads(at), self.tokens, self.depth]
    }

    /// The factors of Q, K or V, one for each head of each batch.
    fn factors(&self, at: usize) -> Vec<f32> {
        factors(self.batches * self.heads(at), 5 + at as u64)
    }
}

/// The tensors of a call.
struct Problem {
    call: Call,
    inputs: [Tensor<E4m3, 4>; 3],
    out: Tensor<bf16, 4>,
    lse: Buffer<f32>,
}

impl Problem {
    fn new(device: &Device, call: Call) -> Problem {
        let tensor = |at: usize| {
            Tensor::new(device, call.shape(at), &call.places[at], |len| {
                fractions(len, at as u64)
            })
        };
        let rows = call.shape(0)[..3].iter().product();
        Problem {
            inputs: [0, 1, 2].map(tensor),
            out: Tensor::new(device, call.shape(3), &call.places[3], |len| {
                fractions(len, 9)
            }),
            lse: Buffer::from_slice(device, &vec![f32::NAN; rows]).unwrap(),
            call,
        }
    }

    /// With a view of Q, K, V or the output broken.
    fn run(&self, attention: &Attention, device: &Device, broken: Option<Broken>) -> Result<()> {
        let views = Views {
            broken,
            count: 4,
            results: 3..4,
            is_fixed: |_, _| true,
        };
        let of = |at: usize| Buffer::from_slice(device, &self.call.factors(at)).unwrap();
        let [of_q, of_k, of_v] = [0, 1, 2].map(of);
        let factors = Factors {
            q: &of_q,
            k: &of_k,
            v: &of_v,
        };
        let options = Options {
            causal: self.call.causal,
            scale: self.call.scale,
            ..Options::default()
        };
        let [q, k, v] = [0, 1, 2].map(|at| views.view(at, &self.inputs[at].view(0)));
        let out = views.view(3, &self.out.view(0));
        let stream = Stream::new(device).unwrap();
        attention.forward_fp8_into(&stream, [&q, &k, &v], &factors, &out, &self.lse, &options)?;
        stream.synchronize()?;
        Ok(())
    }

    /// The output by places in its buffer, with the errors that weights of 8 bits give it, and LSE.
    fn wanted(&self) -> (Within, Vec<Option<f64>>) {
        let of = |at: usize| {
            let factors = self.call.factors(at);
            let heads = self.call.heads(at);
            let factor =
                move |[batch, head, _]: [usize; 3]| f64::from(factors[batch * heads + head]);
            Rows::of(&self.inputs[at]).scaled(factor)
        };
        let [q, k, v] = [0, 1, 2].map(of);
        let [batches, heads, tokens, depth] = self.call.shape(0);
        let (mut out, mut lse) = (vec![None; self.out.buffer.len()], Vec::new());
        for row in 0..batches * heads * tokens {
            let at = [row / tokens / heads, row / tokens % heads, row % tokens];
            let query = Query {
                place: at[2] as i64,
                mask: Mask {
                    causal: self.call.causal,
                    ..Mask::NONE
                },
                scale: self
                    .call
                    .scale
                    .map_or(1.0 / (depth as f64).sqrt(), f64::from),
                scores: Scores::Plain,
                slope: 0.0,
                sink: None,
            };
            let key = |key: usize| [at[0], at[1] / self.call.group, key];
            let seen = query.attend(tokens, |at_key| dot(q.row(at), k.row(key(at_key))));
            let sums = seen.sum(depth, |at_key| v.row(key(at_key)));
            let first = self.out.at([at[0], at[1], at[2], 0]);
            for (column, sum) in sums.into_iter().enumerate() {
                let terms = seen.shares.iter().zip(&seen.keys);
                let term =
                    |(share, &at_key): (&f64, &usize)| (share * v.row(key(at_key))[column]).powi(2);
                let spread = terms.map(term).sum::<f64>().sqrt();
                out[first + column] = Some((sum, spread / 5.0 + sum.abs() / 64.0 + 1e-3));
            }
            lse.push(Some(seen.lse));
        }
        (out, lse)
    }
}

#[test]
fn of_e4m3() {
    let device = device();
    let attention = Attention::new(&device);
    each(8, &Call::any(), |call| {
        let problem = Problem::new(&device, call);
        let before = problem.out.numbers();
        problem.run(&attention, &device, None).unwrap();
        let (out, lse) = problem.wanted();
        exact("out", &problem.out.numbers(), &out, &before, bf16::ROUNDING);
        let found = problem.lse.to_vec().unwrap();
        let found: Vec<f64> = found.into_iter().map(f64::from).collect();
        near("lse", &found, &lse, &[], [5e-3, 1e-3]);
    });
}

#[test]
fn broken() {
    let device = device();
    let attention = Attention::new(&device);
    each(20, &(Call::any(), Broken::any()), |(call, broken)| {
        let problem = Problem::new(&device, call);
        let before = problem.out.numbers();
        let result = problem.run(&attention, &device, Some(broken));
        refused(result, &[[before, problem.out.numbers()]]);
    });
}
