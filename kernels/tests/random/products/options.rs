//! What a product is asked to do beside multiplying, drawn at random and computed in f64.

use proptest::prelude::*;
use tilekit_kernels::products::{Activation, Axis};

use crate::numbers::Number;

/// One number or one for each row or column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Factors {
    None,
    One,
    Each,
}

impl Factors {
    /// How many there are where a result has so many rows or columns.
    pub(super) fn len(self, extent: usize) -> usize {
        match self {
            Factors::None => 0,
            Factors::One => 1,
            Factors::Each => extent,
        }
    }

    fn any() -> impl Strategy<Value = Factors> {
        prop_oneof![
            4 => Just(Factors::None),
            1 => Just(Factors::One),
            1 => Just(Factors::Each),
        ]
    }
}

/// The options of a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extras {
    pub(super) alpha: f32,
    pub(super) beta: f32,
    /// The source is another matrix than C.
    pub(super) has_source: bool,
    pub(super) scales: [Factors; 2],
    pub(super) bias: Option<Axis>,
    pub(super) activation: Activation,
    /// An element of A and a scale of each side are this, where there are such.
    pub(super) wild: Option<f32>,
}

impl Extras {
    /// A third of the calls have none.
    pub(super) fn any() -> impl Strategy<Value = Extras> {
        let none = Just(Extras::NONE);
        let alpha = prop_oneof![Just(1.0), Just(0.5), Just(-2.0), Just(0.0)];
        let beta = prop_oneof![2 => Just(0.0), 1 => Just(1.0), 1 => Just(-0.5)];
        let bias = prop_oneof![
            Just(None),
            Just(Some(Axis::Rows)),
            Just(Some(Axis::Columns))
        ];
        let activation = prop_oneof![
            3 => Just(Activation::None),
            1 => Just(Activation::Relu),
            1 => Just(Activation::Gelu),
            1 => Just(Activation::Silu),
        ];
        let scales = [Factors::any(), Factors::any()];
        let wild = prop_oneof![
            8 => Just(None),
            1 => Just(Some(f32::NAN)),
            1 => Just(Some(f32::INFINITY)),
            1 => Just(Some(-0.0)),
        ];
        let some = (alpha, beta, any::<bool>(), scales, bias, activation, wild);
        let some = some.prop_map(
            |(alpha, beta, has_source, scales, bias, activation, wild)| Extras {
                alpha,
                beta,
                has_source,
                scales,
                bias,
                activation,
                wild,
            },
        );
        prop_oneof![1 => none, 2 => some]
    }

    pub(super) const NONE: Extras = Extras {
        alpha: 1.0,
        beta: 0.0,
        has_source: false,
        scales: [Factors::None; 2],
        bias: None,
        activation: Activation::None,
        wild: None,
    };

    /// Numbers of which one is wild, if these options have that.
    pub(super) fn with_wild<T: Number>(self, mut numbers: Vec<T>) -> Vec<T> {
        let place = numbers.len() / 3;
        if let (Some(wild), Some(number)) = (self.wild, numbers.get_mut(place)) {
            let rounded = T::of(f64::from(wild));
            // What saturates is a large number, beside which sums of 8-bit floats keep too few bits.
            if rounded.back().is_finite() == wild.is_finite() {
                *number = rounded;
            }
        }
        numbers
    }

    /// Those whose results are whole: what an i32 can hold.
    pub(super) fn whole(self) -> Extras {
        Extras {
            alpha: self.alpha.ceil(),
            beta: self.beta.ceil(),
            scales: [Factors::None; 2],
            wild: None,
            activation: match self.activation {
                Activation::Relu => Activation::Relu,
                _ => Activation::None,
            },
            ..self
        }
    }
}

/// The activation, and the error that its approximation may have.
pub(crate) fn activate(activation: Activation, x: f64) -> (f64, f64) {
    let approximate = x.abs().max(1.0) / 1024.0;
    match activation {
        Activation::None => (x, 0.0),
        Activation::Relu => (x.max(0.0), 0.0),
        Activation::Gelu => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
            (x / 2.0 * (1.0 + inner.tanh()), approximate)
        }
        Activation::Silu => (x / (1.0 + (-x).exp()), approximate),
    }
}
