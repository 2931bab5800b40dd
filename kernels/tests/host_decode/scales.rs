//! Caches whose elements are multiplied by factors.

use tilekit::prelude::*;
use tilekit_kernels::attention::{Attention, Cache, CacheScales, Options};

use super::problem::{attend, numbers};

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
