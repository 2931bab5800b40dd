//! Attention of 16 heads of depth 128, forward and backward, causal.

use tilekit::prelude::*;
use tilekit_kernels::attention::{Attention, Options, Upstream};

use super::normal::normal;
use super::timing::{Times, sets, time};

const HEADS: usize = 16;
const DEPTH: usize = 128;
/// Sequences, and tokens of each.
const ROWS: [[usize; 2]; 3] = [[1, 512], [4, 2048], [1, 8192]];

struct Set {
    /// Q, K, V, dO, the output and the gradients.
    tensors: [Buffer<bf16>; 8],
    lse: Buffer<f32>,
    shape: [usize; 4],
}

pub(crate) fn run(device: &Device, filter: &str) {
    let attention = Attention::new(device);
    for row in ROWS {
        for is_forward in [true, false] {
            run_row(device, &attention, filter, (row, is_forward));
        }
    }
}

fn run_row(
    device: &Device,
    attention: &Attention,
    filter: &str,
    ([batch, tokens], is_forward): ([usize; 2], bool),
) {
    let direction = if is_forward { "forward" } else { "backward" };
    let name = format!("{direction} {batch}x{tokens}");
    if !name.contains(filter) {
        return;
    }
    let stream = Stream::new(device).unwrap();
    let shape = [batch, HEADS, tokens, DEPTH];
    let bytes = 8 * shape.iter().product::<usize>();
    let sets: Vec<Set> = (0..sets(bytes))
        .map(|number| Set::new(device, shape, 4 * number as u64))
        .collect();
    for set in &sets {
        // Gradients read what the output was.
        set.call(attention, &stream, true);
        set.call(attention, &stream, is_forward);
    }
    stream.synchronize().unwrap();
    sets[0].check();
    let Times {
        single,
        back_to_back,
        host,
    } = time(device, &stream, &sets, |set, stream| {
        set.call(attention, stream, is_forward);
    });
    println!(
        "{name:24} single {single:8.1} us  back to back {back_to_back:8.1} us  host {host:5.1} us"
    );
}

impl Set {
    fn new(device: &Device, shape: [usize; 4], seed: u64) -> Set {
        let elements: usize = shape.iter().product();
        let tensors = std::array::from_fn(|at| match at {
            0..4 => Buffer::from_slice(device, &normal(elements, seed + at as u64)).unwrap(),
            _ => Buffer::new(device, elements).unwrap(),
        });
        Set {
            tensors,
            lse: Buffer::new(device, elements / DEPTH).unwrap(),
            shape,
        }
    }

    fn call(&self, attention: &Attention, stream: &Stream, is_forward: bool) {
        let views = self
            .tensors
            .each_ref()
            .map(|tensor| tensor.view(self.shape));
        let [q, k, v, dout, out, dq, dk, dv] = &views;
        let options = Options {
            causal: true,
            ..Options::default()
        };
        let inputs = [q, k, v];
        let made = if is_forward {
            attention.forward_into(stream, inputs, out, &self.lse, &options)
        } else {
            let upstream = Upstream {
                out,
                lse: &self.lse,
                dout,
            };
            attention.backward_into(stream, inputs, upstream, [dq, dk, dv], &options)
        };
        made.unwrap();
    }

    /// The output of the last query of the last head, against f64.
    fn check(&self) {
        let [q, k, v, _, out, ..] = self.tensors.each_ref().map(|t| t.to_vec().unwrap());
        let tokens = self.shape[2];
        let last = q.len() - DEPTH;
        let first = q.len() - tokens * DEPTH;
        let scores: Vec<f64> = (0..tokens)
            .map(|token| {
                let key = &k[first + token * DEPTH..][..DEPTH];
                let products = key.iter().zip(&q[last..]);
                let dot: f64 = products.map(|(k, q)| k.to_f64() * q.to_f64()).sum();
                (dot / (DEPTH as f64).sqrt()).exp()
            })
            .collect();
        let total: f64 = scores.iter().sum();
        for column in 0..DEPTH {
            let value = |token: usize| v[first + token * DEPTH + column].to_f64();
            let terms = scores.iter().enumerate();
            let sum: f64 = terms.map(|(token, weight)| weight * value(token)).sum();
            let (expected, found) = (sum / total, out[last + column].to_f64());
            assert!(
                (expected - found).abs() < 5e-3 + 1e-2 * expected.abs(),
                "column {column}: {found}, expected {expected}"
            );
        }
    }
}
