//! Statistics, the largest, and prefix sums, of rows that come block by block.

use tilekit::prelude::*;

use crate::launch;

const BLOCK: usize = 128;

/// `[mean, variance, sample variance]` of each row.
#[kernel(warps = 4)]
fn statistics(x: Ptr<f32>, out: Ptr<f32>, cols: i32) {
    let layout = Blocked::new([1, 2], [1, 32], [4, 1], [1, 0]);
    let of_rows = Slice::new(1, layout.clone());
    let row = arange(0..4, of_rows.clone());
    let mut all = RowStatistics::none(4, of_rows);
    for start in range(0, cols).step(BLOCK) {
        let column = (start + arange(0..BLOCK, Slice::new(0, layout.clone()))).expand_dims(0);
        let inside = (column < cols) & (row.expand_dims(1) >= 0);
        let at = x.at(row.expand_dims(1) * cols + column).mask(inside);
        all = all.merge(RowStatistics::of(at.other(0).load(), inside));
    }
    out.at(row * 3).store(all.mean());
    out.at(row * 3 + 1).store(all.variance());
    out.at(row * 3 + 2).store(all.sample_variance());
}

#[test]
fn variances_of_rows_far_from_zero_are_exact_to_f32() {
    let device = Device::emulator();
    for cols in [1, 2, 127, 128, 500] {
        // A sum of squares would lose all of it beside 1e4.
        let x: Vec<f32> = (0..4 * cols)
            .map(|i| 1e4 + ((i * 37) % 101) as f32 / 64.0)
            .collect();
        let input = Buffer::from_slice(&device, &x).expect("memory of the host");
        let out = Buffer::<f32>::zeros(&device, 12).expect("memory of the host");
        launch(&device, statistics, grid(1u32), (&input, &out, cols as i32)).expect("it runs");
        let out = out.to_vec().expect("it has run");
        for row in 0..4 {
            let x: Vec<f64> = x[row * cols..(row + 1) * cols]
                .iter()
                .map(|x| f64::from(*x))
                .collect();
            let mean = x.iter().sum::<f64>() / cols as f64;
            let squares = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
            let expected = [
                mean,
                squares / cols as f64,
                squares / (cols.max(2) - 1) as f64,
            ];
            for (found, expected) in out[row * 3..row * 3 + 3].iter().zip(expected) {
                let error = (f64::from(*found) - expected).abs();
                assert!(
                    error <= 2e-3 * expected.min(2.0),
                    "{cols} columns: {found}, not {expected}"
                );
            }
        }
    }
}

const K: usize = 8;

#[kernel(warps = 4)]
fn largest(x: Ptr<i32>, values: Ptr<i32>, places: Ptr<i32>, blocks: i32) {
    let layout = Blocked::new([1], [32], [4], [0]);
    let lane = arange(0..BLOCK, layout.clone());
    let (mut best, mut at) = x.at(lane).load().top_k(K, 0);
    for block in range(1, blocks) {
        let (found, place) = x.at(lane + block * BLOCK).load().top_k(K, 0);
        (best, at) = merge_top_k((best, at), (found, place + block * BLOCK));
    }
    let to = arange(0..K, best.layout());
    values.at(to).store(best);
    places.at(to).store(at);
}

#[test]
fn top_k_of_equal_elements_takes_the_lowest_places() {
    let device = Device::emulator();
    for blocks in [1, 2, 5] {
        for of in [3, 50, 10_000] {
            let len = blocks * BLOCK;
            let x: Vec<i32> = (0..len)
                .map(|i| ((i * 7919 + 13) % 10_007 % of) as i32 - 1)
                .collect();
            let input = Buffer::from_slice(&device, &x).expect("memory of the host");
            let [values, places] =
                [(); 2].map(|()| Buffer::<i32>::zeros(&device, K).expect("memory"));
            let arguments = (&input, &values, &places, blocks as i32);
            launch(&device, largest, grid(1u32), arguments).expect("it runs");
            let mut all: Vec<usize> = (0..len).collect();
            all.sort_by_key(|&i| (-x[i], i));
            let expected: Vec<i32> = all[..K].iter().map(|&i| i as i32).collect();
            assert_eq!(
                places.to_vec().expect("it has run"),
                expected,
                "{blocks} blocks of {of}"
            );
            let expected: Vec<i32> = all[..K].iter().map(|&i| x[i]).collect();
            assert_eq!(values.to_vec().expect("it has run"), expected);
        }
    }
}

#[device]
fn prefix<T: Numeric>(x: Ptr<T>, out: Ptr<T>, words: Ptr<u64>, ticket: Ptr<i32>, n: Scalar<i32>) {
    let look_back = LookBack::new(words, ticket, 4);
    let tile = look_back.tile();
    let at = tile * BLOCK + arange(0..BLOCK, Blocked::new([1], [32], [4], [0]));
    let v = x.at(at).mask(at < n).load();
    let before = look_back.exclusive(tile, v.sum(0).scalar());
    out.at(at).mask(at < n).store(v.cumsum(0) + before);
}

#[kernel(warps = 4)]
fn prefix_i32(x: Ptr<i32>, out: Ptr<i32>, words: Ptr<u64>, ticket: Ptr<i32>, n: i32) {
    prefix(x, out, words, ticket, n);
}

#[kernel(warps = 4)]
fn prefix_f32(x: Ptr<f32>, out: Ptr<f32>, words: Ptr<u64>, ticket: Ptr<i32>, n: i32) {
    prefix(x, out, words, ticket, n);
}

/// The sum of all tiles before `tile` of one program's look-back, and by way of `known` of a persistent one.
#[kernel(warps = 1)]
fn sums_before(out: Ptr<i32>, words: Ptr<u64>, ticket: Ptr<i32>, known: i32, tile: i32) {
    let look_back = LookBack::new(words, ticket, 1);
    let before = look_back.advance(look_back.start::<i32>(), known);
    out.at(1).store(look_back.advance(before, tile).sum());
    out.store(look_back.exclusive::<i32>(tile, scalar(0)));
}

#[test]
fn sums_of_all_tiles_before_are_enough_where_no_prefix_is_known() {
    let device = Device::emulator();
    for (known, tile) in [
        (0, 0),
        (0, 1),
        (1, 2),
        (127, 128),
        (129, 129),
        (0, 256),
        (0, 257),
        (256, 300),
        (17, 700),
    ] {
        // The upper half says that the lower one is the sum of a tile alone.
        let sums: Vec<u64> = (0..=tile).map(|at| 1 << 32 | (at as u64 + 1)).collect();
        let words = Buffer::from_slice(&device, &sums).expect("memory of the host");
        let ticket = Buffer::<i32>::zeros(&device, 1).expect("memory of the host");
        let out = Buffer::<i32>::zeros(&device, 2).expect("memory of the host");
        let arguments = (&out, &words, &ticket, known, tile);
        launch(&device, sums_before, grid(1u32), arguments).expect("it runs");
        let sum = tile * (tile + 1) / 2;
        assert_eq!(
            out.to_vec().expect("it has run"),
            [sum, sum],
            "{known} {tile}"
        );
    }
}

#[test]
fn prefix_sums_over_more_tiles_than_a_window() {
    let device = Device::emulator();
    for n in [1, 128, 129, 70 * 128 + 5] {
        let tiles = (n as usize).div_ceil(BLOCK);
        let x: Vec<i32> = (0..n).map(|i| (i * 37 + 5) % 19 - 9).collect();
        let mut sum = 0;
        let expected: Vec<i32> = x
            .iter()
            .map(|x| {
                sum += x;
                sum
            })
            .collect();
        let words = Buffer::<u64>::zeros(&device, tiles).expect("memory of the host");
        let ticket = Buffer::<i32>::zeros(&device, 1).expect("memory of the host");
        let input = Buffer::from_slice(&device, &x).expect("memory of the host");
        let out = Buffer::<i32>::zeros(&device, n as usize).expect("memory of the host");
        let arguments = (&input, &out, &words, &ticket, n);
        launch(&device, prefix_i32, grid(tiles as u32), arguments).expect("it runs");
        assert!(out.to_vec().expect("it has run") == expected, "{n} of i32");

        words.fill_bytes(0).expect("memory of the host");
        ticket.fill_bytes(0).expect("memory of the host");
        let floats = |x: &[i32]| x.iter().map(|x| *x as f32).collect::<Vec<f32>>();
        let input = Buffer::from_slice(&device, &floats(&x)).expect("memory of the host");
        let out = Buffer::<f32>::zeros(&device, n as usize).expect("memory of the host");
        let arguments = (&input, &out, &words, &ticket, n);
        launch(&device, prefix_f32, grid(tiles as u32), arguments).expect("it runs");
        assert!(
            out.to_vec().expect("it has run") == floats(&expected),
            "{n} of f32"
        );
    }
}
