//! Products of 8-bit floats with scales for blocks as a program calls them, on the emulator.

#![allow(
    clippy::unwrap_used,
    reason = "what fails here ends the test at its line"
)]

use tilekit::prelude::*;
use tilekit_kernels::products::{AlongK, GroupRows, Products, Scaled};

const BLOCK: usize = 128;

/// A small whole number, which is exact in every type here.
fn number(at: usize, seed: usize) -> f32 {
    ((at * 37 + seed * 101) / 7 % 5) as f32 - 2.0
}

/// Powers of two, so that sums stay exact.
fn scale(at: usize, seed: usize) -> f32 {
    [0.5, 1.0, 2.0][(at * 5 + seed) % 3]
}

fn values(device: &Device, len: usize, seed: usize) -> Buffer<E4m3> {
    let of = |at| E4m3::from_f32(number(at, seed));
    Buffer::from_slice(device, &(0..len).map(of).collect::<Vec<_>>()).unwrap()
}

fn scales(device: &Device, len: usize, seed: usize) -> Buffer<f32> {
    let of = |at| scale(at, seed);
    Buffer::from_slice(device, &(0..len).map(of).collect::<Vec<_>>()).unwrap()
}

/// What stands at a row and a place along K, by where the value and the scale lie: values of seed `seed`, scales of the next.
fn meant(
    seed: usize,
    value: impl Fn(usize, usize) -> usize,
    of_scale: impl Fn(usize, usize) -> usize,
) -> impl Fn(usize, usize) -> f32 {
    move |row, at| number(value(row, at), seed) * scale(of_scale(row, at), seed + 1)
}

/// Compares results, of which each is a sum of exact products rounded to bf16.
#[track_caller]
fn check(c: &Buffer<bf16>, want: &[f32]) {
    let got = c.to_vec().unwrap();
    for (at, (got, want)) in got.iter().zip(want).enumerate() {
        assert_eq!(*got, bf16::from_f32(*want), "element {at}");
    }
}

fn device() -> (Device, Stream, Products) {
    let device = Device::emulator();
    let (stream, products) = (Stream::new(&device).unwrap(), Products::new(&device));
    (device, stream, products)
}

/// A product whose factors and scales are rows along K, or lie the other way where `turned`, so that they are copied.
fn dense([m, n, k]: [usize; 3], turned: bool) {
    let (device, stream, products) = device();
    let (steps, blocks) = (k.div_ceil(BLOCK), n.div_ceil(BLOCK));
    let (a, b) = (values(&device, m * k, 1), values(&device, n * k, 3));
    let (of_a, of_b) = (
        scales(&device, m * steps, 2),
        scales(&device, blocks * steps, 4),
    );
    let c = Buffer::<bf16>::zeros(&device, m * n).unwrap();
    let lies = |rows: usize, columns: usize, swapped: bool| {
        if swapped {
            [1, rows.max(1)]
        } else {
            [columns.max(1), 1]
        }
    };
    let (a_lies, b_lies) = (lies(m, k, turned), lies(k, n, !turned));
    let (a_scales_lie, b_scales_lie) = (lies(m, steps, !turned), lies(steps, blocks, !turned));
    let place = |[row, column]: [usize; 2]| move |i: usize, j: usize| i * row + j * column;
    let x = meant(1, place(a_lies), move |i, l| {
        place(a_scales_lie)(i, l / BLOCK)
    });
    let y = meant(
        3,
        move |j, l| place(b_lies)(l, j),
        move |j, l| place(b_scales_lie)(l / BLOCK, j / BLOCK),
    );
    let a = Scaled {
        values: &a.view([m, k]).with_strides(a_lies),
        scales: &of_a.view([m, steps]).with_strides(a_scales_lie),
    };
    let b = Scaled {
        values: &b.view([k, n]).with_strides(b_lies),
        scales: &of_b.view([steps, blocks]).with_strides(b_scales_lie),
    };
    products
        .block_scaled(&stream, a, b, &c.view([m, n]))
        .unwrap();
    let places = (0..m).flat_map(|i| (0..n).map(move |j| (i, j)));
    let sum = |(i, j)| (0..k).map(|l| x(i, l) * y(j, l)).sum();
    check(&c, &places.map(sum).collect::<Vec<f32>>());
}

#[test]
fn products_of_any_strides_and_sizes() {
    for size in [
        [40, 24, 256],
        // A pair whose tiles are one above the other, and a pair that shares the steps along K.
        [70, 40, 256],
        [40, 24, 8000],
        [3, 200, 130],
        [1, 1, 1],
        [0, 8, 16],
        [8, 8, 0],
    ] {
        dense(size, false);
        dense(size, true);
    }
}

#[test]
fn groups_by_offsets_and_by_counts_leave_other_rows_as_they_are() {
    let (device, stream, products) = device();
    let (groups, m, n, k) = (3, 60, 40, 144);
    let (a, b) = (
        values(&device, m * k, 1),
        values(&device, groups * n * k, 3),
    );
    let (of_a, of_b) = (scales(&device, 2 * m, 2), scales(&device, groups * 2, 4));
    let a = Scaled {
        values: &a.view([m, k]),
        scales: &of_a.view([m, 2]).with_strides([1, m]),
    };
    let b = Scaled {
        values: &b.view([groups, k, n]).with_strides([n * k, 1, k]),
        scales: &of_b.view([groups, 2, 1]).with_strides([2, 1, 1]),
    };
    let x = meant(1, move |i, l| i * k + l, move |i, l| l / BLOCK * m + i);
    let y = meant(3, move |j, l| j * k + l, move |j, l| j / n * 2 + l / BLOCK);
    let numbers = |numbers: &[i32]| Buffer::from_slice(&device, numbers).unwrap();
    let (offsets, counts) = (numbers(&[5, 18, 18, 43]), numbers(&[7, -3, 99]));
    for (rows, spans) in [
        (GroupRows::Offsets(&offsets), [[5, 18], [18, 18], [18, 43]]),
        (GroupRows::Counts(&counts), [[0, 7], [20, 20], [40, 60]]),
    ] {
        let c = Buffer::from_slice(&device, &vec![bf16::from_f32(7.0); m * n]).unwrap();
        products
            .block_scaled_grouped(&stream, a, b, &c.view([m, n]), rows)
            .unwrap();
        let mut want = vec![7.0; m * n];
        for (group, [first, end]) in spans.into_iter().enumerate() {
            for i in first..end {
                for j in 0..n {
                    want[i * n + j] = (0..k).map(|l| x(i, l) * y(group * n + j, l)).sum();
                }
            }
        }
        check(&c, &want);
    }
}

#[test]
fn offsets_that_go_backwards_or_beyond_touch_nothing_outside() {
    let (device, stream, products) = device();
    let (groups, m, n, k) = (3, 20, 16, 128);
    let (a, b) = (
        values(&device, m * k, 1),
        values(&device, groups * n * k, 3),
    );
    let (of_a, of_b) = (scales(&device, m, 2), scales(&device, groups, 4));
    let a = Scaled {
        values: &a.view([m, k]),
        scales: &of_a.view([m, 1]),
    };
    let b = Scaled {
        values: &b.view([groups, k, n]).with_strides([n * k, 1, k]),
        scales: &of_b.view([groups, 1, 1]),
    };
    for offsets in [[0, 12, 4, 4], [-30, 8, 500, 1000], [9, 9, 9, -9]] {
        let offsets = Buffer::from_slice(&device, &offsets).unwrap();
        let c = Buffer::<bf16>::zeros(&device, m * n).unwrap();
        // The emulator reports any access outside of a buffer.
        products
            .block_scaled_grouped(&stream, a, b, &c.view([m, n]), GroupRows::Offsets(&offsets))
            .unwrap();
        stream.synchronize().unwrap();
    }
}

#[test]
fn groups_along_k_have_a_result_each_and_add() {
    let (device, stream, products) = device();
    let (groups, m, n, k) = (3, 24, 40, 384);
    let (a, b) = (values(&device, m * k, 1), values(&device, n * k, 3));
    let (of_a, of_b) = (scales(&device, 3 * m, 2), scales(&device, 3 * n, 4));
    let a = Scaled {
        values: &a.view([m, k]),
        scales: &of_a.view([m, 3]).with_strides([1, m]),
    };
    let b = Scaled {
        values: &b.view([k, n]).with_strides([1, k]),
        scales: &of_b.view([3, n]),
    };
    let x = meant(1, move |i, l| i * k + l, move |i, l| l / BLOCK * m + i);
    let y = meant(3, move |j, l| j * k + l, move |j, l| l / BLOCK * n + j);
    let offsets = Buffer::from_slice(&device, &[0, 256, 256, 384]).unwrap();
    let c = Buffer::<f32>::zeros(&device, groups * m * n).unwrap();
    let options = AlongK {
        offsets: Some(&offsets),
        adds: true,
    };
    for _ in 0..2 {
        products
            .row_scaled(&stream, a, b, &c.view([groups, m, n]), options)
            .unwrap();
    }
    let got = c.to_vec().unwrap();
    for (group, [first, end]) in [[0, 256], [256, 256], [256, 384]].into_iter().enumerate() {
        for i in 0..m {
            for j in 0..n {
                let sum: f32 = (first..end).map(|l| x(i, l) * y(j, l)).sum();
                // Either zero counts as zero.
                let [got, want] =
                    [got[(group * m + i) * n + j], 2.0 * sum].map(|x| (x + 0.0).to_bits());
                assert_eq!(got, want, "{group} {i} {j}");
            }
        }
    }
}

/// The last step ends early, and what is behind it is of no group.
#[test]
fn groups_behind_all_steps_along_k_have_zeros() {
    let (device, stream, products) = device();
    let (m, n, k) = (3, 5, 300);
    let a = Buffer::from_slice(&device, &vec![E4m3::from_f32(1.0); m * k]).unwrap();
    let ones = Buffer::from_slice(&device, &[1.0_f32; 15]).unwrap();
    let a = Scaled {
        values: &a.view([m, k]),
        scales: &ones.view([m, 3]),
    };
    let b = Buffer::from_slice(&device, &vec![E4m3::from_f32(1.0); k * n]).unwrap();
    let b = Scaled {
        values: &b.view([k, n]),
        scales: &ones.view([3, n]),
    };
    for (offsets, sums) in [
        ([0, 128, 384, 384], [128.0, 172.0, 0.0]),
        ([0, 300, 300, 300], [300.0, 0.0, 0.0]),
        ([256, 384, 512, 640], [44.0, 0.0, 0.0]),
    ] {
        let offsets = Buffer::from_slice(&device, &offsets).unwrap();
        let c = Buffer::from_slice(&device, &vec![f32::NAN; 3 * m * n]).unwrap();
        let options = AlongK {
            offsets: Some(&offsets),
            adds: false,
        };
        products
            .row_scaled(&stream, a, b, &c.view([3, m, n]), options)
            .unwrap();
        let want: Vec<f32> = (0..3 * m * n).map(|at| sums[at / (m * n)]).collect();
        assert_eq!(c.to_vec().unwrap(), want);
    }
}

#[test]
fn what_does_not_fit_is_named() {
    let (device, stream, products) = device();
    let (m, n, k) = (8, 16, 256);
    let (a, b) = (values(&device, m * k, 1), values(&device, 2 * n * k, 3));
    let (of_a, of_b) = (scales(&device, 64, 2), scales(&device, 64, 4));
    let c = Buffer::<bf16>::zeros(&device, m * n).unwrap();
    let say = |a_scales: [usize; 2], b_scales: [usize; 2], c_shape: [usize; 2]| {
        let a = Scaled {
            values: &a.view([m, k]),
            scales: &of_a.view(a_scales),
        };
        let b = Scaled {
            values: &b.view([k, n]).with_strides([1, k]),
            scales: &of_b.view(b_scales),
        };
        let error = products
            .block_scaled(&stream, a, b, &c.view(c_shape))
            .unwrap_err();
        error.to_string()
    };
    assert_eq!(
        say([8, 1], [2, 1], [8, 16]),
        "product: `a.scales`: found shape [8, 1]; expected [8, 2]: one for each block of [1, 128] values"
    );
    assert_eq!(
        say([8, 2], [2, 2], [8, 16]),
        "product: `b.scales`: found shape [2, 2]; expected [2, 1]: one for each block of [128, 128] values"
    );
    assert_eq!(
        say([8, 2], [2, 1], [16, 8]),
        "product: `c`: found shape [16, 8]; expected [8, 16]: the rows of a, the columns of b"
    );
    let columns = 65535 * 128 + 1;
    let same = c.view([1, columns]).with_strides([1, 0]);
    let error = products.quantise_rows(&stream, &same).err().unwrap();
    assert_eq!(
        error.to_string(),
        "product: `x`: found 8388481 columns; expected at most 8388480: give parts of it"
    );
    let a = Scaled {
        values: &a.view([m, k]),
        scales: &of_a.view([m, 2]),
    };
    let b = Scaled {
        values: &b.view([2, k, n]).with_strides([n * k, 1, k]),
        scales: &of_b.view([2, 2, 1]),
    };
    let counts = Buffer::from_slice(&device, &[1, 2, 3]).unwrap();
    let rows = GroupRows::Counts(&counts);
    let error = products.block_scaled_grouped(&stream, a, b, &c.view([m, n]), rows);
    assert_eq!(
        error.unwrap_err().to_string(),
        "product: `rows.counts`: found 3 numbers; expected 2: one for each group"
    );
}

#[test]
fn a_quantised_matrix_times_its_scales_is_near_what_it_was() {
    let (device, stream, products) = device();
    let (m, k) = (130, 300);
    let x: Vec<bf16> = (0..m * k)
        .map(|at| bf16::from_f32(((at * 7919) % 1000) as f32 / 100.0 - 5.0))
        .collect();
    let x = Buffer::from_slice(&device, &x).unwrap();
    for rows in [1, BLOCK] {
        let view = x.view([m, k]);
        let (values, scales) = if rows == 1 {
            products.quantise_rows(&stream, &view).unwrap()
        } else {
            products.quantise_blocks(&stream, &view).unwrap()
        };
        let (values, scales, x) = (
            values.to_vec().unwrap(),
            scales.to_vec().unwrap(),
            x.to_vec().unwrap(),
        );
        for i in 0..m {
            for j in 0..k {
                let scale = if rows == 1 {
                    scales[j / BLOCK * 132 + i]
                } else {
                    scales[i / BLOCK * 3 + j / BLOCK]
                };
                let (got, want) = (values[i * 304 + j].to_f32() * scale, x[i * k + j].to_f32());
                assert!(
                    (got - want).abs() <= 0.0626 * want.abs() + 1e-3 * scale,
                    "{i} {j}: {got} {want}"
                );
            }
        }
    }
}

/// Rows of f32 begin at multiples of 4 elements.
#[test]
fn matrices_of_f32_are_quantised() {
    let (device, stream, products) = device();
    let (m, k) = (5, 131);
    let x: Vec<f32> = (0..m * k).map(|at| number(at, 3) * scale(at, 1)).collect();
    let there = Buffer::from_slice(&device, &x).unwrap();
    let view = there.view([m, k]);
    let (values, scales) = products.quantise_rows(&stream, &view).unwrap();
    products.quantise_blocks(&stream, &view).unwrap();
    let (values, scales) = (values.to_vec().unwrap(), scales.to_vec().unwrap());
    for (i, j) in (0..m).flat_map(|i| (0..k).map(move |j| (i, j))) {
        let (scale, want) = (scales[j / BLOCK * 8 + i], x[i * k + j]);
        let got = values[i * 144 + j].to_f32() * scale;
        let allowed = 0.0626 * want.abs() + 1e-3 * scale;
        assert!((got - want).abs() <= allowed, "{i} {j}: {got} {want}");
    }
}

/// The rows of a matrix may be further from each other than 32 bits count.
#[test]
fn rows_that_lie_far_apart_are_quantised() {
    let (device, stream, products) = device();
    let pitch = (1 << 31) + 8;
    // Memory of the emulator is touched where it is written alone.
    let x = Buffer::<bf16>::new(&device, pitch + 8).unwrap();
    for (row, number) in [(0, 2.0), (1, 3.0)] {
        let [a, b] = [number, 1.0].map(|x| vec![bf16::from_f32(x); 8]);
        let [a, b] = [a, b].map(|x| Buffer::from_slice(&device, &x).unwrap());
        let to = x.view([1, 8]).with_offset(row * pitch);
        let (a, b) = (a.view([1, 1]), b.view([1, 8]));
        products.multiply_into(&stream, &a, &b, &to).unwrap();
    }
    let x = x.view([2, 8]).with_strides([pitch, 1]);
    let (values, scales) = products.quantise_rows(&stream, &x).unwrap();
    let scales = scales.to_vec().unwrap();
    assert_eq!(scales[..2], [2.0, 3.0].map(|largest| largest / 448.0));
    let values = values.to_vec().unwrap();
    let rows = [&values[..8], &values[16..24]];
    assert!(
        rows.iter()
            .all(|row| row.iter().all(|&x| x.to_f32() > 447.0))
    );
}

/// It was counted, and the scales refused.
#[test]
fn the_stride_of_a_single_scale_is_anything() {
    let (device, stream, products) = device();
    let (m, n, k) = (8, 16, 128);
    let ones = |count: usize| Buffer::from_slice(&device, &vec![E4m3::from_f32(1.0); count]);
    let (a, b) = (ones(m * k).unwrap(), ones(n * k).unwrap());
    let of_a = Buffer::from_slice(&device, &vec![2.0_f32; m]).unwrap();
    let of_b = Buffer::from_slice(&device, &[0.5_f32]).unwrap();
    let c = Buffer::<bf16>::zeros(&device, m * n).unwrap();
    let a = Scaled {
        values: &a.view([m, k]),
        scales: &of_a.view([m, 1]).with_strides([1, 1 << 40]),
    };
    let b = Scaled {
        values: &b.view([k, n]).with_strides([1, k]),
        scales: &of_b.view([1, 1]).with_strides([1 << 40, 1 << 40]),
    };
    products
        .block_scaled(&stream, a, b, &c.view([m, n]))
        .unwrap();
    stream.synchronize().unwrap();
    assert_eq!(c.to_vec().unwrap(), vec![bf16::from_f32(128.0); m * n]);
}
