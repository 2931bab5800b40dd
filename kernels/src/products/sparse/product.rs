//! The product of a 2:4 sparse matrix and a dense one: persistent, as [`dense`](crate::products::dense) is. A stage of the ring also holds where the kept elements of its rows were, by bulk copies of whole
//! blocks, which threads load into the registers that the tensor cores read.

use std::fmt;

use tilekit::prelude::*;

use super::SparseOperand;
use super::form::SparseForm;
use super::layout::STRIP;
use super::stage::Operands;
use crate::products::dense::{ManyTile, rows_of_group};
use crate::products::epilogue::{Data, Epilogue};
use crate::products::factor::{ResultOf, depth};
use crate::products::finished::Finished;
use crate::products::form::{Source, swizzle_of_results};
use crate::products::output_handles::NoOutputs;
use crate::products::registers::registers_of;

/// A tile of [`sparse_product`]: `groups` strips of 64 rows of A, each of a consumer warpgroup, by `columns` of B.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ManySparse {
    /// Consumer warpgroups.
    pub groups: usize,
    /// Columns of B.
    pub columns: usize,
    /// Stages of the ring, of 128 bytes of B along K.
    pub stages: usize,
}

impl ManySparse {
    /// Rows and columns.
    pub fn shape(self) -> [usize; 2] {
        [self.groups * STRIP, self.columns]
    }

    /// The same tile of a dense product.
    pub(super) fn like(self) -> ManyTile {
        ManyTile::of([self.groups, STRIP, self.columns, self.stages])
    }
}

impl fmt::Display for ManySparse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}x{}", self.groups, self.columns, self.stages)
    }
}

impl<E> SparseForm<ManySparse, E> {
    /// What a TMA store of a warpgroup takes.
    fn block(&self) -> [usize; 2] {
        if self.turned {
            [self.tile.columns, STRIP]
        } else {
            [STRIP, self.tile.columns]
        }
    }
}

/// `C[M, N] = A[M, K] · B[N, K]ᵀ`, A compressed as [`layout`](super::layout) says, `strips` times 64 rows of it. The map of C is that of its transpose where the form says so; then `m` and `n` are still
/// rows and columns of A · Bᵀ, but the source, bias and scales those of what is stored.
#[kernel(warps = 4, min_ctas_per_sm = 1)]
pub fn sparse_product<
    T: SparseOperand,
    O: ResultOf<T, Addend = O>,
    E: Epilogue<O, Outputs = NoOutputs>,
>(
    #[fixed] form: SparseForm<ManySparse, E>,
    #[block([form.tile.groups * STRIP, depth::<T>() / 2], Nvmma::B64)] kept: TensorMap<T>,
    #[align(16)] places: Ptr<u16>,
    #[block(form.b.block::<T>(form.tile.columns), form.b.swizzle::<T>(form.tile.columns))]
    b: TensorMap<T>,
    #[block(form.block(), swizzle_of_results::<O>(form.block()[1]))] c: TensorMap<O>,
    m: i32,
    n: i32,
    k: i32,
    data: Data<O>,
) {
    let ManySparse {
        groups,
        columns,
        stages,
    } = form.tile;
    let steps = steps_along(k, depth::<T>());
    let operands = Operands {
        kept,
        places,
        b: Source::new(b, form.b, columns),
        groups,
        columns,
        depths: 1,
        strips: cdiv(m, STRIP),
        steps,
    };
    let pipeline = Pipeline::new(
        operands.alloc(stages),
        Producers::Tma,
        Consumers::warpgroups(groups),
    );
    let turns = Turns::of_warpgroups(groups).with_buffers(1);
    let epilogue = EpilogueStore::alloc(c, turns);
    let tiles = GroupedRows::new([m, n], form.tile.shape(), rows_of_group(form.tile.shape()));
    // Where the sums of a warpgroup are stored.
    let first_of = |number: Scalar<i32>, group: usize| {
        let [row, column] = tiles.place(number);
        let [row, column] = [(row * groups + group) * STRIP, column * columns];
        if form.turned {
            [column, row]
        } else {
            [row, column]
        }
    };

    let multiply = |group: usize| {
        let (mut at, mut turn) = (pipeline.start(), epilogue.start());
        for number in tiles.of_program() {
            let mut acc = T::zeros([STRIP, columns], columns);
            for _ in range(0, steps) {
                let stage = pipeline.consumer_wait(at);
                acc = operands.multiply(acc, stage.tiles, group).wait(0);
                at = pipeline.consumer_release(stage).advance();
            }
            let sums = acc.wait_all();
            turn = epilogue.fill_by(group, turn, |buffer| {
                let finished = Finished {
                    first: first_of(number, group),
                    batch: scalar(0),
                    size: if form.turned { [n, m] } else { [m, n] },
                    rows_apart: 1,
                    turned: form.turned,
                    data,
                };
                finished.store(form.epilogue, sums, buffer);
            });
        }
    };
    let store = |group: usize| {
        let mut turn = epilogue.start();
        for number in tiles.of_program() {
            turn = epilogue.store(group, turn, c, first_of(number, group));
        }
    };
    let load = || {
        let mut at = pipeline.start();
        for number in tiles.of_program() {
            let [row, column] = tiles.place(number);
            for step in range(0, steps) {
                let stage = pipeline.producer_acquire(at);
                operands.load([row * groups, column * columns, step], &stage);
                at = pipeline.commit(stage).advance();
            }
        }
    };
    let [of_consumers, of_others] = registers_of(form.tile.like().groups);
    warp_specialize()
        .registers(of_consumers)
        .main(|| multiply(0))
        .workers(1..groups, Warps(4).registers(of_consumers), multiply)
        .worker(Warps(1).registers(of_others), load)
        .workers(0..groups, Warps(1).registers(of_others), store)
        .run();
}
