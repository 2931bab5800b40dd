//! What a product over ranks does beside multiplying and adding.

use tilekit::Buffer;
use tilekit::prelude::*;

use crate::products::epilogue::{Activation, Axis, Scales, Standard};

use super::check::View;

/// `C = activation(sums + bias + residual)`, once for the sum over all ranks. The default is the sum alone.
#[derive(Clone, Copy)]
pub struct Options<'a, T> {
    /// A number for each column of C, on each rank.
    pub bias: Option<&'a [&'a Buffer<T>]>,
    /// On each rank a matrix of the shape of its C.
    pub residual: Option<&'a [View<'a, T>]>,
    /// What happens in the end.
    pub activation: Activation,
}

impl<T> Default for Options<'_, T> {
    fn default() -> Self {
        Options {
            bias: None,
            residual: None,
            activation: Activation::None,
        }
    }
}

impl<T: DeviceElement> Options<'_, T> {
    /// Whether sums are stored as they are.
    pub(super) fn are_plain(&self) -> bool {
        self.bias.is_none() && self.residual.is_none() && self.activation == Activation::None
    }

    /// What kernels are compiled for.
    pub(super) fn epilogue(&self) -> Standard {
        Standard {
            scales: [Scales::None; 2],
            bias: self.bias.map(|_| Axis::Columns),
            has_source: self.residual.is_some(),
            activation: self.activation,
        }
    }
}
