//! The product of a 2:4 sparse matrix and a dense one: persistent, as [`dense`](crate::products::dense) is. A stage of the ring also holds where the kept elements of its rows were, by bulk copies of whole
//! blocks, which threads load into the registers that the tensor cores read.

use std::fmt;

use tilekit::prelude::*;

use super::SparseOperand;
use super::layout::{BLOCK_NUMBERS, STRIP, blocks_of_stage};
use crate::products::dense::{ManyTile, rows_of_group};
use crate::products::epilogue::{Data, Epilogue, Named};
use crate::products::factor::{ResultOf, depth};
use crate::products::finished::Finished;
use crate::products::form::{Side, Source, swizzle_of};

/// A tile of [`sparse_product`]: `groups` strips of 64 rows of A, each of a consumer warpgroup, by `columns` of B.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SparseTile {
    /// Consumer warpgroups.
    pub groups: usize,
    /// Columns of B.
    pub columns: usize,
    /// Stages of the ring, of 128 bytes of B along K.
    pub stages: usize,
}

impl SparseTile {
    /// Rows and columns.
    pub fn shape(self) -> [usize; 2] {
        [self.groups * STRIP, self.columns]
    }

    /// The same tile of a dense product.
    pub(super) fn like(self) -> ManyTile {
        ManyTile::of([self.groups, STRIP, self.columns, self.stages])
    }
}

impl fmt::Display for SparseTile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}x{}", self.groups, self.columns, self.stages)
    }
}

/// What a kernel of sparse products is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SparseForm<E> {
    /// Its tile.
    pub tile: SparseTile,
    /// How B lies.
    pub b: Side,
    /// Columns of C follow each other in memory, and not rows: what is stored is its transpose.
    pub turned: bool,
    /// What happens to sums, of C as it is stored.
    pub epilogue: E,
}

impl<E> SparseForm<E> {
    /// What a TMA store of a warpgroup takes.
    fn block(&self) -> [usize; 2] {
        if self.turned {
            [self.tile.columns, STRIP]
        } else {
            [STRIP, self.tile.columns]
        }
    }
}

impl<E: Named> fmt::Display for SparseForm<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.tile)?;
        for (name, is_so) in [("b_along_n", self.b.is_mn_major), ("turned", self.turned)] {
            if is_so {
                write!(f, "+{name}")?;
            }
        }
        let name = self.epilogue.name();
        if name.is_empty() {
            Ok(())
        } else {
            write!(f, "+{name}")
        }
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

/// `C[M, N] = A[M, K] · B[N, K]ᵀ`, A compressed as [`layout`](super::layout) says, `strips` times 64 rows of it. The map of C is that of its transpose where the form says so; then `m` and `n` are still
/// rows and columns of A · Bᵀ, but the source, bias and scales those of what is stored.
#[kernel(warps = 4, min_ctas_per_sm = 1)]
pub fn sparse_product<T: SparseOperand, O: ResultOf<T>, E: Epilogue<O>>(
    #[fixed] form: SparseForm<E>,
    #[block([form.tile.groups * STRIP, depth::<T>() / 2], Nvmma::B64)] kept: TensorMap<T>,
    #[align(16)] places: Ptr<u16>,
    #[block(form.b.block::<T>(form.tile.columns), form.b.swizzle::<T>(form.tile.columns))]
    b: TensorMap<T>,
    #[block(form.block(), swizzle_of::<O>(form.block()[1]))] c: TensorMap<O>,
    m: i32,
    n: i32,
    k: i32,
    data: Data<O>,
) {
    let SparseTile {
        groups,
        columns,
        stages,
    } = form.tile;
    let numbers = numbers_of_stage::<T>();
    let buffers = (
        kept.alloc(stages),
        b.alloc(stages),
        Smem::<u16>::alloc([stages, groups, numbers], Swizzled::plain([2, 1, 0])),
    );
    let pipeline = Pipeline::new(buffers, Producers::Tma, Consumers::warpgroups(groups));
    let turns = Turns::of_warpgroups(groups).with_buffers(1);
    let epilogue = EpilogueStore::alloc(c, turns);
    let tiles = GroupedRows::new([m, n], form.tile.shape(), rows_of_group(form.tile.shape()));
    let steps = steps_along(k, depth::<T>());
    let of_b = Source::new(b, form.b, columns);
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
        let rows = group * STRIP..(group + 1) * STRIP;
        let (mut at, mut turn) = (pipeline.start(), epilogue.start());
        for number in tiles.of_program() {
            let mut acc = T::zeros([STRIP, columns], columns);
            for _ in range(0, steps) {
                let stage = pipeline.consumer_wait(at);
                let (kept, b, places) = stage.tiles;
                let places = load_places::<T>(places.index(group), columns);
                let kept = kept.slice(0, rows.clone());
                let b = of_b.by_rows(b).transpose();
                acc = acc.mma_sparse(kept, places, b).wait(0);
                at = pipeline.consumer_release(stage).advance();
            }
            let sums = acc.wait_all();
            turn = epilogue.fill_by(group, turn, |buffer| {
                let finished = Finished {
                    first: first_of(number, group),
                    batch: scalar(0),
                    size: if form.turned { [n, m] } else { [m, n] },
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
        let strips = cdiv(m, STRIP);
        let mut at = pipeline.start();
        for number in tiles.of_program() {
            let [row, column] = tiles.place(number);
            for step in range(0, steps) {
                let stage = pipeline.producer_acquire(at);
                let (of_kept, to_b, of_places) = stage.tiles;
                let first = [row * form.tile.shape()[0], step * (depth::<T>() / 2)];
                kept.load(first, of_kept, stage.full);
                of_b.load([scalar(0), column * columns, step], to_b, stage.full);
                for group in 0..groups {
                    // Rows beyond the last strip are zeros, wherever they were.
                    let strip = minimum(row * groups + group, strips - 1);
                    let numbers_of = places.bulk((strip * steps + step) * numbers);
                    numbers_of.load(of_places.index(group), stage.full);
                }
                at = pipeline.commit(stage).advance();
            }
        }
    };
    let [of_consumers, of_others] = form.tile.like().registers();
    warp_specialize()
        .registers(of_consumers)
        .main(|| multiply(0))
        .workers(1..groups, Warps(4).registers(of_consumers), multiply)
        .worker(Warps(1).registers(of_others), load)
        .workers(0..groups, Warps(1).registers(of_others), store)
        .run();
}
