//! Results of 8-bit floats.

use tilekit::prelude::*;
use tilekit_kernels::products::{Axis, Operand, Options, Place, ResultOf};

use super::{Problem, Shape, Value, back, number, numbers};

/// `round(sums / 4 + bias + source)`, and 64 times as much, which is beyond the type, by the options and by a closure.
fn check<T, O>(shape: Shape, plan: usize)
where
    T: Operand + Value,
    O: ResultOf<T, Addend = bf16> + Value,
{
    let problem = Problem::<T>::new(shape, Some(plan));
    let ([m, n, _], device) = (shape.size, problem.stream.device());
    let bias = numbers::<bf16>(device, n, 3);
    let source = numbers::<bf16>(device, shape.batches * m * n, 4);
    let source = problem.rows(&source, [n, 0]);
    let options = Options {
        alpha: 0.25,
        beta: 2.0,
        source: Some(&source),
        bias: Some((&bias, Axis::Columns)),
        ..Options::default()
    };
    let sums = shape.sums();
    let wanted = |scale: f64| -> Vec<f64> {
        let finish = |(at, sum): (usize, &f64)| {
            let added = f64::from(number(at % n, 3)) + 2.0 * f64::from(number(at, 4));
            O::of(((sum * 0.25 + added) * scale) as f32).back()
        };
        sums.iter().enumerate().map(finish).collect()
    };
    let c = problem.filled::<O>([n, 0], 96.0);
    let (stream, products) = (&problem.stream, &problem.products);
    let (a, b, into) = (problem.a(), problem.b(), problem.rows(&c, [n, 0]));
    products.call(stream, &a, &b, &into, &options).unwrap();
    assert_eq!(back(&c), wanted(1.0), "{shape:?} by plan {plan}");
    let times_64 = |sums: Tensor<f32>, at: Place<O>| {
        (sums * 0.25 + at.bias(Axis::Columns) + at.source() * 2.0) * 64.0
    };
    products
        .call_with(stream, &a, &b, &into, &options, times_64)
        .unwrap();
    assert_eq!(back(&c), wanted(64.0), "{shape:?} by plan {plan}");
}

#[test]
fn results_of_bytes() {
    for plan in (0..300).step_by(19) {
        check::<bf16, E4m3>(Shape::of([200, 136, 200]), plan);
        check::<E4m3, E5m2>(Shape::of([200, 136, 200]), plan + 7);
        check::<f16, E4m3>(Shape::of([70, 37, 51]), plan + 13);
    }
    check::<bf16, E5m2>(Shape::batched([40, 24, 48]), 0);
}
