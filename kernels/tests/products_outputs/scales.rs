//! Results of 8 bits over the scales of their blocks.

use tilekit::prelude::*;
use tilekit_kernels::products::{Axis, Operand, Outputs, Reduction, ResultOf};

use super::{Problem, Shape, Value, back};

/// Scales of blocks of so many columns, of which those of rows follow each other.
fn view_of<'a, T>(
    problem: &Problem<T>,
    scales: &'a Buffer<f32>,
    columns: usize,
) -> TensorView<'a, f32> {
    let (m, blocks) = (problem.shape.size[0], columns.div_ceil(128));
    let view = scales.view([problem.shape.batches, m, blocks]);
    view.with_strides([blocks * m, 1, m])
}

/// A second matrix and sums of rows beside them, each stored once.
fn check<T>(shape: Shape, plan: usize)
where
    T: Operand + Value,
    E4m3: ResultOf<T>,
{
    let problem = Problem::<T>::new(shape, Some(plan));
    let [m, n, _] = shape.size;
    let c = problem.filled::<E4m3>([n, 0], 0.0);
    let second = problem.filled::<f32>([n, 0], 0.0);
    let (rows, scales) = (problem.zeros(m), problem.zeros(n.div_ceil(128) * m));
    let (of_second, of_scales) = (problem.rows(&second, [n, 0]), view_of(&problem, &scales, n));
    let outputs = Outputs {
        second: Some(&of_second),
        rows: Some(&rows),
        scales: Some(&of_scales),
        ..Outputs::default()
    };
    let (call, options) = (problem.products.storing(outputs), problem.options());
    let (a, b, into) = (problem.a(), problem.b(), problem.rows(&c, [n, 0]));
    let called = call.call_with(&problem.stream, &a, &b, &into, &options, |sums, at| {
        at.store(sums);
        at.reduce(Axis::Rows, Reduction::Sum, sums);
        sums * sums
    });
    called.unwrap();
    let sums = shape.sums();
    let place = format!("{shape:?} by plan {plan}");
    assert_eq!(back(&second), sums, "second of {place}");
    let total = |row: &[f64]| row.iter().sum::<f64>() as f32;
    let totals: Vec<f32> = sums.chunks(n).map(total).collect();
    assert_eq!(rows.to_vec().unwrap(), totals, "rows of {place}");
    let squares: Vec<f64> = sums.iter().map(|x| x * x).collect();
    let found = (back(&c), scales.to_vec().unwrap());
    check_blocks(found, &squares, shape, plan);
}

/// The same of a result of half as many columns.
fn check_halves<T>(shape: Shape, plan: usize)
where
    T: Operand + Value,
    E4m3: ResultOf<T>,
{
    let problem = Problem::<T>::new(shape, Some(plan));
    let [m, n, k] = shape.size;
    let c = problem.filled::<E4m3>([n / 2, 0], 0.0);
    let scales = problem.zeros((n / 2).div_ceil(128) * m);
    let of_scales = view_of(&problem, &scales, n / 2);
    let outputs = Outputs::<bf16> {
        scales: Some(&of_scales),
        ..Outputs::default()
    };
    let (call, options) = (problem.products.storing(outputs), problem.options());
    let (a, b, into) = (problem.a(), problem.b(), problem.rows(&c, [n / 2, 0]));
    let called = call.call_with(&problem.stream, &a, &b, &into, &options, |sums, at| {
        let [even, odd] = at.pairs(sums);
        even * odd
    });
    called.unwrap();
    let sums = shape.sums();
    let halves: Vec<f64> = sums.chunks(2).map(|pair| pair[0] * pair[1]).collect();
    let found = (back(&c), scales.to_vec().unwrap());
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
        check::<bf16>(Shape::of([200, 264, 200]), plan);
        check::<E4m3>(Shape::of([70, 200, 72]), plan);
        check::<f16>(Shape::of([70, 37, 51]), plan);
        check_halves::<bf16>(Shape::of([200, 544, 136]), plan);
    }
    check::<bf16>(Shape::batched([40, 136, 48]), 0);
    check_halves::<bf16>(Shape::batched([40, 300, 48]), 0);
}
