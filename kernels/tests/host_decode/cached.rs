//! Caches in pages and in splits.

use tilekit::prelude::*;
use tilekit_kernels::attention::{Attention, Cache, Options};

use super::problem::{attend, numbers};

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
