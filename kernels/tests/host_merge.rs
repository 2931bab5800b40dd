//! Results of several sets of keys, merged, as a program calls it, on the emulator.

#![allow(
    clippy::unwrap_used,
    reason = "what fails here ends the test at its line"
)]

use tilekit::prelude::*;
use tilekit_kernels::attention::{
    Attention, Cache, CacheScales, Error, Forward, Options, PartialResult,
};

const DEPTH: usize = 64;

/// Numbers that repeat after no tensor's extent.
fn numbers(len: usize, seed: usize) -> Vec<bf16> {
    let of = |at: usize| ((at * 37 + seed * 101) % 211) as f32 / 105.0 - 1.0;
    (0..len).map(|at| bf16::from_f32(of(at))).collect()
}

/// Four parts of the keys of one call, of which one has no keys, in another order of memory, into the place of the first.
#[test]
fn parts_of_the_keys_are_merged() {
    const KEYS: usize = 160;
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let attention = Attention::new(&device);
    let [k, v] =
        [1, 2].map(|seed| Buffer::from_slice(&device, &numbers(2 * KEYS * DEPTH, seed)).unwrap());
    let q = Buffer::from_slice(&device, &numbers(2 * 3 * DEPTH, 3)).unwrap();
    let q = q.view([1, 2, 3, DEPTH]);
    let part = |from: usize, keys: usize| -> Forward<bf16> {
        let strides = [2 * KEYS * DEPTH, KEYS * DEPTH, DEPTH, 1];
        let of = |buffer| -> TensorView<'_, bf16> {
            let view: TensorView<'_, bf16> = Buffer::view(buffer, [1, 2, keys, DEPTH]);
            view.with_strides(strides).with_offset(from * DEPTH)
        };
        let out = Buffer::new(&device, 2 * 3 * DEPTH).unwrap();
        let lse = Buffer::new(&device, 2 * 3).unwrap();
        // Tokens outside of heads.
        let to = out
            .view([1, 2, 3, DEPTH])
            .with_strides([6 * DEPTH, DEPTH, 2 * DEPTH, 1]);
        let options = Options::default();
        attention
            .forward_into(&stream, [&q, &of(&k), &of(&v)], &to, &lse, &options)
            .unwrap();
        Forward { out, lse }
    };
    let parts = [part(0, 100), part(100, 1), part(101, 0), part(101, 59)];
    let all = part(0, KEYS);
    let views = parts.each_ref().map(|part| {
        let view = part.out.view([1, 2, 3, DEPTH]);
        view.with_strides([6 * DEPTH, DEPTH, 2 * DEPTH, 1])
    });
    let given: Vec<PartialResult<'_, bf16>> = (0..4)
        .map(|at| PartialResult {
            out: &views[at],
            lse: &parts[at].lse,
        })
        .collect();
    let lse = Buffer::new(&device, 2 * 3).unwrap();
    for (count, keys) in [(2, 101), (3, 101), (4, KEYS)] {
        let wanted = part(0, keys);
        let merged = attention.merge(&stream, &given[..count]).unwrap();
        stream.synchronize().unwrap();
        let [found, of_wanted] = [&merged.out, &wanted.out].map(|out| out.to_vec().unwrap());
        for (at, found) in found.iter().enumerate() {
            let (head, token, column) = (at / DEPTH / 3, at / DEPTH % 3, at % DEPTH);
            let wanted = of_wanted[(token * 2 + head) * DEPTH + column].to_f64();
            assert!(
                (found.to_f64() - wanted).abs() <= 8e-3,
                "{count} parts, element {at}: found {found}, expected {wanted}"
            );
        }
        let [found, wanted] = [&merged.lse, &wanted.lse].map(|lse| lse.to_vec().unwrap());
        for (row, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
            assert!(
                (found - wanted).abs() <= 1e-4,
                "{count} parts, row {row}: found {found}, expected {wanted}"
            );
        }
    }
    attention
        .merge_into(&stream, &given, &views[0], &lse)
        .unwrap();
    stream.synchronize().unwrap();
    let [found, wanted] = [&parts[0].out, &all.out].map(|out| out.to_vec().unwrap());
    for (at, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
        let (found, wanted) = (found.to_f64(), wanted.to_f64());
        assert!(
            (found - wanted).abs() <= 8e-3,
            "element {at}: found {found}, expected {wanted}"
        );
    }
    let [found, wanted] = [&lse, &all.lse].map(|lse| lse.to_vec().unwrap());
    for (row, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
        assert!(
            (found - wanted).abs() <= 1e-4,
            "row {row}: found {found}, expected {wanted}"
        );
    }
}

/// Three sequences share 70 keys and have 0, 9 and 20 more; their queries attend to both as to one cache that has all. The prefix has 8 bits.
#[test]
fn a_shared_prefix_is_what_each_sequence_with_a_copy_of_it_is() {
    const SHARED: usize = 70;
    const ROOM: usize = 96;
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let attention = Attention::new(&device);
    let own = [0, 9, 20];
    let narrow = |seed: usize| -> Vec<E4m3> {
        let numbers = numbers(SHARED * DEPTH, seed);
        numbers.iter().map(|x| E4m3::from_f32(x.to_f32())).collect()
    };
    let shared = [narrow(1), narrow(2)];
    let more = [numbers(3 * ROOM * DEPTH, 3), numbers(3 * ROOM * DEPTH, 4)];
    let whole = [0, 1].map(|side| -> Vec<bf16> {
        let of = |at: usize| {
            let (sequence, key, column) = (at / DEPTH / ROOM, at / DEPTH % ROOM, at % DEPTH);
            if key < SHARED {
                bf16::from_f64(shared[side][key * DEPTH + column].to_f64())
            } else {
                more[side][(sequence * ROOM + key - SHARED) * DEPTH + column]
            }
        };
        (0..3 * ROOM * DEPTH).map(of).collect()
    });
    let shared = shared
        .each_ref()
        .map(|of| Buffer::from_slice(&device, of).unwrap());
    let more = more
        .each_ref()
        .map(|of| Buffer::from_slice(&device, of).unwrap());
    let whole = whole
        .each_ref()
        .map(|of| Buffer::from_slice(&device, of).unwrap());
    let shared = shared.each_ref().map(|of| of.view([1, 1, SHARED, DEPTH]));
    let more = more.each_ref().map(|of| of.view([3, 1, ROOM, DEPTH]));
    let whole = whole.each_ref().map(|of| of.view([3, 1, ROOM, DEPTH]));
    let lengths = |lengths: &[i32]| Buffer::from_slice(&device, lengths).unwrap();
    let (of_shared, of_own) = (lengths(&[SHARED as i32]), lengths(&own));
    let of_whole = lengths(&own.map(|own| own + SHARED as i32));
    let one = Buffer::from_slice(&device, &[1.0f32]).unwrap();
    let one = one.view([1, 1, SHARED]).with_strides([0, 0, 0]);
    let prefix = Cache {
        keys: &shared[0],
        values: &shared[1],
        lengths: &of_shared,
        table: None,
        scales: Some(CacheScales {
            keys: &one,
            values: &one,
        }),
        checked: true,
    };
    let cache = Cache {
        keys: &more[0],
        values: &more[1],
        lengths: &of_own,
        table: None,
        scales: None,
        checked: true,
    };
    let q = Buffer::from_slice(&device, &numbers(3 * 4 * DEPTH, 5)).unwrap();
    let q = q.view([3, 4, 1, DEPTH]);
    let sinks = Buffer::from_slice(&device, &[0.5f32, 2.0, -1.0, 4.0]).unwrap();
    let options = Options {
        causal: true,
        sinks: Some(&sinks),
        ..Options::default()
    };
    let found = attention
        .decode_shared(&stream, &q, &prefix, &cache, &options)
        .unwrap();
    let all = Cache {
        keys: &whole[0],
        values: &whole[1],
        lengths: &of_whole,
        ..cache
    };
    let wanted = attention.decode(&stream, &q, &all, &options).unwrap();
    stream.synchronize().unwrap();
    let [of_found, of_wanted] = [&found.out, &wanted.out].map(|out| out.to_vec().unwrap());
    for (at, (found, wanted)) in of_found.iter().zip(&of_wanted).enumerate() {
        let (found, wanted) = (found.to_f64(), wanted.to_f64());
        assert!(
            (found - wanted).abs() <= 8e-3,
            "element {at}: found {found}, expected {wanted}"
        );
    }
    let [of_found, of_wanted] = [&found.lse, &wanted.lse].map(|lse| lse.to_vec().unwrap());
    for (row, (found, wanted)) in of_found.iter().zip(&of_wanted).enumerate() {
        assert!(
            (found - wanted).abs() <= 1e-3,
            "row {row}: found {found}, expected {wanted}"
        );
    }
}

/// A query of NaN attends to nothing that is a number, in no part of the keys: its row was zeros.
#[test]
fn rows_with_nan_stay_so() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let attention = Attention::new(&device);
    let x = Buffer::from_slice(&device, &numbers(32 * DEPTH, 1)).unwrap();
    let x = x.view([1, 1, 32, DEPTH]);
    let mut of_queries = numbers(2 * DEPTH, 2);
    of_queries[DEPTH] = bf16::NAN;
    let q = Buffer::from_slice(&device, &of_queries).unwrap();
    let q = q.view([1, 2, 1, DEPTH]);
    let length = Buffer::from_slice(&device, &[32]).unwrap();
    let cache = Cache {
        keys: &x,
        values: &x,
        lengths: &length,
        table: None,
        scales: None,
        checked: true,
    };
    let options = Options::default();
    let shared = attention
        .decode_shared(&stream, &q, &cache, &cache, &options)
        .unwrap();
    let alone = attention.forward(&stream, [&q, &x, &x], &options).unwrap();
    let part = PartialResult {
        out: &alone.out.view([1, 2, 1, DEPTH]),
        lse: &alone.lse,
    };
    let merged = attention.merge(&stream, &[part, part]).unwrap();
    stream.synchronize().unwrap();
    for result in [shared, alone, merged] {
        let (out, lse) = (result.out.to_vec().unwrap(), result.lse.to_vec().unwrap());
        let (finite, rest) = out.split_at(DEPTH);
        assert!(finite.iter().all(|x| x.is_finite()) && lse[0].is_finite());
        assert!(rest.iter().all(|x| x.is_nan()) && lse[1].is_nan());
    }
}

#[test]
fn results_that_do_not_fit_are_named() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let attention = Attention::new(&device);
    let buffer = Buffer::<bf16>::zeros(&device, 4096).unwrap();
    let lse = [4, 5].map(|len| Buffer::<f32>::zeros(&device, len).unwrap());
    let [four, five, odd] =
        [[1, 2, 2, DEPTH], [1, 1, 5, DEPTH], [1, 2, 2, 12]].map(|shape| buffer.view(shape));
    let part = |out, lse| PartialResult { out, lse };
    let refused =
        |parts: &[PartialResult<'_, bf16>], expected: &str| match attention.merge(&stream, parts) {
            Err(error @ Error::Argument { .. }) => {
                assert_eq!(error.to_string(), format!("attention: {expected}"));
            }
            Err(error) => panic!("refused otherwise: {error}"),
            Ok(_) => panic!("not refused"),
        };
    refused(
        &[part(&four, &lse[0])],
        "`parts`: found 1 results; expected 2 or more",
    );
    refused(
        &[part(&four, &lse[0]), part(&five, &lse[1])],
        "`parts[].out`: found shape [1, 1, 5, 64]; expected [1, 2, 2, 64], that of parts[0].out",
    );
    refused(
        &[part(&four, &lse[0]), part(&four, &lse[1])],
        "`parts[].lse`: found 5 elements; expected 4, one for each query of each head",
    );
    refused(
        &[part(&odd, &lse[0]), part(&odd, &lse[0])],
        "`parts[0].out`: found shape [1, 2, 2, 12]; expected extents of 1 or more, and a depth that is a multiple of 8 up to 512",
    );
    let many = buffer
        .view([1 << 28, 1 << 28, 1 << 28, DEPTH])
        .with_strides([0, 0, 0, 1]);
    let refusal = "attention: `parts[0].out`: found batch, heads and tokens [268435456, 268435456, 268435456]; expected at most 268435456 rows in all";
    refused(
        &[part(&many, &lse[0]), part(&many, &lse[0])],
        refusal.trim_start_matches("attention: "),
    );
    let broadcast = [part(&many, &lse[0]), part(&many, &lse[0])];
    let error = attention
        .merge_into(&stream, &broadcast, &four, &lse[1])
        .unwrap_err();
    assert_eq!(error.to_string(), refusal);
    let parts = [part(&four, &lse[0]), part(&four, &lse[0])];
    let error = attention
        .merge_into(&stream, &parts, &four, &lse[0])
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "attention: `lse`: found the LSE of a part; expected memory of its own"
    );
    let shifted = buffer.view([1, 2, 2, DEPTH]).with_offset(8);
    let own = Buffer::<f32>::zeros(&device, 4).unwrap();
    let error = attention
        .merge_into(&stream, &parts, &shifted, &own)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "attention: `out`: found some of the memory of a part; expected the view of a part, or memory of its own"
    );
}

/// A cache of bf16 without pages, whose keys are its values.
fn cache<'a>(view: &'a TensorView<'a, bf16>, lengths: &'a Buffer<i32>) -> Cache<'a, bf16> {
    Cache {
        keys: view,
        values: view,
        lengths,
        table: None,
        scales: None,
        checked: true,
    }
}

/// Errors of the prefix name it, and come before anything is launched.
#[test]
fn a_prefix_that_does_not_fit_is_named() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let attention = Attention::new(&device);
    let buffer = Buffer::<bf16>::zeros(&device, 2 * 16 * DEPTH).unwrap();
    let view = |batch: usize| buffer.view([batch, 1, 16, DEPTH]);
    let (one, two, odd) = (view(1), view(2), buffer.view([1, 1, 16, 32]));
    let [of_one, of_two] =
        [1, 2].map(|batch| Buffer::from_slice(&device, &vec![16; batch]).unwrap());
    let q = buffer.view([2, 1, 1, DEPTH]);
    for (prefix, own, expected) in [
        (
            cache(&two, &of_two),
            cache(&two, &of_two),
            "`prefix.keys`: found batch 2; expected 1, one for each sequence, without a table of pages",
        ),
        (
            cache(&one, &of_two),
            cache(&two, &of_two),
            "`prefix.lengths`: found 2 elements; expected 1, one for each sequence",
        ),
        (
            cache(&odd, &of_one),
            cache(&two, &of_two),
            "`prefix.keys`: found depth 32; expected 64, that of q",
        ),
        (
            cache(&one, &of_one),
            cache(&one, &of_two),
            "`cache.keys`: found batch 1; expected 2, one for each sequence, without a table of pages",
        ),
    ] {
        let result = attention.decode_shared(&stream, &q, &prefix, &own, &Options::default());
        match result {
            Err(error) => assert_eq!(error.to_string(), format!("attention: {expected}")),
            Ok(_) => panic!("not refused: {expected}"),
        }
    }
}
