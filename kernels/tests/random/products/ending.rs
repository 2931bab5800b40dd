//! The options of products with their numbers.

use tilekit::prelude::*;
use tilekit_kernels::products::{Axis, Options, Precision};

use super::options::{Extras, Factors, activate};
use crate::numbers::{Number, factors, small};
use crate::tensor::{MemoryLayout, Tensor};

/// What a product is asked to do beside multiplying, and the numbers for it.
pub(super) struct Ending<O> {
    extras: Extras,
    /// Of A and B; none if there are no numbers.
    scales: [Vec<f32>; 2],
    bias: Vec<O>,
    source: Tensor<O, 3>,
    of_source: Vec<f64>,
}

impl<O: Number> Ending<O> {
    /// Of results of a shape: batches, rows, columns.
    pub(super) fn new(
        device: &Device,
        extras: Extras,
        shape: [usize; 3],
        source: &MemoryLayout<3>,
    ) -> Ending<O> {
        let [_, m, n] = shape;
        let of_bias = match extras.bias {
            Some(Axis::Rows) => m,
            Some(Axis::Columns) | None => n,
        };
        let source = Tensor::new(device, shape, source, |len| small(len, 3));
        Ending {
            extras,
            scales: [0, 1].map(|side| factors(extras.scales[side].len([m, n][side]), 5)),
            bias: small(of_bias, 6),
            of_source: source.numbers(),
            source,
        }
    }

    /// What the options make of the sum at an index, with the error that it may have before it is rounded; the result was `was` before.
    pub(super) fn finished(&self, sum: f64, was: f64, at: [usize; 3]) -> (f64, f64) {
        let extras = self.extras;
        let scale = |side: usize| match &self.scales[side][..] {
            [] => 1.0,
            [one] => f64::from(*one),
            each => f64::from(each[at[1 + side]]),
        };
        let bias = match extras.bias {
            None => 0.0,
            Some(Axis::Rows) => self.bias[at[1]].back(),
            Some(Axis::Columns) => self.bias[at[2]].back(),
        };
        let source = if extras.has_source {
            self.of_source[self.source.at(at)]
        } else {
            was
        };
        let parts = [
            f64::from(extras.alpha) * scale(0) * scale(1) * sum,
            bias,
            f64::from(extras.beta) * source,
        ];
        let (result, error) = activate(extras.activation, parts.iter().sum());
        let in_f32: f64 = parts.iter().map(|part| part.abs() * 1e-6).sum();
        (result, error + in_f32)
    }

    /// Calls with the options, the source without the dimensions before `first`.
    pub(super) fn with<R>(
        &self,
        device: &Device,
        (first, precision): (usize, Precision),
        call: impl FnOnce(&Options<'_, O>) -> R,
    ) -> R {
        let of = |numbers: &[f32]| Buffer::from_slice(device, numbers).unwrap();
        let scales = [of(&self.scales[0]), of(&self.scales[1])];
        let bias = Buffer::from_slice(device, &self.bias).unwrap();
        let source = self.source.view(first);
        let extras = self.extras;
        call(&Options {
            alpha: extras.alpha,
            beta: extras.beta,
            source: extras.has_source.then_some(&source),
            a_scales: (extras.scales[0] != Factors::None).then_some(&scales[0]),
            b_scales: (extras.scales[1] != Factors::None).then_some(&scales[1]),
            bias: extras.bias.map(|axis| (&bias, axis)),
            activation: extras.activation,
            precision,
        })
    }
}
