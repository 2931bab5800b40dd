//! Results of half as many columns as the product.

use tilekit::prelude::*;
use tilekit_kernels::products::{Axis, Operand, Outputs, Reduction, ResultOf};

use super::{Problem, Shape, Value, back, rounded};

/// `even - 2 odd`, by a closure alone and beside a second matrix of all columns and their sums.
fn check<T, O>(shape: Shape, plan: usize)
where
    T: Operand + Value,
    O: ResultOf<T> + Value,
{
    let problem = Problem::<T>::new(shape, Some(plan));
    let n = shape.size[1];
    let c = problem.filled::<O>([n / 2, 0], 96.0);
    let second = problem.filled::<f32>([n, 0], 0.0);
    let columns = problem.zeros(n);
    let of_second = problem.rows(&second, [n, 0]);
    let outputs = Outputs {
        second: Some(&of_second),
        columns: Some(&columns),
        ..Outputs::default()
    };
    let sums = shape.sums();
    let wanted = |scale: f64| {
        let halves = sums.chunks(2).map(|pair| (pair[0] - 2.0 * pair[1]) * scale);
        rounded::<O>(&halves.collect::<Vec<f64>>())
    };
    let (stream, products, options) = (&problem.stream, &problem.products, problem.options());
    let (a, b, into) = (problem.a(), problem.b(), problem.rows(&c, [n / 2, 0]));
    let called = products.call_with(stream, &a, &b, &into, &options, |sums, at| {
        let [even, odd] = at.pairs(sums);
        even - odd * 2.0
    });
    called.unwrap();
    let place = format!("{shape:?} by plan {plan}");
    assert_eq!(back(&c), wanted(1.0), "{place}");
    let call = products.storing(outputs);
    let called = call.call_with(stream, &a, &b, &into, &options, |sums, at| {
        at.store(sums);
        at.reduce(Axis::Columns, Reduction::Sum, sums);
        let [even, odd] = at.pairs(sums);
        even * 2.0 - odd * 4.0
    });
    called.unwrap();
    assert_eq!(back(&c), wanted(2.0), "{place}");
    assert_eq!(back(&second), sums, "second of {place}");
    let totals = shape.of_columns(&sums, |x, y| x + y);
    assert_eq!(columns.to_vec().unwrap(), totals, "columns of {place}");
}

#[test]
fn results_of_half_as_many_columns() {
    for plan in (0..200).step_by(17) {
        check::<bf16, bf16>(Shape::of([200, 272, 200]), plan);
        check::<f16, E4m3>(Shape::of([70, 38, 51]), plan);
        check::<E4m3, f32>(Shape::of([70, 200, 80]), plan);
    }
    check::<bf16, f32>(Shape::batched([40, 136, 48]), 0);
}
