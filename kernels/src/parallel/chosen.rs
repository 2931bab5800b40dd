//! An epilogue whose activation a call chooses, for programs that have compiled kernels alone.

use tilekit::prelude::*;

use crate::products::epilogue::{Activation, Axis, Epilogue, Named, Place};
use crate::products::factor::Stored;
use crate::products::output_handles::NoOutputs;

/// `activation(sums + bias + source)`. The bias has N numbers, and behind them that of the activation, as [`ACTIVATIONS`] counts them. What is not to be added is a bias of zeros, or a source of one
/// row of zeros with a pitch of 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Chosen;

/// The activations, by their numbers.
pub const ACTIVATIONS: [Activation; 4] = [
    Activation::None,
    Activation::Relu,
    Activation::Gelu,
    Activation::Silu,
];

impl Named for Chosen {}

impl<O: Stored> Epilogue<O> for Chosen {
    type Outputs = NoOutputs;

    #[track_caller]
    fn finish(self, sums: Tensor<f32>, at: Place<O>) -> Tensor<f32> {
        let number = at.data.bias.at(at.size[1]).load();
        let number = number.cast::<f32>().cast::<i32>();
        let added = sums + at.bias(Axis::Columns) + at.source();
        activated(added, number)
    }
}

#[device]
fn activated(x: Tensor<f32>, number: Scalar<i32>) -> Tensor<f32> {
    let mut x = x;
    if number == 1 {
        x = Activation::Relu.of(x);
    }
    if number == 2 {
        x = Activation::Gelu.of(x);
    }
    if number == 3 {
        x = Activation::Silu.of(x);
    }
    x
}
