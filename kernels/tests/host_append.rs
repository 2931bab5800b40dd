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

/// Offsets that fall, leave the tensor, or are further apart than `longest`: with the check they are errors; without it no row but those of the tensor is stored.
#[test]
fn offsets_that_do_not_fit_are_found() {
    let device = Device::emulator();
    let new = numbers(4 * DEPTH, 1);
    let of_new = buffer(&device, &new);
    let of_new = of_new.view([1, 1, 4, DEPTH]);
    let lengths = buffer(&device, &[9, 9]);
    for (offsets, is_right) in [
        ([0, 2, 4], true),
        ([1, 1, 3], true),
        ([0, 3, 4], false),
        ([-1, 1, 3], false),
        ([0, 2, 1], false),
        ([2, 4, 5], false),
    ] {
        for checked in [true, false] {
            let stream = Stream::new(&device).unwrap();
            let [keys, values] =
                [(); 2].map(|()| Buffer::<bf16>::zeros(&device, 2 * PAGE * DEPTH).unwrap());
            let [of_keys, of_values] =
                [&keys, &values].map(|buffer| buffer.view([2, 1, PAGE, DEPTH]));
            let of_offsets = buffer(&device, &offsets);
            let cache = Cache {
                keys: &of_keys,
                values: &of_values,
                lengths: &lengths,
                table: None,
                scales: None,
                checked,
            };
            let tokens = NewTokens {
                keys: &of_new,
                values: &of_new,
                queries: None,
                rotary: None,
                lengths: Some(NewLengths {
                    offsets: &of_offsets,
                    longest: 2,
                }),
                computes_scales: false,
            };
            let result = Attention::new(&device).append(&stream, &tokens, &cache);
            let result = result.and_then(|()| Ok(stream.synchronize()?));
            assert_eq!(
                result.is_ok(),
                is_right || !checked,
                "{offsets:?}, {result:?}"
            );
            if let Err(error) = result {
                assert!(error.to_string().contains("append"), "{error}");
                continue;
            }
            let mut wanted = vec![bf16::ZERO; 2 * PAGE * DEPTH];
            for (sequence, pair) in offsets.windows(2).enumerate() {
                for token in 0..(pair[1] - pair[0]).min(2) {
                    let row = usize::try_from(pair[0] + token).ok().filter(|&row| row < 4);
                    let place = sequence * PAGE + (9 - (pair[1] - pair[0]) + token) as usize;
                    if let Some(row) = row {
                        wanted[place * DEPTH..][..DEPTH]
                            .copy_from_slice(&new[row * DEPTH..][..DEPTH]);
                    }
                }
            }
            assert_eq!(keys.to_vec().unwrap(), wanted, "{offsets:?}");
            assert_eq!(values.to_vec().unwrap(), wanted, "{offsets:?}");
        }
    }
}

/// Two heads of a cache with factors of 0 and 0.5: rows of the first are stored as they are, with zeros and without, and nothing is NaN.
#[test]
fn rows_of_a_head_with_a_factor_of_zero_are_stored() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let mut new = numbers(2 * 2 * DEPTH, 1);
    new[..DEPTH].fill(bf16::ZERO);
    let of_new = buffer(&device, &new);
    // Heads inside of sequences: zeros, factor 0.5; then other numbers likewise.
    let of_new = of_new.view([2, 2, 1, DEPTH]);
    let [keys, values] =
        [(); 2].map(|()| Buffer::<E4m3>::zeros(&device, 2 * 2 * PAGE * DEPTH).unwrap());
    let [of_keys, of_values] = [&keys, &values].map(|buffer| buffer.view([2, 2, PAGE, DEPTH]));
    let factors = buffer(&device, &[0.0f32, 0.5]);
    let factors = factors.view([2, 2, PAGE]).with_strides([0, 1, 0]);
    let lengths = buffer(&device, &[1, 1]);
    let cache = Cache {
        keys: &of_keys,
        values: &of_values,
        lengths: &lengths,
        table: None,
        scales: Some(CacheScales {
            keys: &factors,
            values: &factors,
        }),
        checked: true,
    };
    let tokens = NewTokens {
        keys: &of_new,
        values: &of_new,
        queries: None,
        rotary: None,
        lengths: None,
        computes_scales: false,
    };
    Attention::new(&device)
        .append(&stream, &tokens, &cache)
        .unwrap();
    stream.synchronize().unwrap();
    let mut wanted = vec![E4m3::from_f32(0.0); 2 * 2 * PAGE * DEPTH];
    for (at, x) in new.iter().enumerate() {
        let (row, column) = (at / DEPTH, at % DEPTH);
        let factor = [1.0, 0.5][row % 2];
        wanted[row * PAGE * DEPTH + column] = E4m3::from_f32(x.to_f32() / factor);
    }
    let bits = |data: Vec<E4m3>| data.iter().map(|x| x.to_f64()).collect::<Vec<_>>();
    let wanted = bits(wanted);
    assert_eq!(bits(keys.to_vec().unwrap()), wanted);
    assert_eq!(bits(values.to_vec().unwrap()), wanted);
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
    let of_new = Buffer::<bf16>::zeros(&device, 1 << 14).unwrap();
    let new = of_new.view([2, 1, 1, DEPTH]);
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
        "`cache.values`: found some of the memory of cache.keys; expected memory of its own, since it is written",
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
    let of_queries = Buffer::<bf16>::zeros(&device, 1 << 14).unwrap();
    let queries = of_queries.view([2, 1, 1, DEPTH]);
    let shifted = of_queries.view([2, 1, 1, DEPTH]).with_offset(8);
    refused(
        NewTokens {
            queries: Some([&queries, &shifted]),
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

/// Each view that is written against those that are read, and against those that are written beside it.
#[test]
fn what_is_written_has_memory_of_its_own() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let attention = Attention::new(&device);
    let wide = [(); 5].map(|()| Buffer::<bf16>::zeros(&device, 1 << 12).unwrap());
    let [new_keys, new_values, queries] =
        [0, 1, 2].map(|at| wide[at].view([2, 1, 1, DEPTH]).with_offset(DEPTH));
    let [keys, values] = [3, 4].map(|at| wide[at].view([2, 1, PAGE, DEPTH]));
    let lengths = Buffer::<i32>::zeros(&device, 2).unwrap();
    let tokens = NewTokens {
        keys: &new_keys,
        values: &new_values,
        queries: Some([&queries, &queries]),
        rotary: None,
        lengths: None,
        computes_scales: false,
    };
    let cache = Cache {
        keys: &keys,
        values: &values,
        lengths: &lengths,
        table: None,
        scales: None,
        checked: false,
    };
    attention.append(&stream, &tokens, &cache).unwrap();
    stream.synchronize().unwrap();
    let expect = |result: Result<(), Error>, name: &str, other: &str| {
        let expected = format!(
            "attention: `{name}`: found some of the memory of {other}; expected memory of its own, since it is written"
        );
        assert_eq!(result.unwrap_err().to_string(), expected);
    };
    let in_keys = wide[3].view([2, 1, 1, DEPTH]).with_offset(5 * DEPTH);
    let in_values = wide[4].view([2, 1, 1, DEPTH]).with_offset(5 * DEPTH);
    for (to, other) in [
        (&in_keys, "cache.keys"),
        (&in_values, "cache.values"),
        (&new_keys, "new.keys"),
        (&new_values, "new.values"),
    ] {
        let tokens = NewTokens {
            queries: Some([&queries, to]),
            ..tokens
        };
        let result = attention.append(&stream, &tokens, &cache);
        expect(result, "new.queries[1]", other);
    }
    for (of_keys, of_values, name, other) in [
        (&in_keys, &new_values, "cache.keys", "new.keys"),
        (&new_keys, &in_keys, "cache.keys", "new.values"),
        (&in_values, &new_values, "cache.values", "new.keys"),
        (&new_keys, &in_values, "cache.values", "new.values"),
    ] {
        let tokens = NewTokens {
            keys: of_keys,
            values: of_values,
            ..tokens
        };
        expect(attention.append(&stream, &tokens, &cache), name, other);
    }
    let from_keys = NewTokens {
        queries: Some([&in_keys, &queries]),
        ..tokens
    };
    let result = attention.append(&stream, &from_keys, &cache);
    expect(result, "cache.keys", "new.queries[0]");

    let narrow = [(); 2].map(|()| Buffer::<E4m3>::zeros(&device, 1 << 12).unwrap());
    let [keys, values] = narrow
        .each_ref()
        .map(|buffer| buffer.view([2, 1, PAGE, DEPTH]));
    let numbers = [(); 4].map(|()| Buffer::<f32>::zeros(&device, 32 * 8).unwrap());
    let scales = numbers
        .each_ref()
        .map(|buffer| buffer.view([2, 1, PAGE]).with_strides([PAGE, PAGE, 1]));
    let [a, b, cos, sin] = [0, 1, 2, 3];
    for (of_keys, of_values, name, other) in [
        (cos, b, "cache.scales.keys", "new.rotary.cos"),
        (sin, b, "cache.scales.keys", "new.rotary.sin"),
        (a, cos, "cache.scales.values", "new.rotary.cos"),
        (a, a, "cache.scales.values", "cache.scales.keys"),
    ] {
        let tokens = NewTokens {
            rotary: Some(Rotary {
                cos: &numbers[cos],
                sin: &numbers[sin],
                pairs: 8,
                interleaved: false,
            }),
            computes_scales: true,
            ..tokens
        };
        let cache = Cache {
            keys: &keys,
            values: &values,
            lengths: &lengths,
            table: None,
            scales: Some(CacheScales {
                keys: &scales[of_keys],
                values: &scales[of_values],
            }),
            checked: false,
        };
        expect(attention.append(&stream, &tokens, &cache), name, other);
    }
}
