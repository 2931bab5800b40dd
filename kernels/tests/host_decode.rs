//! Attention to a cache as a program calls it, on the emulator.

#![allow(
    clippy::unwrap_used,
    reason = "what fails here ends the test at its line"
)]

use tilekit::prelude::*;
use tilekit_kernels::attention::{Attention, Cache, CacheScales, Error, Options};

/// Numbers that repeat after no tensor's extent.
fn numbers(len: usize, seed: usize) -> Vec<bf16> {
    let of = |at: usize| ((at * 37 + seed * 101) % 211) as f32 / 105.0 - 1.0;
    (0..len).map(|at| bf16::from_f32(of(at))).collect()
}

/// A row of the output in f64: a query and the rows of keys and values that it sees.
fn attend(query: &[bf16], keys: &[&[bf16]], values: &[&[bf16]]) -> Vec<f64> {
    let scale = 1.0 / (query.len() as f64).sqrt();
    let scores: Vec<f64> = keys
        .iter()
        .map(|key| {
            query
                .iter()
                .zip(*key)
                .map(|(x, y)| x.to_f64() * y.to_f64())
                .sum::<f64>()
                * scale
        })
        .collect();
    let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = scores.iter().map(|score| (score - max).exp()).sum();
    let mut out = vec![0.0; query.len()];
    for (score, row) in scores.iter().zip(values) {
        for (sum, value) in out.iter_mut().zip(*row) {
            *sum += (score - max).exp() / total * value.to_f64();
        }
    }
    out
}

/// 8 query heads of 2 heads of a cache with pages of 32 tokens, heads inside of tokens; one launch is captured, or replayed for other lengths.
#[test]
fn pages_are_read_in_the_order_of_the_table() {
    const DEPTH: usize = 64;
    const PAGE: usize = 32;
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let attention = Attention::new(&device);
    // [pages, tokens, heads, depth] in memory.
    let host = [1, 2].map(|seed| numbers(12 * PAGE * 2 * DEPTH, seed));
    let buffers = [0, 1].map(|at| Buffer::from_slice(&device, &host[at]).unwrap());
    let view = |at: usize| {
        let strides = [PAGE * 2 * DEPTH, DEPTH, 2 * DEPTH, 1];
        buffers[at].view([12, 2, PAGE, DEPTH]).with_strides(strides)
    };
    let (keys, values) = (view(0), view(1));
    let table = [7, 2, 9, -1, 0, 11, 3, 5];
    let of_table = Buffer::from_slice(&device, &table).unwrap();
    let q = numbers(2 * 8 * 2 * DEPTH, 3);
    let of_q = Buffer::from_slice(&device, &q).unwrap();
    let of_q = of_q.view([2, 8, 2, DEPTH]);
    let options = Options {
        causal: true,
        ..Options::default()
    };
    for lengths in [[70, 128], [3, 0], [96, 33]] {
        let of_lengths = Buffer::from_slice(&device, &lengths.map(|x| x as i32)).unwrap();
        let cache = Cache {
            keys: &keys,
            values: &values,
            lengths: &of_lengths,
            table: Some(&of_table),
            scales: None,
            checked: true,
        };
        let result = attention.decode(&stream, &of_q, &cache, &options).unwrap();
        stream.synchronize().unwrap();
        let (out, lse) = (result.out.to_vec().unwrap(), result.lse.to_vec().unwrap());
        for row in 0..2 * 8 * 2 {
            let (batch, head, token) = (row / 16, row / 2 % 8, row % 2);
            let seen = (lengths[batch] + token).saturating_sub(1);
            let at = |key: usize| {
                let page = table[batch * 4 + key / PAGE] as usize;
                ((page * PAGE + key % PAGE) * 2 + head / 4) * DEPTH
            };
            let rows = |side: usize| {
                let row = |key: usize| &host[side][at(key)..at(key) + DEPTH];
                (0..seen).map(row).collect::<Vec<_>>()
            };
            let wanted = attend(&q[row * DEPTH..(row + 1) * DEPTH], &rows(0), &rows(1));
            for (column, wanted) in wanted.iter().enumerate() {
                let found = out[row * DEPTH + column].to_f64();
                assert!(
                    (found - wanted).abs() <= 8e-3,
                    "{lengths:?}, row {row}, column {column}: found {found}, expected {wanted}"
                );
            }
            assert_eq!(
                lse[row] > f32::NEG_INFINITY,
                seen > 0,
                "{lengths:?}, LSE of row {row}"
            );
        }
    }
}

/// The keys of the second of two heads have a factor of 0, or one whose product with the scale is 0 in f32, as quantization of zeros gives: all of its scores are 0, and masked keys stay
/// masked. Queries see several blocks of keys in splits, some in part, one sequence has none, and a factor of 0 of values gives zeros.
#[test]
fn heads_of_zeros_may_have_factors_of_zero() {
    const DEPTH: usize = 64;
    const ROOM: usize = 272;
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let attention = Attention::new(&device);
    let lengths = [260, 0, 5];
    let narrow = [1, 2].map(|seed| -> Vec<E4m3> {
        let numbers = numbers(3 * 2 * ROOM * DEPTH, seed);
        numbers.iter().map(|x| E4m3::from_f32(x.to_f32())).collect()
    });
    let buffers = narrow
        .each_ref()
        .map(|data| Buffer::from_slice(&device, data).unwrap());
    let [keys, values] = buffers
        .each_ref()
        .map(|buffer| buffer.view([3, 2, ROOM, DEPTH]));
    let of_lengths = Buffer::from_slice(&device, &lengths.map(|x| x as i32)).unwrap();
    let q = numbers(3 * 4 * 2 * DEPTH, 3);
    let of_q = Buffer::from_slice(&device, &q).unwrap();
    let of_q = of_q.view([3, 4, 2, DEPTH]);
    let options = Options {
        causal: true,
        ..Options::default()
    };
    for [of_k, of_v] in [[0.0f32, 1.0], [1e-40, 1.0], [0.0, 0.0]] {
        let factors = [[1.0, of_k], [1.0, of_v]];
        let scales = factors.map(|factors| Buffer::from_slice(&device, &factors).unwrap());
        let [of_keys, of_values] = scales
            .each_ref()
            .map(|scales| scales.view([3, 2, ROOM]).with_strides([0, 1, 0]));
        let cache = Cache {
            keys: &keys,
            values: &values,
            lengths: &of_lengths,
            table: None,
            scales: Some(CacheScales {
                keys: &of_keys,
                values: &of_values,
            }),
            checked: true,
        };
        let result = attention.decode(&stream, &of_q, &cache, &options).unwrap();
        stream.synchronize().unwrap();
        let (out, lse) = (result.out.to_vec().unwrap(), result.lse.to_vec().unwrap());
        for row in 0..3 * 4 * 2 {
            let (batch, head, token) = (row / 8, row / 2 % 4, row % 2);
            let seen = (lengths[batch] + token).saturating_sub(1);
            let rows = |side: usize| -> Vec<Vec<bf16>> {
                let factor = factors[side][head / 2];
                let row = |key: usize| {
                    let first = ((batch * 2 + head / 2) * ROOM + key) * DEPTH;
                    let elements = narrow[side][first..first + DEPTH].iter();
                    elements
                        .map(|x| bf16::from_f32(x.to_f64() as f32 * factor))
                        .collect()
                };
                (0..seen).map(row).collect()
            };
            let (k, v) = (rows(0), rows(1));
            let [k, v] =
                [&k, &v].map(|rows| rows.iter().map(|row| &row[..]).collect::<Vec<&[bf16]>>());
            let wanted = attend(&q[row * DEPTH..(row + 1) * DEPTH], &k, &v);
            for (column, wanted) in wanted.iter().enumerate() {
                let found = out[row * DEPTH + column].to_f64();
                assert!(
                    (found - wanted).abs() <= 8e-3,
                    "{factors:?}, row {row}, column {column}: found {found}, expected {wanted}"
                );
            }
            if head / 2 == 1 {
                // All scores are 0.
                let (found, wanted) = (lse[row].exp(), seen as f32);
                assert!(
                    (found - wanted).abs() <= 1e-4 * wanted,
                    "{factors:?}, row {row}: found e to the LSE {found}, expected {wanted}"
                );
            }
        }
    }
}

/// One head with room for many keys, which are split: as many parts as fill the device, of which short sequences use fewer.
#[test]
fn splits_of_a_long_cache_are_merged() {
    const DEPTH: usize = 64;
    const ROOM: usize = 1100;
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let attention = Attention::new(&device);
    let host = [1, 2].map(|seed| numbers(ROOM * DEPTH, seed));
    let [keys, values] = [0, 1].map(|at| Buffer::from_slice(&device, &host[at]).unwrap());
    let (keys, values) = (
        keys.view([1, 1, ROOM, DEPTH]),
        values.view([1, 1, ROOM, DEPTH]),
    );
    let q = numbers(DEPTH, 3);
    let of_q = Buffer::from_slice(&device, &q).unwrap();
    let of_q = of_q.view([1, 1, 1, DEPTH]);
    for length in [1100, 100, 0] {
        let lengths = Buffer::from_slice(&device, &[length as i32]).unwrap();
        let cache = Cache {
            keys: &keys,
            values: &values,
            lengths: &lengths,
            table: None,
            scales: None,
            checked: true,
        };
        let options = Options::default();
        let result = attention.decode(&stream, &of_q, &cache, &options).unwrap();
        stream.synchronize().unwrap();
        let rows = |side: usize| host[side].chunks(DEPTH).take(length).collect::<Vec<_>>();
        let wanted = attend(&q, &rows(0), &rows(1));
        for (found, wanted) in result.out.to_vec().unwrap().iter().zip(wanted) {
            let found = found.to_f64();
            assert!(
                (found - wanted).abs() <= 8e-3,
                "{length} keys: found {found}, expected {wanted}"
            );
        }
        let lse = result.lse.to_vec().unwrap()[0];
        assert_eq!(lse > f32::NEG_INFINITY, length > 0);
    }
}

/// Found by random calls: an entry behind the table was read.
#[test]
fn lengths_that_no_sequence_has_count_as_the_nearest_without_a_check() {
    const DEPTH: usize = 64;
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let attention = Attention::new(&device);
    let rows = Buffer::from_slice(&device, &numbers(4 * 32 * DEPTH, 1)).unwrap();
    let rows = rows.view([4, 1, 32, DEPTH]);
    let table = Buffer::from_slice(&device, &[3, 1, 0, 2]).unwrap();
    let q = Buffer::from_slice(&device, &numbers(2 * 4 * DEPTH, 3)).unwrap();
    let q = q.view([2, 4, 1, DEPTH]);
    let decode = |lengths: [i32; 2]| {
        let lengths = Buffer::from_slice(&device, &lengths).unwrap();
        let cache = Cache {
            keys: &rows,
            values: &rows,
            lengths: &lengths,
            table: Some(&table),
            scales: None,
            checked: false,
        };
        let options = Options::default();
        let result = attention.decode(&stream, &q, &cache, &options).unwrap();
        stream.synchronize().unwrap();
        (result.out.to_vec().unwrap(), result.lse.to_vec().unwrap())
    };
    let nearest = decode([64, 0]);
    for wild in [[65, -1], [i32::MAX, i32::MIN]] {
        assert_eq!(decode(wild), nearest, "{wild:?}");
    }
    assert_eq!(decode([i32::MIN, i32::MAX]), decode([0, 64]));
}

#[test]
fn lengths_and_pages_outside_of_the_cache_are_found() {
    let device = Device::emulator();
    let buffer = Buffer::<bf16>::zeros(&device, 4 * 16 * 64).unwrap();
    let pages = buffer.view([4, 1, 16, 64]);
    let q = Buffer::<bf16>::zeros(&device, 64).unwrap();
    for (length, table, expected) in [
        (33, [0, 1], "found a length beyond the room of its sequence"),
        (-1, [0, 1], "found a length beyond the room of its sequence"),
        (17, [0, 4], "found a page that is none of the cache"),
        (17, [-1, 1], "found a page that is none of the cache"),
        (16, [3, 4], ""),
    ] {
        let stream = Stream::new(&device).unwrap();
        let lengths = Buffer::from_slice(&device, &[length]).unwrap();
        let table = Buffer::from_slice(&device, &table).unwrap();
        let cache = Cache {
            keys: &pages,
            values: &pages,
            lengths: &lengths,
            table: Some(&table),
            scales: None,
            checked: true,
        };
        let attention = Attention::new(&device);
        let result = attention.decode(&stream, &q.view([1, 1, 1, 64]), &cache, &Options::default());
        let error = match result {
            Err(error) => error.to_string(),
            Ok(_) => match stream.synchronize() {
                Err(error) => error.to_string(),
                Ok(()) => String::new(),
            },
        };
        assert_eq!(error.is_empty(), expected.is_empty(), "{error}");
        // The message of the assertion is printed by the device; the error names the kernel and the line.
        assert!(
            expected.is_empty() || error.contains("check_pages"),
            "{error}"
        );
    }
}

#[track_caller]
fn refused(
    [q, keys, values]: [[usize; 4]; 3],
    [lengths, entries]: [usize; 2],
    options: &Options<'_>,
    expected: &str,
) {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let buffer = Buffer::<bf16>::zeros(&device, 1 << 17).unwrap();
    let [q, keys, values] = [q, keys, values].map(|shape| buffer.view(shape));
    let lengths = Buffer::<i32>::zeros(&device, lengths).unwrap();
    let table = Buffer::<i32>::zeros(&device, entries.max(1)).unwrap();
    let cache = Cache {
        keys: &keys,
        values: &values,
        lengths: &lengths,
        table: (entries > 0).then_some(&table),
        scales: None,
        checked: false,
    };
    match Attention::new(&device).decode(&stream, &q, &cache, options) {
        Err(error @ Error::Argument { .. }) => assert_eq!(error.to_string(), expected),
        Err(error) => panic!("refused otherwise: {error}"),
        Ok(_) => panic!("not refused"),
    }
}

#[test]
fn caches_that_do_not_fit_are_named() {
    let none = Options::default();
    let (q, x) = ([2, 8, 1, 64], [2, 1, 32, 64]);
    for (shapes, counts, expected) in [
        (
            [q, [3, 1, 32, 64], [3, 1, 32, 64]],
            [2, 0],
            "`cache.keys`: found batch 3; expected 2, one for each sequence, without a table of pages",
        ),
        (
            [q, [2, 3, 32, 64], [2, 3, 32, 64]],
            [2, 0],
            "`cache.keys`: found heads 3; expected a divisor of q's 8 heads",
        ),
        (
            [q, [2, 1, 32, 128], x],
            [2, 0],
            "`cache.keys`: found depth 128; expected 64, that of q",
        ),
        (
            [q, x, [2, 1, 31, 64]],
            [2, 0],
            "`cache.values`: found pages, heads and tokens [2, 1, 31]; expected [2, 1, 32], those of cache.keys",
        ),
        (
            [q, x, x],
            [1, 0],
            "`cache.lengths`: found 1 elements; expected 2, one for each sequence",
        ),
        (
            [q, x, x],
            [2, 3],
            "`cache.table`: found 3 entries; expected as many, 1 or more, for each of 2 sequences",
        ),
        (
            [q, [2, 1, 24, 64], [2, 1, 24, 64]],
            [2, 4],
            "`cache.keys`: found pages of 24 tokens; expected a multiple of 16",
        ),
        (
            [[2, 80, 1, 64], x, x],
            [2, 0],
            "`q`: found 80 heads for each head of the cache; expected at most 64",
        ),
        (
            [[2, 8, 1, 96], [2, 1, 32, 96], [2, 1, 32, 96]],
            [2, 0],
            "`q`: found depth 96 with values of 96; expected one that is built (depth/values): 64/64, 128/128, 256/256",
        ),
    ] {
        refused(shapes, counts, &none, &format!("attention: {expected}"));
    }
    refused(
        [q, x, x],
        [2, 0],
        &Options {
            chunk: Some(4),
            ..none
        },
        "attention: `options.chunk`: found a value; expected none: a sequence has the length that cache.lengths says, and its last query is at its last key",
    );
}

/// A cache of e4m3 in pages, with a factor for each token of the keys and one for all values.
#[test]
fn elements_of_8_bits_are_multiplied_by_their_scales() {
    const DEPTH: usize = 64;
    const PAGE: usize = 16;
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let narrow = |seed: usize| -> Vec<E4m3> {
        let numbers = numbers(8 * 2 * PAGE * DEPTH, seed);
        let numbers = numbers.iter().map(|x| E4m3::from_f32(x.to_f32()));
        numbers.collect()
    };
    let host = [narrow(1), narrow(2)];
    let buffers = [0, 1].map(|at| Buffer::from_slice(&device, &host[at]).unwrap());
    let [keys, values] = [0, 1].map(|at| buffers[at].view([8, 2, PAGE, DEPTH]));
    let of_tokens: Vec<f32> = (0..8 * PAGE * 2)
        .map(|at| 0.5 + (at % 13) as f32 / 8.0)
        .collect();
    let [of_keys, of_values] =
        [&of_tokens[..], &[1.5]].map(|scales| Buffer::from_slice(&device, scales).unwrap());
    // In the order page, token, head.
    let scales = CacheScales {
        keys: &of_keys.view([8, 2, PAGE]).with_strides([2 * PAGE, 1, 2]),
        values: &of_values.view([8, 2, PAGE]).with_strides([0, 0, 0]),
    };
    let table = [7, 2, 0, 3, 1, 6];
    let of_table = Buffer::from_slice(&device, &table).unwrap();
    let lengths = [37, 5];
    let of_lengths = Buffer::from_slice(&device, &lengths.map(|x| x as i32)).unwrap();
    let cache = Cache {
        keys: &keys,
        values: &values,
        lengths: &of_lengths,
        table: Some(&of_table),
        scales: Some(scales),
        checked: true,
    };
    let q = numbers(2 * 4 * DEPTH, 3);
    let of_q = Buffer::from_slice(&device, &q).unwrap();
    let options = Options::default();
    let result = Attention::new(&device)
        .decode(&stream, &of_q.view([2, 4, 1, DEPTH]), &cache, &options)
        .unwrap();
    stream.synchronize().unwrap();
    let out = result.out.to_vec().unwrap();
    for row in 0..2 * 4 {
        let (batch, head) = (row / 4, row % 4 / 2);
        let rows = |side: usize| -> Vec<Vec<bf16>> {
            let row = |key: usize| {
                let page = table[batch * 3 + key / PAGE] as usize;
                let line = (page * 2 + head) * PAGE + key % PAGE;
                let of_token = of_tokens[(page * PAGE + key % PAGE) * 2 + head];
                let scale = [of_token, 1.5][side];
                let elements = host[side][line * DEPTH..][..DEPTH].iter();
                elements
                    .map(|x| bf16::from_f32(x.to_f64() as f32 * scale))
                    .collect()
            };
            (0..lengths[batch]).map(row).collect()
        };
        let [k, v] = [rows(0), rows(1)];
        let [k, v] = [&k, &v].map(|rows| rows.iter().map(|row| &row[..]).collect::<Vec<_>>());
        let wanted = attend(&q[row * DEPTH..][..DEPTH], &k, &v);
        for (column, wanted) in wanted.iter().enumerate() {
            let found = out[row * DEPTH + column].to_f64();
            assert!(
                (found - wanted).abs() <= 1e-2,
                "row {row}, column {column}: found {found}, expected {wanted}"
            );
        }
    }
}

#[test]
fn scales_that_do_not_fit_a_cache_are_named() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let attention = Attention::new(&device);
    let wide = Buffer::<bf16>::zeros(&device, 16 * 64).unwrap();
    let narrow = Buffer::<E4m3>::zeros(&device, 16 * 64).unwrap();
    let lengths = Buffer::<i32>::zeros(&device, 1).unwrap();
    let one = Buffer::<f32>::zeros(&device, 16).unwrap();
    let [good, bad] = [one.view([1, 1, 16]), one.view([1, 16])];
    let q = wide.view([1, 1, 1, 64]);
    let options = Options::default();
    let scales = |keys, values| Some(CacheScales { keys, values });
    let of_narrow = narrow.view([1, 1, 16, 64]);
    let decode = |scales| {
        let cache = Cache {
            keys: &of_narrow,
            values: &of_narrow,
            lengths: &lengths,
            table: None,
            scales,
            checked: false,
        };
        attention.decode(&stream, &q, &cache, &options)
    };
    let error = |result: Result<_, Error>| match result {
        Err(error @ Error::Argument { .. }) => error.to_string(),
        Err(error) => panic!("refused otherwise: {error}"),
        Ok::<tilekit_kernels::attention::Forward<bf16>, _>(_) => panic!("not refused"),
    };
    assert_eq!(
        error(decode(None)),
        "attention: `cache.scales`: found none; expected factors, since the cache has elements of 8 bits"
    );
    assert_eq!(
        error(decode(scales(&good, &bad))),
        "attention: `cache.scales.values`: found shape [1, 16] with 2 strides; expected [1, 1, 16], pages, heads and tokens of cache.keys"
    );
    let of_wide = wide.view([1, 1, 16, 64]);
    let cache = Cache {
        keys: &of_wide,
        values: &of_wide,
        lengths: &lengths,
        table: None,
        scales: scales(&good, &good),
        checked: false,
    };
    assert_eq!(
        error(attention.decode(&stream, &q, &cache, &options)),
        "attention: `cache.scales`: found a value; expected none: the cache has the elements of q"
    );
}
