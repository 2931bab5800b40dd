//! Changes of scores before the softmax, as types: their functions are traced into the kernel.

use tilekit::prelude::*;

/// The positions of scores: tensors that broadcast against each other, and against the scores. In the forward pass queries are rows and keys
/// columns; in the backward pass keys are rows and queries columns.
#[derive(Clone, Copy)]
pub struct Place {
    /// The head of the queries: `[rows, 1]`, or `[1, 1]` in the backward pass.
    pub head: Tensor<i32>,
    /// The position of the query among the keys, `[rows, 1]` or `[1, columns]`; the last query has the last key's position.
    pub query: Tensor<i32>,
    /// The key, `[1, columns]` or `[rows, 1]`.
    pub key: Tensor<i32>,
    /// The factor by which Q · K is multiplied.
    pub scale: Scalar<f32>,
    /// The numbers that the call was given for the modifier. Tiles reach past the last query and key: an index into them is masked or clamped.
    pub data: Ptr<f32>,
}

/// Changes or masks scores. An author's type has no fields; its functions are traced as part of the kernel.
///
/// ```
/// use tilekit::prelude::*;
/// use tilekit_kernels::attention::{Modifier, Place};
///
/// /// A query sees the keys of its own 32, and each key further away counts less.
/// #[derive(Clone, Copy)]
/// struct Local;
///
/// impl Modifier for Local {
///     const MASKS: bool = true;
///
///     fn scores(scores: Tensor<f32>, at: Place) -> Tensor<f32> {
///         scores * at.scale - (at.query - at.key).abs().cast::<f32>() * 0.1
///     }
///
///     #[device]
///     fn sees(at: Place) -> Tensor<bool> {
///         at.key / 32 == at.query / 32
///     }
/// }
/// ```
pub trait Modifier: Copy + 'static {
    /// Whether [`sees`](Modifier::sees) masks scores. Then every block of keys is masked, not only those at an edge.
    const MASKS: bool = false;

    /// Whether weights are dropped by the [`Dropout`](super::Dropout) of a call: a modifier that is given does not say so.
    #[doc(hidden)]
    const DROPS: bool = false;

    /// Whether scores are multiplied by the scale in the exponent of 2, and not by [`scores`](Modifier::scores).
    #[doc(hidden)]
    const SCALES_LATER: bool = false;

    /// Whether scores or masks depend on [`Place`] beyond its scale, for which a thread takes registers.
    #[doc(hidden)]
    const READS_PLACE: bool = true;

    /// Natural exponents of the products Q · K, `[queries, keys]`, or `[keys, queries]` in the backward pass.
    fn scores(scores: Tensor<f32>, at: Place) -> Tensor<f32>;

    /// Whether a query sees a key, in addition to causality and windows.
    #[device]
    fn sees(at: Place) -> Tensor<bool> {
        at.key >= 0
    }

    /// The factors of a call: the kernel's [`scale`](Place::scale), and that of the exponents; `scale` is the
    /// factor of scores, and `cap` the bound of a [`Softcap`].
    fn factors(scale: f32, _cap: f32) -> [f32; 2] {
        [scale, 1.0]
    }
}

/// A modifier of which gradients can be computed.
pub trait Differentiable: Modifier {
    /// The derivative of [`scores`](Modifier::scores) with respect to the products Q · K, divided by the scale of the call; `changed` is
    /// the result of `scores`. `None` where the derivative is 1 everywhere.
    fn slopes(changed: Tensor<f32>) -> Option<Tensor<f32>>;
}

/// No change of scores.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

impl Modifier for Plain {
    const SCALES_LATER: bool = true;
    const READS_PLACE: bool = false;

    fn scores(scores: Tensor<f32>, _: Place) -> Tensor<f32> {
        scores
    }

    fn factors(scale: f32, _: f32) -> [f32; 2] {
        [1.0, scale]
    }
}

impl Differentiable for Plain {
    fn slopes(_: Tensor<f32>) -> Option<Tensor<f32>> {
        None
    }
}

/// A modifier beside dropout.
#[derive(Clone, Copy, Debug)]
pub struct Dropped<M>(std::marker::PhantomData<M>);

impl<M: Modifier> Modifier for Dropped<M> {
    const MASKS: bool = M::MASKS;
    const DROPS: bool = true;
    const SCALES_LATER: bool = M::SCALES_LATER;
    const READS_PLACE: bool = M::READS_PLACE;

    fn scores(scores: Tensor<f32>, at: Place) -> Tensor<f32> {
        M::scores(scores, at)
    }

    fn sees(at: Place) -> Tensor<bool> {
        M::sees(at)
    }

    fn factors(scale: f32, cap: f32) -> [f32; 2] {
        M::factors(scale, cap)
    }
}

impl<M: Differentiable> Differentiable for Dropped<M> {
    fn slopes(changed: Tensor<f32>) -> Option<Tensor<f32>> {
        M::slopes(changed)
    }
}

/// `cap · tanh(score / cap)`, by `tanh.approx`: an error of 2^-11 of the cap.
#[derive(Clone, Copy, Debug)]
pub struct Softcap;

impl Modifier for Softcap {
    const READS_PLACE: bool = false;

    fn scores(scores: Tensor<f32>, at: Place) -> Tensor<f32> {
        (scores * at.scale).tanh_approx()
    }

    fn factors(scale: f32, cap: f32) -> [f32; 2] {
        [scale / cap, cap]
    }
}

impl Differentiable for Softcap {
    fn slopes(changed: Tensor<f32>) -> Option<Tensor<f32>> {
        Some(fma(-changed, changed, 1.0))
    }
}

/// Attention with linear biases: minus the distance between query and key times the slope of the head, which the data has for each head
/// of the queries.
#[derive(Clone, Copy, Debug)]
pub struct Alibi;

impl Modifier for Alibi {
    #[device]
    fn scores(scores: Tensor<f32>, at: Place) -> Tensor<f32> {
        let slope = at.data.at(at.head).load();
        let distance = (at.query - at.key).abs().cast::<f32>();
        fma(scores, at.scale, -(distance * slope))
    }
}

impl Differentiable for Alibi {
    fn slopes(_: Tensor<f32>) -> Option<Tensor<f32>> {
        None
    }
}
