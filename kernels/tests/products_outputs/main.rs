//! What epilogues of products store beside the result, on the emulator: a second matrix, one of pairs of columns, reductions; by plans of all kernels.

#![allow(
    clippy::unwrap_used,
    reason = "what fails here ends the test at its line"
)]

mod errors;
mod scales;

use tilekit::prelude::*;
use tilekit_kernels::products::dispatch::Dispatch;
use tilekit_kernels::products::{
    Axis, Operand, Options, OutputPtrs, Outputs, Place, Products, Reduction, ResultOf, Stored,
};

/// Small whole numbers, some of them negative: all sums are exact.
fn number(at: usize, seed: usize) -> f32 {
    ((at * 37 + seed * 101) / 7 % 5) as f32 - 2.0
}

/// An element type of which small whole numbers are elements.
trait Value: DeviceElement {
    fn of(number: f32) -> Self;
    fn back(self) -> f64;
}

macro_rules! values {
    ($($element:ty)*) => {$(
        impl Value for $element {
            fn of(number: f32) -> Self {
                <$element>::from_f32(number)
            }

            fn back(self) -> f64 {
                self.to_f64()
            }
        }
    )*};
}

values! { bf16 f16 E4m3 E5m2 }

impl Value for f32 {
    fn of(number: f32) -> Self {
        number
    }

    fn back(self) -> f64 {
        f64::from(self)
    }
}

/// A product of a batch, and where its second matrix lies.
#[derive(Clone, Copy, Debug)]
struct Shape {
    batches: usize,
    size: [usize; 3],
    /// Elements behind each row of the second matrix.
    gap: usize,
}

impl Shape {
    const fn of(size: [usize; 3]) -> Shape {
        Shape {
            batches: 1,
            size,
            gap: 0,
        }
    }
}

/// What a call stored.
struct Found {
    c: Vec<f64>,
    /// With the gaps of its rows.
    second: Vec<f64>,
    rows: Vec<f32>,
    columns: Vec<f32>,
    all: Vec<f32>,
}

/// What a call stores by plan number `plan`, or an error.
fn stored<T, O, P, F>(
    shape: Shape,
    (plan, of_pairs): (Option<usize>, bool),
    epilogue: F,
) -> tilekit_kernels::products::Result<Found>
where
    T: Operand + Value,
    O: ResultOf<T> + Value,
    P: Stored + Value,
    F: Fn(Tensor<f32>, Place<O, OutputPtrs<P>>) -> Tensor<f32> + Copy + Send + Sync + 'static,
{
    let device = Device::auto();
    let stream = Stream::new(&device)?;
    let products = match plan {
        Some(plan) => Products::with_dispatch(&device, Dispatch::by_number(plan)),
        None => Products::new(&device),
    };
    let Shape {
        batches,
        size: [m, n, k],
        gap,
    } = shape;
    let of = |len: usize, seed| -> Vec<T> { (0..len).map(|at| T::of(number(at, seed))).collect() };
    let a = Buffer::from_slice(&device, &of(batches * m * k, 1))?;
    let b = Buffer::from_slice(&device, &of(batches * n * k, 2))?;
    let c = Buffer::from_slice(&device, &vec![O::of(99.0); batches * m * n])?;
    let width = if of_pairs { n / 2 } else { n };
    let pitch = width + gap;
    let second = Buffer::from_slice(&device, &vec![P::of(96.0); batches * m * pitch])?;
    let zeros = |len: usize| Buffer::<f32>::zeros(&device, len);
    let (rows, columns, all) = (zeros(batches * m)?, zeros(batches * n)?, zeros(1)?);
    let of_second = second.view([batches, m, width]);
    let of_second = of_second.with_strides([m * pitch, pitch, 1]);
    let outputs = Outputs {
        second: Some(&of_second),
        rows: Some(&rows),
        columns: Some(&columns),
        all: Some(&all),
        scales: None,
    };
    let (of_a, of_c) = (a.view([batches, m, k]), c.view([batches, m, n]));
    let of_b = b.view([batches, k, n]).with_strides([n * k, 1, k]);
    let options = Options::default();
    let call = products.storing(outputs);
    call.call_with(&stream, &of_a, &of_b, &of_c, &options, epilogue)?;
    stream.synchronize()?;
    Ok(Found {
        c: back(&c)?,
        second: back(&second)?,
        rows: rows.to_vec()?,
        columns: columns.to_vec()?,
        all: all.to_vec()?,
    })
}

fn back<T: Value>(buffer: &Buffer<T>) -> tilekit::Result<Vec<f64>> {
    Ok(buffer.to_vec()?.into_iter().map(Value::back).collect())
}

/// A · B, in order.
fn sums(shape: Shape) -> Vec<f64> {
    let Shape {
        batches,
        size: [m, n, k],
        ..
    } = shape;
    let mut sums = Vec::new();
    for row in 0..batches * m {
        for j in 0..n {
            let column = row / m * n + j;
            let term = |l: usize| f64::from(number(row * k + l, 1) * number(column * k + l, 2));
            sums.push((0..k).map(term).sum());
        }
    }
    sums
}

/// Elements with those behind each row.
fn with_gaps(elements: &[f64], [width, gap]: [usize; 2], untouched: f64) -> Vec<f64> {
    let rows = elements.chunks(width.max(1));
    let row = |row: &[f64]| [row, &vec![untouched; gap]].concat();
    rows.flat_map(row).collect()
}

fn rounded<T: Value>(numbers: &[f64]) -> Vec<f64> {
    numbers.iter().map(|&x| T::of(x as f32).back()).collect()
}

/// A second matrix of as many columns, sums of squares of rows, maxima of columns and the largest magnitude.
fn check_whole<T, O, P>(shape: Shape, plan: Option<usize>)
where
    T: Operand + Value,
    O: ResultOf<T> + Value,
    P: Stored + Value,
{
    let found = stored::<T, O, P, _>(shape, (plan, false), |sums, at| {
        at.store(sums * 0.5);
        at.reduce(Axis::Rows, Reduction::Sum, sums * sums);
        at.reduce(Axis::Columns, Reduction::Max, sums);
        at.reduce_all(Reduction::Max, sums.abs());
        sums + 1.0
    });
    let found = found.unwrap();
    let ([m, n, _], of) = (shape.size, sums(shape));
    let apply = |f: fn(f64) -> f64| of.iter().map(|&x| f(x)).collect::<Vec<f64>>();
    assert_eq!(found.c, rounded::<O>(&apply(|x| x + 1.0)), "c");
    let second = rounded::<P>(&apply(|x| x * 0.5));
    assert_eq!(
        found.second,
        with_gaps(&second, [n, shape.gap], 96.0),
        "second"
    );
    let squares = |row: &[f64]| row.iter().map(|x| x * x).sum::<f64>() as f32;
    let rows: Vec<f32> = of.chunks(n).map(squares).collect();
    assert_eq!(found.rows, rows, "rows");
    let largest = |at: usize| {
        let (batch, j) = (at / n, at % n);
        let column = (0..m).map(|i| of[(batch * m + i) * n + j]);
        column.fold(0.0, f64::max) as f32
    };
    let columns: Vec<f32> = (0..shape.batches * n).map(largest).collect();
    assert_eq!(found.columns, columns, "columns");
    let all = of.iter().fold(0.0_f64, |all, x| all.max(x.abs()));
    assert_eq!(found.all, [all as f32], "all");
}

/// A second matrix of half as many columns, maxima of rows, sums of columns and of all.
fn check_pairs<T, O, P>(shape: Shape, plan: Option<usize>)
where
    T: Operand + Value,
    O: ResultOf<T> + Value,
    P: Stored + Value,
{
    let found = stored::<T, O, P, _>(shape, (plan, true), |sums, at| {
        let [even, odd] = at.pairs(sums);
        at.store_pairs(even * 2.0 - odd);
        at.reduce(Axis::Rows, Reduction::Max, sums);
        at.reduce(Axis::Columns, Reduction::Sum, sums);
        at.reduce_all(Reduction::Sum, sums);
        sums
    });
    let found = found.unwrap();
    let ([m, n, _], of) = (shape.size, sums(shape));
    assert_eq!(found.c, rounded::<O>(&of), "c");
    let paired: Vec<f64> = of.chunks(2).map(|pair| 2.0 * pair[0] - pair[1]).collect();
    let second = rounded::<P>(&paired);
    assert_eq!(
        found.second,
        with_gaps(&second, [n / 2, shape.gap], 96.0),
        "second"
    );
    let largest = |row: &[f64]| row.iter().copied().fold(0.0, f64::max) as f32;
    let rows: Vec<f32> = of.chunks(n).map(largest).collect();
    assert_eq!(found.rows, rows, "rows");
    let sum = |at: usize| {
        let (batch, j) = (at / n, at % n);
        (0..m).map(|i| of[(batch * m + i) * n + j]).sum::<f64>() as f32
    };
    let columns: Vec<f32> = (0..shape.batches * n).map(sum).collect();
    assert_eq!(found.columns, columns, "columns");
    assert_eq!(found.all, [of.iter().sum::<f64>() as f32], "all");
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

/// Every so many plans, of at most 300.
fn every(plans: usize) -> Vec<usize> {
    (0..300).step_by(plans).collect()
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
    let shape = Shape {
        batches: 3,
        ..Shape::of([70, 40, 72])
    };
    check_plans::<bf16, f32>(&[shape], &every(37));
}

#[test]
fn operands_of_other_types() {
    check_plans::<E4m3, bf16>(&[Shape::of([72, 80, 144])], &[0, 50]);
    check_plans::<f32, f32>(&[Shape::of([40, 72, 36])], &[0, 50]);
    check_whole::<bf16, bf16, E4m3>(Shape::of([65, 48, 4]), None);
}

/// `round(sums / 4 + bias + source)`, of which the largest are beyond E4m3, by the options and by a closure.
fn check_bytes<T, O>(shape: Shape, plan: usize)
where
    T: Operand + Value,
    O: ResultOf<T, Addend = bf16> + Value,
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
    let c = Buffer::from_slice(&device, &vec![O::of(96.0); batches * m * n]).unwrap();
    let bf16s =
        |len: usize, seed| -> Vec<bf16> { (0..len).map(|at| bf16::of(number(at, seed))).collect() };
    let bias = Buffer::from_slice(&device, &bf16s(n, 3)).unwrap();
    let source = Buffer::from_slice(&device, &bf16s(batches * m * n, 4)).unwrap();
    let source = source.view([batches, m, n]);
    let options = Options {
        alpha: 0.25,
        beta: 2.0,
        source: Some(&source),
        bias: Some((&bias, Axis::Columns)),
        ..Options::default()
    };
    let (of_a, of_c) = (a.view([batches, m, k]), c.view([batches, m, n]));
    let of_b = b.view([batches, k, n]).with_strides([n * k, 1, k]);
    let wanted = |scale: f64| {
        let finish = |(at, sum): (usize, f64)| {
            let added = f64::from(number(at % n, 3)) + 2.0 * f64::from(number(at, 4));
            O::of(((sum * 0.25 + added) * scale) as f32).back()
        };
        sums(shape)
            .into_iter()
            .enumerate()
            .map(finish)
            .collect::<Vec<f64>>()
    };
    products
        .call(&stream, &of_a, &of_b, &of_c, &options)
        .unwrap();
    assert_eq!(back(&c).unwrap(), wanted(1.0), "{shape:?} by plan {plan}");
    let times_64 = |sums: Tensor<f32>, at: Place<O>| {
        (sums * 0.25 + at.bias(Axis::Columns) + at.source() * 2.0) * 64.0
    };
    let called = products.call_with(&stream, &of_a, &of_b, &of_c, &options, times_64);
    called.unwrap();
    assert_eq!(back(&c).unwrap(), wanted(64.0), "{shape:?} by plan {plan}");
}

#[test]
fn results_of_bytes() {
    for plan in (0..300).step_by(19) {
        check_bytes::<bf16, E4m3>(Shape::of([200, 136, 200]), plan);
        check_bytes::<E4m3, E5m2>(Shape::of([200, 136, 200]), plan + 7);
        check_bytes::<f16, E4m3>(Shape::of([70, 37, 51]), plan + 13);
    }
    let batches = Shape {
        batches: 3,
        ..Shape::of([40, 24, 48])
    };
    check_bytes::<bf16, E5m2>(batches, 0);
}

/// A result of half as many columns as the product, `even - 2 odd`, beside a second matrix of all and sums of columns; by a closure alone too.
fn check_halves<T, O>(shape: Shape, plan: usize)
where
    T: Operand + Value,
    O: ResultOf<T> + Value,
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
    let c = Buffer::from_slice(&device, &vec![O::of(96.0); batches * m * n / 2]).unwrap();
    let second = Buffer::<f32>::zeros(&device, batches * m * n).unwrap();
    let columns = Buffer::<f32>::zeros(&device, batches * n).unwrap();
    let second_view = second.view([batches, m, n]);
    let outputs = Outputs {
        second: Some(&second_view),
        columns: Some(&columns),
        ..Outputs::default()
    };
    let (of_a, of_c) = (a.view([batches, m, k]), c.view([batches, m, n / 2]));
    let of_b = b.view([batches, k, n]).with_strides([n * k, 1, k]);
    let sums = sums(shape);
    let wanted = |scale: f64| {
        let halves = sums.chunks(2).map(|pair| (pair[0] - 2.0 * pair[1]) * scale);
        rounded::<O>(&halves.collect::<Vec<f64>>())
    };
    let options = Options::default();
    let called = products.call_with(&stream, &of_a, &of_b, &of_c, &options, |sums, at| {
        let [even, odd] = at.pairs(sums);
        even - odd * 2.0
    });
    called.unwrap();
    assert_eq!(back(&c).unwrap(), wanted(1.0), "{shape:?} by plan {plan}");
    let call = products.storing(outputs);
    let called = call.call_with(&stream, &of_a, &of_b, &of_c, &options, |sums, at| {
        at.store(sums);
        at.reduce(Axis::Columns, Reduction::Sum, sums);
        let [even, odd] = at.pairs(sums);
        even * 2.0 - odd * 4.0
    });
    called.unwrap();
    assert_eq!(back(&c).unwrap(), wanted(2.0), "{shape:?} by plan {plan}");
    assert_eq!(
        back(&second).unwrap(),
        sums,
        "second of {shape:?} by plan {plan}"
    );
    let sum = |at: usize| {
        let (batch, j) = (at / n, at % n);
        (0..m).map(|i| sums[(batch * m + i) * n + j]).sum::<f64>() as f32
    };
    let totals: Vec<f32> = (0..batches * n).map(sum).collect();
    assert_eq!(
        columns.to_vec().unwrap(),
        totals,
        "columns of {shape:?} by plan {plan}"
    );
}

#[test]
fn results_of_half_as_many_columns() {
    for plan in (0..200).step_by(17) {
        check_halves::<bf16, bf16>(Shape::of([200, 272, 200]), plan);
        check_halves::<f16, E4m3>(Shape::of([70, 38, 51]), plan);
        check_halves::<E4m3, f32>(Shape::of([70, 200, 80]), plan);
    }
    check_halves::<bf16, f32>(
        Shape {
            batches: 3,
            ..Shape::of([40, 136, 48])
        },
        0,
    );
}
