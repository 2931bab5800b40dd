//! Gradients whose terms are added in a fixed order.

use tilekit::prelude::*;
use tilekit_kernels::attention::{Attention, Options};

use crate::problem::{Problem, check, differentiated, numbers, scaled};

#[test]
fn gradients_in_a_fixed_order_are_the_same() {
    let problem = Problem {
        heads: 1,
        kv_heads: 1,
        queries: 70,
        keys: 300,
        depth: 128,
    };
    let options = Options {
        deterministic: true,
        window: [Some(100), None],
        ..Options::default()
    };
    check(
        &problem,
        &options,
        |query, key| key + 100 >= query + 230,
        scaled(128),
    );
}

/// dQ of 40 queries and 500 keys, whose four blocks of keys add to it in the order that a seed of the emulator makes of them. All scores are
/// 0. The terms of the first two blocks are large and cancel, so that those of the others round by what was added before.
fn dq_by_order(seed: u64) -> Vec<u16> {
    const BLOCK: usize = 128 * 64;
    let device = Device::emulator_with_seed(seed);
    let stream = Stream::new(&device).unwrap();
    let attention = Attention::new(&device);
    let (mut keys, mut values) = (numbers(500 * 64, 1), numbers(500 * 64, 2));
    for (at, key) in keys.iter_mut().enumerate() {
        let factor = if at < 2 * BLOCK { 4096.0 } else { 1.0 / 4096.0 };
        *key = bf16::from_f32(key.to_f32() * factor);
    }
    keys.copy_within(..BLOCK, BLOCK);
    values.copy_within(..BLOCK, BLOCK);
    for key in &mut keys[..BLOCK] {
        *key = -*key;
    }
    let host = [vec![bf16::ZERO; 40 * 64], keys, values, numbers(40 * 64, 3)];
    let buffers = [0, 1, 2, 3].map(|at| Buffer::from_slice(&device, &host[at]).unwrap());
    let view = |at: usize, tokens: usize| buffers[at].view([1, 1, tokens, 64]);
    let (q, k, v, dout) = (view(0, 40), view(1, 500), view(2, 500), view(3, 40));
    let options = Options {
        deterministic: true,
        ..Options::default()
    };
    let (_, found) = differentiated(
        (&attention, &stream),
        [&q, &k, &v],
        (&dout, [1, 1, 40, 64]),
        &options,
    );
    found
        .dq
        .to_vec()
        .unwrap()
        .into_iter()
        .map(bf16::to_bits)
        .collect()
}

#[test]
fn a_fixed_order_gives_the_same_bits() {
    let all = [0, 1, 2, 3].map(dq_by_order);
    assert!(all.iter().all(|found| *found == all[0]));
}
