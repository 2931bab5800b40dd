//! Products of f32 by three products of tf32, as a program calls them, on the emulator.

#![allow(
    clippy::unwrap_used,
    reason = "what fails here ends the test at its line"
)]

use tilekit::EmulatorOptions;
use tilekit::prelude::*;
use tilekit_kernels::products::{Axis, Error, Options, Precision, Products};

/// Numbers of all 24 bits from 0.5 to 2, so that nothing cancels.
fn positive(device: &Device, len: usize, seed: u32) -> Buffer<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    let numbers: Vec<f32> = (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            0.5 + 1.5 * (state >> 8) as f32 / (1 << 24) as f32
        })
        .collect();
    Buffer::from_slice(device, &numbers).unwrap()
}

fn precise<'a>() -> Options<'a, f32> {
    Options {
        precision: Precision::Tf32x3,
        ..Options::default()
    }
}

/// Rows and columns of a matrix, row-major or column-major.
fn matrix(
    buffer: &Buffer<f32>,
    [rows, columns]: [usize; 2],
    is_turned: bool,
) -> TensorView<'_, f32> {
    let strides = if is_turned { [1, rows] } else { [columns, 1] };
    buffer.view([rows, columns]).with_strides(strides)
}

/// The largest error of a product over what it should be.
fn largest_error(
    device: &Device,
    [m, n, k]: [usize; 3],
    turned: [bool; 3],
    options: &Options<'_, f32>,
) -> f64 {
    let stream = Stream::new(device).unwrap();
    let products = Products::new(device);
    let (a, b) = (positive(device, m * k, 1), positive(device, k * n, 2));
    let c = Buffer::from_slice(device, &vec![f32::NAN; m * n]).unwrap();
    let views = [matrix(&a, [m, k], turned[0]), matrix(&b, [k, n], turned[1])];
    let result = matrix(&c, [m, n], turned[2]);
    products
        .call(&stream, &views[0], &views[1], &result, options)
        .unwrap();
    let [x, y, found] = [&a, &b, &c].map(|buffer| buffer.to_vec().unwrap());
    let at = |[rows, columns]: [usize; 2], is_turned: bool, i: usize, j: usize| {
        if is_turned {
            j * rows + i
        } else {
            i * columns + j
        }
    };
    let error = |i: usize, j: usize| {
        let term = |l: usize| {
            let (x, y) = (
                x[at([m, k], turned[0], i, l)],
                y[at([k, n], turned[1], l, j)],
            );
            f64::from(x) * f64::from(y)
        };
        let want: f64 = (0..k).map(term).sum();
        let found = f64::from(found[at([m, n], turned[2], i, j)]);
        (found - want).abs() / want
    };
    let places = (0..m).flat_map(|i| (0..n).map(move |j| (i, j)));
    // NaN is an error too.
    places
        .map(|(i, j)| error(i, j))
        .fold(0.0, |most, next| if next <= most { most } else { next })
}

/// Sums of terms of one sign are right to 1e-6, where one product of tf32 is not.
#[test]
fn sums_are_right_to_a_millionth_in_any_order_of_warps() {
    for seed in 0..4 {
        let options = EmulatorOptions {
            seed,
            ..EmulatorOptions::default()
        };
        let device = Device::emulator_with(options);
        for size in [
            [1, 1, 1],
            [2, 3, 5],
            [17, 33, 31],
            [65, 31, 32],
            [129, 70, 100],
            [40, 200, 300],
        ] {
            let error = largest_error(&device, size, [false; 3], &precise());
            assert!(error < 1e-6, "{size:?} at seed {seed}: {error:e}");
        }
    }
    let device = Device::emulator();
    let rounded = largest_error(&device, [17, 33, 31], [false; 3], &Options::default());
    assert!(rounded > 1e-5, "{rounded:e}");
}

#[test]
fn matrices_lie_in_any_order() {
    let device = Device::emulator();
    for bits in 0..8 {
        let turned = [1, 2, 4].map(|bit| bits & bit != 0);
        let error = largest_error(&device, [36, 72, 40], turned, &precise());
        assert!(error < 1e-6, "{turned:?}: {error:e}");
    }
}

/// Programs leave the counts of parts as they were, for the next call of the stream.
#[test]
fn few_rows_divide_k_in_calls_one_after_the_other() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let products = Products::new(&device);
    let (m, n, k) = (3, 200, 3000);
    let b = positive(&device, k * n, 2);
    let c = Buffer::<f32>::zeros(&device, m * n).unwrap();
    let y = b.to_vec().unwrap();
    for seed in [1, 5, 9] {
        let a = positive(&device, m * k, seed);
        let views = (a.view([m, k]), b.view([k, n]), c.view([m, n]));
        let plan = products
            .plan(&views.0, &views.1, &views.2, &precise())
            .unwrap();
        assert!(
            plan.to_string()
                .contains("in parts along K, A and B exchanged"),
            "{plan}"
        );
        products
            .call(&stream, &views.0, &views.1, &views.2, &precise())
            .unwrap();
        stream.synchronize().unwrap();
        let x = a.to_vec().unwrap();
        for (at, found) in c.to_vec().unwrap().into_iter().enumerate() {
            let (i, j) = (at / n, at % n);
            let term = |l: usize| f64::from(x[i * k + l]) * f64::from(y[l * n + j]);
            let want: f64 = (0..k).map(term).sum();
            let error = (f64::from(found) - want).abs() / want;
            assert!(error < 1e-6, "{i}, {j} at seed {seed}: {error:e}");
        }
    }
}

#[test]
fn a_plan_says_so() {
    let device = Device::emulator();
    let products = Products::new(&device);
    let c = Buffer::<f32>::zeros(&device, 4096 * 4096).unwrap();
    let view = c.view([4096, 4096]);
    let (a, b) = (positive(&device, 4096, 1), positive(&device, 4096, 2));
    let (a, b) = (a.view([4096, 1]), b.view([1, 4096]));
    let plan =
        |options: &Options<'_, f32>| products.plan(&a, &b, &view, options).unwrap().to_string();
    assert!(
        plan(&precise()).contains("by three products of tf32"),
        "{}",
        plan(&precise())
    );
    assert!(!plan(&Options::default()).contains("tf32"));
}

#[test]
fn other_types_and_groups_have_no_precise_products() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let products = Products::new(&device);
    let narrow = Buffer::<bf16>::zeros(&device, 64).unwrap();
    let into = Buffer::<bf16>::zeros(&device, 64).unwrap();
    let of_bf16 = Options {
        precision: Precision::Tf32x3,
        ..Options::<bf16>::default()
    };
    let view = narrow.view([8, 8]);
    let refused = products.call(&stream, &view, &view, &into.view([8, 8]), &of_bf16);
    let text = refused.unwrap_err().to_string();
    assert!(
        text.contains("options.precision") && text.contains("Tf32x3 for operands of bf16"),
        "{text}"
    );

    let [a, b] = [1, 2].map(|seed| positive(&device, 64, seed));
    let c = Buffer::<f32>::zeros(&device, 64).unwrap();
    let offsets = Buffer::from_slice(&device, &[0, 8]).unwrap();
    let refused = products.grouped(
        &stream,
        &a.view([8, 8]),
        &b.view([1, 8, 8]),
        &c.view([8, 8]),
        &offsets,
        &precise(),
    );
    let error = refused.unwrap_err();
    assert!(matches!(&error, Error::Argument { .. }), "{error}");
    assert!(error.to_string().contains("Tf32x3 for groups"), "{error}");
}

/// The epilogue reads a bias, and the author's closure the same.
#[test]
fn epilogues_finish_precise_sums() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let products = Products::new(&device);
    let (m, n, k) = (40, 36, 50);
    let (a, b, bias) = (
        positive(&device, m * k, 1),
        positive(&device, k * n, 2),
        positive(&device, n, 3),
    );
    let c = Buffer::<f32>::zeros(&device, m * n).unwrap();
    let options = Options {
        bias: Some((&bias, Axis::Columns)),
        ..precise()
    };
    let (x, y, z) = (
        a.to_vec().unwrap(),
        b.to_vec().unwrap(),
        bias.to_vec().unwrap(),
    );
    let (a, b, into) = (a.view([m, k]), b.view([k, n]), c.view([m, n]));
    let check = |factor: f64| {
        let found = c.to_vec().unwrap();
        for i in 0..m {
            for j in 0..n {
                let term = |l: usize| f64::from(x[i * k + l]) * f64::from(y[l * n + j]);
                let want = factor * ((0..k).map(term).sum::<f64>() + f64::from(z[j]));
                let error = (f64::from(found[i * n + j]) - want).abs() / want;
                assert!(error < 1e-6, "{i}, {j}: {error:e}");
            }
        }
    };
    products.call(&stream, &a, &b, &into, &options).unwrap();
    check(1.0);
    products
        .call_with(&stream, &a, &b, &into, &options, |sums, at| {
            (sums + at.bias(Axis::Columns)) * 2.0
        })
        .unwrap();
    check(2.0);
}

/// What is not finite stays in its row and column. An infinity of A times a small part of B that is 0 is NaN, and so is what is left of an infinity of B.
#[test]
fn numbers_that_are_not_finite_stay_in_their_rows_and_columns() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let products = Products::new(&device);
    let (m, n, k) = (20, 24, 40);
    let [mut x, mut y] =
        [(m * k, 1), (k * n, 2)].map(|(len, seed)| positive(&device, len, seed).to_vec().unwrap());
    x[3 * k + 7] = f32::INFINITY;
    x[5 * k] = f32::NAN;
    // All but the lowest bits say infinity.
    y[9 * n + 11] = f32::from_bits(0x7f80_0001);
    let [a, b] = [&x, &y].map(|numbers| Buffer::from_slice(&device, numbers).unwrap());
    let c = Buffer::<f32>::zeros(&device, m * n).unwrap();
    let views = (a.view([m, k]), b.view([k, n]), c.view([m, n]));
    products
        .call(&stream, &views.0, &views.1, &views.2, &precise())
        .unwrap();
    for (at, found) in c.to_vec().unwrap().into_iter().enumerate() {
        let (i, j) = (at / n, at % n);
        let is_nan = i == 5 || j == 11;
        assert!(!is_nan || found.is_nan(), "{i}, {j}: {found}");
        assert_eq!(found.is_finite(), i != 3 && !is_nan, "{i}, {j}: {found}");
    }
}
