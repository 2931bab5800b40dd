//! Whether a launch begins before the one in front of it has ended (programmatic dependent launch).
//!
//! Of a launch that does, CTAs become resident one by one, wherever one in front has ended. Of a launch that does not, each GPC has a run of neighbours in the grid, which share what they ask L2 for (`raster.rs`): up to a third of the
//! time where they read for most of it. So what is bound by that, and long enough, waits: 1 to 2 us of its launch are not hidden then
//! (`bench/results/products/launches.md`).

use super::factor::MULTIPROCESSORS;
use super::instances::Instance;
use super::need::Need;
use super::plan::Plan;

impl Plan {
    /// Whether its launch overlaps with the one in front.
    pub(crate) fn overlaps(&self, need: &Need) -> bool {
        let ctas: usize = self.grid.iter().product();
        ctas > MULTIPROCESSORS
            || need.steps() < FEWEST_STEPS
            || self.microseconds < shortest_apart(self.instance)
    }
}

/// Steps along K below which a launch stores for most of its time, and does not gain by what its CTAs read.
const FEWEST_STEPS: usize = 24;

/// Predicted microseconds from which on launches of one wave take less apart from each other, by 93 products on H200s. CTAs of other clusters share rows by multicast, wherever they are, and those of persistent kernels are at
/// different tiles.
fn shortest_apart(instance: Instance) -> f64 {
    match instance {
        Instance::Wave(tile) if tile.ctas == 1 => 10.0,
        Instance::Few(tile) if tile.ctas == 1 => 10.0,
        Instance::Few(tile) if tile.ctas == 2 => 12.0,
        Instance::Split(tile) if tile.ctas() == 1 => 14.0,
        Instance::Cluster(tile) if tile.parts == 1 => match tile.along {
            [1, 1] => 10.0,
            [2 | 4, 1] => 8.0,
            _ => f64::INFINITY,
        },
        Instance::Wave(_) => 15.0,
        _ => f64::INFINITY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::products::cluster_tiles::ClusterTile;
    use crate::products::few_tiles::FewTile;
    use crate::products::split_k::SplitTile;

    /// What is short, in several waves, or by clusters that share both operands, overlaps.
    #[test]
    fn long_launches_of_one_wave_without_clusters_are_apart() {
        let tile = FewTile::of([1, 64, 8]);
        let overlaps = |instance, size| {
            let need = Need::of_16_bits(size);
            Plan::of(instance, &need).overlaps(&need)
        };
        assert!(!overlaps(Instance::Few(tile), [512, 1024, 4096]));
        assert!(overlaps(Instance::Few(tile), [512, 1024, 64]));
        assert!(overlaps(Instance::Few(tile), [4096, 1024, 4096]));
        assert!(overlaps(Instance::Few(tile.by(8, 8)), [64, 512, 65536]));
        let split = SplitTile::of([1, 128, 9]);
        assert!(!overlaps(Instance::Split(split), [512, 512, 16384]));
        assert!(overlaps(
            Instance::Split(split.by_pairs()),
            [512, 512, 16384]
        ));
        let cluster = |along| Instance::Cluster(ClusterTile::of(along, [1, 96, 11]));
        assert!(!overlaps(cluster([4, 1]), [184, 2816, 7552]));
        assert!(overlaps(cluster([2, 4]), [184, 2816, 7552]));
    }
}
