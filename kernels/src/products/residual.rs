//! What the model of times misses in the mean, by kernel. The model says what bounds a plan; what its fits leave over still depends on the kernel, and decides between plans of about the same time.
//!
//! Ridge regression on 9983 pairs of product and instance on H200s, of 263 products, and 0.6 of what it found. Of products that were left out of the fit the chosen instance has 0.981 of the fastest one, 0.973 without it; of 443 that an
//! earlier release was surveyed by 0.984 and 0.981 (`bench/results/products/choice.md`).

use super::factor::INSTRUCTION_ROWS;
use super::instances::Instance;
use super::need::Need;

/// Bytes that DRAM gives in a microsecond at most.
const DRAM: f64 = 4.3e6;

/// No product of the fit differs by more.
const MOST: f64 = 0.2;

/// Logarithms of a measured time over that of the model, by what the plan is.
struct Residual {
    /// Of all plans.
    constant: f64,
    /// For logarithms of the area of a tile times that of the steps along K.
    work: f64,
    /// For the share of the time in which DRAM takes the results.
    results: f64,
    /// For the logarithm of rows over columns of a tile.
    shape: f64,
    /// For the reciprocal of the waves.
    few_waves: f64,
    /// For the logarithm of the CTAs of a cluster that share the steps along K.
    parts: f64,
}

impl Residual {
    const fn of([constant, work, results, shape, few_waves, parts]: [f64; 6]) -> Residual {
        Residual {
            constant,
            work,
            results,
            shape,
            few_waves,
            parts,
        }
    }
}

const MANY: Residual = Residual::of([-0.1437, 0.0035, 0.0832, 0.0068, -0.0015, 0.0]);
const ALTERNATING: Residual = Residual::of([-0.0806, 0.0019, 0.2432, 0.0138, -0.0409, 0.0]);
const WAVE: Residual = Residual::of([-0.0189, 0.0019, 0.0826, -0.0044, -0.0777, 0.0]);
const FEW: Residual = Residual::of([-0.0703, 0.0033, 0.5499, -0.0101, -0.058, -0.0104]);
const CLUSTER: Residual = Residual::of([-0.129, 0.003, 0.511, -0.0037, -0.0083, -0.032]);
const SPLIT: Residual = Residual::of([0.0417, -0.001, -2.5018, 0.0085, 0.0, 0.0]);
/// Of rows that begin anywhere.
const LOOSE: Residual = Residual::of([-0.0563, 0.0038, 0.1036, -0.0477, -0.0298, -0.0163]);

/// What the time of a plan by the model is multiplied by: of an instance, in so many waves.
pub(super) fn factor((instance, microseconds, waves): (Instance, f64, usize), need: &Need) -> f64 {
    let Some((residual, [rows, columns], parts)) = of_instance(instance) else {
        return 1.0;
    };
    let [rows, columns, parts] = [rows, columns, parts].map(|count| count as f64);
    let [m, n, batches] = [need.size[0], need.size[1], need.batches].map(|count| count as f64);
    let results = m * n * batches * need.element_bytes[1] as f64;
    let log = residual.constant
        + residual.work * (rows * columns).ln() * (need.steps().max(1) as f64).ln()
        + residual.results * results / DRAM / microseconds
        + residual.shape * (rows / columns).ln()
        + residual.few_waves / waves.max(1) as f64
        + residual.parts * parts.ln();
    log.clamp(-MOST, MOST).exp()
}

/// What is missed of an instance's kernel, with the shape of its tile and the CTAs of a cluster that share the steps along K. Of products of three parts nothing was fitted.
fn of_instance(instance: Instance) -> Option<(&'static Residual, [usize; 2], usize)> {
    let rows_of = |groups: usize| groups * INSTRUCTION_ROWS;
    Some(match instance {
        Instance::Many(tile) => (&MANY, tile.shape(), 1),
        Instance::Wave(tile) => (&WAVE, tile.shape(), 1),
        Instance::Few(tile) => (&FEW, [rows_of(tile.groups), tile.columns], tile.ctas),
        Instance::Split(tile) => (&SPLIT, tile.shape(), 1),
        Instance::Cluster(tile) => (&CLUSTER, tile.shape(), tile.parts),
        Instance::Alternating(tile) => (&ALTERNATING, tile.shape(), 1),
        Instance::Any(tile) => (&LOOSE, tile.shape(), 1),
        Instance::Copied(tile) => {
            let tile = tile.tile;
            (&LOOSE, [rows_of(tile.groups), tile.columns], tile.ctas)
        }
        Instance::Precise(_) | Instance::PreciseParts(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::products::instances::INSTANCES;

    /// What is left over decides between plans, and does not make another time of one.
    #[test]
    fn no_time_is_corrected_by_more_than_was_measured() {
        for size in [[1, 1, 1], [16384, 16384, 16384], [1, 16384, 1 << 20]] {
            let need = Need::of_packed_16_bits(size);
            for (instance, waves) in INSTANCES.into_iter().zip([0, 1, 40].into_iter().cycle()) {
                let by = factor((instance, 3.0, waves), &need).ln().abs();
                assert!(by <= MOST + 1e-9, "{instance}: {by}");
                let is_fitted = of_instance(instance).is_some();
                assert!(is_fitted || by == 0.0, "{instance}: {by}");
            }
        }
    }
}
