//! Gradients of scores that a program modifies.

use tilekit::prelude::*;
use tilekit_kernels::attention::{
    Attention, Differentiable, Modifier, Options, Place as At, Upstream,
};

use crate::problem::{Problem, near, numbers};

/// Adds a bias by the distance of query and key, which it loads for each score.
#[derive(Clone, Copy)]
struct Biased;

impl Modifier for Biased {
    #[device]
    fn scores(scores: Tensor<f32>, at: At) -> Tensor<f32> {
        // Scores of a tile reach past the last query and key.
        let distance = (at.query - at.key).abs().minimum(7);
        scores * at.scale + at.data.at(distance).load()
    }
}

impl Differentiable for Biased {
    fn slopes(_: Tensor<f32>) -> Option<Tensor<f32>> {
        None
    }
}

#[test]
fn numbers_loaded_for_each_score_fit_the_registers_at_depth_64() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let attention = Attention::new(&device);
    let (tokens, depth) = (8, 64);
    let problem = Problem {
        heads: 1,
        kv_heads: 1,
        queries: tokens,
        keys: tokens,
        depth,
    };
    let host = [0, 1, 2, 3].map(|seed| numbers(tokens * depth, seed));
    let buffers = [0, 1, 2, 3].map(|at| Buffer::from_slice(&device, &host[at]).unwrap());
    let results = [(); 4].map(|()| Buffer::<bf16>::new(&device, tokens * depth).unwrap());
    let lse = Buffer::new(&device, tokens).unwrap();
    let biases: Vec<f32> = (0..tokens).map(|at| at as f32 / 4.0).collect();
    let data = Buffer::from_slice(&device, &biases).unwrap();
    let [q, k, v, dout] = buffers.each_ref().map(|x| x.view([1, 1, tokens, depth]));
    let [out, dq, dk, dv] = results.each_ref().map(|x| x.view([1, 1, tokens, depth]));
    let (qkv, options, data) = ([&q, &k, &v], Options::default(), Some(&data));
    attention
        .forward_modified::<bf16, Biased>(&stream, qkv, &out, &lse, &options, data)
        .unwrap();
    let upstream = Upstream {
        out: &out,
        lse: &lse,
        dout: &dout,
    };
    let gradients = [&dq, &dk, &dv];
    attention
        .backward_modified::<bf16, Biased>(&stream, qkv, upstream, gradients, &options, data)
        .unwrap();
    stream.synchronize().unwrap();
    let score = |query: usize, key: usize, product: f64| {
        let bias = f64::from(biases[query.abs_diff(key)]);
        (product / 8.0 + bias, 1.0 / 8.0)
    };
    let host = host.each_ref().map(Vec::as_slice);
    let wanted = problem.gradients_of(host, |_, _| true, score);
    for ((found, wanted), what) in results[1..].iter().zip(&wanted).zip(["dq", "dk", "dv"]) {
        near(&found.to_vec().unwrap(), wanted, what);
    }
}
