//! Which tile computes a product with packed weights, in how many CTAs.

use std::fmt;

use super::few::FewWeights;
use super::format::{STEP, STRIP, WeightFormat};
use super::many::{DEPTH, ManyWeights};
use crate::products::dense::ManyTile;
use crate::products::instances::Instance;
use crate::products::need::Need;
use crate::products::plan::{MULTIPROCESSORS, Plan, resident};

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
pub const FEW: [FewWeights; 22] = [
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
    few([1, 2, 2, 32, 16]),
    few([2, 2, 2, 32, 16]),
    few([4, 2, 2, 32, 16]),
    few([1, 1, 4, 32, 16]),
    few([2, 1, 4, 32, 16]),
    few([1, 2, 2, 64, 16]),
    few([2, 2, 1, 64, 16]),
    few([4, 2, 2, 64, 16]),
    few([1, 1, 4, 64, 16]),
    few([2, 1, 2, 64, 16]),
];

const fn many([groups, columns, stages]: [usize; 3]) -> ManyWeights {
    ManyWeights {
        groups,
        columns,
        stages,
    }
}

/// The tiles that calls with many rows choose from.
pub const MANY: [ManyWeights; 2] = [many([2, 256, 5]), many([2, 128, 8])];

/// Bytes of so many weights along K of strips, with their scales.
fn stage_bytes(groups: usize, format: WeightFormat, depth: usize) -> usize {
    let scales = (format.in_step() * depth).div_ceil(STEP) * format.kinds() * STRIP * 2;
    groups * (format.values.block_words() * 4 * depth / STEP + scales)
}

impl ManyWeights {
    /// The same with as many of its stages as shared memory has room for beside results of so many bytes.
    pub(super) fn fitted(self, format: WeightFormat, result_bytes: usize) -> ManyWeights {
        let stage = stage_bytes(self.groups, format, DEPTH) + self.columns * DEPTH * 2;
        let others = self.columns * STRIP * result_bytes + BARRIERS_BYTES;
        let room = tilekit::target::SM_90A.cta.shared_bytes as usize - others;
        ManyWeights {
            stages: self.stages.min(room / stage),
            ..self
        }
    }
}

/// The fewest programs with as many waves.
pub(super) fn programs_of(tile: ManyWeights, [m, n]: [usize; 2]) -> usize {
    let [rows, columns] = tile.shape();
    let tiles = n.div_ceil(rows) * m.div_ceil(columns);
    tiles.div_ceil(tiles.div_ceil(MULTIPROCESSORS).max(1))
}

impl FewWeights {
    /// The same with as many of its stages as shared memory has room for, and with half of the parts where those are not two for each: a part holds a stage until its next one is full.
    pub(super) fn fitted(self, format: WeightFormat) -> FewWeights {
        let fitted = self.with_room(format);
        if fitted.stages >= 2 * fitted.parts || self.parts == 1 {
            return fitted;
        }
        let parts = self.parts / 2;
        FewWeights { parts, ..self }.fitted(format)
    }

    /// The same with as many of its stages as shared memory has room for beside sums, a multiple of the parts: a stage is always of the same one, which else would wait for a phase
    /// of its mbarrier while the one before is not complete, and a wait tells but the last two apart.
    fn with_room(self, format: WeightFormat) -> FewWeights {
        let stage = stage_bytes(self.groups, format, STEP) + self.columns * STEP * 2;
        let sums = self.groups * STRIP * self.columns * 4;
        // What CTAs of a cluster send, and get, of which there are as many parts as CTAs, 8 columns each or more; of a CTA alone what sums become rows through.
        let adders = self.ctas.min(self.columns / 8);
        let exchanged = if self.ctas > 1 {
            sums + sums * self.ctas / adders
        } else {
            sums.min(self.groups * CONVERSION_BYTES)
        };
        let others = exchanged + sums * (self.parts - 1) + BARRIERS_BYTES;
        let room = tilekit::target::SM_90A.cta.shared_bytes as usize - others;
        let stages = self.stages.min(room / stage);
        FewWeights {
            stages: stages - stages % self.parts,
            ..self
        }
    }
}

/// What sums of a strip take at a time on their way to the order in which results are stored.
const CONVERSION_BYTES: usize = 4096;

/// Room for mbarriers, and what aligns tiles.
const BARRIERS_BYTES: usize = 2048;

/// Steps along K that each CTA of a cluster has at least: fewer cost less than the exchange of parts.
const LEAST_STEPS: usize = 4;

/// The kernel of a product with packed weights, and its tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WeightTile {
    /// Few rows of activations: CTAs share the steps along K.
    Few(FewWeights),
    /// Many.
    Many(ManyWeights),
}

/// How a product with packed weights is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WeightPlan {
    /// Its tile.
    pub tile: WeightTile,
    /// The grid, in CTAs.
    pub grid: [usize; 2],
    /// The predicted time.
    pub microseconds: f64,
    pub(super) format: WeightFormat,
}

impl WeightPlan {
    /// The plan for this M, N, K, none of them 0, and results of so many bytes.
    pub fn best(size: [usize; 3], format: WeightFormat, result_bytes: usize) -> WeightPlan {
        if size[0] <= MOST_FEW {
            return WeightPlan::few(size, format);
        }
        let [x, y] = MANY.map(|tile| WeightPlan::many(tile, size, format, result_bytes));
        if y.microseconds < x.microseconds {
            y
        } else {
            x
        }
    }

    /// The narrowest tile that holds all rows of activations, of those the one with the fewest blocks for a multiprocessor.
    fn few([m, n, k]: [usize; 3], format: WeightFormat) -> WeightPlan {
        let columns = m.next_power_of_two().clamp(8, MOST_FEW);
        let of_width = FEW.into_iter().filter(|tile| tile.columns == columns);
        let ctas = |tile: &FewWeights| grid_of(*tile, [m, n]).iter().product::<usize>();
        let fits = |tile: &FewWeights| {
            let has_steps = k.div_ceil(STEP) / tile.ctas >= LEAST_STEPS;
            tile.ctas == 1 || (ctas(tile) <= resident(tile.ctas) && has_steps)
        };
        let work = |tile: &FewWeights| {
            let waves = ctas(tile).div_ceil(MULTIPROCESSORS);
            let blocks = tile.groups * k.div_ceil(STEP).div_ceil(tile.ctas);
            // Sums of 64 columns take the room of stages: 18.5 us by two CTAs of a warpgroup a strip, 20.8 by one of four at 64x8192x8192.
            let joined = if columns < 64 { tile.ctas } else { tile.parts };
            (waves * blocks, waves, joined)
        };
        let tile = of_width.filter(fits).min_by_key(work);
        let tile = tile.expect("each width has a tile of one CTA, which fits any size");
        let tile = tile.fitted(format);
        let grid = grid_of(tile, [m, n]);
        let bytes = format.words([n, k]) * 4 + format.scales([n, k]) * 2 + 2 * m * (k + n);
        WeightPlan {
            tile: WeightTile::Few(tile),
            grid,
            microseconds: bytes as f64 / 4.25e6 + 3.5,
            format,
        }
    }

    /// The time is that of a product of 16-bit types with this tile.
    fn many(
        tile: ManyWeights,
        [m, n, k]: [usize; 3],
        format: WeightFormat,
        result_bytes: usize,
    ) -> WeightPlan {
        let tile = tile.fitted(format, result_bytes);
        let like = ManyTile::of([tile.groups, STRIP, tile.columns, tile.stages]);
        let plan = Plan::of(Instance::Many(like), &Need::of_16_bits([n, m, k]));
        WeightPlan {
            tile: WeightTile::Many(tile),
            grid: [programs_of(tile, [m, n]), 1],
            microseconds: plan.microseconds,
            format,
        }
    }
}

/// Rows of activations of [`WeightTile::Few`], at most.
const MOST_FEW: usize = 64;

/// CTAs along the rows of weights, and along those of activations.
pub(super) fn grid_of(tile: FewWeights, [m, n]: [usize; 2]) -> [usize; 2] {
    [
        n.div_ceil(tile.groups * STRIP) * tile.ctas,
        m.div_ceil(tile.columns),
    ]
}

impl fmt::Display for WeightTile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WeightTile::Few(tile) => write!(
                f,
                "{}x{} by {} CTAs along K",
                tile.groups * STRIP,
                tile.columns,
                tile.ctas
            ),
            WeightTile::Many(tile) => write!(f, "{}x{}", tile.groups * STRIP, tile.columns),
        }
    }
}

impl fmt::Display for WeightPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.grid.iter().product::<usize>();
        write!(
            f,
            "{}: {}, {all} CTAs, {:.1} us",
            self.format, self.tile, self.microseconds
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
    use tilekit::prelude::*;

    use super::super::few::weight_only_few;
    use super::super::form::WeightForm;
    use super::super::format::{WeightGroup, WeightValues};
    use super::*;
    use crate::products::epilogue::Plain;

    #[track_caller]
    fn check(size: [usize; 3], expected: &str) {
        let format = WeightFormat {
            values: WeightValues::Int4,
            group: WeightGroup::Of(128),
        };
        let plan = WeightPlan::best(size, format, 2).to_string();
        assert_eq!(plan, expected, "{size:?}");
    }

    /// Those that shared memory has the least room for: beside stages and sums lies what sums become rows through.
    #[test]
    fn tiles_of_all_formats_fit_shared_memory() {
        let compiler = Compiler::default();
        let groups = [32, 64, 128].map(WeightGroup::Of);
        let groups = groups.into_iter().chain([WeightGroup::Row]);
        let of = |values| move |group| WeightFormat { values, group };
        let formats = groups.clone().map(of(WeightValues::Int4));
        let formats = formats.chain(groups.map(of(WeightValues::E4m3)));
        let formats = formats.chain([of(WeightValues::Int4Zeros)(WeightGroup::Of(32))]);
        let wide = FEW
            .into_iter()
            .filter(|tile| tile.ctas == 1 && tile.columns >= 32);
        for (tile, format) in
            formats.flat_map(|format| wide.clone().map(move |tile| (tile, format)))
        {
            let tile = tile.fitted(format);
            let form = WeightForm {
                tile,
                format,
                epilogue: Plain,
            };
            let compiled = fixed(weight_only_few::<bf16, f32, Plain>, form).compile(&compiler);
            let error = compiled.err().map(|error| error.to_string());
            assert_eq!(error, None, "{form}");
        }
    }

    /// A part whose only stage was held waited for its next one forever: of 8 bits and 64 columns where K has more steps than there are parts.
    #[test]
    fn parts_have_two_stages_at_least() {
        let groups = [32, 64, 128].map(WeightGroup::Of);
        for group in groups.into_iter().chain([WeightGroup::Row]) {
            for values in [
                WeightValues::Int4,
                WeightValues::Int4Zeros,
                WeightValues::E2m1,
                WeightValues::E4m3,
            ] {
                let format = WeightFormat { values, group };
                for tile in FEW.map(|tile| tile.fitted(format)) {
                    assert!(tile.stages >= 2 * tile.parts, "{format}: {tile}");
                }
            }
        }
    }

    #[test]
    fn clusters_fill_the_multiprocessors_where_k_is_long() {
        check(
            [16, 4096, 14336],
            "int4_of_128: 64x16 by 2 CTAs along K, 128 CTAs, 10.8 us",
        );
        check(
            [32, 8192, 8192],
            "int4_of_128: 64x32 by 1 CTAs along K, 128 CTAs, 11.9 us",
        );
        check(
            [64, 8192, 8192],
            "int4_of_128: 128x64 by 2 CTAs along K, 128 CTAs, 12.1 us",
        );
        // 128 CTAs in clusters of 4 would take two waves.
        check(
            [64, 4096, 14336],
            "int4_of_128: 64x64 by 2 CTAs along K, 128 CTAs, 11.2 us",
        );
        check(
            [1, 14336, 4096],
            "int4_of_128: 128x8 by 1 CTAs along K, 112 CTAs, 10.6 us",
        );
        check(
            [3, 100, 128],
            "int4_of_128: 64x8 by 1 CTAs along K, 2 CTAs, 3.5 us",
        );
    }
}
