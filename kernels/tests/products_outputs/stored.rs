//! A second matrix and reductions beside the result.

use tilekit::prelude::*;
use tilekit_kernels::products::{
    Axis, Operand, OutputPtrs, Outputs, Place, Precision, Reduction, ResultOf, Stored,
};

use super::{Problem, Shape, Value, back, every, rounded};

/// What a call stored.
struct Found {
    c: Vec<f64>,
    /// With the gaps of its rows.
    second: Vec<f64>,
    rows: Vec<f32>,
    columns: Vec<f32>,
    all: Vec<f32>,
}

/// What behind the rows of the second matrix stays.
const UNTOUCHED: f32 = 96.0;

/// What a call stores beside C, of which the second matrix is of so many columns.
fn stored<T, O, P, F>(problem: &Problem<T>, width: usize, epilogue: F) -> Found
where
    T: Operand + Value,
    O: ResultOf<T> + Value,
    P: Stored + Value,
    F: Fn(Tensor<f32>, Place<O, OutputPtrs<P>>) -> Tensor<f32> + Copy + Send + Sync + 'static,
{
    let [m, n, _] = problem.shape.size;
    let wide = [width, problem.shape.gap];
    let (c, second) = (
        problem.filled::<O>([n, 0], 99.0),
        problem.filled::<P>(wide, UNTOUCHED),
    );
    let [rows, columns] = [m, n].map(|len| problem.zeros(len));
    let all = Buffer::<f32>::zeros(problem.stream.device(), 1).unwrap();
    let of_second = problem.rows(&second, wide);
    let outputs = Outputs {
        second: Some(&of_second),
        rows: Some(&rows),
        columns: Some(&columns),
        all: Some(&all),
        scales: None,
    };
    let (a, b, into) = (problem.a(), problem.b(), problem.rows(&c, [n, 0]));
    let (call, options) = (problem.products.storing(outputs), problem.options());
    call.call_with(&problem.stream, &a, &b, &into, &options, epilogue)
        .unwrap();
    Found {
        c: back(&c),
        second: back(&second),
        rows: rows.to_vec().unwrap(),
        columns: columns.to_vec().unwrap(),
        all: all.to_vec().unwrap(),
    }
}

/// Elements with those behind each row.
fn with_gaps(elements: &[f64], [width, gap]: [usize; 2]) -> Vec<f64> {
    let rows = elements.chunks(width.max(1));
    let row = |row: &[f64]| [row, &vec![f64::from(UNTOUCHED); gap]].concat();
    rows.flat_map(row).collect()
}

/// A second matrix of as many columns, sums of squares of rows, maxima of columns and the largest magnitude.
fn check_whole<T, O, P>(shape: Shape, plan: Option<usize>)
where
    T: Operand + Value,
    O: ResultOf<T> + Value,
    P: Stored + Value,
{
    let n = shape.size[1];
    let problem = Problem::<T>::new(shape, plan);
    let found = stored::<T, O, P, _>(&problem, n, |sums, at| {
        at.store(sums * 0.5);
        at.reduce(Axis::Rows, Reduction::Sum, sums * sums);
        at.reduce(Axis::Columns, Reduction::Max, sums);
        at.reduce_all(Reduction::Max, sums.abs());
        sums + 1.0
    });
    let of = shape.sums();
    let apply = |f: fn(f64) -> f64| of.iter().map(|&x| f(x)).collect::<Vec<f64>>();
    let place = format!("{shape:?} by plan {plan:?}");
    assert_eq!(found.c, rounded::<O>(&apply(|x| x + 1.0)), "c of {place}");
    let second = rounded::<P>(&apply(|x| x * 0.5));
    let second = with_gaps(&second, [n, shape.gap]);
    assert_eq!(found.second, second, "second of {place}");
    let squares = |row: &[f64]| row.iter().map(|x| x * x).sum::<f64>() as f32;
    let rows: Vec<f32> = of.chunks(n).map(squares).collect();
    assert_eq!(found.rows, rows, "rows of {place}");
    let columns = shape.of_columns(&of, f64::max);
    assert_eq!(found.columns, columns, "columns of {place}");
    let all = of.iter().fold(0.0_f64, |all, x| all.max(x.abs()));
    assert_eq!(found.all, [all as f32], "all of {place}");
}

/// A second matrix of half as many columns, maxima of rows, sums of columns and of all.
fn check_pairs<T, O, P>(shape: Shape, plan: Option<usize>)
where
    T: Operand + Value,
    O: ResultOf<T> + Value,
    P: Stored + Value,
{
    let n = shape.size[1];
    let problem = Problem::<T>::new(shape, plan);
    let found = stored::<T, O, P, _>(&problem, n / 2, |sums, at| {
        let [even, odd] = at.pairs(sums);
        at.store_pairs(even * 2.0 - odd);
        at.reduce(Axis::Rows, Reduction::Max, sums);
        at.reduce(Axis::Columns, Reduction::Sum, sums);
        at.reduce_all(Reduction::Sum, sums);
        sums
    });
    let of = shape.sums();
    let place = format!("{shape:?} by plan {plan:?}");
    assert_eq!(found.c, rounded::<O>(&of), "c of {place}");
    let paired: Vec<f64> = of.chunks(2).map(|pair| 2.0 * pair[0] - pair[1]).collect();
    let second = with_gaps(&rounded::<P>(&paired), [n / 2, shape.gap]);
    assert_eq!(found.second, second, "second of {place}");
    let largest = |row: &[f64]| row.iter().copied().fold(0.0, f64::max) as f32;
    let rows: Vec<f32> = of.chunks(n).map(largest).collect();
    assert_eq!(found.rows, rows, "rows of {place}");
    let columns = shape.of_columns(&of, |x, y| x + y);
    assert_eq!(found.columns, columns, "columns of {place}");
    let all = of.iter().sum::<f64>() as f32;
    assert_eq!(found.all, [all], "all of {place}");
}

/// Products of these shapes by some of the plans that there are.
fn check_plans<T, O>(shapes: &[Shape], plans: &[usize])
where
    T: Operand + Value,
    O: ResultOf<T> + Value,
{
    for &shape in shapes {
        for &plan in plans {
            check_whole::<T, O, f32>(Shape { gap: 1, ..shape }, Some(plan));
            check_pairs::<T, O, bf16>(shape, Some(plan));
        }
    }
}

#[test]
fn plans_of_rows_for_tensor_maps() {
    check_plans::<bf16, bf16>(&[Shape::of([200, 136, 200])], &every(17));
}

#[test]
fn plans_of_rows_that_begin_anywhere() {
    let shapes = [Shape::of([70, 38, 301]), Shape::of([133, 98, 50])];
    check_plans::<f16, f16>(&shapes, &every(23));
}

#[test]
fn batches() {
    check_plans::<bf16, f32>(&[Shape::batched([70, 40, 72])], &every(37));
}

#[test]
fn operands_of_other_types() {
    check_plans::<E4m3, bf16>(&[Shape::of([72, 80, 144])], &[0, 50]);
    let of_f32 = Shape::of([40, 72, 36]);
    let precisely = Shape {
        precision: Precision::Tf32x3,
        ..of_f32
    };
    check_plans::<f32, f32>(&[of_f32, precisely], &[0, 3, 50]);
    check_whole::<bf16, bf16, E4m3>(Shape::of([65, 48, 4]), None);
}

/// Sums of nothing are zeros, which the epilogue finishes.
#[test]
fn nothing_along_k() {
    check_plans::<bf16, bf16>(&[Shape::of([30, 24, 0])], &[0, 9]);
}
