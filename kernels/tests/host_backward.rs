//! Gradients as a program calls them, on the emulator.

#![allow(
    clippy::unwrap_used,
    reason = "what fails here ends the test at its line"
)]

use tilekit::prelude::*;
use tilekit_kernels::attention::{
    Attention, Differentiable, Dropout, Error, Gradients, Lengths, Modifier, Options, Place as At,
    Upstream,
};

/// Numbers without a pattern between -1 and 1.
fn numbers(len: usize, seed: u64) -> Vec<bf16> {
    let of = |at: usize| {
        let bits = (at as u64 + seed * 1_000_003).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let bits = (bits ^ (bits >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bf16::from_f32((bits >> 40) as f32 / (1 << 23) as f32 - 1.0)
    };
    (0..len).map(of).collect()
}

/// Heads on the host: queries, keys, depth.
struct Problem {
    heads: usize,
    kv_heads: usize,
    queries: usize,
    keys: usize,
    depth: usize,
}

impl Problem {
    fn tokens(&self, side: usize) -> [usize; 2] {
        [[self.heads, self.queries], [self.kv_heads, self.keys]][side]
    }

    /// Gradients of `[heads, tokens, depth]` in f64; `score(product)` gives a score and its derivative.
    fn gradients(
        &self,
        qkvd: [&[bf16]; 4],
        sees: impl Fn(usize, usize) -> bool,
        score: impl Fn(f64) -> (f64, f64),
    ) -> [Vec<f64>; 3] {
        self.gradients_of(qkvd, sees, |_, _, product| score(product))
    }

    /// Those of scores that depend on query and key.
    fn gradients_of(
        &self,
        [q, k, v, dout]: [&[bf16]; 4],
        sees: impl Fn(usize, usize) -> bool,
        score: impl Fn(usize, usize, f64) -> (f64, f64),
    ) -> [Vec<f64>; 3] {
        let depth = self.depth;
        let [q, k, v, dout] =
            [q, k, v, dout].map(|x| x.iter().map(|x| x.to_f64()).collect::<Vec<_>>());
        let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
        let [mut dq, mut dk, mut dv] = [&q, &k, &v].map(|x| vec![0.0; x.len()]);
        for row in 0..self.heads * self.queries {
            let (head, query) = (row / self.queries, row % self.queries);
            let base = head * self.kv_heads / self.heads * self.keys;
            let of_row = row * depth..(row + 1) * depth;
            let seen: Vec<usize> = (0..self.keys).filter(|&key| sees(query, key)).collect();
            let rows: Vec<_> = seen
                .iter()
                .map(|key| (base + key) * depth..(base + key + 1) * depth)
                .collect();
            let scores: Vec<(f64, f64)> = rows
                .iter()
                .zip(&seen)
                .map(|(at, &key)| score(query, key, dot(&q[of_row.clone()], &k[at.clone()])))
                .collect();
            let max = scores.iter().map(|s| s.0).fold(f64::NEG_INFINITY, f64::max);
            let total: f64 = scores.iter().map(|s| (s.0 - max).exp()).sum();
            let p: Vec<f64> = scores.iter().map(|s| (s.0 - max).exp() / total).collect();
            let dp: Vec<f64> = rows
                .iter()
                .map(|at| dot(&dout[of_row.clone()], &v[at.clone()]))
                .collect();
            let delta = dot(&p, &dp);
            for (at, row) in rows.iter().enumerate() {
                let ds = p[at] * (dp[at] - delta) * scores[at].1;
                for column in 0..depth {
                    dv[row.start + column] += p[at] * dout[of_row.start + column];
                    dk[row.start + column] += ds * q[of_row.start + column];
                    dq[of_row.start + column] += ds * k[row.start + column];
                }
            }
        }
        [dq, dk, dv]
    }
}

#[track_caller]
fn near(found: &[bf16], wanted: &[f64], what: &str) {
    assert_eq!(found.len(), wanted.len(), "{what}");
    for (at, (found, wanted)) in found.iter().zip(wanted).enumerate() {
        let found = found.to_f64();
        assert!(
            (found - wanted).abs() <= 1e-2 + 1e-2 * wanted.abs(),
            "{what}[{at}]: found {found}, expected {wanted}"
        );
    }
}

/// Forward and backward of dense tensors of one batch.
#[track_caller]
fn check(
    problem: &Problem,
    options: &Options<'_>,
    sees: impl Fn(usize, usize) -> bool,
    score: impl Fn(f64) -> (f64, f64),
) {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let attention = Attention::new(&device);
    let depth = problem.depth;
    let len = |side: usize| problem.tokens(side).iter().product::<usize>() * depth;
    let host = [0, 1, 1, 0].map(len);
    let host = [0, 1, 2, 3].map(|at| numbers(host[at], at as u64));
    let [q, k, v, dout] = [0, 1, 2, 3].map(|at| Buffer::from_slice(&device, &host[at]).unwrap());
    let shape = |side: usize| {
        let [heads, tokens] = problem.tokens(side);
        [1, heads, tokens, depth]
    };
    let (q, dout) = (q.view(shape(0)), dout.view(shape(0)));
    let (k, v) = (k.view(shape(1)), v.view(shape(1)));
    let forward = attention.forward(&stream, [&q, &k, &v], options).unwrap();
    let upstream = Upstream {
        out: &forward.out.view(shape(0)),
        lse: &forward.lse,
        dout: &dout,
    };
    // Twice: the workspace of the stream is as it was.
    for _ in 0..2 {
        let Gradients { dq, dk, dv } = attention
            .backward(&stream, [&q, &k, &v], upstream, options)
            .unwrap();
        stream.synchronize().unwrap();
        let wanted = problem.gradients([&host[0], &host[1], &host[2], &host[3]], &sees, &score);
        near(&dq.to_vec().unwrap(), &wanted[0], "dq");
        near(&dk.to_vec().unwrap(), &wanted[1], "dk");
        near(&dv.to_vec().unwrap(), &wanted[2], "dv");
    }
}

fn scaled(depth: usize) -> impl Fn(f64) -> (f64, f64) {
    let scale = 1.0 / (depth as f64).sqrt();
    move |product| (product * scale, scale)
}

#[test]
fn heads_of_a_group_add_to_one_gradient() {
    let problem = Problem {
        heads: 4,
        kv_heads: 2,
        queries: 65,
        keys: 70,
        depth: 64,
    };
    let options = Options {
        causal: true,
        ..Options::default()
    };
    check(
        &problem,
        &options,
        |query, key| key <= query + 5,
        scaled(64),
    );
}

#[test]
fn all_depths_have_gradients() {
    for (depth, deterministic) in [(96, false), (96, true), (256, false), (256, true)] {
        let problem = Problem {
            heads: 2,
            kv_heads: 1,
            queries: 66,
            keys: 70,
            depth,
        };
        let options = Options {
            causal: true,
            deterministic,
            ..Options::default()
        };
        check(
            &problem,
            &options,
            |query, key| key <= query + 4,
            scaled(depth),
        );
    }
}

/// Equal scores and values of 1: each output is the share of the keys that are kept, divided by one minus the rate. Eight query heads
/// share one of keys, which other calls pack into one tile.
#[test]
fn weights_are_dropped_at_the_rate_and_by_the_seed() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let attention = Attention::new(&device);
    let x = Buffer::from_slice(&device, &vec![bf16::ONE; 8 * 40 * 64]).unwrap();
    let kv = Buffer::from_slice(&device, &vec![bf16::ONE; 256 * 64]).unwrap();
    let (q, kv) = (x.view([1, 8, 40, 64]), kv.view([1, 1, 256, 64]));
    let shares = |rate: f32, seed: u64| -> Vec<f32> {
        let options = Options {
            dropout: Some(Dropout { rate, seed }),
            ..Options::default()
        };
        let forward = attention
            .forward(&stream, [&q, &kv, &kv], &options)
            .unwrap();
        stream.synchronize().unwrap();
        let out = forward.out.to_vec().unwrap();
        out.chunks(64).map(|row| row[0].to_f32()).collect()
    };
    let found = shares(0.25, 3);
    let mean = found.iter().sum::<f32>() / found.len() as f32;
    // 81920 weights: the mean of their factors deviates by 0.002.
    assert!((mean - 1.0).abs() < 0.01, "{mean}");
    let spread = found.iter().map(|x| (x - mean).powi(2)).sum::<f32>() / found.len() as f32;
    // Each row is the mean of 256 factors of variance 1/3.
    assert!((spread * 768.0 - 1.0).abs() < 0.3, "{spread}");
    assert_eq!(found, shares(0.25, 3));
    assert_ne!(found, shares(0.25, 4));
    assert_eq!(shares(0.0, 3), vec![1.0; found.len()]);
}

#[test]
fn a_rate_of_one_is_refused() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let x = Buffer::<bf16>::zeros(&device, 8 * 64).unwrap();
    let x = x.view([1, 1, 8, 64]);
    let options = Options {
        dropout: Some(Dropout { rate: 1.0, seed: 0 }),
        ..Options::default()
    };
    let result = Attention::new(&device).forward(&stream, [&x, &x, &x], &options);
    let Err(error) = result else {
        panic!("not refused");
    };
    assert_eq!(
        error.to_string(),
        "attention: `options.dropout`: found a rate of 1; expected 0 or more, and less than 1"
    );
}

/// dV of dO = 1 is the sum over queries of the weights that the forward pass had: the sum of all of it is that of all outputs.
#[test]
fn both_passes_drop_the_same() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let attention = Attention::new(&device);
    let q = Buffer::from_slice(&device, &numbers(2 * 70 * 128, 1)).unwrap();
    let k = Buffer::from_slice(&device, &numbers(90 * 128, 2)).unwrap();
    let ones = Buffer::from_slice(&device, &vec![bf16::ONE; 2 * 90 * 128]).unwrap();
    let (q, k, v) = (
        q.view([1, 2, 70, 128]),
        k.view([1, 1, 90, 128]),
        ones.view([1, 1, 90, 128]),
    );
    let dout = ones.view([1, 2, 70, 128]);
    let options = Options {
        causal: true,
        dropout: Some(Dropout {
            rate: 0.5,
            seed: 11,
        }),
        ..Options::default()
    };
    let forward = attention.forward(&stream, [&q, &k, &v], &options).unwrap();
    let upstream = Upstream {
        out: &forward.out.view([1, 2, 70, 128]),
        lse: &forward.lse,
        dout: &dout,
    };
    let found = attention
        .backward(&stream, [&q, &k, &v], upstream, &options)
        .unwrap();
    stream.synchronize().unwrap();
    let sum = |x: &Buffer<bf16>| -> f64 {
        let x = x.to_vec().unwrap();
        x.iter().step_by(128).map(|x| x.to_f64()).sum()
    };
    let [of_out, of_dv] = [sum(&forward.out), sum(&found.dv)];
    assert!((of_out / of_dv - 1.0).abs() < 2e-3, "{of_out} {of_dv}");
}

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
    let forward = attention.forward(&stream, [&q, &k, &v], &options).unwrap();
    let upstream = Upstream {
        out: &forward.out.view([1, 1, 40, 64]),
        lse: &forward.lse,
        dout: &dout,
    };
    let found = attention
        .backward(&stream, [&q, &k, &v], upstream, &options)
        .unwrap();
    stream.synchronize().unwrap();
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

#[test]
fn the_slope_of_a_cap_counts() {
    let problem = Problem {
        heads: 1,
        kv_heads: 1,
        queries: 20,
        keys: 20,
        depth: 64,
    };
    let options = Options {
        softcap: Some(0.5),
        ..Options::default()
    };
    check(
        &problem,
        &options,
        |_, _| true,
        |product| {
            let tanh = (product / 8.0 / 0.5).tanh();
            (0.5 * tanh, (1.0 - tanh * tanh) / 8.0)
        },
    );
}

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

#[test]
fn no_keys_give_a_gradient_of_zeros() {
    let problem = Problem {
        heads: 2,
        kv_heads: 1,
        queries: 5,
        keys: 0,
        depth: 64,
    };
    check(&problem, &Options::default(), |_, _| true, scaled(64));
}

/// Sequences of several lengths, one of which has no queries and one no keys: what is outside of a pair has a gradient of zeros.
#[test]
fn sequences_of_several_lengths_keep_to_themselves() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let attention = Attention::new(&device);
    let (queries, keys) = ([0, 40, 40, 45, 52], [0, 30, 80, 80, 90]);
    let problem = Problem {
        heads: 1,
        kv_heads: 1,
        queries: 52,
        keys: 90,
        depth: 64,
    };
    let host = [(52, 0), (90, 1), (90, 2), (52, 3)].map(|(rows, seed)| numbers(rows * 64, seed));
    let [q, k, v, dout] = [0, 1, 2, 3].map(|at| Buffer::from_slice(&device, &host[at]).unwrap());
    let (q, dout) = (q.view([1, 1, 52, 64]), dout.view([1, 1, 52, 64]));
    let (k, v) = (k.view([1, 1, 90, 64]), v.view([1, 1, 90, 64]));
    let [query_offsets, key_offsets] =
        [&queries, &keys].map(|offsets| Buffer::from_slice(&device, offsets).unwrap());
    let options = Options {
        lengths: Some(Lengths {
            query_offsets: &query_offsets,
            key_offsets: &key_offsets,
            longest: 40,
            longest_keys: 50,
        }),
        ..Options::default()
    };
    let forward = attention.forward(&stream, [&q, &k, &v], &options).unwrap();
    let upstream = Upstream {
        out: &forward.out.view([1, 1, 52, 64]),
        lse: &forward.lse,
        dout: &dout,
    };
    let found = attention
        .backward(&stream, [&q, &k, &v], upstream, &options)
        .unwrap();
    stream.synchronize().unwrap();
    let sequence = |offsets: &[i32; 5], token: usize| {
        (1..4).filter(|&at| offsets[at] as usize <= token).count()
    };
    let sees = |query: usize, key: usize| sequence(&queries, query) == sequence(&keys, key);
    let wanted = problem.gradients([&host[0], &host[1], &host[2], &host[3]], sees, scaled(64));
    near(&found.dq.to_vec().unwrap(), &wanted[0], "dq");
    near(&found.dk.to_vec().unwrap(), &wanted[1], "dk");
    near(&found.dv.to_vec().unwrap(), &wanted[2], "dv");
    assert!(wanted[1][30 * 64..80 * 64].iter().all(|&x| x == 0.0));
}

/// What one tensor of a call is changed to.
#[derive(Clone, Copy)]
struct Place {
    shape: [usize; 4],
    strides: [usize; 4],
    offset: usize,
}

/// Q, K, V, the output and four gradients, interleaved in one buffer, of which one is changed.
#[track_caller]
fn refused(changed: usize, change: impl Fn(&mut Place), expected: &str) {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let buffer = Buffer::<bf16>::zeros(&device, 1 << 16).unwrap();
    let lse = Buffer::<f32>::zeros(&device, 16).unwrap();
    let views: Vec<_> = (0..8)
        .map(|at| {
            let mut place = Place {
                shape: [1, 2, 8, 64],
                strides: [8 * 8 * 2 * 64, 64, 8 * 2 * 64, 1],
                offset: at * 2 * 64,
            };
            if at == changed {
                change(&mut place);
            }
            buffer
                .view(place.shape)
                .with_strides(place.strides)
                .with_offset(place.offset)
        })
        .collect();
    let upstream = Upstream {
        out: &views[3],
        lse: &lse,
        dout: &views[4],
    };
    let result = Attention::new(&device).backward_into(
        &stream,
        [&views[0], &views[1], &views[2]],
        upstream,
        [&views[5], &views[6], &views[7]],
        &Options::default(),
    );
    match result {
        Err(error @ Error::Argument { .. }) => assert_eq!(error.to_string(), expected),
        Err(error) => panic!("refused otherwise: {error}"),
        Ok(()) => assert_eq!("taken", expected),
    }
}

#[test]
fn places_that_do_not_fit_are_named() {
    refused(8, |_| (), "taken");
    refused(
        4,
        |dout| dout.shape = [1, 2, 7, 64],
        "attention: `dout`: found shape [1, 2, 7, 64]; expected [1, 2, 8, 64]",
    );
    refused(
        6,
        |dk| dk.shape = [1, 1, 8, 64],
        "attention: `dk`: found shape [1, 1, 8, 64]; expected [1, 2, 8, 64]",
    );
    refused(
        5,
        |dq| dq.offset += 1,
        "attention: `dq`: found an offset of 641 elements; expected a multiple of 8, 16 bytes",
    );
    refused(
        7,
        |dv| dv.strides[2] = 68,
        "attention: `dv`: found a stride of 68 elements from one of the tokens to the next; expected a multiple of 8, 16 bytes",
    );
    refused(
        5,
        |dq| dq.offset = 0,
        "attention: `dq`: found elements of `q`; expected memory of its own",
    );
    refused(
        7,
        |dv| dv.offset -= 64,
        "attention: `dv`: found elements of `dk`; expected memory of its own",
    );
    refused(
        6,
        |dk| dk.strides[1] = 0,
        "attention: `dk`: found strides [8192, 0, 1024, 1]; expected strides by which no two elements are in the same place",
    );
}

#[test]
fn depths_that_are_not_built_are_named() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let buffer = Buffer::<bf16>::zeros(&device, 8 * 80).unwrap();
    let lse = Buffer::<f32>::zeros(&device, 8).unwrap();
    let x = buffer.view([1, 1, 8, 80]);
    let upstream = Upstream {
        out: &x,
        lse: &lse,
        dout: &x,
    };
    let result =
        Attention::new(&device).backward(&stream, [&x, &x, &x], upstream, &Options::default());
    let Err(error) = result else {
        panic!("not refused");
    };
    assert_eq!(
        error.to_string(),
        "attention: `q`: found depth 80 with values of 80; expected one that is built (depth/values): 64/64, 96/96, 128/128, 192/128, 256/256"
    );
}
