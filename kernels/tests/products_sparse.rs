//! Sparse products as a program calls them, on the emulator.

#![allow(
    clippy::unwrap_used,
    reason = "what fails here ends the test at its line"
)]

use tilekit::Buffer;
use tilekit::prelude::*;
use tilekit_kernels::products::sparse::{HostSparse, Pruning, SparseMatrix, SparseOperand};
use tilekit_kernels::products::{Activation, Axis, Options, Products, ResultOf};

fn device() -> (Device, Stream, Products) {
    let device = Device::emulator();
    let (stream, products) = (Stream::new(&device).unwrap(), Products::new(&device));
    (device, stream, products)
}

/// Whole numbers from -3 to 3 of some pattern, many of them equal in magnitude.
fn number(at: usize) -> f64 {
    let mixed = (at * 0x9e37 + 11).wrapping_mul(0x27d4_eb2d) >> 11;
    (mixed % 7) as f64 - 3.0
}

fn numbers<T: DeviceElement>(count: usize) -> Vec<T> {
    let nearest = |at| T::nearest(Number::Float(number(at)));
    (0..count).map(|at| nearest(at).unwrap()).collect()
}

fn value<T: DeviceElement>(x: T) -> f64 {
    x.number().to_f64()
}

/// The matrix that is left of `[m, k]`, found by trying all pairs of four.
fn pruned(whole: &[f64], k: usize) -> Vec<f64> {
    let mut left = vec![0.0; whole.len()];
    let pairs = [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]];
    for (row, elements) in whole.chunks(k).enumerate() {
        for (number, four) in elements.chunks(4).enumerate() {
            let at = |i: usize| four.get(i).copied().unwrap_or(0.0);
            let larger = |pair: [usize; 2]| {
                let [x, y] = pair.map(|i| at(i).abs());
                (x.max(y), x.min(y))
            };
            // The first of equal pairs.
            let mut best = pairs[0];
            for pair in pairs {
                if larger(pair) > larger(best) {
                    best = pair;
                }
            }
            for i in best.into_iter().filter(|&i| i < four.len()) {
                left[row * k + number * 4 + i] = four[i];
            }
        }
    }
    left
}

const SHAPES: [[usize; 2]; 5] = [[64, 64], [1, 1], [130, 200], [65, 129], [7, 1030]];

#[track_caller]
fn check_compression<T: SparseOperand>() {
    let (device, stream, products) = device();
    for shape @ [m, k] in SHAPES {
        let whole: Vec<T> = numbers(m * k);
        let want = pruned(&whole.iter().map(|&x| value(x)).collect::<Vec<_>>(), k);
        let by_host = HostSparse::compress(&whole, shape, Pruning::LargestTwo).unwrap();
        let dense = by_host.dense();
        let found: Vec<f64> = dense.iter().map(|&x| value(x)).collect();
        assert_eq!(found, want, "{shape:?}");
        // What is sparse is not changed, nor refused.
        assert_eq!(
            HostSparse::compress(&dense, shape, Pruning::Refuse).unwrap(),
            by_host
        );
        // Behind an element of something else.
        let there = Buffer::from_slice(&device, &[&numbers(1), &*whole].concat()).unwrap();
        let view = there.view(shape).with_offset(1);
        let by_device = products.compress(&stream, &view, Pruning::LargestTwo);
        assert_eq!(by_device.unwrap().to_host().unwrap(), by_host, "{shape:?}");
        let spread: Vec<T> = (0..2 * m * k).map(|at| whole[at / 2]).collect();
        let there = Buffer::from_slice(&device, &spread).unwrap();
        let view = there.view(shape).with_strides([2 * k, 2]);
        let by_device = products.compress(&stream, &view, Pruning::LargestTwo);
        assert_eq!(by_device.unwrap().to_host().unwrap(), by_host, "{shape:?}");
        let turned: Vec<T> = (0..m * k).map(|at| dense[at % m * k + at / m]).collect();
        let there = Buffer::from_slice(&device, &turned).unwrap();
        let view = there.view(shape).with_strides([1, m]);
        let by_device = products.compress(&stream, &view, Pruning::Refuse).unwrap();
        assert_eq!(by_device.to_host().unwrap(), by_host, "{shape:?}");
    }
}

#[test]
fn compression_by_host_and_device_keeps_what_trying_all_pairs_does() {
    check_compression::<bf16>();
    check_compression::<f16>();
    check_compression::<E4m3>();
    check_compression::<E5m2>();
    check_compression::<i8>();
}

#[test]
fn every_pattern_of_four_comes_back() {
    for bits in 0_u32..16 {
        let four = [0, 1, 2, 3].map(|i| (bits >> i & 1) as i8 * (i + 1));
        let compressed = HostSparse::compress(&four, [1, 4], Pruning::Refuse);
        if bits.count_ones() <= 2 {
            assert_eq!(compressed.unwrap().dense(), four, "{bits:04b}");
        } else {
            compressed.unwrap_err();
        }
    }
    let ordered = [f32::NAN, f32::INFINITY, -1.0, 2.0].map(bf16::from_f32);
    let kept = HostSparse::compress(&ordered, [1, 4], Pruning::LargestTwo).unwrap();
    assert!(kept.kept()[0].is_nan() && kept.kept()[1] == bf16::INFINITY);
    let least = [i8::MIN, 127, -127, 1];
    let kept = HostSparse::compress(&least, [1, 4], Pruning::LargestTwo).unwrap();
    assert_eq!(kept.kept()[..2], [-128, 127]);
}

/// Products of whole numbers, which are exact, of B and C in any order.
#[track_caller]
fn check_product<T: SparseOperand, O: ResultOf<T, Addend = O>>([m, n, k]: [usize; 3]) {
    let (device, stream, products) = device();
    let whole: Vec<T> = numbers(m * k);
    let host = HostSparse::compress(&whole, [m, k], Pruning::LargestTwo).unwrap();
    let a = host.on(&device).unwrap();
    let dense = host.dense();
    let b_elements: Vec<T> = numbers(k * n);
    let b = Buffer::from_slice(&device, &b_elements).unwrap();
    for (b_strides, c_strides) in [
        ([n, 1], [n, 1]),
        ([1, k], [n, 1]),
        ([1, k], [1, m]),
        ([n, 1], [1, m]),
    ] {
        let c = Buffer::<O>::zeros(&device, m * n).unwrap();
        let b_view = b.view([k, n]).with_strides(b_strides);
        let c_view = c.view([m, n]).with_strides(c_strides);
        let options = Options::default();
        products
            .sparse(&stream, &a, &b_view, &c_view, &options)
            .unwrap();
        let c = c.to_vec().unwrap();
        for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let of_b = |l: usize| value(b_elements[l * b_strides[0] + j * b_strides[1]]);
            let sum: f64 = (0..k).map(|l| value(dense[i * k + l]) * of_b(l)).sum();
            let want = O::nearest(Number::Float(sum)).unwrap();
            let found = c[i * c_strides[0] + j * c_strides[1]];
            assert_eq!(found, want, "{i}, {j} of {b_strides:?} and {c_strides:?}");
        }
    }
}

#[test]
fn products_of_matrices_in_any_order() {
    check_product::<bf16, bf16>([72, 40, 136]);
    check_product::<f16, f32>([130, 137, 72]);
    check_product::<E4m3, bf16>([72, 24, 200]);
    check_product::<i8, i32>([65, 80, 300]);
    check_product::<E5m2, f32>([1, 1, 1]);
}

#[test]
fn options_stand_for_rows_and_columns_of_c_in_both_orders() {
    let (device, stream, products) = device();
    let [m, n, k] = [24, 16, 64];
    let host = HostSparse::<bf16>::compress(&numbers(m * k), [m, k], Pruning::LargestTwo).unwrap();
    let (a, dense) = (host.on(&device).unwrap(), host.dense());
    let b_elements: Vec<bf16> = numbers(k * n);
    let b = Buffer::from_slice(&device, &b_elements).unwrap();
    let bias_elements: Vec<bf16> = numbers(m);
    let bias = Buffer::from_slice(&device, &bias_elements).unwrap();
    let scales_of =
        |count: usize| -> Vec<f32> { (0..count).map(|i| [0.5, 1.0, 2.0][i % 3]).collect() };
    let scales = [m, n].map(|count| Buffer::from_slice(&device, &scales_of(count)).unwrap());
    let options = Options {
        a_scales: Some(&scales[0]),
        b_scales: Some(&scales[1]),
        bias: Some((&bias, Axis::Rows)),
        activation: Activation::Relu,
        ..Options::default()
    };
    for strides in [[n, 1], [1, m]] {
        let c = Buffer::<bf16>::zeros(&device, m * n).unwrap();
        let c_view = c.view([m, n]).with_strides(strides);
        products
            .sparse(&stream, &a, &b.view([k, n]), &c_view, &options)
            .unwrap();
        let c = c.to_vec().unwrap();
        for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let sum: f64 = (0..k)
                .map(|l| value(dense[i * k + l]) * value(b_elements[l * n + j]))
                .sum();
            let factor = f64::from(scales_of(m)[i] * scales_of(n)[j]);
            let want = (sum * factor + value(bias_elements[i])).max(0.0);
            let found = c[i * strides[0] + j * strides[1]];
            assert_eq!(found, bf16::from_f64(want), "{i}, {j} of {strides:?}");
        }
    }
}

#[test]
fn plans_say_what_is_copied() {
    let (device, _, products) = device();
    let host = HostSparse::<bf16>::compress(&numbers(64 * 60), [64, 60], Pruning::LargestTwo);
    let a = host.unwrap().on(&device).unwrap();
    let b = Buffer::<bf16>::zeros(&device, 60 * 3).unwrap();
    let c = Buffer::<bf16>::zeros(&device, 64 * 3).unwrap();
    let options = Options::default();
    let (b, turned) = (b.view([60, 3]), c.view([64, 3]).with_strides([1, 64]));
    let plan = products.plan_sparse(&a, &b, &turned, &options).unwrap();
    assert_eq!(
        plan.to_string(),
        "2:4 of 64x16 by 1 CTAs along K, 1 CTAs, 2.5 us; stored as the transpose; `b` copied: strides 3 and 1, where rows of 64 are taken"
    );
    let plan = products.plan_sparse(&a, &b, &c.view([64, 3]), &options);
    assert_eq!(
        plan.unwrap().to_string(),
        "2:4 of 64x16 by 1 CTAs along K, 1 CTAs, 2.5 us; `b` copied: strides 3 and 1, where rows of 64 are taken; `c` copied: strides 3 and 1, where rows of 8 are taken"
    );
}

#[test]
fn sizes_without_elements() {
    let (device, stream, products) = device();
    for [m, n, k] in [[0, 16, 64], [4, 0, 64], [4, 16, 0]] {
        let dense = Buffer::<bf16>::zeros(&device, m * k).unwrap();
        let a = products.compress(&stream, &dense.view([m, k]), Pruning::Refuse);
        let b = Buffer::<bf16>::zeros(&device, k * n).unwrap();
        let c = Buffer::from_slice(&device, &vec![bf16::NAN; m * n]).unwrap();
        let (b, view) = (b.view([k, n]), c.view([m, n]));
        products
            .sparse(&stream, &a.unwrap(), &b, &view, &Options::default())
            .unwrap();
        let c = c.to_vec().unwrap();
        assert!(c.iter().all(|&c| c == bf16::ZERO), "{m}x{n}x{k}");
    }
}

#[track_caller]
fn refused<T>(result: tilekit_kernels::products::Result<T>, expected: &str) {
    let error = result.err().map(|error| error.to_string());
    assert_eq!(error.as_deref(), Some(expected));
}

#[test]
fn what_does_not_fit_is_named() {
    let (device, stream, products) = device();
    let mut elements = vec![bf16::ZERO; 70 * 130];
    elements[67 * 130 + 128] = bf16::ONE;
    elements[67 * 130 + 129] = bf16::ONE;
    let there = Buffer::from_slice(&device, &elements).unwrap();
    let a = products.compress(&stream, &there.view([70, 130]), Pruning::Refuse);
    let a = a.unwrap();
    for j in [72, 73, 75] {
        elements[66 * 130 + j] = bf16::ONE;
        elements[67 * 130 + j - 64] = bf16::ONE;
    }
    let there = Buffer::from_slice(&device, &elements).unwrap();
    let sparse = "expected two of each four neighbours: `Pruning::LargestTwo` keeps those";
    refused(
        products.compress(&stream, &there.view([70, 130]), Pruning::Refuse),
        &format!(
            "product: `dense`: found more than two numbers other than zero in row 66, columns 72 to 75; {sparse}"
        ),
    );
    refused(
        HostSparse::compress(&elements, [70, 130], Pruning::Refuse),
        &format!(
            "product: `elements`: found more than two numbers other than zero in row 66, columns 72 to 75; {sparse}"
        ),
    );
    refused(
        HostSparse::compress(&elements, [70, 131], Pruning::Refuse),
        "product: `elements`: found 9100 elements; expected 9170: 70 rows of 131",
    );
    let rows = 65535 * 64 + 1;
    let same = there.view([rows, 16]).with_strides([0, 1]);
    refused(
        products.compress(&stream, &same, Pruning::LargestTwo),
        "product: `dense`: found 4194241 rows; expected at most 4194240: give parts of it",
    );
    let same = there.view([4_000_000, 1 << 14]).with_strides([0, 0]);
    refused(
        products.compress(&stream, &same, Pruning::LargestTwo),
        "product: `dense`: found 4096000000 numbers of places; expected at most 2147483647: indices have 32 bits",
    );
    let kept = Buffer::<bf16>::zeros(&device, 8).unwrap();
    let places = Buffer::<u16>::zeros(&device, 255).unwrap();
    refused(
        SparseMatrix::new(kept, places, [1, 16]),
        "product: `places`: found 255 numbers; expected 256: those of 1 rows of 16 elements, as `layout` counts them",
    );
    let b = Buffer::<bf16>::zeros(&device, 130 * 16).unwrap();
    let c = Buffer::<bf16>::zeros(&device, 70 * 16).unwrap();
    let call = |b_shape: [usize; 2], c_shape: [usize; 2], strides: [usize; 2]| {
        let c = c.view(c_shape).with_strides(strides);
        products.sparse(&stream, &a, &b.view(b_shape), &c, &Options::default())
    };
    refused(
        call([64, 16], [70, 16], [16, 1]),
        "product: `b`: found 64 rows; expected 130, the columns of a",
    );
    refused(
        call([130, 16], [64, 16], [16, 1]),
        "product: `c`: found shape [64, 16]; expected [70, 16]: the rows of a, the columns of b",
    );
    refused(
        call([130, 16], [70, 16], [0, 1]),
        "product: `c`: found 70x16 with strides 0 and 1; expected rows or columns that do not overlap",
    );
    let over = a.kept().view([70, 16]);
    refused(
        products.sparse(&stream, &a, &b.view([130, 16]), &over, &Options::default()),
        "product: `c`: found memory of `a`; expected a result apart from the operands, which are read while it is written",
    );
    let far = Buffer::<bf16>::new(&device, (15 << 28) + 72).unwrap();
    let columns = far.view([70, 16]).with_strides([1, 1 << 28]);
    refused(
        products.sparse(
            &stream,
            &a,
            &b.view([130, 16]),
            &columns,
            &Options::default(),
        ),
        "product: `c`: found 4026531910 elements with their gaps; expected at most 2147483647: indices have 32 bits",
    );
}

/// It overflowed.
#[test]
fn numbers_of_absurd_shapes_are_the_most() {
    let found = tilekit_kernels::products::sparse::layout::numbers::<bf16>([usize::MAX; 2]);
    assert_eq!(found, usize::MAX);
}

/// It overflowed.
#[test]
fn places_of_absurd_rows_are_the_most() {
    use tilekit_kernels::products::sparse::layout::number_place;
    for (at, k) in [([usize::MAX; 2], usize::MAX), ([64, 0], usize::MAX)] {
        assert_eq!(number_place::<bf16>(at, k), usize::MAX);
    }
    assert_eq!(number_place::<bf16>([64 + 9, 5], 128), 3 * 256 + 11);
}
