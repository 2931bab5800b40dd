//! Which tile computes the gradient of filters, and how many parts its pixels are divided into.

use std::fmt;

use tilekit::target::SM_90A;

use super::filters::{FILTERS, FilterForm, PIXELS};
use super::shape::Shape;
use crate::products::plan::{MULTIPROCESSORS, step_cycles};

/// Tiles: warpgroups of 64 filters, channels.
const TILES: [[usize; 2]; 4] = [[2, 128], [2, 64], [1, 128], [1, 64]];

/// The most stages of a ring.
const MOST_STAGES: usize = 6;

/// Bytes of mbarriers and what aligns buffers.
const BESIDES: usize = 2048;

/// Cycles of a program beside its steps: its start, and the stores of its sums.
const BESIDE_STEPS: f64 = 4000.0;

/// Bytes a cycle at which the parts are written and read again.
const BYTES_OF_CYCLE: f64 = 2000.0;

/// A tile, and how many parts there are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct FilterPlan {
    pub(super) form: FilterForm,
    pub(super) parts: usize,
    pub(super) programs: usize,
    cycles: f64,
}

impl FilterPlan {
    fn of(shape: &Shape, [groups, channels]: [usize; 2], waves: usize) -> FilterPlan {
        let filters = groups * FILTERS;
        let stage = (filters + channels) * PIXELS * 2;
        let room = SM_90A.cta.shared_bytes as usize - BESIDES;
        let form = FilterForm {
            groups,
            channels,
            stages: (room / stage).min(MOST_STAGES),
            rank: shape.rank(),
        };
        let of_tap = shape.filters.div_ceil(filters) * shape.channels.div_ceil(channels);
        let tiles = shape.groups * shape.taps() * of_tap;
        let steps = shape.pixels().div_ceil(PIXELS);
        let parts = (waves * MULTIPROCESSORS / tiles).clamp(1, steps);
        let all = (tiles * parts).div_ceil(MULTIPROCESSORS) as f64;
        let of_program = steps.div_ceil(parts) as f64 * step_cycles([filters, channels]);
        let bytes = parts * shape.groups * shape.filters * shape.taps() * shape.channels * 8;
        FilterPlan {
            form,
            parts,
            programs: tiles * parts,
            cycles: all * (of_program + BESIDE_STEPS) + bytes as f64 / BYTES_OF_CYCLE,
        }
    }

    /// All tiles with their best numbers of parts; none where no im2col map reaches all pixels.
    pub(super) fn all(shape: &Shape) -> Vec<FilterPlan> {
        if !shape.fits_maps() {
            return Vec::new();
        }
        let best = |tile| {
            let plans = (1..=4).map(|waves| FilterPlan::of(shape, tile, waves));
            plans.min_by(|x, y| x.cycles.total_cmp(&y.cycles))
        };
        TILES.into_iter().filter_map(best).collect()
    }

    /// The one with the fewest cycles.
    pub(super) fn best(shape: &Shape) -> Option<FilterPlan> {
        let all = FilterPlan::all(shape).into_iter();
        all.min_by(|x, y| x.cycles.total_cmp(&y.cycles))
    }
}

impl fmt::Display for FilterPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (filters, channels) = (self.form.groups * FILTERS, self.form.channels);
        let (parts, programs) = (self.parts, self.programs);
        write!(
            f,
            "{filters} filters by {channels} channels, pixels divided by {parts}, {programs} CTAs"
        )
    }
}
