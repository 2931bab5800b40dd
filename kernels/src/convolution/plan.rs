//! Which tile computes a convolution, in how many CTAs: chosen by the model of products' time.

use std::fmt;

use tilekit::target::SM_90A;

use super::form::Form;
use super::shape::Shape;
use crate::products::dense::ManyTile;
use crate::products::instances::Instance;
use crate::products::need::Need;
use crate::products::plan::Plan;

/// Tiles: warpgroups, rows of each, columns.
const TILES: [[usize; 3]; 6] = [
    [2, 64, 256],
    [2, 128, 128],
    [2, 64, 192],
    [2, 64, 128],
    [2, 128, 64],
    [2, 64, 64],
];

/// The most stages of a ring.
const MOST_STAGES: usize = 8;

/// Bytes of mbarriers and what aligns buffers.
const BESIDES: usize = 2048;

/// Channels of a step, and what a step of so many costs a channel, by the loads and barriers that it takes.
const CHANNELS: [(usize, f64); 3] = [(64, 1.0), (32, 1.15), (16, 1.6)];

/// The kernel of a convolution through im2col maps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tiled {
    pub(super) form: Form<()>,
    /// CTAs.
    pub(super) programs: usize,
    /// The predicted time.
    pub(super) microseconds: f64,
}

/// Channels of a step: those that read the fewest zeros, and with groups a divisor of a group's.
fn channels_of_step(shape: &Shape) -> Option<usize> {
    let cost =
        |(channels, cost): (usize, f64)| shape.channels.next_multiple_of(channels) as f64 * cost;
    let fits = |(channels, _): &(usize, f64)| {
        shape.groups == 1 || shape.channels.is_multiple_of(*channels)
    };
    let best = CHANNELS
        .into_iter()
        .filter(fits)
        .min_by(|x, y| cost(*x).total_cmp(&cost(*y)));
    best.map(|(channels, _)| channels)
}

impl Tiled {
    /// That of tile number `number` of [`TILES`]; of a gradient of the image if `is_gradient`.
    fn of(shape: &Shape, is_gradient: bool, [groups, rows, columns]: [usize; 3]) -> Option<Tiled> {
        let channels = channels_of_step(shape)?;
        let stage = (groups * rows + columns) * channels * 2;
        let room = SM_90A.cta.shared_bytes as usize - BESIDES - rows * columns * 2;
        let stages = (room / stage).min(MOST_STAGES);
        let tile = ManyTile::of([groups, rows, columns, stages]);
        let depth = shape.taps() * shape.channels.next_multiple_of(channels);
        let need = Need {
            batches: shape.groups,
            ..Need::of_16_bits([shape.pixels(), shape.filters, depth])
        };
        let plan = Plan::of(Instance::Many(tile), &need);
        let form = Form {
            tile,
            channels,
            rank: shape.rank(),
            has_groups: shape.groups > 1,
            is_gradient,
            epilogue: (),
        };
        Some(Tiled {
            form,
            programs: plan.grid[0],
            microseconds: plan.microseconds,
        })
    }

    /// All that compute it, in the order of [`TILES`]; none where no im2col map reaches all pixels.
    pub(super) fn all(shape: &Shape, is_gradient: bool) -> Vec<Tiled> {
        if !shape.fits_maps() {
            return Vec::new();
        }
        let of = |tile| Tiled::of(shape, is_gradient, tile);
        TILES.into_iter().filter_map(of).collect()
    }

    /// The one with the least time, if maps reach all pixels. Of pixels that lie apart, a tile's filters divide those of a group, which no map ends.
    pub(super) fn best(shape: &Shape, is_gradient: bool, are_apart: bool) -> Option<Tiled> {
        let all = Tiled::all(shape, is_gradient).into_iter();
        let fits = |tiled: &Tiled| {
            let columns = tiled.form.tile.columns;
            !are_apart || shape.groups == 1 || shape.filters.is_multiple_of(columns)
        };
        all.filter(fits)
            .min_by(|x, y| x.microseconds.total_cmp(&y.microseconds))
    }
}

impl fmt::Display for Tiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [pixels, filters] = self.form.tile.shape();
        let (channels, programs) = (self.form.channels, self.programs);
        write!(
            f,
            "{pixels} pixels by {filters} filters in steps of {channels} channels, {programs} CTAs, {:.1} us",
            self.microseconds
        )
    }
}
