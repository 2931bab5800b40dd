//! Concatenated sequences, of which all but one hold NaN and infinity: blocks that end behind a sequence must not reach the next one.

use tilekit::prelude::*;
use tilekit_kernels::attention::{Attention, Dropout, Lengths, Options};

use crate::problem::{differentiated, numbers};

/// Queries and keys of each sequence: ends inside and at the end of blocks, no queries, no keys.
const LENGTHS: [[usize; 2]; 6] = [[40, 30], [0, 50], [70, 150], [5, 0], [64, 128], [33, 7]];

/// Heads, and elements of rows.
#[derive(Clone, Copy)]
struct Sizes {
    heads: usize,
    kv_heads: usize,
    depths: [usize; 2],
}

/// Where each sequence begins, of queries (side 0) or keys (1), and where the last one ends.
fn offsets(side: usize) -> Vec<usize> {
    let ends = LENGTHS.iter().scan(0, |end, lengths| {
        *end += lengths[side];
        Some(*end)
    });
    std::iter::once(0).chain(ends).collect()
}

/// The token of an element of a tensor of `[heads, tokens, columns]`.
fn token_of(side: usize, columns: usize, at: usize) -> usize {
    at / columns % offsets(side)[LENGTHS.len()]
}

/// The sequence of an element.
fn sequence(side: usize, columns: usize, at: usize) -> usize {
    let offsets = offsets(side);
    let token = token_of(side, columns, at);
    (1..LENGTHS.len())
        .filter(|&number| offsets[number] <= token)
        .count()
}

/// What is NaN and infinite of the tensors of a call.
#[derive(Clone, Copy)]
enum Spoilt {
    Nothing,
    /// All tensors, in all sequences but one.
    Others(usize),
    /// One row of Q, counted over all sequences.
    Query(usize),
}

impl Spoilt {
    /// Whether an element of a tensor of `[heads, tokens, columns]` is, by the name of the tensor.
    fn has(self, name: &str, (side, columns): (usize, usize), at: usize) -> bool {
        match self {
            Spoilt::Nothing => false,
            Spoilt::Others(kept) => sequence(side, columns, at) != kept,
            Spoilt::Query(token) => name == "q" && token_of(side, columns, at) == token,
        }
    }
}

/// The results of a call: each with its side, its columns, and its name.
type Results = Vec<(usize, usize, &'static str, Vec<f32>)>;

/// Both passes.
fn results(sizes: Sizes, options: &Options<'_>, spoilt: Spoilt) -> Results {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let attention = Attention::new(&device);
    let Sizes {
        heads,
        kv_heads,
        depths: [depth, values],
    } = sizes;
    let tokens = [0, 1].map(|side| offsets(side)[LENGTHS.len()]);
    let make = |name: &str, side: usize, columns: usize| {
        let shape = [1, [heads, kv_heads][side], tokens[side], columns];
        let mut x = numbers(shape.iter().product(), name.len() as u64);
        for (at, x) in x.iter_mut().enumerate() {
            if spoilt.has(name, (side, columns), at) {
                *x = [bf16::NAN, bf16::INFINITY, bf16::NEG_INFINITY][at % 3];
            }
        }
        (Buffer::from_slice(&device, &x).unwrap(), shape)
    };
    let tensors = [
        make("q", 0, depth),
        make("key", 1, depth),
        make("values", 1, values),
        make("dout", 0, values),
    ];
    let [q, k, v, dout] = tensors.each_ref().map(|(x, shape)| x.view(*shape));
    let starts = [0, 1].map(|side| {
        let starts: Vec<i32> = offsets(side).iter().map(|&at| at as i32).collect();
        Buffer::from_slice(&device, &starts).unwrap()
    });
    let longest = [0, 1].map(|side| LENGTHS.iter().map(|of| of[side]).max().unwrap());
    let options = Options {
        lengths: Some(Lengths {
            query_offsets: &starts[0],
            key_offsets: &starts[1],
            longest: longest[0],
            longest_keys: longest[1],
        }),
        // Each run adds terms of dQ in the same order, so that bits may be compared.
        deterministic: true,
        ..*options
    };
    let (forward, gradients) = differentiated(
        (&attention, &stream),
        [&q, &k, &v],
        (&dout, tensors[3].1),
        &options,
    );
    let wide =
        |x: &Buffer<bf16>| -> Vec<f32> { x.to_vec().unwrap().iter().map(|x| x.to_f32()).collect() };
    vec![
        (0, values, "out", wide(&forward.out)),
        (0, 1, "lse", forward.lse.to_vec().unwrap()),
        (0, depth, "dq", wide(&gradients.dq)),
        (1, depth, "dk", wide(&gradients.dk)),
        (1, values, "dv", wide(&gradients.dv)),
    ]
}

/// Checks that each sequence has the same bits whatever the others hold, and that NaN stays in the results of those that have it.
fn check(sizes: Sizes, options: &Options<'_>) {
    let clean = results(sizes, options, Spoilt::Nothing);
    let depths = sizes.depths;
    // Those that have queries and keys, and others behind them.
    for kept in [0, 2, 4] {
        let found = results(sizes, options, Spoilt::Others(kept));
        for ((side, columns, name, found), (.., clean)) in found.into_iter().zip(&clean) {
            for (at, (found, clean)) in found.iter().zip(clean).enumerate() {
                let of = sequence(side, columns, at);
                let place = format!("{name}[{at}] of sequence {of} of depths {depths:?}");
                if of == kept || LENGTHS[of].contains(&0) {
                    assert_eq!(found.to_bits(), clean.to_bits(), "{place} beside NaN");
                } else {
                    assert!(!found.is_finite(), "{place} is {found}, made of NaN");
                }
            }
        }
    }
}

/// Checks that a query whose LSE is NaN makes NaN of its own gradient and those of all keys of its sequence, and of no other.
fn check_query(sizes: Sizes, options: &Options<'_>) {
    let clean = results(sizes, options, Spoilt::Nothing);
    // At depth 64 a quarter of the exponentials takes the FMA pipes: those of 8 in 32 queries.
    for query in [21, 28] {
        check_query_at(sizes, offsets(0)[2] + query, options, &clean);
    }
}

/// [`check_query`] of a token of sequence 2.
fn check_query_at(sizes: Sizes, spoilt: usize, options: &Options<'_>, clean: &Results) {
    let found = results(sizes, options, Spoilt::Query(spoilt));
    for ((side, columns, name, found), (.., clean)) in found.into_iter().zip(clean) {
        for (at, (found, clean)) in found.iter().zip(clean).enumerate() {
            let is_it = match side {
                0 => token_of(side, columns, at) == spoilt,
                _ => sequence(side, columns, at) == 2,
            };
            let place = format!("{name}[{at}] of depths {:?}", sizes.depths);
            let by_fma = name == "dv" && sizes.depths[0] == 64;
            if is_it {
                let is_kept = found.is_nan() || by_fma && found.is_infinite();
                assert!(is_kept, "{place} is {found}");
            } else {
                assert_eq!(found.to_bits(), clean.to_bits(), "{place}");
            }
        }
    }
}

/// Two query heads for a head of keys and values.
const fn of_depths(depth: usize, values: usize) -> Sizes {
    Sizes {
        heads: 2,
        kv_heads: 1,
        depths: [depth, values],
    }
}

#[test]
fn sequences_of_64_keep_to_themselves_beside_nan() {
    check(of_depths(64, 64), &Options::default());
}

#[test]
fn sequences_of_128_keep_to_themselves_beside_nan() {
    check(of_depths(128, 128), &Options::default());
}

#[test]
fn causal_sequences_of_128_keep_to_themselves_beside_nan() {
    let options = Options {
        causal: true,
        ..Options::default()
    };
    check(of_depths(128, 128), &options);
}

#[test]
fn windows_of_192_keep_to_themselves_beside_nan() {
    let options = Options {
        window: [Some(200), Some(200)],
        softcap: None,
        ..Options::default()
    };
    check(of_depths(192, 128), &options);
}

#[test]
fn sequences_of_256_keep_to_themselves_beside_nan() {
    check(of_depths(256, 256), &Options::default());
}

/// Eight query heads are rows of one tile of the forward pass.
#[test]
fn packed_heads_keep_to_themselves_beside_nan() {
    let sizes = Sizes {
        heads: 8,
        kv_heads: 1,
        depths: [128, 128],
    };
    check(sizes, &Options::default());
}

#[test]
fn an_lse_of_nan_stays_in_the_gradients_of_its_sequence() {
    for depths in [[64, 64], [96, 96], [128, 128], [192, 128], [256, 256]] {
        check_query(of_depths(depths[0], depths[1]), &Options::default());
    }
}

#[test]
fn an_lse_of_nan_stays_beside_dropout() {
    let options = Options {
        dropout: Some(Dropout { rate: 0.3, seed: 7 }),
        ..Options::default()
    };
    for depth in [64, 128] {
        check_query(of_depths(depth, depth), &options);
    }
}
