//! What a stage of the ring holds, and scales that it does not.

use tilekit::prelude::*;

use super::tile::{BLOCK, ScaledTile};

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
    /// Stages for blocks of A, B and the scales of rows.
    #[track_caller]
    pub(super) fn alloc(
        [a, b]: [TensorMap<T>; 2],
        a_scales: TensorMap<f32>,
        b_scales: Option<TensorMap<f32>>,
        stages: usize,
    ) -> Self {
        Factors {
            a: a.alloc(stages),
            b: b.alloc(stages),
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
