//! How many parts along K kernels have that divide them through memory.

use super::factor::MULTIPROCESSORS;
use super::instances::Instance;
use super::need::Need;
use super::precise::PreciseTile;
use super::split_k::SplitTile;
use super::split_workspace::MOST_PARTS;
use super::times::{precise_parts_microseconds, split_microseconds};

/// How `split_k` divides the steps along K.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Division {
    /// Tiles of the result.
    pub(super) tiles: usize,
    /// Parts of each, none empty.
    pub(super) parts: usize,
    /// Steps of a part, but for the last one of a tile, which may have fewer.
    pub(super) each: usize,
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
                let along_rows = m.div_ceil(rows).next_multiple_of(tile.ctas);
                Some(along_rows * n.div_ceil(columns))
            }
            Instance::PreciseParts(tile) => Some(tile.count([m, n]).iter().product()),
            _ => None,
        }
    }

    /// Parts of a tile, at most: those for which all CTAs run at a time. More took longer than whole tiles in all shapes that were tried.
    pub(super) fn most(tiles: usize, steps: usize) -> usize {
        MOST_PARTS.min(steps).min(MULTIPROCESSORS / tiles.max(1))
    }

    /// Of `split_k`, and the predicted time.
    pub(super) fn roundly(tile: SplitTile, need: &Need) -> (Division, f64) {
        let tiles = Division::tiles(Instance::Split(tile), need).unwrap_or(0);
        Division::fastest(tiles, need.steps(), |divided| {
            split_microseconds(tile, divided, need)
        })
    }

    /// Of `precise_parts`, and the predicted time.
    pub(super) fn precisely(tile: PreciseTile, need: &Need) -> (Division, f64) {
        let tiles = Division::tiles(Instance::PreciseParts(tile), need).unwrap_or(0);
        Division::fastest(tiles, need.steps(), |divided| {
            precise_parts_microseconds(tile, divided, need)
        })
    }

    /// As many parts as the model says are fastest.
    fn fastest(tiles: usize, steps: usize, time: impl Fn(Division) -> f64) -> (Division, f64) {
        let of_each = |parts: usize| {
            let each = steps.div_ceil(parts).max(1);
            let parts = steps.div_ceil(each).max(1);
            let divided = Division { tiles, parts, each };
            (divided, time(divided))
        };
        let better = |best: (Division, f64), next: (Division, f64)| {
            if next.1 < best.1 { next } else { best }
        };
        (2..=Division::most(tiles, steps))
            .map(of_each)
            .reduce(better)
            .unwrap_or_else(|| of_each(1))
    }

    /// CTAs, one for each part, or for a wave of them.
    pub(super) fn programs(self) -> usize {
        let all = self.tiles * self.parts;
        all.div_ceil(all.div_ceil(MULTIPROCESSORS).max(1))
    }
}
