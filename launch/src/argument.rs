//! What a launch is given for its parameters: tensors in device memory, and numbers.

use crate::element::{DataType, Element};

/// What is passed for one parameter that is not derived.
#[derive(Clone, Copy, Debug)]
pub enum Argument<'a> {
    /// A tensor in device memory.
    Tensor(Tensor<'a>),
    /// A number: its type, and its bits in the low bytes.
    Scalar(DataType, u64),
}

/// A tensor in device memory.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    /// Of its first element.
    pub address: u64,
    /// Type of its elements.
    pub data_type: DataType,
    /// Its extents, the innermost last.
    pub shape: &'a [i64],
    /// Elements from one index to the next along each dimension; empty for a tensor without gaps.
    pub strides: &'a [i64],
    /// How many elements there are from `address` on, where that is known.
    pub elements: Option<u64>,
    /// The GPU that it is on, where that is known.
    pub device: Option<i32>,
}

impl Argument<'_> {
    /// A number.
    pub fn scalar<T: Element>(value: T) -> Argument<'static> {
        Argument::Scalar(T::DATA_TYPE, value.bits())
    }
}

impl Tensor<'_> {
    /// Elements from one index to the next along a dimension.
    pub(crate) fn stride(&self, dimension: usize) -> i64 {
        match self.strides.get(dimension) {
            Some(&stride) => stride,
            None => self.shape[dimension + 1..]
                .iter()
                .fold(1, |all, &n| all.saturating_mul(n)),
        }
    }

    /// Elements from the first to behind the last; 0 if there are none. Neither extents nor strides are negative.
    pub fn reach(&self) -> u64 {
        if self.shape.contains(&0) {
            return 0;
        }
        let steps =
            (0..self.shape.len()).map(|at| (self.shape[at] - 1).saturating_mul(self.stride(at)));
        steps.fold(1_i64, i64::saturating_add) as u64
    }
}
