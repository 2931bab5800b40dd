//! What epilogues of products store beside the result: a second matrix, one of pairs of columns, reductions, scales; results of 8 bits and of half as many columns. By plans of all kernels, on the
//! emulator or a GPU.

#![allow(
    clippy::unwrap_used,
    reason = "what fails here ends the test at its line"
)]

mod bytes;
mod errors;
mod halves;
mod scales;
mod stored;

use tilekit::prelude::*;
use tilekit_kernels::products::dispatch::Dispatch;
use tilekit_kernels::products::{Operand, Options, Precision, Products, Stored};

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

/// A product, or several of a batch.
#[derive(Clone, Copy, Debug)]
struct Shape {
    batches: usize,
    size: [usize; 3],
    /// Elements behind each row of the second matrix.
    gap: usize,
    precision: Precision,
}

impl Shape {
    const fn of(size: [usize; 3]) -> Shape {
        Shape {
            batches: 1,
            size,
            gap: 0,
            precision: Precision::Tf32,
        }
    }

    const fn batched(size: [usize; 3]) -> Shape {
        Shape {
            batches: 3,
            ..Shape::of(size)
        }
    }

    /// A · B, in order.
    fn sums(self) -> Vec<f64> {
        let [m, n, k] = self.size;
        let mut sums = Vec::new();
        for row in 0..self.batches * m {
            for j in 0..n {
                let column = row / m * n + j;
                let term = |l: usize| f64::from(number(row * k + l, 1) * number(column * k + l, 2));
                sums.push((0..k).map(term).sum());
            }
        }
        sums
    }

    /// What `reduce` makes of each column of each product.
    fn of_columns(self, elements: &[f64], reduce: fn(f64, f64) -> f64) -> Vec<f32> {
        let [m, n, _] = self.size;
        let column = |at: usize| {
            let (batch, j) = (at / n, at % n);
            let elements = (0..m).map(|i| elements[(batch * m + i) * n + j]);
            elements.fold(0.0, reduce) as f32
        };
        (0..self.batches * n).map(column).collect()
    }
}

/// Numbers of a buffer of `T`.
fn numbers<T: Value>(device: &Device, len: usize, seed: usize) -> Buffer<T> {
    let numbers: Vec<T> = (0..len).map(|at| T::of(number(at, seed))).collect();
    Buffer::from_slice(device, &numbers).unwrap()
}

fn back<T: Value>(buffer: &Buffer<T>) -> Vec<f64> {
    buffer.to_vec().unwrap().into_iter().map(T::back).collect()
}

fn rounded<T: Value>(numbers: &[f64]) -> Vec<f64> {
    numbers.iter().map(|&x| T::of(x as f32).back()).collect()
}

/// A and B of a shape, whose columns lie along K, and products by a plan of this number, or the fastest one.
struct Problem<T> {
    shape: Shape,
    stream: Stream,
    products: Products,
    a: Buffer<T>,
    b: Buffer<T>,
}

impl<T: Operand + Value> Problem<T> {
    fn new(shape: Shape, plan: Option<usize>) -> Self {
        let device = Device::auto();
        let products = match plan {
            Some(plan) => Products::with_dispatch(&device, Dispatch::by_number(plan)),
            None => Products::new(&device),
        };
        let ([m, n, k], batches) = (shape.size, shape.batches);
        Problem {
            shape,
            stream: Stream::new(&device).unwrap(),
            products,
            a: numbers(&device, batches * m * k, 1),
            b: numbers(&device, batches * n * k, 2),
        }
    }

    fn a(&self) -> TensorView<'_, T> {
        let [m, _, k] = self.shape.size;
        self.a.view([self.shape.batches, m, k])
    }

    fn b(&self) -> TensorView<'_, T> {
        let [_, n, k] = self.shape.size;
        let b = self.b.view([self.shape.batches, k, n]);
        b.with_strides([n * k, 1, k])
    }

    fn options<O: Stored>(&self) -> Options<'_, O> {
        Options {
            precision: self.shape.precision,
            ..Options::default()
        }
    }

    /// A matrix for each product, of so many columns with gaps behind them.
    fn filled<O: Value>(&self, [columns, gap]: [usize; 2], value: f32) -> Buffer<O> {
        let rows = self.shape.batches * self.shape.size[0];
        let elements = vec![O::of(value); rows * (columns + gap)];
        Buffer::from_slice(self.stream.device(), &elements).unwrap()
    }

    /// As it lies.
    fn rows<'a, O: Value>(
        &self,
        buffer: &'a Buffer<O>,
        [columns, gap]: [usize; 2],
    ) -> TensorView<'a, O> {
        let (m, pitch) = (self.shape.size[0], columns + gap);
        let view = buffer.view([self.shape.batches, m, columns]);
        view.with_strides([m * pitch, pitch, 1])
    }

    /// Zeros, so many for each product.
    fn zeros(&self, len: usize) -> Buffer<f32> {
        Buffer::zeros(self.stream.device(), self.shape.batches * len).unwrap()
    }
}

/// Every so many plans, of at most 300.
fn every(plans: usize) -> Vec<usize> {
    (0..300).step_by(plans).collect()
}
