//! Attention as a program calls it, on the emulator.

#![allow(
    clippy::unwrap_used,
    reason = "what fails here ends the test at its line"
)]

use tilekit::prelude::*;
use tilekit_kernels::attention::{Attention, Error, Lengths, Modifier, Options, Place};

/// Numbers that repeat after no tensor's extent.
fn numbers<T: Rounded>(len: usize, seed: usize) -> Vec<T> {
    let of = |at: usize| ((at * 37 + seed * 101) % 211) as f32 / 105.0 - 1.0;
    (0..len).map(|at| T::of(of(at))).collect()
}

/// An element of a test's tensors.
trait Rounded: DeviceElement {
    fn of(number: f32) -> Self;
    fn back(self) -> f64;
}

impl Rounded for bf16 {
    fn of(number: f32) -> Self {
        bf16::from_f32(number)
    }
    fn back(self) -> f64 {
        self.to_f64()
    }
}

impl Rounded for f16 {
    fn of(number: f32) -> Self {
        f16::from_f32(number)
    }
    fn back(self) -> f64 {
        self.to_f64()
    }
}

/// Queries, keys, depth, and values of one head, on the host.
struct Head<'a> {
    q: &'a [f64],
    k: &'a [f64],
    v: &'a [f64],
    depths: [usize; 2],
}

impl Head<'_> {
    /// Output and LSE of a query to the keys `seen`, whose scores are changed by `score(score, key)`.
    fn attend(
        &self,
        query: usize,
        seen: &[usize],
        score: impl Fn(f64, usize) -> f64,
    ) -> (Vec<f64>, f64) {
        let [depth, columns] = self.depths;
        let scores: Vec<f64> = seen
            .iter()
            .map(|&key| {
                let [x, y] = [&self.q[query * depth..], &self.k[key * depth..]];
                let product: f64 = x.iter().zip(y).take(depth).map(|(x, y)| x * y).sum();
                score(product / (depth as f64).sqrt(), key)
            })
            .collect();
        let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let total: f64 = scores.iter().map(|score| (score - max).exp()).sum();
        let mut out = vec![0.0; columns];
        for (score, &key) in scores.iter().zip(seen) {
            let weight = (score - max).exp() / total;
            for (sum, v) in out.iter_mut().zip(&self.v[key * columns..]) {
                *sum += weight * v;
            }
        }
        let lse = if seen.is_empty() {
            f64::NEG_INFINITY
        } else {
            max + total.ln()
        };
        (out, lse)
    }
}

#[track_caller]
fn near(found: f64, wanted: f64, what: &str) {
    let is_same = found.is_infinite() && found.total_cmp(&wanted).is_eq();
    let is_near = is_same || (found - wanted).abs() <= 4e-3 + 8e-3 * wanted.abs();
    assert!(is_near, "{what}: found {found}, expected {wanted}");
}

/// Compares a result of `[heads, queries]` rows, each query of which sees the keys that `sees` says.
fn check_heads<T: Rounded>(
    [q, k, v]: [&[T]; 3],
    (out, lse): (&[T], &[f32]),
    [heads, kv_heads, queries, keys, depth, columns]: [usize; 6],
    sees: impl Fn(usize, usize) -> bool,
    score: impl Fn(f64, usize, usize) -> f64,
) {
    let back = |x: &[T]| x.iter().map(|x| x.back()).collect::<Vec<f64>>();
    let [q, k, v] = [back(q), back(k), back(v)];
    for head in 0..heads {
        let kv = head * kv_heads / heads;
        let q = &q[head * queries * depth..];
        let (k, v) = (&k[kv * keys * depth..], &v[kv * keys * columns..]);
        let on_host = Head {
            q,
            k,
            v,
            depths: [depth, columns],
        };
        for query in 0..queries {
            let seen: Vec<usize> = (0..keys).filter(|&key| sees(query, key)).collect();
            let (wanted, of_lse) = on_host.attend(query, &seen, |s, key| score(s, query, key));
            let row = head * queries + query;
            for (column, wanted) in wanted.iter().enumerate() {
                let found = out[row * columns + column].back();
                near(
                    found,
                    *wanted,
                    &format!("head {head}, query {query}, column {column}"),
                );
            }
            near(
                f64::from(lse[row]),
                of_lse,
                &format!("LSE of head {head}, query {query}"),
            );
        }
    }
}

/// One call on dense tensors of one batch.
fn check<T: Rounded + tilekit_kernels::attention::Operand>(
    sizes: [usize; 6],
    options: &Options<'_>,
    sees: impl Fn(usize, usize) -> bool,
) {
    let [heads, kv_heads, queries, keys, depth, columns] = sizes;
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let attention = Attention::new(&device);
    let host = [
        numbers::<T>(heads * queries * depth, 1),
        numbers::<T>(kv_heads * keys * depth, 2),
        numbers::<T>(kv_heads * keys * columns, 3),
    ];
    let [q, k, v] = [0, 1, 2].map(|at| Buffer::from_slice(&device, &host[at]).unwrap());
    let q = q.view([1, heads, queries, depth]);
    let (k, v) = (
        k.view([1, kv_heads, keys, depth]),
        v.view([1, kv_heads, keys, columns]),
    );
    // Twice: the workspace of the stream is as it was.
    for _ in 0..2 {
        let result = attention.forward(&stream, [&q, &k, &v], options).unwrap();
        stream.synchronize().unwrap();
        let found = (
            &result.out.to_vec().unwrap()[..],
            &result.lse.to_vec().unwrap()[..],
        );
        let of_default = (depth as f64).sqrt();
        let factor = options
            .scale
            .map_or(1.0, |scale| f64::from(scale) * of_default);
        check_heads(
            [&host[0], &host[1], &host[2]],
            found,
            sizes,
            &sees,
            |s, _, _| s * factor,
        );
    }
}

#[test]
fn a_tuned_instance_is_taken_where_one_fits() {
    let options = Options {
        causal: true,
        ..Options::default()
    };
    check::<bf16>([2, 1, 70, 70, 64, 64], &options, |query, key| key <= query);
    check::<f16>([1, 1, 70, 70, 128, 128], &Options::default(), |_, _| true);
}

#[test]
fn fewer_queries_than_keys_are_the_last_ones() {
    let options = Options {
        causal: true,
        ..Options::default()
    };
    check::<f16>([8, 1, 3, 100, 64, 64], &options, |query, key| {
        key <= query + 97
    });
    let from_first = Options {
        from_first: true,
        ..options
    };
    check::<bf16>([1, 1, 30, 100, 96, 96], &from_first, |query, key| {
        key <= query
    });
}

#[test]
fn every_depth_is_there_for_both_types_packed_and_not() {
    let options = Options {
        causal: true,
        ..Options::default()
    };
    for [depth, columns] in [[64, 64], [96, 96], [128, 128], [192, 128], [256, 256]] {
        for [heads, kv_heads, queries] in [[8, 1, 9], [2, 1, 65]] {
            let sizes = [heads, kv_heads, queries, 70, depth, columns];
            let sees = |query: usize, key: usize| key + queries <= query + 70;
            check::<bf16>(sizes, &options, sees);
            check::<f16>(sizes, &options, sees);
        }
    }
}

/// Scores of up to 1e4 and more, which are weights of 0 and 1: in the tuned instances, of which those of depths 64 and 256 rescale lazily, and in the others.
#[test]
fn overlong_scores_stay_finite() {
    for depth in [64, 128, 256] {
        for causal in [false, true] {
            let options = Options {
                causal,
                scale: Some(500.0),
                ..Options::default()
            };
            let sees = |query: usize, key: usize| !causal || key <= query;
            check::<bf16>([1, 1, 200, 200, depth, depth], &options, sees);
        }
    }
    let options = Options {
        scale: Some(500.0),
        ..Options::default()
    };
    check::<f16>([2, 1, 30, 129, 96, 96], &options, |_, _| true);
}

#[test]
fn no_keys_give_rows_of_zeros() {
    check::<bf16>([2, 1, 5, 0, 64, 64], &Options::default(), |_, _| true);
}

#[test]
fn sequences_of_several_lengths_keep_to_themselves() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let attention = Attention::new(&device);
    let depth = 64;
    let (queries, keys) = ([0, 40, 40, 45], [0, 30, 90, 90]);
    let host = [1, 2, 3].map(|seed| numbers::<bf16>(90 * depth, seed));
    let [q, k, v] = [0, 1, 2].map(|at| Buffer::from_slice(&device, &host[at]).unwrap());
    let [query_offsets, key_offsets] =
        [&queries, &keys].map(|offsets| Buffer::from_slice(&device, offsets).unwrap());
    let options = Options {
        lengths: Some(Lengths {
            query_offsets: &query_offsets,
            key_offsets: &key_offsets,
            longest: 40,
            longest_keys: 60,
        }),
        ..Options::default()
    };
    let q = q.view([1, 1, 45, depth]);
    let [k, v] = [&k, &v].map(|x| x.view([1, 1, 90, depth]));
    let result = attention.forward(&stream, [&q, &k, &v], &options).unwrap();
    stream.synchronize().unwrap();
    let found = (
        &result.out.to_vec().unwrap()[..],
        &result.lse.to_vec().unwrap()[..],
    );
    let sees = |query: usize, key: usize| {
        let sequence = (1..3).filter(|&at| queries[at] as usize <= query).count();
        (keys[sequence] as usize..keys[sequence + 1] as usize).contains(&key)
    };
    let sizes = [1, 1, 45, 90, depth, depth];
    check_heads(
        [&host[0], &host[1], &host[2]],
        found,
        sizes,
        sees,
        |s, _, _| s,
    );
}

/// A query sees the keys of its own 32, and each key further away counts less.
#[derive(Clone, Copy)]
struct Local;

impl Modifier for Local {
    const MASKS: bool = true;

    fn scores(scores: Tensor<f32>, at: Place) -> Tensor<f32> {
        scores * at.scale - (at.query - at.key).abs().cast::<f32>() * 0.125
    }

    #[device]
    fn sees(at: Place) -> Tensor<bool> {
        at.key / 32 == at.query / 32
    }
}

#[test]
fn an_author_changes_and_masks_scores() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let attention = Attention::new(&device);
    let sizes = [2, 2, 140, 140, 64, 64];
    let host = [1, 2, 3].map(|seed| numbers::<bf16>(2 * 140 * 64, seed));
    let buffers = [0, 1, 2].map(|at| Buffer::from_slice(&device, &host[at]).unwrap());
    let [q, k, v] = [0, 1, 2].map(|at| buffers[at].view([1, 2, 140, 64]));
    let out = Buffer::<bf16>::new(&device, 2 * 140 * 64).unwrap();
    let lse = Buffer::<f32>::new(&device, 2 * 140).unwrap();
    let of_out = out.view([1, 2, 140, 64]);
    let options = Options::default();
    attention
        .forward_modified::<bf16, Local>(&stream, [&q, &k, &v], &of_out, &lse, &options, None)
        .unwrap();
    stream.synchronize().unwrap();
    check_heads(
        [&host[0], &host[1], &host[2]],
        (&out.to_vec().unwrap(), &lse.to_vec().unwrap()),
        sizes,
        |query, key| query / 32 == key / 32,
        |score, query, key| score - query.abs_diff(key) as f64 * 0.125,
    );
}

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
