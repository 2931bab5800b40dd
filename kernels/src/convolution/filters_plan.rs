//! Which tile computes the gradient of filters, and how many parts its pixels are divided into: by a model of its time, fitted to 950 pairs of layer, tile and number of parts on an H100
//! (`bench/results/convolution.md`).

use std::fmt;

use super::filters::{CHANNELS, FilterForm, PIXELS};
use super::shape::Shape;
use crate::products::plan::{MULTIPROCESSORS, clock, step_cycles, together};

/// Tiles: warpgroups of 64 filters, blocks of 64 channels, stages.
const TILES: [[usize; 3]; 8] = [
    [3, 3, 4],
    [2, 4, 4],
    [2, 3, 5],
    [2, 2, 6],
    [2, 1, 6],
    [1, 3, 6],
    [1, 2, 6],
    [1, 1, 12],
];

/// The most waves of programs that are considered.
const MOST_WAVES: usize = 12;

/// A tile, and how many parts there are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct FilterPlan {
    pub(super) form: FilterForm,
    pub(super) parts: usize,
    pub(super) programs: usize,
    pub(super) microseconds: f64,
}

/// A tile and its place in a shape.
struct Division {
    form: FilterForm,
    /// Tiles of all groups, and steps along the pixels of each.
    tiles: usize,
    steps: usize,
    /// Taps under which the channels of a tile are, in the mean.
    taps: f64,
}

impl Division {
    fn of(shape: &Shape, [groups, blocks, stages]: [usize; 3]) -> Division {
        let form = FilterForm {
            groups,
            blocks,
            stages,
            rank: shape.rank(),
        };
        let of_tap = shape.channels.div_ceil(CHANNELS);
        let columns = (shape.taps() * of_tap).div_ceil(blocks);
        let taps = if of_tap.is_multiple_of(blocks) {
            1.0
        } else {
            (1.0 + (blocks - 1) as f64 / of_tap as f64).min(blocks as f64)
        };
        Division {
            form,
            tiles: shape.groups * shape.filters.div_ceil(form.tile()[0]) * columns,
            steps: shape.pixels().div_ceil(PIXELS),
            taps,
        }
    }

    /// Cycles of a step: those of the tensor cores, or of the loads. Where the channels of a step are under several taps, their loads ask L2 for much the same lines, and take longer.
    fn step(&self) -> f64 {
        let [filters, columns] = self.form.tile();
        let bytes = ((filters + columns) * PIXELS * 2) as f64;
        let loads = bytes / 95.0 * (1.0 + 0.62 * (self.taps - 1.0));
        (0.92 * step_cycles([filters, columns]))
            .max(loads)
            .max(170.0)
    }

    /// Microseconds of so many parts.
    fn microseconds(&self, shape: &Shape, parts: usize) -> f64 {
        let [filters, columns] = self.form.tile();
        let (area, programs) = ((filters * columns) as f64, self.tiles * parts);
        let steps = self.steps.div_ceil(parts) as f64;
        let waves = programs.div_ceil(MULTIPROCESSORS) as f64;
        let products = steps * area / 32.0;
        let of_wave = steps * self.step() + 1900.0 + 0.27 * area;
        let share = products / of_wave * programs as f64 / (waves * MULTIPROCESSORS as f64);
        let cycles = (4400.0 + waves * of_wave) / clock(share).min(1.9e3);
        let l2_bytes = programs as f64 * steps * ((filters + columns) * PIXELS * 2) as f64;
        let memory = (shape.bytes() / 2.3e6).max(l2_bytes / 12.1e6) + 0.7;
        let adding = if parts == 1 {
            0.0
        } else {
            // Written and read in f32.
            (parts * shape.of_filters() * 8) as f64 / 5.1e6
        };
        together(cycles, memory) + adding
    }

    /// As many parts as fill so many waves, all of which have steps.
    fn plan(&self, shape: &Shape, waves: usize) -> FilterPlan {
        let wanted = (waves * MULTIPROCESSORS / self.tiles).clamp(1, self.steps);
        let parts = self.steps.div_ceil(self.steps.div_ceil(wanted));
        FilterPlan {
            form: self.form,
            parts,
            programs: self.tiles * parts,
            microseconds: self.microseconds(shape, parts),
        }
    }
}

impl FilterPlan {
    /// All tiles with their best numbers of parts; none where no im2col map reaches all pixels.
    pub(super) fn all(shape: &Shape) -> Vec<FilterPlan> {
        if !shape.fits_maps() {
            return Vec::new();
        }
        let best = |tile| {
            let division = Division::of(shape, tile);
            let plans = (1..=MOST_WAVES).map(|waves| division.plan(shape, waves));
            plans.min_by(|x, y| x.microseconds.total_cmp(&y.microseconds))
        };
        TILES.into_iter().filter_map(best).collect()
    }

    /// The same tile with so many parts.
    pub(super) fn divided_by(self, parts: usize) -> FilterPlan {
        FilterPlan {
            parts,
            programs: self.programs / self.parts * parts,
            ..self
        }
    }

    /// The one with the least time.
    pub(super) fn best(shape: &Shape) -> Option<FilterPlan> {
        let all = FilterPlan::all(shape).into_iter();
        all.min_by(|x, y| x.microseconds.total_cmp(&y.microseconds))
    }
}

impl fmt::Display for FilterPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [filters, columns] = self.form.tile();
        let (parts, programs) = (self.parts, self.programs);
        write!(
            f,
            "{filters}x{columns} of filters and channels, pixels divided by {parts}, {programs} CTAs"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::shape::Along;
    use super::*;

    /// The plan of images x height x width x channels x filters x taps x stride.
    fn plan([images, height, width, channels, filters, taps, stride]: [usize; 7]) -> String {
        let along = |extent| {
            let found = Along::new([extent, taps], [stride, taps / 2, 1]);
            found.expect("taps fit")
        };
        let shape = Shape {
            images,
            channels,
            filters,
            groups: 1,
            along: [Along::NONE, along(height), along(width)],
            has_depth: false,
        };
        let plan = FilterPlan::best(&shape).expect("maps reach all pixels");
        plan.to_string()
    }

    #[test]
    fn tiles_that_fill_multiprocessors_once_are_not_divided() {
        let of_7x7 = plan([32, 7, 7, 512, 512, 3, 1]);
        let expected = "128x192 of filters and channels, pixels divided by 1, 96 CTAs";
        assert_eq!(of_7x7, expected);
        let of_32x32 = plan([8, 32, 32, 640, 640, 3, 1]);
        let expected = "128x256 of filters and channels, pixels divided by 1, 115 CTAs";
        assert_eq!(of_32x32, expected);
    }

    #[test]
    fn filters_that_fill_no_tile_of_128_take_one_of_192() {
        let expected = "192x192 of filters and channels, pixels divided by 4, 120 CTAs";
        assert_eq!(plan([8, 64, 64, 320, 320, 3, 1]), expected);
    }

    #[test]
    fn one_block_of_channels_is_under_one_tap() {
        let expected = "64x64 of filters and channels, pixels divided by 14, 126 CTAs";
        assert_eq!(plan([32, 56, 56, 64, 64, 3, 1]), expected);
    }

    #[test]
    fn few_filters_have_pixels_of_all_multiprocessors() {
        let expected = "64x64 of filters and channels, pixels divided by 131, 131 CTAs";
        assert_eq!(plan([32, 56, 56, 64, 64, 1, 1]), expected);
    }
}
