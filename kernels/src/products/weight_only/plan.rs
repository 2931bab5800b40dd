//! Which tile computes a product with packed weights, in how many CTAs.

use std::fmt;

use super::few::FewWeights;
use super::format::{BLOCK_WORDS, STEP, STRIP, WeightFormat};
use crate::products::plan::{MOST_ALONG_Y, MULTIPROCESSORS};

const fn few([ctas, groups, parts, columns, stages]: [usize; 5]) -> FewWeights {
    FewWeights {
        ctas,
        groups,
        parts,
        columns,
        stages,
    }
}

/// The tiles that calls choose from.
pub const FEW: [FewWeights; 20] = [
    few([1, 2, 2, 8, 16]),
    few([2, 2, 2, 8, 16]),
    few([4, 2, 2, 8, 8]),
    few([1, 1, 4, 8, 16]),
    few([2, 1, 4, 8, 16]),
    few([4, 1, 2, 8, 8]),
    few([1, 2, 2, 16, 16]),
    few([2, 2, 2, 16, 16]),
    few([4, 2, 2, 16, 8]),
    few([1, 1, 4, 16, 16]),
    few([2, 1, 4, 16, 16]),
    few([4, 1, 2, 16, 8]),
    few([1, 2, 2, 32, 8]),
    few([2, 2, 2, 32, 8]),
    few([4, 2, 2, 32, 8]),
    few([1, 1, 4, 32, 8]),
    few([2, 1, 4, 32, 8]),
    few([1, 2, 2, 64, 5]),
    few([2, 2, 2, 64, 5]),
    few([4, 2, 2, 64, 5]),
];

impl FewWeights {
    /// The same with as many of its stages as shared memory has room for beside sums.
    pub(super) fn fitted(self, format: WeightFormat) -> FewWeights {
        let words = self.groups * BLOCK_WORDS * 4;
        let scales = self.groups * format.in_step() * format.kinds() * STRIP * 2;
        let stage = words + scales + self.columns * STEP * 2;
        let sums = self.groups * STRIP * self.columns * 4;
        // What CTAs of a cluster send, and get, of which there are as many parts as CTAs, 8 columns each or more.
        let adders = self.ctas.min(self.columns / 8);
        let exchanged = if self.ctas > 1 {
            sums + sums * self.ctas / adders
        } else {
            0
        };
        let others = exchanged + sums * (self.parts - 1) + BARRIERS_BYTES;
        let room = tilekit::target::SM_90A.cta.shared_bytes as usize - others;
        FewWeights {
            stages: self.stages.min(room / stage),
            ..self
        }
    }
}

/// Room for mbarriers, and what aligns tiles.
const BARRIERS_BYTES: usize = 2048;

/// Steps along K that each CTA of a cluster has at least: fewer cost less than the exchange of parts.
const LEAST_STEPS: usize = 4;

/// How a product with packed weights is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WeightPlan {
    /// Its tile.
    pub tile: FewWeights,
    /// The grid, in CTAs.
    pub grid: [usize; 2],
    /// The predicted time: that of memory.
    pub microseconds: f64,
    pub(super) format: WeightFormat,
}

impl WeightPlan {
    /// The plan for this M, N, K: the narrowest tile that holds all rows of activations, or else 64 of them, shared by as many CTAs as find a multiprocessor.
    pub fn best([m, n, k]: [usize; 3], format: WeightFormat) -> Option<WeightPlan> {
        let widest = FEW[FEW.len() - 1].columns;
        let columns = m.next_power_of_two().clamp(8, widest);
        let of_width = FEW.into_iter().filter(|tile| tile.columns == columns);
        let fits = |tile: &FewWeights| {
            let ctas: usize = grid_of(*tile, [m, n]).iter().product();
            let has_steps = k.div_ceil(STEP) / tile.ctas >= LEAST_STEPS;
            tile.ctas == 1 || (ctas <= MULTIPROCESSORS && has_steps)
        };
        let tile = of_width.filter(fits).max_by_key(|tile| tile.ctas)?;
        let tile = tile.fitted(format);
        let grid = grid_of(tile, [m, n]);
        let bytes = format.words([n, k]) * 4 + format.scales([n, k]) * 2 + 2 * m * (k + n);
        (grid[1] <= MOST_ALONG_Y).then_some(WeightPlan {
            tile,
            grid,
            microseconds: bytes as f64 / 4.25e6 + 3.5,
            format,
        })
    }

    /// Whether every CTA has as many steps as the ring has stages.
    pub(super) fn fills_rings(&self, k: usize) -> bool {
        k.div_ceil(STEP) / self.tile.ctas >= self.tile.stages
    }
}

/// CTAs along the rows of weights, and along those of activations.
pub(super) fn grid_of(tile: FewWeights, [m, n]: [usize; 2]) -> [usize; 2] {
    [
        n.div_ceil(tile.groups * STRIP) * tile.ctas,
        m.div_ceil(tile.columns),
    ]
}

impl fmt::Display for WeightPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FewWeights {
            ctas,
            groups,
            columns,
            ..
        } = self.tile;
        let (rows, all) = (groups * STRIP, self.grid.iter().product::<usize>());
        write!(
            f,
            "{}: {rows}x{columns} by {ctas} CTAs along K, {all} CTAs, {:.1} us",
            self.format, self.microseconds
        )
    }
}

/// How a call computes its product.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightCallPlan {
    /// The tile and its grid; none where there is nothing to multiply.
    pub product: Option<WeightPlan>,
    /// What is copied, and why.
    pub copies: Vec<String>,
}

impl fmt::Display for WeightCallPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.product {
            Some(plan) => write!(f, "{plan}")?,
            None => write!(f, "no product")?,
        }
        self.copies
            .iter()
            .try_for_each(|copy| write!(f, "; {copy}"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::format::WeightGroup;
    use super::*;

    #[track_caller]
    fn check(size: [usize; 3], expected: &str) {
        let format = WeightFormat {
            group: WeightGroup::Of(128),
            has_zeros: false,
        };
        let plan = WeightPlan::best(size, format).map(|plan| plan.to_string());
        assert_eq!(plan.as_deref(), Some(expected), "{size:?}");
    }

    #[test]
    fn clusters_fill_the_multiprocessors_where_k_is_long() {
        check(
            [16, 4096, 14336],
            "int4_of_128: 128x16 by 4 CTAs along K, 128 CTAs, 10.8 us",
        );
        check(
            [64, 8192, 8192],
            "int4_of_128: 128x64 by 2 CTAs along K, 128 CTAs, 12.1 us",
        );
        check(
            [1, 14336, 4096],
            "int4_of_128: 128x8 by 1 CTAs along K, 112 CTAs, 10.6 us",
        );
        check(
            [3, 100, 128],
            "int4_of_128: 128x8 by 1 CTAs along K, 1 CTAs, 3.5 us",
        );
    }
}
