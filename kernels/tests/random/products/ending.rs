//! The options of products with their numbers.

use tilekit::prelude::*;
use tilekit_kernels::products::{Axis, Options, Precision, Stored};

use super::options::{Extras, Factors, activate};
use crate::broken::Views;
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
    /// Lengths that the scales of A and B and the bias may have.
    right: [Vec<usize>; 3],
}

/// Which numbers of the scales of A and B and of the bias a result has.
pub(super) type Numbers = [usize; 3];

/// How many lists the numbers of a call are: scales of A and B, bias.
pub(super) const LISTS: usize = 3;

impl<O: Number + Stored<Addend = O>> Ending<O> {
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
        let lengths = [vec![m], vec![n], vec![of_bias]];
        Ending::of_lengths(device, extras, lengths, (shape, source))
    }

    /// Of scales of A and B and a bias of the first of these lengths, where there is one for each of something; a call may have the others too.
    pub(super) fn of_lengths(
        device: &Device,
        extras: Extras,
        lengths: [Vec<usize>; 3],
        (shape, source): ([usize; 3], &MemoryLayout<3>),
    ) -> Ending<O> {
        let source = Tensor::new(device, shape, source, |len| small(len, 3));
        let scales = [0, 1].map(|side| {
            let len = extras.scales[side].len(lengths[side][0]);
            extras.with_wild(factors(len, 5))
        });
        let [of_a, of_b, of_bias] = lengths;
        let or_one = |mut lengths: Vec<usize>| {
            lengths.push(1);
            lengths
        };
        Ending {
            extras,
            scales,
            bias: small(of_bias[0], 6),
            of_source: source.numbers(),
            source,
            right: [or_one(of_a), or_one(of_b), of_bias],
        }
    }

    /// What the options make of the sum at an index, by these numbers, with the error that it may have before it is rounded; the result was `was` before.
    pub(super) fn finished(
        &self,
        sum: f64,
        was: f64,
        at: [usize; 3],
        numbers: Numbers,
    ) -> (f64, f64) {
        let extras = self.extras;
        let scale = |side: usize| match &self.scales[side][..] {
            [] => 1.0,
            [one] => f64::from(*one),
            each => f64::from(each[numbers[side]]),
        };
        let bias = extras.bias.map_or(0.0, |_| self.bias[numbers[2]].back());
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

    /// The same with a number for each row or column.
    pub(super) fn of_result(&self, sum: f64, was: f64, at: [usize; 3]) -> (f64, f64) {
        let [_, row, column] = at;
        let of_bias = match self.extras.bias {
            Some(Axis::Rows) => row,
            Some(Axis::Columns) | None => column,
        };
        self.finished(sum, was, at, [row, column, of_bias])
    }

    /// Calls with the options, the source without the dimensions before `first`; of the views of the call the source is number `own`, and lists follow it.
    pub(super) fn with<T: Stored<Addend = O>, R>(
        &self,
        device: &Device,
        (first, precision): (usize, Precision),
        (views, own): (&Views, usize),
        call: impl FnOnce(&Options<'_, T>) -> R,
    ) -> R {
        let extras = self.extras;
        let is_broken = |list: usize| views.is_broken(own + 1 + list);
        let lists = [self.scales[0].len(), self.scales[1].len(), self.bias.len()];
        let [of_a, of_b, of_bias] =
            [0, 1, 2].map(|list| views.length(own + 1 + list, lists[list], &self.right[list]));
        let scales = [of_a, of_b]
            .map(|len| Buffer::from_slice(device, &extras.with_wild(factors(len, 5))).unwrap());
        let bias = Buffer::from_slice(device, &small::<O>(of_bias, 6)).unwrap();
        let has_scales = |side: usize| extras.scales[side] != Factors::None || is_broken(side);
        let axis = extras.bias.or(is_broken(2).then_some(Axis::Columns));
        let source = views.view(own, &self.source.view(first));
        // A source is not looked at where it is not added.
        let is_source_broken = views.is_broken(own);
        call(&Options {
            alpha: extras.alpha,
            beta: if is_source_broken { 1.0 } else { extras.beta },
            source: (extras.has_source || is_source_broken).then_some(&source),
            a_scales: has_scales(0).then_some(&scales[0]),
            b_scales: has_scales(1).then_some(&scales[1]),
            bias: axis.map(|axis| (&bias, axis)),
            activation: extras.activation,
            precision,
            ..Options::default()
        })
    }
}
