//! Results of 8 bits over the scales of their blocks.

use tilekit::prelude::*;
use tilekit_kernels::products::dispatch::Dispatch;
use tilekit_kernels::products::{Axis, Operand, Options, Outputs, Products, Reduction, ResultOf};

use super::{Shape, Value, back, number, sums};

/// Results over the scales of their blocks, and scales; a second matrix and sums of rows beside them, each stored once. Rows of scales follow each other.
fn check_scales<T>(shape: Shape, plan: usize)
where
    T: Operand + Value,
    E4m3: ResultOf<T>,
{
    let device = Device::auto();
    let stream = Stream::new(&device).unwrap();
    let products = Products::with_dispatch(&device, Dispatch::by_number(plan));
    let Shape {
        size: [m, n, k],
        batches,
        ..
    } = shape;
    let of = |len: usize, seed| -> Vec<T> { (0..len).map(|at| T::of(number(at, seed))).collect() };
    let a = Buffer::from_slice(&device, &of(batches * m * k, 1)).unwrap();
    let b = Buffer::from_slice(&device, &of(batches * n * k, 2)).unwrap();
    let c = Buffer::<E4m3>::zeros(&device, batches * m * n).unwrap();
    let second = Buffer::<f32>::zeros(&device, batches * m * n).unwrap();
    let rows = Buffer::<f32>::zeros(&device, batches * m).unwrap();
    let blocks = n.div_ceil(128);
    let scales = Buffer::from_slice(&device, &vec![-1.0_f32; batches * blocks * m]).unwrap();
    let scales_view = scales.view([batches, m, blocks]);
    let scales_view = scales_view.with_strides([blocks * m, 1, m]);
    let second_view = second.view([batches, m, n]);
    let outputs = Outputs {
        second: Some(&second_view),
        rows: Some(&rows),
        scales: Some(&scales_view),
        ..Outputs::default()
    };
    let (of_a, of_c) = (a.view([batches, m, k]), c.view([batches, m, n]));
    let of_b = b.view([batches, k, n]).with_strides([n * k, 1, k]);
    let options = Options::default();
    let call = products.storing(outputs);
    let called = call.call_with(&stream, &of_a, &of_b, &of_c, &options, |sums, at| {
        at.store(sums);
        at.reduce(Axis::Rows, Reduction::Sum, sums);
        sums * sums
    });
    called.unwrap();
    let sums = sums(shape);
    assert_eq!(
        back(&second).unwrap(),
        sums,
        "second of {shape:?} by plan {plan}"
    );
    let totals: Vec<f32> = sums
        .chunks(n)
        .map(|row| row.iter().sum::<f64>() as f32)
        .collect();
    assert_eq!(
        rows.to_vec().unwrap(),
        totals,
        "rows of {shape:?} by plan {plan}"
    );
    let squares: Vec<f64> = sums.iter().map(|x| x * x).collect();
    let found = (back(&c).unwrap(), scales.to_vec().unwrap());
    check_blocks(found, &squares, shape, plan);
}

/// The same of a result of half as many columns.
fn check_halved_scales<T>(shape: Shape, plan: usize)
where
    T: Operand + Value,
    E4m3: ResultOf<T>,
{
    let device = Device::auto();
    let stream = Stream::new(&device).unwrap();
    let products = Products::with_dispatch(&device, Dispatch::by_number(plan));
    let Shape {
        size: [m, n, k], ..
    } = shape;
    let of = |len: usize, seed| -> Vec<T> { (0..len).map(|at| T::of(number(at, seed))).collect() };
    let a = Buffer::from_slice(&device, &of(m * k, 1)).unwrap();
    let b = Buffer::from_slice(&device, &of(n * k, 2)).unwrap();
    let c = Buffer::<E4m3>::zeros(&device, m * n / 2).unwrap();
    let blocks = (n / 2).div_ceil(128);
    let scales = Buffer::<f32>::zeros(&device, blocks * m).unwrap();
    let scales_view = scales.view([m, blocks]).with_strides([1, m]);
    let outputs = Outputs::<bf16> {
        scales: Some(&scales_view),
        ..Outputs::default()
    };
    let (of_a, of_c) = (a.view([m, k]), c.view([m, n / 2]));
    let of_b = b.view([k, n]).with_strides([1, k]);
    let options = Options::default();
    let call = products.storing(outputs);
    let called = call.call_with(&stream, &of_a, &of_b, &of_c, &options, |sums, at| {
        let [even, odd] = at.pairs(sums);
        even * odd
    });
    called.unwrap();
    let halves: Vec<f64> = sums(shape)
        .chunks(2)
        .map(|pair| pair[0] * pair[1])
        .collect();
    let found = (back(&c).unwrap(), scales.to_vec().unwrap());
    let half = Shape {
        size: [m, n / 2, k],
        ..shape
    };
    check_blocks(found, &halves, half, plan);
}

/// Results of a shape over the scales of their blocks, and those scales, of which those of rows follow each other.
fn check_blocks((found, scales): (Vec<f64>, Vec<f32>), wanted: &[f64], shape: Shape, plan: usize) {
    let [m, n, _] = shape.size;
    let blocks = n.div_ceil(128);
    for (row, elements) in wanted.chunks(n).enumerate() {
        for (block, elements) in elements.chunks(128).enumerate() {
            let scale = f64::from(scales[(row / m * blocks + block) * m + row % m]);
            let largest = elements.iter().fold(1e-30, |all: f64, x| all.max(x.abs()));
            let place = format!("row {row}, block {block} of {shape:?} by plan {plan}");
            let is_scale = (scale * 448.0 / largest - 1.0).abs() < 1e-6;
            assert!(is_scale, "{scale} of {largest} at {place}");
            for (j, x) in elements.iter().enumerate() {
                let off = (found[row * n + block * 128 + j] * scale - x).abs();
                // Half of the last of four bits.
                assert!(
                    off <= x.abs() / 16.0 * 1.001 + scale / 1024.0,
                    "{x} at {place}"
                );
            }
        }
    }
}

#[test]
fn results_with_scales() {
    for plan in (0..100).step_by(9) {
        check_scales::<bf16>(Shape::of([200, 264, 200]), plan);
        check_scales::<E4m3>(Shape::of([70, 200, 72]), plan);
        check_scales::<f16>(Shape::of([70, 37, 51]), plan);
        check_halved_scales::<bf16>(Shape::of([200, 544, 136]), plan);
    }
    check_scales::<bf16>(
        Shape {
            batches: 3,
            ..Shape::of([40, 136, 48])
        },
        0,
    );
}
