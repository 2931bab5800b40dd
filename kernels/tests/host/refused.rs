//! Calls that are refused, and what they are told.

use tilekit::prelude::*;
use tilekit_kernels::attention::{Attention, Error, Lengths, Options};

/// What a call says to views of these shapes and strides.
struct Call {
    shapes: [Vec<usize>; 3],
    strides: Option<Vec<usize>>,
    offset: usize,
}

fn call(q: [usize; 4], k: [usize; 4], v: [usize; 4]) -> Call {
    Call {
        shapes: [q.to_vec(), k.to_vec(), v.to_vec()],
        strides: None,
        offset: 0,
    }
}

#[track_caller]
fn refused(call: &Call, options: &Options<'_>, expected: &str) {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let buffer = Buffer::<bf16>::zeros(&device, 1 << 16).unwrap();
    let [q, k, v] = [0, 1, 2].map(|at| buffer.view(&call.shapes[at][..]));
    let q = q.with_offset(call.offset);
    let q = match &call.strides {
        Some(strides) => q.with_strides(&strides[..]),
        None => q,
    };
    let result = Attention::new(&device).forward(&stream, [&q, &k, &v], options);
    match result {
        Err(error @ Error::Argument { .. }) => assert_eq!(error.to_string(), expected),
        Err(error) => panic!("refused otherwise: {error}"),
        Ok(_) => panic!("not refused"),
    }
}

#[test]
fn shapes_that_do_not_fit_are_named() {
    let none = Options::default();
    let x = [1, 2, 8, 64];
    let built =
        "expected one that is built (depth/values): 64/64, 96/96, 128/128, 192/128, 256/256";
    for (q, k, v, expected) in [
        (
            [1, 2, 0, 64],
            x,
            x,
            "`q`: found tokens 0; expected tokens of 1 or more".to_string(),
        ),
        (
            [0, 2, 8, 64],
            x,
            x,
            "`q`: found batch 0; expected batch of 1 or more".to_string(),
        ),
        (
            x,
            [2, 2, 8, 64],
            x,
            "`k`: found batch 2; expected 1, that of q".to_string(),
        ),
        (
            x,
            [1, 2, 8, 128],
            x,
            "`k`: found depth 128; expected 64, that of q".to_string(),
        ),
        (
            [1, 3, 8, 64],
            x,
            x,
            "`k`: found heads 2; expected a divisor of q's 3 heads".to_string(),
        ),
        (
            x,
            [1, 0, 8, 64],
            x,
            "`k`: found heads 0; expected a divisor of q's 2 heads".to_string(),
        ),
        (
            x,
            x,
            [1, 2, 7, 64],
            "`v`: found tokens 7; expected 8, that of k".to_string(),
        ),
        (
            x,
            x,
            [1, 1, 8, 64],
            "`v`: found heads 1; expected 2, that of k".to_string(),
        ),
        (
            [1, 2, 8, 80],
            [1, 2, 8, 80],
            [1, 2, 8, 80],
            format!("`q`: found depth 80 with values of 80; {built}"),
        ),
        (
            x,
            x,
            [1, 2, 8, 128],
            format!("`q`: found depth 64 with values of 128; {built}"),
        ),
    ] {
        refused(&call(q, k, v), &none, &format!("attention: {expected}"));
    }
}

#[test]
fn offsets_that_tensor_maps_refuse_are_named() {
    let none = Options::default();
    let x = [1, 2, 8, 64];
    let flat = Call {
        shapes: [vec![2, 8, 64], x.to_vec(), x.to_vec()],
        ..call(x, x, x)
    };
    refused(
        &flat,
        &none,
        "attention: `q`: found 3 dimensions and 3 strides; expected 4 of each: batch, heads, tokens, depth",
    );
    for (strides, offset, expected) in [
        (
            vec![1024, 512, 65, 1],
            0,
            "a stride of 65 elements from one of the tokens to the next; expected a multiple of 8, 16 bytes",
        ),
        (
            vec![1024, 516, 64, 1],
            0,
            "a stride of 516 elements from one of the heads to the next; expected a multiple of 8, 16 bytes",
        ),
        (
            vec![1024, 512, 64, 2],
            0,
            "a stride of 2 along the depth; expected 1",
        ),
        (
            vec![1024, 512, 64, 1],
            4,
            "an offset of 4 elements; expected a multiple of 8, 16 bytes",
        ),
    ] {
        let call = Call {
            strides: Some(strides),
            offset,
            ..call(x, x, x)
        };
        refused(&call, &none, &format!("attention: `q`: found {expected}"));
    }
}

#[test]
fn options_that_contradict_are_named() {
    let device = Device::emulator();
    let two = Buffer::<i32>::zeros(&device, 2).unwrap();
    let one = Buffer::<i32>::zeros(&device, 1).unwrap();
    let three = Buffer::<f32>::zeros(&device, 3).unwrap();
    let lengths = |query_offsets, longest| {
        Some(Lengths {
            query_offsets,
            key_offsets: &two,
            longest,
            longest_keys: 8,
        })
    };
    let none = Options::default();
    let x = [1, 2, 8, 64];
    for (options, expected) in [
        (
            Options {
                scale: Some(0.0),
                ..none
            },
            "`options.scale`: found Some(0.0); expected a finite number above 0",
        ),
        (
            Options {
                softcap: Some(f32::NAN),
                ..none
            },
            "`options.softcap`: found Some(NaN); expected a finite number above 0",
        ),
        (
            Options {
                chunk: Some(0),
                ..none
            },
            "`options.chunk`: found 0 keys; expected 1 or more",
        ),
        (
            Options {
                causal: true,
                window: [None, Some(3)],
                ..none
            },
            "`options.window`: found 3 keys behind; expected none or 0 with causal",
        ),
        (
            Options {
                sinks: Some(&three),
                ..none
            },
            "`options.sinks`: found 3 elements; expected 2, one for each head of q",
        ),
        (
            Options {
                softcap: Some(1.0),
                alibi: Some(&three),
                ..none
            },
            "`options.softcap`: found softcap beside alibi; expected one of them; a `Modifier` can do both",
        ),
        (
            Options {
                lengths: lengths(&one, 8),
                ..none
            },
            "`options.lengths.query_offsets`: found 1 offsets; expected 2 or more: a begin for each sequence and the last end",
        ),
        (
            Options {
                lengths: lengths(&two, 9),
                ..none
            },
            "`options.lengths.longest`: found 9; expected 1 to q's 8 tokens",
        ),
        (
            Options {
                lengths: lengths(&two, 8),
                from_first: true,
                ..none
            },
            "`options.from_first`: found true beside lengths; expected false: places count from the end of each sequence",
        ),
    ] {
        refused(&call(x, x, x), &options, &format!("attention: {expected}"));
    }
}

/// Of so many sequences that may all be as long as the longest there are 2^31 tiles.
#[test]
fn more_tiles_than_are_counted_are_named() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let x = Buffer::<bf16>::new(&device, 64 << 16).unwrap();
    let x = x.view([1, 1, 1 << 16, 64]);
    let offsets = Buffer::<i32>::new(&device, (1 << 21) + 1).unwrap();
    let options = Options {
        lengths: Some(Lengths {
            query_offsets: &offsets,
            key_offsets: &offsets,
            longest: 1 << 16,
            longest_keys: 1 << 16,
        }),
        ..Options::default()
    };
    let result = Attention::new(&device).forward(&stream, [&x, &x, &x], &options);
    let error = result.err().map(|error| error.to_string());
    assert_eq!(
        error.as_deref(),
        Some(
            "attention: `options.lengths.longest`: found 65536 for each of 2097152 sequences; expected a bound by which there are at most 2147483647 tiles of 64 tokens in all heads"
        )
    );
}

/// By the positions of slopes the last query has the last key's. They were taken so where the mask counts from the first key too.
#[test]
fn slopes_count_from_the_last_key_alone() {
    let device = Device::emulator();
    let slopes = Buffer::<f32>::zeros(&device, 2).unwrap();
    let options = Options {
        alibi: Some(&slopes),
        from_first: true,
        ..Options::default()
    };
    let keys = [1, 2, 3, 64];
    refused(
        &call([1, 2, 8, 64], keys, keys),
        &options,
        "attention: `options.from_first`: found true with 8 queries and 3 keys, beside slopes or a modifier that reads positions; expected false, or as many queries as keys: those positions count from the last key",
    );
}

/// Results of so many rows and columns were allocated before V was looked at, and there is no such memory.
#[test]
fn values_of_another_depth_are_named_before_there_are_results() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let x = Buffer::<bf16>::zeros(&device, 64).unwrap();
    let [q, k] = [1 << 20, 1].map(|tokens| {
        let view = x.view([1, 1, tokens, 64]);
        view.with_strides([0, 0, 0, 1])
    });
    let v = x.view([1, 1, 1, 1 << 27]);
    let result = Attention::new(&device).forward(&stream, [&q, &k, &v], &Options::default());
    let error = result.err().map(|error| error.to_string());
    assert_eq!(
        error.as_deref(),
        Some(
            "attention: `v`: found a tensor that ends at element 134217728; expected one inside of its buffer of 64 elements"
        )
    );
}

/// Numbers of heads were read while LSE was written over them.
#[test]
fn lse_over_numbers_of_heads_is_named() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let attention = Attention::new(&device);
    let [x, out] = [(); 2].map(|()| Buffer::<bf16>::zeros(&device, 4 * 64).unwrap());
    let numbers = Buffer::<f32>::zeros(&device, 4).unwrap();
    let [x, out] = [&x, &out].map(|buffer| buffer.view([1, 4, 1, 64]));
    let sinks = Options {
        sinks: Some(&numbers),
        ..Options::default()
    };
    let alibi = Options {
        alibi: Some(&numbers),
        ..Options::default()
    };
    for (options, name) in [(sinks, "options.sinks"), (alibi, "options.alibi")] {
        let result = attention.forward_into(&stream, [&x, &x, &x], &out, &numbers, &options);
        let error = result.err().map(|error| error.to_string());
        let expected =
            format!("attention: `lse`: found the memory of {name}; expected memory of its own");
        assert_eq!(error, Some(expected));
    }
}
