//! What a stage of the ring holds, how it is loaded, and scales that it does not hold.

use tilekit::prelude::*;

use super::tile::{PAIR, ScaledTile, Shared};
use crate::products::factor::BLOCK;

/// What a stage holds.
#[derive(Clone, Copy, Aggregate)]
pub(super) struct Factors<T> {
    pub(super) a: Smem<T>,
    pub(super) b: Smem<T>,
    /// Scales of the rows of A.
    pub(super) a_scales: Smem<f32>,
    /// Scales of the rows of B, where each has one.
    pub(super) b_scales: Option<Smem<f32>>,
}

impl<T: Element> Factors<T> {
    /// Stages of a tile for blocks of A, B and the scales of rows.
    #[track_caller]
    pub(super) fn alloc(
        [a, b]: [TensorMap<T>; 2],
        a_scales: TensorMap<f32>,
        b_scales: Option<TensorMap<f32>>,
        tile: ScaledTile,
    ) -> Self {
        let (stages, [rows, columns]) = (tile.stages, tile.shape());
        // A block of a map is what one CTA loads.
        let all = |map: TensorMap<T>, rows: usize| {
            let block = map.block();
            let block = block.with(block.rank() - 2, rows as u32);
            Smem::alloc(block.with_inserted(0, stages), map.layout())
        };
        Factors {
            a: all(a, rows),
            b: all(b, columns),
            a_scales: a_scales.alloc(stages),
            b_scales: b_scales.map(|map| map.alloc(stages)),
        }
    }
}

impl<T: Element> Payload for Factors<T> {
    type Stage = Factors<T>;

    #[track_caller]
    fn stages(self) -> usize {
        (self.a, self.b, self.a_scales).stages()
    }

    #[track_caller]
    fn stage(self, index: Scalar<i32>) -> Factors<T> {
        let (a, b, a_scales) = (self.a, self.b, self.a_scales).stage(index);
        let b_scales = self.b_scales.map(|scales| scales.stage(index));
        Factors {
            a,
            b,
            a_scales,
            b_scales,
        }
    }

    #[track_caller]
    fn stage_bytes(self) -> usize {
        let of_b = self.b_scales.map_or(0, |scales| scales.stage_bytes());
        (self.a, self.b, self.a_scales).stage_bytes() + of_b
    }
}

/// Where stages are loaded from.
#[derive(Clone, Copy, Aggregate)]
pub(super) struct Maps<T> {
    pub(super) a: TensorMap<T>,
    /// Of `[N, K]`, or of one such matrix for each group.
    pub(super) b: TensorMap<T>,
    pub(super) a_scales: TensorMap<f32>,
}

impl<T: Element> Maps<T> {
    /// Loads step `step` along K of the tile that begins at `row` and `column`, of a group's B: what CTAs share by halves. Scales of rows are too few to be shared.
    #[track_caller]
    pub(super) fn load(
        self,
        shared: Shared,
        (tiles, full): (Factors<T>, Mbarrier),
        [row, column]: [Scalar<i32>; 2],
        group: Option<Scalar<i32>>,
        step: Scalar<i32>,
    ) {
        let along_k = step * BLOCK;
        let halves = shared == Shared::Rows;
        load_block(self.a, halves, (tiles.a, full), None, [row, along_k]);
        let halves = shared == Shared::Columns;
        load_block(self.b, halves, (tiles.b, full), group, [column, along_k]);
        self.a_scales.load([step, row], tiles.a_scales, full);
    }
}

/// Loads the rows of `tile` that begin at `first`, all or this CTA's half of them to both CTAs.
#[track_caller]
fn load_block<T: Element>(
    map: TensorMap<T>,
    halves: bool,
    (tile, full): (Smem<T>, Mbarrier),
    group: Option<Scalar<i32>>,
    [first, along_k]: [Scalar<i32>; 2],
) {
    let (copy, tile, first) = if halves {
        let (rank, block) = (cluster_rank(), map.block());
        let rows = block[block.rank() - 2] as usize;
        let parts = tile.reinterpret::<T>(block.with_inserted(0, PAIR), map.layout());
        let to_both = map.copy().multicast((1 << PAIR) - 1);
        (to_both, parts.index(rank), first + rank * rows)
    } else {
        (map.copy(), tile, first)
    };
    match group {
        Some(group) => copy.load([group, first, along_k], tile, full),
        None => copy.load([first, along_k], tile, full),
    }
}

/// Scales of blocks of B, and how they lie: elements from one block of columns to the next, and along K.
#[derive(Clone, Copy, Aggregate)]
pub(super) struct BlockScales {
    pub(super) at: Ptr<f32>,
    pub(super) of_columns: Scalar<i32>,
    pub(super) of_steps: Scalar<i32>,
    /// Columns of B.
    pub(super) n: Scalar<i32>,
}

impl BlockScales {
    /// Where the scales of each chunk of columns of a tile begin, which begins at `column`. What lies beyond B has the last scale.
    #[device]
    pub(super) fn of_tile(self, column: Scalar<i32>, tile: ScaledTile) -> Vec<Scalar<i32>> {
        let last = (self.n - 1) / BLOCK;
        let firsts = (0..tile.columns).step_by(tile.chunk());
        let block = |first: usize| minimum((column + first) / BLOCK, last) * self.of_columns;
        firsts.map(block).collect()
    }

    #[device]
    pub(super) fn load(self, places: &[Scalar<i32>], step: Scalar<i32>) -> Vec<Scalar<f32>> {
        let along = step * self.of_steps;
        places
            .iter()
            .map(|&place| self.at.at(place + along).load())
            .collect()
    }
}
