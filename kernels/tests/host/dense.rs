//! Calls on heads of equally many queries, and of sequences of several lengths.

use tilekit::prelude::*;
use tilekit_kernels::attention::{Attention, Lengths, Options};

use super::problem::{check, check_heads, numbers};

#[test]
fn a_tuned_instance_is_taken_where_one_fits() {
    let options = Options {
        causal: true,
        ..Options::default()
    };
    check::<bf16>([2, 1, 70, 70, 64, 64], &options, |query, key| key <= query);
    check::<f16>([1, 1, 70, 70, 128, 128], &Options::default(), |_, _| true);
}

/// Batch, tokens, heads, depth in memory, as torch has them: the same bits as batch, heads, tokens, depth.
#[test]
fn heads_inside_of_tokens_give_the_bits_of_tokens_inside_of_heads() {
    let (batch, heads, kv_heads, tokens, depth) = (2, 4, 2, 70, 64);
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let attention = Attention::new(&device);
    let options = Options {
        causal: true,
        ..Options::default()
    };
    let inside = |x: &[bf16], heads: usize| -> Vec<bf16> {
        let of = |at: usize| {
            let (row, column) = (at / depth, at % depth);
            let (line, head) = (row / heads, row % heads);
            let (batch, token) = (line / tokens, line % tokens);
            x[((batch * heads + head) * tokens + token) * depth + column]
        };
        (0..x.len()).map(of).collect()
    };
    let lens = [heads, kv_heads, kv_heads];
    let host = [0, 1, 2].map(|at| numbers::<bf16>(batch * lens[at] * tokens * depth, at + 1));
    let outer = [0, 1, 2].map(|at| Buffer::from_slice(&device, &host[at]).unwrap());
    let inner =
        [0, 1, 2].map(|at| Buffer::from_slice(&device, &inside(&host[at], lens[at])).unwrap());
    let outer = [0, 1, 2].map(|at| outer[at].view([batch, lens[at], tokens, depth]));
    let strides = |heads: usize| [tokens * heads * depth, depth, heads * depth, 1];
    let inner = [0, 1, 2].map(|at| {
        let view = inner[at].view([batch, lens[at], tokens, depth]);
        view.with_strides(strides(lens[at]))
    });
    let wanted = attention
        .forward(&stream, outer.each_ref(), &options)
        .unwrap();
    let out = Buffer::<bf16>::zeros(&device, batch * heads * tokens * depth).unwrap();
    let lse = Buffer::<f32>::zeros(&device, batch * heads * tokens).unwrap();
    let to = out
        .view([batch, heads, tokens, depth])
        .with_strides(strides(heads));
    attention
        .forward_into(&stream, inner.each_ref(), &to, &lse, &options)
        .unwrap();
    stream.synchronize().unwrap();
    assert_eq!(
        out.to_vec().unwrap(),
        inside(&wanted.out.to_vec().unwrap(), heads)
    );
    assert_eq!(lse.to_vec().unwrap(), wanted.lse.to_vec().unwrap());
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

/// More heads than a grid has programs in its second dimension.
#[test]
fn no_keys_give_rows_of_zeros_in_any_number_of_heads() {
    let sizes = [65_537, 1, 1, 0, 64, 64];
    check::<bf16>(sizes, &Options::default(), |_, _| true);
}

/// Tokens of one head, whose strides along extents of 1 fit nothing.
fn oddly_placed(x: &Buffer<bf16>, tokens: usize) -> TensorView<'_, bf16> {
    let view = x.view([1, 1, tokens, 64]);
    view.with_strides([usize::MAX, 5, 3, 1])
}

/// No index multiplies the stride of an extent of 1: with keys, where rows are masked, and without.
#[test]
fn strides_of_extents_of_1_are_any_numbers() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let attention = Attention::new(&device);
    let x = Buffer::from_slice(&device, &numbers::<bf16>(64, 1)).unwrap();
    let options = Options {
        window: [Some(2), None],
        ..Options::default()
    };
    for keys in [1, 0] {
        let out = Buffer::<bf16>::new(&device, 64).unwrap();
        let lse = Buffer::<f32>::new(&device, 1).unwrap();
        let (q, k) = (oddly_placed(&x, 1), oddly_placed(&x, keys));
        attention
            .forward_into(
                &stream,
                [&q, &k, &k],
                &oddly_placed(&out, 1),
                &lse,
                &options,
            )
            .unwrap();
        stream.synchronize().unwrap();
        let wanted = if keys == 1 {
            x.to_vec()
        } else {
            Ok(vec![bf16::ZERO; 64])
        };
        assert_eq!(out.to_vec().unwrap(), wanted.unwrap(), "{keys} keys");
    }
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
