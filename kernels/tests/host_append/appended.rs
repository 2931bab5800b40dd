//! Tokens that are appended: one by one, in sequences of several lengths, to heads with a factor of zero.

use tilekit::prelude::*;
use tilekit_kernels::attention::{
    Attention, Cache, CacheScales, NewLengths, NewTokens, Options, Rotary,
};

use crate::inputs::{DEPTH, PAGE, buffer, numbers};

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
