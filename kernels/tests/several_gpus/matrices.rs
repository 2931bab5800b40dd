//! Matrices of whole numbers on each rank, for products over ranks.

use tilekit::prelude::*;
use tilekit::{TensorView, World};
use tilekit_kernels::products::{Operand, ResultOf};

use Lies::{Columns, Rows, Wide};

/// An element of a test's matrices.
pub(crate) trait Whole: Operand + ResultOf<Self, Addend = Self> + Float {
    fn of(number: f32) -> Self;
    fn back(self) -> f64;
}

impl Whole for bf16 {
    fn of(number: f32) -> Self {
        bf16::from_f32(number)
    }
    fn back(self) -> f64 {
        self.to_f64()
    }
}

impl Whole for f16 {
    fn of(number: f32) -> Self {
        f16::from_f32(number)
    }
    fn back(self) -> f64 {
        self.to_f64()
    }
}

/// How a matrix of each rank lies.
#[derive(Clone, Copy)]
pub(crate) enum Lies {
    Rows,
    Columns,
    /// Rows that end so many elements before the next.
    Wide(usize),
}

/// A matrix on each rank, of -1, 0 and 1: products and sums up to 256 are exact.
pub(crate) struct Matrices<T> {
    pub(crate) buffers: Vec<Buffer<T>>,
    pub(crate) shape: [usize; 2],
    pub(crate) strides: [usize; 2],
}

impl<T: Whole> Matrices<T> {
    pub(crate) fn new(world: &World, shape: [usize; 2], lies: Lies, seed: usize) -> Matrices<T> {
        let number = |rank, at| ((at * 37 + (seed + rank) * 101) / 7 % 3) as f32 - 1.0;
        Matrices::of(world, shape, lies, number)
    }

    pub(crate) fn of(
        world: &World,
        shape: [usize; 2],
        lies: Lies,
        number: impl Fn(usize, usize) -> f32,
    ) -> Matrices<T> {
        let [rows, columns] = shape;
        let strides = match lies {
            Rows => [columns, 1],
            Columns => [1, rows],
            Wide(more) => [columns + more, 1],
        };
        let len = rows * strides[0].max(1) + columns * strides[1];
        let ranks = world.devices().iter().enumerate();
        let buffers = ranks.map(|(rank, device)| {
            let numbers: Vec<T> = (0..len).map(|at| T::of(number(rank, at))).collect();
            Buffer::from_slice(device, &numbers).unwrap()
        });
        Matrices {
            buffers: buffers.collect(),
            shape,
            strides,
        }
    }

    pub(crate) fn views(&self) -> Vec<TensorView<'_, T>> {
        let buffers = self.buffers.iter();
        buffers
            .map(|buffer| buffer.view(self.shape).with_strides(self.strides))
            .collect()
    }

    /// Rows of the matrix of each rank.
    pub(crate) fn rows(&self) -> Vec<Vec<Vec<f64>>> {
        let ([rows, columns], [row, column]) = (self.shape, self.strides);
        let of_rank = |buffer: &Buffer<T>| -> Vec<Vec<f64>> {
            let all = buffer.to_vec().unwrap();
            let at = |i: usize, j: usize| all[i * row + j * column].back();
            let of_row = |i: usize| (0..columns).map(|j| at(i, j)).collect();
            (0..rows).map(of_row).collect()
        };
        self.buffers.iter().map(of_rank).collect()
    }
}
