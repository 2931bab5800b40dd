//! Attention of 8-bit floats as a program calls it, on the emulator.

#![allow(
    clippy::unwrap_used,
    reason = "what fails here ends the test at its line"
)]

use tilekit::prelude::*;
use tilekit_kernels::attention::{Attention, Factors, Options};

/// Numbers of e4m3 that repeat after no tensor's extent.
fn numbers(len: usize, seed: usize, least: f32) -> Vec<E4m3> {
    let of = |at: usize| ((at * 37 + seed * 101) % 211) as f32 / 105.0 + least;
    (0..len).map(|at| E4m3::from_f32(of(at))).collect()
}

/// Output and LSE of a query to the first `seen` keys of its head: rows of `depth` elements, `step` apart.
fn attend(
    [q, k, v]: [&[E4m3]; 3],
    [seen, step, depth]: [usize; 3],
    [of_scores, of_values]: [f64; 2],
) -> (Vec<f64>, f64) {
    let scores: Vec<f64> = (0..seen)
        .map(|key| {
            let row = &k[key * step..][..depth];
            let product: f64 = q
                .iter()
                .zip(row)
                .map(|(x, y)| x.to_f64() * y.to_f64())
                .sum();
            product * of_scores
        })
        .collect();
    let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = scores.iter().map(|score| (score - max).exp()).sum();
    let mut out = vec![0.0; depth];
    for (key, score) in scores.iter().enumerate() {
        let weight = (score - max).exp() / total * of_values;
        for (sum, v) in out.iter_mut().zip(&v[key * step..]) {
            *sum += weight * v.to_f64();
        }
    }
    (out, max + total.ln())
}

/// Tensors in torch's order, batch, tokens, heads, depth, with a head of K and V for two of Q.
fn check(depth: usize, causal: bool, scale: f32) {
    let (batch, heads, kv_heads, tokens) = (2, 4, 2, 150);
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let len = |heads: usize| batch * tokens * heads * depth;
    // Values are not negative, so that the error of P is the relative one of the output.
    let host = [
        numbers(len(heads), 1, -1.0),
        numbers(len(kv_heads), 2, -1.0),
        numbers(len(kv_heads), 3, 0.0),
    ];
    let buffers = host
        .each_ref()
        .map(|x| Buffer::from_slice(&device, x).unwrap());
    let view = |buffer: &'static str, heads: usize| {
        let at = ["q", "k", "v"].iter().position(|name| *name == buffer);
        buffers[at.unwrap()]
            .view([batch, heads, tokens, depth])
            .with_strides([tokens * heads * depth, depth, heads * depth, 1])
    };
    let [q, k, v] = [view("q", heads), view("k", kv_heads), view("v", kv_heads)];
    let factors = [heads, kv_heads, kv_heads].map(|heads| {
        let of_head = |at: usize| 0.5 + at as f32 * 0.25;
        (0..batch * heads).map(of_head).collect::<Vec<f32>>()
    });
    let of_factors = factors
        .each_ref()
        .map(|x| Buffer::from_slice(&device, x).unwrap());
    let given = Factors {
        q: &of_factors[0],
        k: &of_factors[1],
        v: &of_factors[2],
    };
    let options = Options {
        causal,
        scale: Some(scale),
        ..Options::default()
    };
    let result = Attention::new(&device)
        .forward_fp8(&stream, [&q, &k, &v], &given, &options)
        .unwrap();
    stream.synchronize().unwrap();
    let (out, lse) = (result.out.to_vec().unwrap(), result.lse.to_vec().unwrap());
    for line in 0..batch * heads {
        let (of_batch, head) = (line / heads, line % heads);
        let kv = head / 2;
        let of_scores = factors[0][line] * factors[1][of_batch * kv_heads + kv];
        let both = [
            f64::from(of_scores) * f64::from(scale),
            factors[2][of_batch * kv_heads + kv].into(),
        ];
        let step = kv_heads * depth;
        let first = of_batch * tokens * step + kv * depth;
        for token in 0..tokens {
            let at = ((of_batch * tokens + token) * heads + head) * depth;
            let seen = if causal { token + 1 } else { tokens };
            let operands = [
                &host[0][at..at + depth],
                &host[1][first..],
                &host[2][first..],
            ];
            let (wanted, of_lse) = attend(operands, [seen, step, depth], both);
            let row = line * tokens + token;
            assert!(
                (f64::from(lse[row]) - of_lse).abs() < 1e-3,
                "LSE of row {row}"
            );
            for (wanted, found) in wanted.iter().zip(&out[row * depth..]) {
                let found = found.to_f64();
                let is_near = (found - wanted).abs() <= 1e-3 + 0.07 * wanted;
                assert!(is_near, "row {row}: found {found}, expected {wanted}");
            }
        }
    }
}

#[test]
fn heads_have_their_factors_at_each_depth() {
    check(64, false, 0.1);
    check(128, true, 0.1);
    check(256, false, 0.1);
}

/// A row sees no key of its first block: its maximum there, times the scale, stays finite.
#[test]
fn rows_without_a_key_in_a_block_stay_finite_at_large_scales() {
    for depth in [64, 128, 256] {
        check(depth, true, 4.0);
    }
}

#[track_caller]
fn refused(shapes: [[usize; 4]; 3], lines: [usize; 3], options: &Options<'_>, expected: &str) {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let buffer = Buffer::<E4m3>::zeros(&device, 1 << 16).unwrap();
    let [q, k, v] = shapes.map(|shape| buffer.view(shape));
    let factors = lines.map(|lines| Buffer::<f32>::zeros(&device, lines).unwrap());
    let given = Factors {
        q: &factors[0],
        k: &factors[1],
        v: &factors[2],
    };
    let result = Attention::new(&device).forward_fp8(&stream, [&q, &k, &v], &given, options);
    let error = result.err().map(|error| error.to_string());
    assert_eq!(
        error.as_deref(),
        Some(format!("attention: {expected}").as_str())
    );
}

#[test]
fn what_is_not_built_for_eight_bits_is_named() {
    let none = Options::default();
    let x = [1, 2, 8, 64];
    refused(
        [[1, 2, 8, 96]; 3],
        [2; 3],
        &none,
        "`q`: found depth 96 with values of 96; expected one that is built (depth/values): 64/64, 128/128, 256/256",
    );
    refused(
        [x, [1, 2, 9, 64], [1, 2, 9, 64]],
        [2; 3],
        &none,
        "`k`: found tokens 9; expected 8, those of q, for 8-bit floats",
    );
    refused(
        [x; 3],
        [2, 2, 1],
        &none,
        "`factors.v`: found 1 elements; expected 2, one for each head of each batch",
    );
    refused(
        [x; 3],
        [2; 3],
        &Options {
            softcap: Some(2.0),
            ..none
        },
        "`options.softcap`: found a value; expected none: 8-bit floats have `causal` and `scale` alone",
    );
}
