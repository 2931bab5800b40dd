//! What the model of times misses, learned from measured times. The model says what bounds a plan; which of several plans of about the same time is the fastest depends on the kernel, on how tiles divide the matrices and on where rows
//! begin, in ways that no constants of the model express. A [`Network`] of two layers maps [`inputs`] of a plan to the logarithm of its measured time over that of the model.
//!
//! Fitted by `bench/fit/residual.py` to times of an H200, of products of 16-bit types, one at a time, contiguous along K, whose results are of the same type (`bench/results/products/choice.md`). Times of others are those of the model.

mod inputs;
mod network;

use super::finishing;
use super::need::Need;
use super::plan::Plan;

pub(super) use inputs::inputs;
use network::Network;

/// No time is corrected by more, as a logarithm: what the model was wrong by at most where it was near.
const MOST: f64 = 0.5;

/// M · N · K at most, some 500 µs: of the few longer products the model chooses better.
const MOST_WORK: f64 = 1.9e11;

/// A plan of the model with what this misses of its time, and with that of its epilogue.
pub(super) fn corrected(plan: Plan, need: &Need) -> Plan {
    let product = plan.microseconds * factor(&plan, need);
    Plan {
        microseconds: product + finishing::microseconds(&plan, product, need),
        ..plan
    }
}

/// What the time of a plan by the model is multiplied by.
fn factor(plan: &Plan, need: &Need) -> f64 {
    if !was_measured(need) {
        return 1.0;
    }
    let Some(inputs) = inputs(plan, need) else {
        return 1.0;
    };
    let log = f64::from(Network::shipped().output(&inputs));
    log.clamp(-MOST, MOST).exp()
}

/// Whether the network was fitted to products like this one.
pub(super) fn was_measured(need: &Need) -> bool {
    let work: f64 = need.size.iter().map(|&extent| extent as f64).product();
    let is_of_type = need.element_bytes == [2, 2] && need.is_mn_major == [false; 2];
    need.batches == 1 && is_of_type && work <= MOST_WORK
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::products::instances::INSTANCES;

    fn plans(need: &Need) -> impl Iterator<Item = Plan> {
        let instances = INSTANCES.into_iter();
        instances.filter_map(|instance| Plan::by_model(instance, need))
    }

    /// Extents that no fit has seen get no time of another magnitude.
    #[test]
    fn times_are_corrected_within_bounds_at_any_extent() {
        for size in [
            [1, 1, 1],
            [16384, 16384, 16384],
            [1, 16384, 1 << 20],
            [7, 9, 3],
        ] {
            let need = Need::of_packed_16_bits(size);
            for plan in plans(&need) {
                let by = factor(&plan, &need).ln().abs();
                assert!(by <= MOST + 1e-9, "{size:?} {plan}: {by}");
            }
        }
    }

    #[test]
    fn times_of_products_that_were_not_measured_are_those_of_the_model() {
        let measured = Need::of_16_bits([512, 1024, 2048]);
        let batched = Need {
            batches: 2,
            ..measured
        };
        let bytes = Need {
            element_bytes: [1, 2],
            ..measured
        };
        let turned = Need {
            is_mn_major: [true, false],
            ..measured
        };
        assert!(plans(&measured).any(|plan| factor(&plan, &measured).ln().abs() > 1e-3));
        let large = Need::of_16_bits([8192; 3]);
        for need in [batched, bytes, turned, large] {
            assert!(plans(&need).all(|plan| factor(&plan, &need).ln().abs() < 1e-9));
        }
    }
}
