//! How many parts along K kernels have that divide them through memory.

use super::instances::Instance;
use super::need::Need;
use super::precise::PreciseTile;
use super::split_k::SplitTile;
use super::split_workspace::MOST_PARTS;
use super::times::{precise_parts_microseconds, resident, split_microseconds};

/// How `split_k` divides the steps along K.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Division {
    /// Tiles of the result.
    pub(super) tiles: usize,
    /// Parts of each, none empty.
    pub(super) parts: usize,
    /// Steps of a part, but for the last one of a tile, which may have fewer.
    pub(super) each: usize,
    /// CTAs of a cluster.
    ctas: usize,
}

impl Division {
    /// That of an instance whose programs divide K through memory; `None` of any other.
    pub(super) fn of(instance: Instance, need: &Need) -> Option<Division> {
        match instance {
            Instance::Split(tile) => Some(Division::roundly(tile, need).0),
            Instance::PreciseParts(tile) => Some(Division::precisely(tile, need).0),
            _ => None,
        }
    }

    /// Tiles of an instance whose programs divide K through memory.
    pub(super) fn tiles(instance: Instance, need: &Need) -> Option<usize> {
        let [m, n, _] = need.size;
        match instance {
            Instance::Split(tile) => {
                let [rows, columns] = tile.shape();
                let [m, n] = if tile.turned { [n, m] } else { [m, n] };
                let along_rows = m.div_ceil(rows).next_multiple_of(tile.along[0]);
                Some(along_rows * n.div_ceil(columns).next_multiple_of(tile.along[1]))
            }
            Instance::PreciseParts(tile) => Some(tile.count([m, n]).iter().product()),
            _ => None,
        }
    }

    /// Whether an instance would divide K through memory, but its tiles are too many for two parts of each.
    pub(super) fn has_one_part(instance: Instance, need: &Need) -> bool {
        let ctas = match instance {
            Instance::Split(tile) => tile.ctas(),
            _ => 1,
        };
        let tiles = Division::tiles(instance, need);
        tiles.is_some_and(|tiles| Division::most(tiles, need.steps(), ctas) < 2)
    }

    /// Parts of a tile, at most: those for which all CTAs run at a time. More took longer than whole tiles in all shapes that were tried.
    fn most(tiles: usize, steps: usize, ctas: usize) -> usize {
        MOST_PARTS.min(steps).min(resident(ctas) / tiles.max(1))
    }

    /// Of `split_k`, and the predicted time.
    pub(super) fn roundly(tile: SplitTile, need: &Need) -> (Division, f64) {
        let tiles = Division::tiles(Instance::Split(tile), need).unwrap_or(0);
        Division::fastest([tiles, tile.ctas()], need.steps(), |divided| {
            split_microseconds(tile, divided, need)
        })
    }

    /// Of `precise_parts`, and the predicted time.
    pub(super) fn precisely(tile: PreciseTile, need: &Need) -> (Division, f64) {
        let tiles = Division::tiles(Instance::PreciseParts(tile), need).unwrap_or(0);
        Division::fastest([tiles, 1], need.steps(), |divided| {
            precise_parts_microseconds(tile, divided, need)
        })
    }

    /// As many parts as the model says are fastest.
    fn fastest(
        [tiles, ctas]: [usize; 2],
        steps: usize,
        time: impl Fn(Division) -> f64,
    ) -> (Division, f64) {
        let of_each = |parts: usize| {
            let each = steps.div_ceil(parts).max(1);
            let parts = steps.div_ceil(each).max(1);
            let divided = Division {
                tiles,
                parts,
                each,
                ctas,
            };
            (divided, time(divided))
        };
        let better = |best: (Division, f64), next: (Division, f64)| {
            if next.1 < best.1 { next } else { best }
        };
        (2..=Division::most(tiles, steps, ctas))
            .map(of_each)
            .reduce(better)
            .unwrap_or_else(|| of_each(1))
    }

    /// The same where so many CTAs are resident at a time, in fewer parts if they are too few for all.
    pub(super) fn resident_at_a_time(self, held: usize, need: &Need) -> Division {
        if self.parts == 1 || self.programs() <= held {
            return self;
        }
        let steps = need.steps();
        let each = steps.div_ceil((held / self.tiles).max(1)).max(1);
        Division {
            parts: steps.div_ceil(each).max(1),
            each,
            ..self
        }
    }

    /// CTAs, one for each part, or for a wave of them: whole clusters.
    pub(super) fn programs(self) -> usize {
        let all = self.tiles * self.parts;
        let waves = all.div_ceil(resident(self.ctas)).max(1);
        (all / self.ctas).div_ceil(waves) * self.ctas
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::products::tiles::SPLIT_BY_CLUSTERS;

    /// What waits for each other is resident at a time, also where GPCs hold fewer clusters.
    #[test]
    fn all_parts_are_resident_whatever_clusters_a_gpu_holds() {
        let need = Need::of_16_bits([1444, 264, 14440]);
        for tile in SPLIT_BY_CLUSTERS {
            let (planned, _) = Division::roundly(tile, &need);
            for held in (0..=resident(tile.ctas())).step_by(tile.ctas()) {
                let divided = planned.resident_at_a_time(held, &need);
                assert!(divided.parts == 1 || divided.programs() <= held, "{tile}");
                let steps = divided.parts * divided.each;
                assert!(steps >= need.steps() && steps - divided.each < need.steps());
                assert!(divided.programs().is_multiple_of(tile.ctas()), "{tile}");
                assert_eq!(
                    divided == planned,
                    held >= planned.programs() || planned.parts == 1
                );
            }
        }
    }
}
