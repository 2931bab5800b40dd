//! Block-sparse masks as a program calls them, on the emulator.

#![allow(
    clippy::unwrap_used,
    reason = "what fails here ends the test at its line"
)]

use tilekit::prelude::*;
use tilekit::reference::{add, dot};
use tilekit_kernels::attention::{
    Attention, BlockKind, BlockLists, BlockMask, BlockShape, Differentiable, Dropped, Error,
    Modifier, Options, Place, Plain, Upstream,
};

const DEPTH: usize = 64;

/// A query sees the keys whose distance is even.
#[derive(Clone, Copy)]
struct Even;

impl Modifier for Even {
    const MASKS: bool = true;

    fn scores(scores: Tensor<f32>, at: Place) -> Tensor<f32> {
        scores * at.scale
    }

    #[device]
    fn sees(at: Place) -> Tensor<bool> {
        (at.query - at.key) % 2 == 0
    }
}

impl Differentiable for Even {
    fn slopes(_: Tensor<f32>) -> Option<Tensor<f32>> {
        None
    }
}

/// Numbers that repeat after no tensor's extent.
fn numbers(len: usize, seed: usize) -> Vec<bf16> {
    let of = |at: usize| ((at * 37 + seed * 101) % 211) as f32 / 105.0 - 1.0;
    (0..len).map(|at| bf16::from_f32(of(at))).collect()
}

/// Two heads of 300 queries and keys, in blocks of 128 queries and 256 keys: the first head's mask of lists, tokens outside of heads in memory. Some queries see nothing.
#[test]
fn full_blocks_are_seen_whole_and_partial_ones_by_the_modifier() {
    const TOKENS: usize = 300;
    const HEADS: usize = 2;
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let host = [1, 2, 3].map(|seed| numbers(TOKENS * HEADS * DEPTH, seed));
    let buffers = host
        .each_ref()
        .map(|of| Buffer::from_slice(&device, of).unwrap());
    let strides = [TOKENS * HEADS * DEPTH, DEPTH, HEADS * DEPTH, 1];
    let shape = [1, HEADS, TOKENS, DEPTH];
    let [q, k, v] = buffers
        .each_ref()
        .map(|of| of.view(shape).with_strides(strides));
    let shape_of_mask = BlockShape {
        batch: 1,
        heads: HEADS,
        tokens: [TOKENS; 2],
        block: [128, 256],
    };
    // Head 0: both partial; full and partial; none. Head 1: the last is full, and the first; partial alone; full alone.
    let partial = BlockLists {
        starts: &[0, 2, 3, 3, 3, 4, 4],
        blocks: &[1, 0, 1, 1],
    };
    let full = BlockLists {
        starts: &[0, 0, 1, 1, 3, 3, 4],
        blocks: &[0, 1, 0, 0],
    };
    let mask = BlockMask::new(&device, shape_of_mask, partial, full).unwrap();
    let kinds = {
        use BlockKind::{Full, Hidden, Partial};
        [
            [[Partial, Partial], [Full, Partial], [Hidden, Hidden]],
            [[Full, Full], [Hidden, Partial], [Full, Hidden]],
        ]
    };
    let out = Buffer::<bf16>::zeros(&device, TOKENS * HEADS * DEPTH).unwrap();
    let lse = Buffer::<f32>::zeros(&device, TOKENS * HEADS).unwrap();
    let to = out.view(shape).with_strides(strides);
    let options = Options::default();
    Attention::new(&device)
        .forward_blocks::<_, Even>(&stream, [&q, &k, &v], &to, &lse, &mask, &options, None)
        .unwrap();
    stream.synchronize().unwrap();
    let (out, lse) = (out.to_vec().unwrap(), lse.to_vec().unwrap());
    let row = |of: &[bf16], head: usize, token: usize| -> Vec<f64> {
        let row = of[(token * HEADS + head) * DEPTH..][..DEPTH].iter();
        row.map(|x| x.to_f64()).collect()
    };
    for head in 0..HEADS {
        for query in 0..TOKENS {
            let asked = row(&host[0], head, query);
            let sees = |key: &usize| match kinds[head][query / 128][key / 256] {
                BlockKind::Hidden => false,
                BlockKind::Partial => query.abs_diff(*key) % 2 == 0,
                BlockKind::Full => true,
            };
            let seen: Vec<usize> = (0..TOKENS).filter(sees).collect();
            let power = |&key: &usize| {
                let key = row(&host[1], head, key);
                (dot(&key, &asked) / 8.0).exp()
            };
            let powers: Vec<f64> = seen.iter().map(power).collect();
            let total: f64 = powers.iter().sum();
            let mut wanted = vec![0.0; DEPTH];
            for (key, power) in seen.iter().zip(&powers) {
                let values = row(&host[2], head, *key);
                add(&mut wanted, power / total, &values);
            }
            let found = row(&out, head, query);
            for (column, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
                assert!(
                    (found - wanted).abs() <= 6e-3,
                    "head {head}, query {query}, column {column}: found {found}, expected {wanted}"
                );
            }
            let found = f64::from(lse[head * TOKENS + query]);
            let is_right = if seen.is_empty() {
                found.is_infinite() && found < 0.0
            } else {
                (found - total.ln()).abs() <= 1e-3
            };
            assert!(
                is_right,
                "LSE of head {head}, query {query}: {found}, expected {}",
                total.ln()
            );
        }
    }
}

/// How block `query` of queries sees block `key` of keys in a mask that heads and batches share: each way at an end of the tokens, a block of queries that sees no key, and one of keys
/// that is not seen.
fn shared(query: usize, key: usize) -> BlockKind {
    match (query, key) {
        (0, 0) | (2, 2) => BlockKind::Partial,
        (0, 2) | (2, 0) => BlockKind::Full,
        _ => BlockKind::Hidden,
    }
}

const BATCH: usize = 2;
const HEADS: [usize; 2] = [2, 1];
const QUERIES: usize = 530;
const KEYS: usize = 300;

/// Gradients in f64 of `[batch, heads, tokens, depth]`, blocks of 256 queries and 128 keys.
fn gradients_on_host([q, k, v, dout]: [&[bf16]; 4]) -> [Vec<f64>; 3] {
    let [q, k, v, dout] = [q, k, v, dout].map(|x| x.iter().map(|x| x.to_f64()).collect::<Vec<_>>());
    let [mut dq, mut dk, mut dv] = [&q, &k, &v].map(|x| vec![0.0; x.len()]);
    for line in 0..BATCH * HEADS[0] * QUERIES {
        let (head, query) = (line / QUERIES, line % QUERIES);
        let of_query = line * DEPTH..(line + 1) * DEPTH;
        let place = query as i64 + KEYS as i64 - QUERIES as i64;
        let sees = |key: &usize| match shared(query / 256, key / 128) {
            BlockKind::Hidden => false,
            BlockKind::Partial => (place - *key as i64) % 2 == 0,
            BlockKind::Full => true,
        };
        let first = head * HEADS[1] / HEADS[0] * KEYS;
        let seen = (0..KEYS).filter(sees);
        let rows: Vec<_> = seen
            .map(|key| (first + key) * DEPTH..(first + key + 1) * DEPTH)
            .collect();
        let powers: Vec<f64> = rows
            .iter()
            .map(|row| (dot(&q[of_query.clone()], &k[row.clone()]) / 8.0).exp())
            .collect();
        let total: f64 = powers.iter().sum();
        let dp: Vec<f64> = rows
            .iter()
            .map(|row| dot(&dout[of_query.clone()], &v[row.clone()]))
            .collect();
        let delta = dot(&powers, &dp) / total;
        for (at, row) in rows.iter().enumerate() {
            let p = powers[at] / total;
            let ds = p * (dp[at] - delta) / 8.0;
            add(&mut dv[row.clone()], p, &dout[of_query.clone()]);
            add(&mut dk[row.clone()], ds, &q[of_query.clone()]);
            add(&mut dq[of_query.clone()], ds, &k[row.clone()]);
        }
    }
    [dq, dk, dv]
}

/// Gradients of `blocks`, of the results of `forward_blocks`.
fn gradients_of_blocks(host: &[Vec<bf16>; 4], deterministic: bool, seed: u64) -> [Vec<bf16>; 3] {
    let device = Device::emulator_with_seed(seed);
    let stream = Stream::new(&device).unwrap();
    let attention = Attention::new(&device);
    let shape = BlockShape {
        batch: 1,
        heads: 1,
        tokens: [QUERIES, KEYS],
        block: [256, 128],
    };
    let mask = BlockMask::from_fn(&device, shape, |_, _, query, key| shared(query, key)).unwrap();
    let buffers = host
        .each_ref()
        .map(|of| Buffer::from_slice(&device, of).unwrap());
    let (of_queries, of_keys) = (
        [BATCH, HEADS[0], QUERIES, DEPTH],
        [BATCH, HEADS[1], KEYS, DEPTH],
    );
    let [q, k, v, dout] = [0, 1, 2, 3].map(|at| {
        let shape = if at % 3 == 0 { of_queries } else { of_keys };
        buffers[at].view(shape)
    });
    let made = [0, 0, 1, 2].map(|of| Buffer::<bf16>::zeros(&device, host[of].len()).unwrap());
    let [out, dq, dk, dv] = [0, 1, 2, 3].map(|at| {
        let shape = if at < 2 { of_queries } else { of_keys };
        made[at].view(shape)
    });
    let lse = Buffer::<f32>::zeros(&device, BATCH * HEADS[0] * QUERIES).unwrap();
    let options = Options {
        deterministic,
        ..Options::default()
    };
    let qkv = [&q, &k, &v];
    attention
        .forward_blocks::<_, Even>(&stream, qkv, &out, &lse, &mask, &options, None)
        .unwrap();
    let upstream = Upstream {
        out: &out,
        lse: &lse,
        dout: &dout,
    };
    let to = [&dq, &dk, &dv];
    attention
        .backward_blocks::<_, Even>(&stream, qkv, upstream, to, &mask, &options, None)
        .unwrap();
    stream.synchronize().unwrap();
    [1, 2, 3].map(|at| made[at].to_vec().unwrap())
}

#[test]
fn gradients_are_those_of_the_blocks_that_a_mask_shows() {
    let rows = [HEADS[0] * QUERIES, HEADS[1] * KEYS];
    let host = [0, 1, 1, 0].map(|side| BATCH * rows[side] * DEPTH);
    let host = [0, 1, 2, 3].map(|at| numbers(host[at], at + 1));
    let wanted = gradients_on_host(host.each_ref().map(|x| &x[..]));
    let in_any_order = gradients_of_blocks(&host, false, 0);
    let in_order = [1, 2].map(|seed| gradients_of_blocks(&host, true, seed));
    for (at, name) in ["dq", "dk", "dv"].into_iter().enumerate() {
        for found in [&in_any_order, &in_order[0]] {
            for (element, (found, wanted)) in found[at].iter().zip(&wanted[at]).enumerate() {
                assert!(
                    (found.to_f64() - wanted).abs() <= 1e-2 + 1e-2 * wanted.abs(),
                    "{name}, element {element}: found {found}, expected {wanted}"
                );
            }
        }
        assert!(in_order[0][at] == in_order[1][at], "{name} differs");
    }
}

/// One full block far beyond the tokens is no mask: neither steps nor the workspace go by its extent.
#[test]
fn blocks_of_more_tokens_than_there_are_cost_what_those_cost() {
    const TOKENS: [usize; 2] = [70, 200];
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let attention = Attention::new(&device);
    let mask = BlockShape {
        batch: 1,
        heads: 1,
        tokens: TOKENS,
        block: [1 << 28; 2],
    };
    let mask = BlockMask::from_fn(&device, mask, |_, _, _, _| BlockKind::Full).unwrap();
    let sides = [0, 1, 1, 0].map(|side| TOKENS[side]);
    let given: Vec<_> = sides
        .iter()
        .enumerate()
        .map(|(at, tokens)| Buffer::from_slice(&device, &numbers(tokens * DEPTH, at)).unwrap())
        .collect();
    let results = [true, false].map(|is_listed| {
        let made =
            [0, 0, 1, 1].map(|side| Buffer::<bf16>::zeros(&device, TOKENS[side] * DEPTH).unwrap());
        let lse = Buffer::<f32>::zeros(&device, TOKENS[0]).unwrap();
        let options = Options::default();
        {
            let view = |at: usize| given[at].view([1, 1, sides[at], DEPTH]);
            let [q, k, v, dout] = [view(0), view(1), view(2), view(3)];
            let [out, dq, dk, dv] = [0, 1, 2, 3].map(|at| {
                let tokens = TOKENS[at / 2];
                made[at].view([1, 1, tokens, DEPTH])
            });
            let (qkv, to) = ([&q, &k, &v], [&dq, &dk, &dv]);
            let upstream = Upstream {
                out: &out,
                lse: &lse,
                dout: &dout,
            };
            if is_listed {
                attention
                    .forward_blocks::<_, Plain>(&stream, qkv, &out, &lse, &mask, &options, None)
                    .unwrap();
                attention
                    .backward_blocks::<_, Plain>(&stream, qkv, upstream, to, &mask, &options, None)
                    .unwrap();
            } else {
                attention
                    .forward_into(&stream, qkv, &out, &lse, &options)
                    .unwrap();
                attention
                    .backward_into(&stream, qkv, upstream, to, &options)
                    .unwrap();
            }
        }
        stream.synchronize().unwrap();
        made.map(|made| made.to_vec().unwrap())
    });
    let [listed, plain] = &results;
    for (at, name) in ["out", "dq", "dk", "dv"].into_iter().enumerate() {
        for (element, (found, wanted)) in listed[at].iter().zip(&plain[at]).enumerate() {
            let (found, wanted) = (found.to_f32(), wanted.to_f32());
            assert!(
                (found - wanted).abs() <= 2e-3 + 1e-2 * wanted.abs(),
                "{name}, element {element}: found {found}, expected {wanted}"
            );
        }
    }
}

#[test]
fn masks_that_do_not_fit_are_named() {
    let device = Device::emulator();
    let shape = BlockShape {
        batch: 1,
        heads: 1,
        tokens: [200, 300],
        block: [128, 128],
    };
    let none = BlockLists {
        starts: &[0, 0, 0],
        blocks: &[],
    };
    let message =
        |shape: BlockShape, partial: BlockLists<'_>, full: BlockLists<'_>| match BlockMask::new(
            &device, shape, partial, full,
        ) {
            Err(error @ Error::Argument { .. }) => error.to_string(),
            Err(error) => panic!("refused otherwise: {error}"),
            Ok(_) => panic!("not refused"),
        };
    for (shape, partial, full, expected) in [
        (
            BlockShape {
                block: [64, 128],
                ..shape
            },
            none,
            none,
            "`mask.shape.block`: found 64 queries; expected a multiple of 128, up to 268435456",
        ),
        (
            BlockShape { heads: 0, ..shape },
            none,
            none,
            "`mask.shape`: found heads 0; expected heads of 1 to 268435456",
        ),
        (
            shape,
            BlockLists {
                starts: &[0, 0],
                blocks: &[],
            },
            none,
            "`mask.partial.starts`: found 2 numbers; expected 3: where each of 2 lists begins, and the end",
        ),
        (
            shape,
            none,
            BlockLists {
                starts: &[0, 2, 1],
                blocks: &[0],
            },
            "`mask.full.starts`: found 1 after 2 in list 1; expected ascending numbers from 0 to the 1 blocks",
        ),
        (
            shape,
            none,
            BlockLists {
                starts: &[0, 0, 1],
                blocks: &[3],
            },
            "`mask.full.blocks`: found block 3; expected blocks below 3",
        ),
        (
            shape,
            BlockLists {
                starts: &[0, 0, 1],
                blocks: &[2],
            },
            BlockLists {
                starts: &[0, 1, 2],
                blocks: &[0, 2],
            },
            "`mask`: found block 2 twice in list 1; expected each block once, partial or full",
        ),
    ] {
        assert_eq!(
            message(shape, partial, full),
            format!("attention: {expected}")
        );
    }

    let mask = BlockMask::new(&device, shape, none, none).unwrap();
    let buffer = Buffer::<bf16>::zeros(&device, 300 * DEPTH).unwrap();
    let (results, lse) = (
        Buffer::<bf16>::zeros(&device, 200 * DEPTH).unwrap(),
        Buffer::<f32>::zeros(&device, 200).unwrap(),
    );
    let out = results.view([1, 1, 200, DEPTH]);
    let [short, long] = [200, 300].map(|tokens| buffer.view([1, 1, tokens, DEPTH]));
    let stream = Stream::new(&device).unwrap();
    let attention = Attention::new(&device);
    let refused = |keys, options: &Options<'_>, expected: &str| {
        let qkv = [&short, keys, keys];
        let result =
            attention.forward_blocks::<_, Plain>(&stream, qkv, &out, &lse, &mask, options, None);
        assert_eq!(
            result.unwrap_err().to_string(),
            format!("attention: {expected}")
        );
    };
    let none = Options::default();
    refused(
        &short,
        &none,
        "`mask`: found [200, 300] queries and keys; expected [200, 200], those of q and k",
    );
    refused(
        &long,
        &Options {
            softcap: Some(3.0),
            ..none
        },
        "`options.softcap`: found a value; expected none beside a mask of blocks; softcap and alibi are modifiers",
    );
    let qkv = [&short, &long, &long];
    let dropped =
        attention.forward_blocks::<_, Dropped<Plain>>(&stream, qkv, &out, &lse, &mask, &none, None);
    assert_eq!(
        dropped.unwrap_err().to_string(),
        "attention: `the modifier's dropout`: found a value; expected none beside a mask of blocks; softcap and alibi are modifiers"
    );
}
