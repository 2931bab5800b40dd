//! A modifier as an author writes it: scores with a table of biases that the call captures, and a mask.

use tilekit::prelude::*;
use tilekit_kernels::attention::{Differentiable, Modifier, Place};

/// Biases of a head, by the distance of query and key; the last is that of all that are further away.
pub(super) const BIASES: usize = 16;

/// The bias of a distance, for heads whose factor is 1.
pub(super) fn bias(distance: i64) -> f64 {
    let bucket = distance.abs().min(BIASES as i64 - 1);
    (bucket * 7 % 16 - 8) as f64
}

/// Whether a query at a position sees a key.
pub(super) fn sees(place: i64, key: i64) -> bool {
    (key - place) & 7 != 3
}

/// Biases by the captured table, and every eighth key masked if it `MASKS`.
#[derive(Clone, Copy)]
pub(super) struct Biased<const MASKS: bool>;

impl<const MASKS: bool> Modifier for Biased<MASKS> {
    const MASKS: bool = MASKS;

    #[device]
    fn scores(scores: Tensor<f32>, at: Place) -> Tensor<f32> {
        let bucket = (at.query - at.key).abs().minimum(BIASES - 1);
        let bias = at.data.at(at.head * BIASES + bucket).load();
        scores * at.scale + bias
    }

    #[device]
    fn sees(at: Place) -> Tensor<bool> {
        ((at.key - at.query) & 7) != 3
    }
}

impl<const MASKS: bool> Differentiable for Biased<MASKS> {
    fn slopes(_: Tensor<f32>) -> Option<Tensor<f32>> {
        None
    }
}
