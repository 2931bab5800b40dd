//! What a stage of the ring holds: kept elements of strips of A, where they were, and columns of B.

use tilekit::prelude::*;

use super::SparseOperand;
use super::layout::{BLOCK_NUMBERS, STRIP, blocks_of_stage};
use crate::products::factor::depth;
use crate::products::form::Source;

/// Kept elements, B, and where in rows of A those were.
pub(super) type Tiles<T> = (Smem<T>, Smem<T>, Smem<u16>);

/// The operands of a product, and how much of them a stage holds.
#[derive(Clone, Copy)]
pub(super) struct Operands<T> {
    pub(super) kept: TensorMap<T>,
    pub(super) places: Ptr<u16>,
    pub(super) b: Source<T>,
    /// Strips of a stage, columns, and how many times 128 bytes of B along K.
    pub(super) groups: usize,
    pub(super) columns: usize,
    pub(super) depths: usize,
    /// Strips of A, and its steps along K.
    pub(super) strips: Scalar<i32>,
    pub(super) steps: Scalar<i32>,
}

impl<T: SparseOperand> Operands<T> {
    /// So many stages.
    #[track_caller]
    pub(super) fn alloc(self, stages: usize) -> Tiles<T> {
        let numbers = [stages, self.depths * self.groups, numbers_of_stage::<T>()];
        (
            self.kept.alloc(stages),
            self.b.alloc_several(stages, self.depths),
            Smem::alloc(numbers, Swizzled::plain([2, 1, 0])),
        )
    }

    /// Loads the strips from `strip` on and the columns from `column` on of a step.
    #[track_caller]
    pub(super) fn load(self, [strip, column, step]: [Scalar<i32>; 3], stage: &Filling<Tiles<T>>) {
        let (kept, b, places) = stage.tiles;
        let first = [strip * STRIP, step * (self.depths * depth::<T>() / 2)];
        self.kept.load(first, kept, stage.full);
        for at in 0..self.depths {
            let step = step * self.depths + at;
            self.b.load(
                [scalar(0), column, step],
                self.b.block_of(b, at),
                stage.full,
            );
            // Behind the last one is nothing but zeros.
            let step = if at == 0 {
                step
            } else {
                minimum(step, self.steps - 1)
            };
            for group in 0..self.groups {
                // Rows beyond the last strip are zeros, wherever they were.
                let strip = minimum(strip + group, self.strips - 1);
                let numbers = (strip * self.steps + step) * numbers_of_stage::<T>();
                let places = places.index(at * self.groups + group);
                self.places.bulk(numbers).load(places, stage.full);
            }
        }
    }

    /// Starts the product of a strip of a stage.
    #[track_caller]
    pub(super) fn multiply(
        self,
        sums: Accumulator<T::Sum>,
        (kept, b, places): Tiles<T>,
        group: usize,
    ) -> Accumulator<T::Sum> {
        let of_strip =
            |at: usize| load_places::<T>(places.index(at * self.groups + group), self.columns);
        let places: Vec<_> = (0..self.depths).map(of_strip).collect();
        let kept = kept.slice(0, group * STRIP..(group + 1) * STRIP);
        let half = depth::<T>() / 2;
        places
            .into_iter()
            .enumerate()
            .fold(sums, |sums, (at, places)| {
                let kept = kept.slice(1, at * half..(at + 1) * half);
                sums.mma_sparse(
                    kept,
                    places,
                    self.b.by_rows(self.b.block_of(b, at)).transpose(),
                )
            })
    }
}

/// Numbers of a stage for a strip.
fn numbers_of_stage<T>() -> usize {
    blocks_of_stage::<T>() * BLOCK_NUMBERS
}

/// The numbers of a strip in a stage, as the tensor cores take them beside sums of `columns`.
#[device]
fn load_places<T: SparseOperand>(places: Smem<u16>, columns: usize) -> Tensor<u16> {
    let blocks = blocks_of_stage::<T>();
    let pairs = places.reshape([blocks, 2 * STRIP, 2]);
    let of_blocks = [[0, 0, 1], [1, 0, 0]];
    let threads = DistributedLinear::new(
        of_blocks[..blocks].iter().copied(),
        [1, 2, 4, 8, 16].map(|lane| [0, lane, 0]),
        [32, 64].map(|warp| [0, warp, 0]),
        [],
    );
    let pairs = pairs.load(threads);
    let numbers = if size_of::<T>() == 2 {
        // Block; warp, row of a lane, column; which of both rows.
        pairs.reshape([blocks, 4, 8, 4, 2]).permute([1, 4, 2, 0, 3])
    } else {
        // Block; warp, row of a lane, pair of columns, which of both rows; which of both columns.
        let pairs = pairs.reshape([blocks, 4, 8, 2, 2, 2]);
        pairs.permute([1, 4, 2, 0, 3, 5])
    };
    let numbers = numbers.reshape([STRIP, 4 * blocks]);
    let sums = Wgmma::new([4, 1], [64, columns, 32 / size_of::<T>()]);
    numbers.convert_layout_trivial(sparse_metadata::<T>(&sums, [STRIP, depth::<T>()]))
}
