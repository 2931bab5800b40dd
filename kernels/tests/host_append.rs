//! New tokens for a cache as a program calls it, on the emulator.

#![allow(
    clippy::unwrap_used,
    reason = "what fails here ends the test at its line"
)]

use tilekit::prelude::*;
use tilekit_kernels::attention::{
    Attention, Cache, CacheScales, Error, NewLengths, NewTokens, Options, Rotary,
};

const DEPTH: usize = 64;
const PAGE: usize = 16;

/// Numbers that repeat after no tensor's extent.
fn numbers(len: usize, seed: usize) -> Vec<bf16> {
    let of = |at: usize| ((at * 37 + seed * 101) % 211) as f32 / 105.0 - 1.0;
    (0..len).map(|at| bf16::from_f32(of(at))).collect()
}

fn buffer<T: DeviceElement>(device: &Device, data: &[T]) -> Buffer<T> {
    Buffer::from_slice(device, data).unwrap()
}

/// Two sequences grow by a token at a time in a cache of e4m3, whose rows get factors of their own; queries are rotated in place and attend to
/// all tokens so far.
#[test]
fn tokens_are_appended_one_by_one_and_attended_to() {
    const STEPS: usize = 20;
    const PAIRS: usize = 32;
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let attention = Attention::new(&device);
    let [keys, values] =
        [(); 2].map(|()| Buffer::<E4m3>::zeros(&device, 4 * PAGE * DEPTH).unwrap());
    let [keys, values] = [&keys, &values].map(|buffer| buffer.view([4, 1, PAGE, DEPTH]));
    let [of_keys, of_values] = [(); 2].map(|()| Buffer::<f32>::zeros(&device, 4 * PAGE).unwrap());
    let [of_keys, of_values] = [&of_keys, &of_values].map(|buffer| buffer.view([4, 1, PAGE]));
    let scales = CacheScales {
        keys: &of_keys,
        values: &of_values,
    };
    let table = buffer(&device, &[2, 0, 3, 1]);
    let angle =
        |at: usize| (at / PAIRS) as f64 * 1e4_f64.powf(-((at % PAIRS) as f64) / PAIRS as f64);
    let angles = |of: fn(f64) -> f64| -> Vec<f32> {
        (0..STEPS * PAIRS).map(|at| of(angle(at)) as f32).collect()
    };
    let [cos, sin] = [angles(f64::cos), angles(f64::sin)];
    let [of_cos, of_sin] = [&cos, &sin].map(|table| buffer(&device, table));
    let rotary = Rotary {
        cos: &of_cos,
        sin: &of_sin,
        pairs: PAIRS,
        interleaved: false,
    };
    let rotate = |row: &[bf16], position: usize| -> Vec<f64> {
        let number = |at: usize| row[at].to_f64();
        let of = |column: usize| {
            let pair = column % PAIRS;
            let [cos, sin] = [&cos, &sin].map(|table| f64::from(table[position * PAIRS + pair]));
            let sign = if column < PAIRS { -1.0 } else { 1.0 };
            let partner = (column + PAIRS) % (2 * PAIRS);
            number(column) * cos + sign * number(partner) * sin
        };
        (0..DEPTH).map(of).collect()
    };
    let mut seen: [Vec<(Vec<f64>, Vec<f64>)>; 2] = [Vec::new(), Vec::new()];
    for step in 0..STEPS {
        let new = [0, 1].map(|side| numbers(2 * DEPTH, 7 * step + side));
        let q = numbers(2 * 2 * DEPTH, 1000 + step);
        let of_new = new.each_ref().map(|new| buffer(&device, new));
        let of_q = buffer(&device, &q);
        let [k, v] = of_new.each_ref().map(|new| new.view([2, 1, 1, DEPTH]));
        let of_queries = of_q.view([2, 2, 1, DEPTH]);
        let lengths = buffer(&device, &[step as i32 + 1; 2]);
        let cache = Cache {
            keys: &keys,
            values: &values,
            lengths: &lengths,
            table: Some(&table),
            scales: Some(scales),
            checked: true,
        };
        let tokens = NewTokens {
            keys: &k,
            values: &v,
            queries: Some([&of_queries, &of_queries]),
            rotary: Some(rotary),
            lengths: None,
            computes_scales: true,
        };
        attention.append(&stream, &tokens, &cache).unwrap();
        let result = attention
            .decode(&stream, &of_queries, &cache, &Options::default())
            .unwrap();
        stream.synchronize().unwrap();
        let out = result.out.to_vec().unwrap();
        for (batch, seen) in seen.iter_mut().enumerate() {
            let value = new[1][batch * DEPTH..][..DEPTH].iter().map(|x| x.to_f64());
            seen.push((
                rotate(&new[0][batch * DEPTH..][..DEPTH], step),
                value.collect(),
            ));
            for head in 0..2 {
                let row = (batch * 2 + head) * DEPTH;
                let query = rotate(&q[row..row + DEPTH], step);
                let dot = |key: &[f64]| key.iter().zip(&query).map(|(k, q)| k * q).sum::<f64>();
                let powers: Vec<f64> = seen.iter().map(|(key, _)| (dot(key) / 8.0).exp()).collect();
                let total: f64 = powers.iter().sum();
                for column in 0..DEPTH {
                    let terms = seen.iter().zip(&powers);
                    let wanted = terms.map(|((_, v), p)| p / total * v[column]).sum::<f64>();
                    let found = out[row + column].to_f64();
                    // Elements of 8 bits have errors of 2^-4 of them each.
                    assert!(
                        (found - wanted).abs() <= 0.08,
                        "step {step}, row {row}, column {column}: found {found}, expected {wanted}"
                    );
                }
            }
        }
    }
}

/// Concatenated new tokens of three sequences, one of which has none.
#[test]
fn sequences_of_several_lengths_are_appended() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let [keys, values] =
        [(); 2].map(|()| Buffer::<bf16>::zeros(&device, 3 * PAGE * DEPTH).unwrap());
    let [of_keys, of_values] = [&keys, &values].map(|buffer| buffer.view([3, 1, PAGE, DEPTH]));
    let new = numbers(7 * DEPTH, 1);
    let of_new = buffer(&device, &new);
    let of_new = of_new.view([1, 1, 7, DEPTH]);
    let lengths = buffer(&device, &[5, 9, 12]);
    let offsets = buffer(&device, &[0, 5, 5, 7]);
    let cache = Cache {
        keys: &of_keys,
        values: &of_values,
        lengths: &lengths,
        table: None,
        scales: None,
        checked: true,
    };
    let tokens = NewTokens {
        keys: &of_new,
        values: &of_new,
        queries: None,
        rotary: None,
        lengths: Some(NewLengths {
            offsets: &offsets,
            longest: 5,
        }),
        computes_scales: false,
    };
    let attention = Attention::new(&device);
    attention.append(&stream, &tokens, &cache).unwrap();
    stream.synchronize().unwrap();
    let mut wanted = vec![bf16::ZERO; 3 * PAGE * DEPTH];
    wanted[..5 * DEPTH].copy_from_slice(&new[..5 * DEPTH]);
    wanted[(2 * PAGE + 10) * DEPTH..][..2 * DEPTH].copy_from_slice(&new[5 * DEPTH..]);
    assert_eq!(keys.to_vec().unwrap(), wanted);
    assert_eq!(values.to_vec().unwrap(), wanted);
}

#[test]
fn tokens_without_a_place_and_angles_past_the_tables_are_found() {
    let device = Device::emulator();
    let [keys, values] =
        [(); 2].map(|()| Buffer::<bf16>::zeros(&device, 2 * PAGE * DEPTH).unwrap());
    let [of_keys, of_values] = [&keys, &values].map(|buffer| buffer.view([2, 1, PAGE, DEPTH]));
    let new = buffer(&device, &numbers(DEPTH, 1));
    let new = new.view([1, 1, 1, DEPTH]);
    let angles = buffer(&device, &[1.0; 20 * 32]);
    let rotary = Rotary {
        cos: &angles,
        sin: &angles,
        pairs: 32,
        interleaved: true,
    };
    for (length, table, is_right) in [
        (20, [0, 1], true),
        (33, [0, 1], false),
        (0, [0, 1], false),
        (17, [0, 2], false),
        (17, [0, -1], false),
        (21, [0, 1], false),
    ] {
        for checked in [true, false] {
            let stream = Stream::new(&device).unwrap();
            let lengths = buffer(&device, &[length]);
            let table = buffer(&device, &table);
            let cache = Cache {
                keys: &of_keys,
                values: &of_values,
                lengths: &lengths,
                table: Some(&table),
                scales: None,
                checked,
            };
            let tokens = NewTokens {
                keys: &new,
                values: &new,
                queries: None,
                rotary: Some(rotary),
                lengths: None,
                computes_scales: false,
            };
            let attention = Attention::new(&device);
            let result = attention.append(&stream, &tokens, &cache);
            let result = result.and_then(|()| Ok(stream.synchronize()?));
            // Without the check such tokens are left out.
            assert_eq!(result.is_ok(), is_right || !checked, "{length}, {result:?}");
            if let Err(error) = result {
                assert!(error.to_string().contains("append"), "{error}");
            }
        }
    }
}

#[test]
fn new_tokens_that_do_not_fit_are_named() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let attention = Attention::new(&device);
    let wide = Buffer::<bf16>::zeros(&device, 1 << 14).unwrap();
    let other = Buffer::<bf16>::zeros(&device, 1 << 14).unwrap();
    let narrow = [(); 2].map(|()| Buffer::<E4m3>::zeros(&device, 1 << 12).unwrap());
    let lengths = Buffer::<i32>::zeros(&device, 2).unwrap();
    let angles = Buffer::<f32>::zeros(&device, 64).unwrap();
    let scales = Buffer::<f32>::zeros(&device, 64).unwrap();
    let new = wide.view([2, 1, 1, DEPTH]);
    let of_cache = [&wide, &other].map(|buffer| buffer.view([2, 1, PAGE, DEPTH]));
    let of_narrow = narrow
        .each_ref()
        .map(|buffer| buffer.view([2, 1, PAGE, DEPTH]));
    let shared = scales.view([2, 1, PAGE]).with_strides([0, 0, 0]);
    let tokens = NewTokens {
        keys: &new,
        values: &new,
        queries: None,
        rotary: None,
        lengths: None,
        computes_scales: false,
    };
    let cache = Cache {
        keys: &of_cache[0],
        values: &of_cache[1],
        lengths: &lengths,
        table: None,
        scales: None,
        checked: false,
    };
    let rotary = Rotary {
        cos: &angles,
        sin: &angles,
        pairs: 32,
        interleaved: false,
    };
    let message = |result: Result<(), Error>| match result {
        Err(error @ Error::Argument { .. }) => error.to_string(),
        Err(error) => panic!("refused otherwise: {error}"),
        Ok(()) => panic!("not refused"),
    };
    let refused = |tokens: NewTokens<'_, bf16>, cache: Cache<'_, bf16>, expected: &str| {
        let found = message(attention.append(&stream, &tokens, &cache));
        assert_eq!(found, format!("attention: {expected}"));
    };
    let longer = other.view([2, 1, 2, DEPTH]);
    refused(
        NewTokens {
            values: &longer,
            ..tokens
        },
        cache,
        "`new.values`: found shape [2, 1, 2, 64]; expected [2, 1, 1, 64], that of new.keys",
    );
    let three = wide.view([3, 1, PAGE, DEPTH]);
    refused(
        tokens,
        Cache {
            keys: &three,
            values: &three,
            ..cache
        },
        "`cache.keys`: found batch 3; expected 2, one for each sequence, without a table of pages",
    );
    refused(
        tokens,
        Cache {
            values: &of_cache[0],
            ..cache
        },
        "`cache.values`: found memory of cache.keys; expected memory of its own",
    );
    refused(
        NewTokens {
            rotary: Some(Rotary {
                pairs: 24,
                ..rotary
            }),
            ..tokens
        },
        cache,
        "`new.rotary.pairs`: found 24; expected a power of two from 8 to 32, half of a row",
    );
    let short = Buffer::<f32>::zeros(&device, 32).unwrap();
    refused(
        NewTokens {
            rotary: Some(Rotary {
                sin: &short,
                ..rotary
            }),
            ..tokens
        },
        cache,
        "`new.rotary.sin`: found 32 elements; expected 64, as many as new.rotary.cos",
    );
    let shifted = wide.view([2, 1, 1, DEPTH]).with_offset(8);
    refused(
        NewTokens {
            queries: Some([&new, &shifted]),
            ..tokens
        },
        cache,
        "`new.queries[1]`: found some of the memory of new.queries[0]; expected the same view, or memory of its own",
    );
    refused(
        NewTokens {
            computes_scales: true,
            ..tokens
        },
        cache,
        "`new.computes_scales`: found true; expected false: the cache has the elements of the new rows",
    );
    refused(
        NewTokens {
            lengths: Some(NewLengths {
                offsets: &lengths,
                longest: 1,
            }),
            ..tokens
        },
        cache,
        "`new.keys`: found batch 2; expected 1, since new.lengths says where sequences begin",
    );
    let cache = Cache {
        keys: &of_narrow[0],
        values: &of_narrow[1],
        lengths: &lengths,
        table: None,
        scales: Some(CacheScales {
            keys: &shared,
            values: &shared,
        }),
        checked: false,
    };
    let tokens = NewTokens {
        computes_scales: true,
        ..tokens
    };
    assert_eq!(
        message(attention.append(&stream, &tokens, &cache)),
        "attention: `cache.scales.keys`: found a scale that several rows share; expected one for each token and head, since new.computes_scales stores them"
    );
}
