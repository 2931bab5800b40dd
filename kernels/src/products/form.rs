//! What a kernel of products is compiled for: its tile, how its operands lie, its epilogue.

use std::fmt;

use tilekit::layout::NvmmaSwizzle;
use tilekit::prelude::*;

use super::factor::{Operand, depth};
use super::multicast::{Share, Shared};

/// How an operand lies in memory, and whether launches in front write it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Side {
    /// Elements follow each other along M or N, and not along K. For elements of 16 bits.
    pub is_mn_major: bool,
    /// There is one for each product of a batch, and not one for all.
    pub is_batched: bool,
    /// No launch that may be unfinished writes it: it is loaded before those in front have ended.
    pub is_settled: bool,
}

/// What a kernel is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Form<I, E> {
    /// Its tile.
    pub tile: I,
    /// A and B.
    pub sides: [Side; 2],
    /// There are several products.
    pub is_batched: bool,
    /// What happens to sums.
    pub epilogue: E,
}

impl<I, E> Form<I, E> {
    /// Of one product of operands that are contiguous along K.
    pub fn new(tile: I, epilogue: E) -> Self {
        Form {
            tile,
            sides: [Side::default(); 2],
            is_batched: false,
            epilogue,
        }
    }

    /// The same with another epilogue.
    pub(super) fn with<N>(self, epilogue: N) -> Form<I, N> {
        Form {
            tile: self.tile,
            sides: self.sides,
            is_batched: self.is_batched,
            epilogue,
        }
    }

    /// The same of an instance instead of its tile, without an epilogue.
    pub(super) fn of<N>(&self, instance: N) -> Form<N, ()> {
        Form {
            tile: instance,
            sides: self.sides,
            is_batched: self.is_batched,
            epilogue: (),
        }
    }

    /// Which product of a batch a program computes, of a grid that has one along z.
    #[track_caller]
    pub(super) fn batch(&self) -> Scalar<i32> {
        if self.is_batched {
            program_id(2)
        } else {
            scalar(0)
        }
    }

    /// The row of tiles of a program, of a grid that has groups of them along z, or products of a batch.
    #[track_caller]
    pub(super) fn row_of_grid(&self) -> Scalar<i32> {
        if self.is_batched {
            program_id(0)
        } else {
            program_id(2) * num_programs(0) + program_id(0)
        }
    }

    /// The row of a cluster of `ctas`, or without clusters that of a program in groups.
    #[track_caller]
    pub(super) fn row_of_cluster(&self, ctas: usize) -> Scalar<i32> {
        if ctas == 1 {
            self.row_of_grid()
        } else {
            cluster_id(0)
        }
    }

    /// A and B exchanged.
    #[must_use]
    pub fn turned(self) -> Self {
        let [a, b] = self.sides;
        Form {
            sides: [b, a],
            ..self
        }
    }
}

impl<I: fmt::Display, E: super::epilogue::Named> fmt::Display for Form<I, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.tile)?;
        let [a, b] = self.sides;
        for (name, is_so) in [
            ("a_along_m", a.is_mn_major),
            ("b_along_n", b.is_mn_major),
            ("a_batched", a.is_batched),
            ("b_batched", b.is_batched),
            ("batched", self.is_batched),
            ("a_settled", a.is_settled),
            ("b_settled", b.is_settled),
        ] {
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

/// The widest swizzle whose rows divide rows of `columns` elements, or none: 16 bytes divide every row.
pub(crate) fn swizzle_of<T: Element>(columns: usize) -> NvmmaSwizzle {
    let bytes = columns * size_of::<T>();
    if bytes.is_multiple_of(128) {
        Nvmma::B128
    } else if bytes.is_multiple_of(64) {
        Nvmma::B64
    } else if bytes.is_multiple_of(32) {
        Nvmma::B32
    } else {
        Nvmma::PLAIN
    }
}

/// The swizzle of results that TMA stores by rows of `columns` elements: none where the widest is of 32 bytes. A swizzled box is no wider than its swizzle, and memory takes boxes of 32 bytes slower than `stmatrix` stores rows without one, of which
/// two of 8 meet in a bank then.
pub(crate) fn swizzle_of_results<T: Element>(columns: usize) -> NvmmaSwizzle {
    if (columns * size_of::<T>()).is_multiple_of(64) {
        swizzle_of::<T>(columns)
    } else {
        Nvmma::PLAIN
    }
}

impl Side {
    /// What a TMA load of `rows` of M or N takes.
    pub(crate) fn block<T: Element>(self, rows: usize) -> Dims {
        let [outer, inner] = if self.is_mn_major {
            [depth::<T>(), rows]
        } else {
            [rows, depth::<T>()]
        };
        block_of([outer, inner], self.is_batched)
    }

    /// How that lies in shared memory.
    pub(crate) fn swizzle<T: Element>(self, rows: usize) -> NvmmaSwizzle {
        if self.is_mn_major {
            swizzle_of::<T>(rows)
        } else {
            Nvmma::B128
        }
    }
}

/// A block of a matrix, or of one of several.
pub(crate) fn block_of([rows, columns]: [usize; 2], is_batched: bool) -> Dims {
    let block = Dims::from([rows as u32, columns as u32]);
    if is_batched {
        block.with_inserted(0, 1)
    } else {
        block
    }
}

/// Where a block of so many rows begins that would lie behind the `end` of a matrix: at its last whole block instead. Its results are not stored, and TMA fills what is outside with zeros slower than it
/// loads, where blocks are multicast at 5 rows a cycle of all multiprocessors together.
#[device]
pub(crate) fn inside(first: Scalar<i32>, rows: usize, end: Scalar<i32>) -> Scalar<i32> {
    // TMA begins at multiples of 16 bytes where elements follow each other along M or N.
    select(first < end, first, maximum(end - rows, 0) & -16)
}

/// Steps along K of a tile that begins at `row`: none behind the last row of the matrix, where a group of the grid is not full. CTAs of a cluster of several load for each other, wherever their own tiles are.
#[device]
pub(super) fn steps_of_tile<T: Operand>(
    k: Scalar<i32>,
    [row, end]: [Scalar<i32>; 2],
    ctas: usize,
) -> Scalar<i32> {
    let steps = steps_along(k, depth::<T>());
    if ctas == 1 {
        select(row < end, steps, 0)
    } else {
        steps
    }
}

/// An operand in a kernel.
#[derive(Clone, Copy)]
pub(crate) struct Source<T> {
    map: TensorMap<T>,
    side: Side,
    /// Rows of M or N that a stage takes.
    rows: usize,
    /// CTAs of a cluster that take the same: each loads its share and multicasts it to all.
    shared: Shared,
    /// Rows of the matrix, where whole blocks would lie behind them.
    end: Option<Scalar<i32>>,
}

impl<T: Element> Source<T> {
    pub(crate) fn new(map: TensorMap<T>, side: Side, rows: usize) -> Self {
        Source {
            map,
            side,
            rows,
            shared: Shared::default(),
            end: None,
        }
    }

    /// Of a matrix of `end` rows of M or N, by CTAs of a cluster that have them in common as `shared` says: it is along K then, and blocks of the map are as many rows as one CTA loads. CTAs
    /// whose blocks lie behind the matrix load its last whole block instead.
    pub(crate) fn of_clusters(self, shared: Shared, end: Scalar<i32>) -> Self {
        Source {
            shared,
            end: (shared.others() > 1).then_some(end),
            ..self
        }
    }

    pub(crate) fn map(self) -> TensorMap<T> {
        self.map
    }

    /// How CTAs of a cluster have it in common.
    pub(crate) fn shared(self) -> Shared {
        self.shared
    }

    /// Stages for what is loaded.
    #[track_caller]
    pub(crate) fn alloc(self, stages: usize) -> Smem<T> {
        let block = self.side.block::<T>(self.rows);
        Smem::alloc(block.with_inserted(0, stages), self.map.layout())
    }

    /// Stages for `count` blocks each, one behind the other.
    #[track_caller]
    pub(crate) fn alloc_several(self, stages: usize, count: usize) -> Smem<T> {
        let [outer, inner] = self.outer_inner();
        Smem::alloc([stages, count * outer, inner], self.map.layout())
    }

    /// One of the blocks of a stage for several.
    #[track_caller]
    pub(crate) fn block_of(self, tiles: Smem<T>, number: usize) -> Smem<T> {
        let [outer, _] = self.outer_inner();
        tiles.slice(0, number * outer..(number + 1) * outer)
    }

    /// Loads the block at `row` of M or N and at `step` along K.
    #[track_caller]
    pub(crate) fn load(self, [batch, row, step]: [Scalar<i32>; 3], tile: Smem<T>, full: Mbarrier) {
        let along_k = step * depth::<T>();
        let row = match self.end {
            Some(end) => inside(row, self.rows, end),
            None => row,
        };
        let [outer, inner] = if self.side.is_mn_major {
            [along_k, row]
        } else {
            [row, along_k]
        };
        if let Some(Share { ctas, rank, mask }) = self.shared.share() {
            let share = self.rows / ctas;
            let shape = [ctas, share, depth::<T>()];
            let shares = tile.reinterpret::<T>(shape, self.map.layout());
            let to_all = self.map.copy().multicast(mask);
            to_all.load([outer + rank * share, inner], shares.index(rank), full);
        } else if self.side.is_batched {
            self.map.load([batch, outer, inner], tile, full);
        } else {
            self.map.load([outer, inner], tile, full);
        }
    }

    /// Extents of a block as it lies in memory.
    fn outer_inner(self) -> [usize; 2] {
        if self.side.is_mn_major {
            [depth::<T>(), self.rows]
        } else {
            [self.rows, depth::<T>()]
        }
    }

    /// What was loaded, as `[rows, K]`.
    #[track_caller]
    pub(crate) fn by_rows(self, tile: Smem<T>) -> Smem<T> {
        let [outer, inner] = self.outer_inner();
        let tile = if self.side.is_batched {
            tile.reshape([outer, inner])
        } else {
            tile
        };
        if self.side.is_mn_major {
            tile.transpose()
        } else {
            tile
        }
    }
}
