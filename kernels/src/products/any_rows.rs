//! Products of matrices whose rows begin anywhere, by one launch: no tensor map takes them, so that threads load elements into registers and store them to shared memory, and
//! store results where they belong. For few steps along K, where copies to rows that tensor maps take would cost more than the product.

use std::fmt;

use tilekit::prelude::*;

use super::ending::Ending;
use super::epilogue::{DataOf, Epilogue};
use super::factor::{INSTRUCTION_ROWS, Operand, ResultOf};
use super::form::{Form, Side, swizzle_of};

/// Elements along K of a step: of 128 bytes of 16-bit elements, or half of that.
pub(super) const DEEP: usize = 64;
const SHALLOW: usize = 32;

/// A tile of [`any_rows`]: `[groups * 64, columns]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AnyTile {
    /// Warpgroups.
    pub groups: usize,
    /// Columns.
    pub columns: usize,
    /// Elements of which lines of A, of B and of C begin and end at multiples: 1, 2, 4 or 8. They are loaded and stored so many at a time.
    pub units: [usize; 3],
    /// Elements along K of a step.
    pub depth: usize,
}

impl AnyTile {
    /// Of warpgroups and columns, for lines that begin and end anywhere.
    pub const fn of([groups, columns]: [usize; 2]) -> Self {
        AnyTile {
            groups,
            columns,
            units: [1; 3],
            depth: DEEP,
        }
    }

    /// Such a tile of a product with so many elements along K, whose lines have these units. Of 32 or fewer one step of 32 takes half of the loads and stores of one of 64, of which
    /// half would be zeros.
    #[must_use]
    pub(super) fn fitted(self, units: [usize; 3], k: usize) -> Self {
        let depth = if k <= SHALLOW { SHALLOW } else { DEEP };
        AnyTile {
            units,
            depth,
            ..self
        }
    }

    /// Rows and columns.
    pub fn shape(self) -> [usize; 2] {
        [self.groups * INSTRUCTION_ROWS, self.columns]
    }

    /// CTAs that share a multiprocessor: as many as have registers for what they load beside their sums. Elements that are loaded one by one take twice the registers.
    pub(super) fn resident(self) -> usize {
        let goes_one_by_one = self.units[..2].contains(&1) && self.depth == DEEP;
        match (self.groups, self.columns) {
            (1, 128..) => 3,
            (1, 64) if goes_one_by_one => 3,
            (groups, _) => 4 / groups,
        }
    }
}

impl fmt::Display for AnyTile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AnyTile {
            groups,
            columns,
            units: [a, b, c],
            depth,
        } = self;
        write!(f, "{groups}x{columns}+{a}+{b}+{c}")?;
        match *depth {
            DEEP => Ok(()),
            depth => write!(f, "+by{depth}"),
        }
    }
}

/// So many warps over lines of a tile, of which a thread has `unit` neighbours: a warp accesses as much of a line as it can.
fn lines([_, length]: [usize; 2], unit: usize, warps: usize) -> Blocked {
    let lanes = (length / unit).min(32);
    Blocked::new([1, unit], [32 / lanes, lanes], [warps, 1], [1, 0])
}

/// An operand in a program.
#[derive(Clone, Copy)]
pub(super) struct Lines<T: Operand> {
    pub(super) base: Ptr<T::Bits>,
    pub(super) pitch: Scalar<i32>,
    /// Which product of a batch, in elements.
    pub(super) of_batch: Scalar<i64>,
    /// Its first row of M or N here, and how many there are.
    pub(super) first: Scalar<i32>,
    pub(super) rows: Scalar<i32>,
    pub(super) k: Scalar<i32>,
    pub(super) side: Side,
    pub(super) unit: usize,
    /// Elements along K of a step.
    pub(super) depth: usize,
    /// Rows of a tile, and warps that load them.
    pub(super) of_tile: usize,
    pub(super) warps: usize,
}

impl<T: Operand> Lines<T> {
    fn block(self) -> [usize; 2] {
        if self.side.is_mn_major {
            [self.depth, self.of_tile]
        } else {
            [self.of_tile, self.depth]
        }
    }

    /// What a step along K takes, with zeros outside of the matrix.
    #[device]
    fn access(self, step: Scalar<i32>) -> Access<Pointers<T::Bits>> {
        let [outer, inner] = self.block();
        let layout = lines(self.block(), self.unit, self.warps);
        let along_k = step * self.depth;
        let (from, to) = if self.side.is_mn_major {
            ([along_k, self.first], [self.k, self.rows])
        } else {
            ([self.first, along_k], [self.rows, self.k])
        };
        let end = to[1].multiple_of([self.unit]);
        let pitch = self.pitch.multiple_of([self.unit]);
        let i = rows_of(layout.clone(), scalar(0), outer);
        let j = columns_of(layout, scalar(0), inner);
        let before = from[0].cast::<i64>() * pitch.cast::<i64>() + from[1].cast::<i64>();
        let base = self.base + (self.of_batch + before).multiple_of([self.unit]);
        let inside = (i + from[0] < to[0]) & (j + from[1] < end);
        base.at(i * pitch + j).mask(inside)
    }

    /// Loads that.
    #[track_caller]
    fn load(self, step: Scalar<i32>) -> Tensor<T::Bits> {
        self.access(step).other(0).load()
    }

    /// Copies it to a stage. Elements go in pairs or more.
    #[track_caller]
    pub(super) fn copy(self, step: Scalar<i32>, stage: Smem<T::Bits>) {
        self.access(step).copy_to(stage);
    }

    /// Stages of it in shared memory.
    #[track_caller]
    pub(super) fn alloc_stages(self, stages: usize) -> Smem<T::Bits> {
        let [outer, inner] = self.block();
        Smem::alloc([stages, outer, inner], swizzle_of::<T>(inner))
    }

    /// Where that lies in shared memory.
    #[track_caller]
    fn alloc(self) -> Smem<T::Bits> {
        let block = self.block();
        Smem::alloc(block, swizzle_of::<T>(block[1]))
    }

    /// The same as `[rows, K]`, for the tensor cores.
    #[track_caller]
    pub(super) fn by_rows(self, tile: Smem<T::Bits>) -> Smem<T> {
        let tile = tile.reinterpret::<T>(self.block(), tile.layout());
        if self.side.is_mn_major {
            tile.transpose()
        } else {
            tile
        }
    }
}

/// `C[M, N] = A[M, K] · B[N, K]ᵀ` of each product of a batch, the tile at this program's row and column of tiles and of the product along z. Lines of matrices, along K or, of operands, along M or N, are
/// `pitch` elements apart, and matrices of a batch `batch`; both are multiples of the tile's units, as are where lines begin, and the extents along them. 128 pitches are less than 2³¹.
#[kernel(warps = 4 * form.tile.groups, min_ctas_per_sm = form.tile.resident())]
pub fn any_rows<T: Operand, O: ResultOf<T>, E: Epilogue<O>>(
    #[fixed] form: Form<AnyTile, E>,
    #[align(size_of::<T>())] a: Ptr<T>,
    a_pitch: i32,
    a_batch: i64,
    #[align(size_of::<T>())] b: Ptr<T>,
    b_pitch: i32,
    b_batch: i64,
    #[align(size_of::<O>())] out: Ptr<O>,
    stride: i32,
    batch_stride: i64,
    m: i32,
    n: i32,
    k: i32,
    data: DataOf<O, E, true>,
) {
    launch_dependents();
    let AnyTile {
        groups,
        columns,
        units: [of_a, of_b, of_c],
        depth,
    } = form.tile;
    let ([rows, _], warps) = (form.tile.shape(), 4 * groups);
    let [row, column] = [program_id(0) * rows, program_id(1) * columns];
    let batch = if form.is_batched {
        program_id(2)
    } else {
        scalar(0)
    };
    let a = Lines::<T> {
        base: a.cast::<T::Bits>().multiple_of([of_a]),
        pitch: a_pitch,
        of_batch: batch.cast::<i64>() * a_batch,
        first: row,
        rows: m,
        k,
        side: form.sides[0],
        unit: of_a,
        depth,
        of_tile: rows,
        warps,
    };
    let b = Lines::<T> {
        base: b.cast::<T::Bits>().multiple_of([of_b]),
        pitch: b_pitch,
        of_batch: batch.cast::<i64>() * b_batch,
        first: column,
        rows: n,
        k,
        side: form.sides[1],
        unit: of_b,
        depth,
        of_tile: columns,
        warps,
    };
    let (tile_a, tile_b) = (a.alloc(), b.alloc());
    let steps = steps_along(k, depth);
    let sums = Wgmma::new(
        [warps as u32, 1],
        [64, columns as u32, (32 / size_of::<T>()) as u32],
    );
    let mut acc = Accumulator::<T::Sum>::zeros([rows, columns], sums);

    launch_wait();
    let (mut next_a, mut next_b) = (a.load(scalar(0)), b.load(scalar(0)));
    for step in range(0, steps) {
        tile_a.store(next_a);
        tile_b.store(next_b);
        // In flight while the tensor cores multiply.
        if step + 1 < steps {
            next_a = a.load(step + 1);
            next_b = b.load(step + 1);
        }
        acc = acc
            .mma(a.by_rows(tile_a), b.by_rows(tile_b).transpose())
            .wait(0);
    }
    let ending = Ending {
        epilogue: form.epilogue,
        columns,
        ctas: 1,
        turned: false,
        is_batched: form.is_batched,
        out: out.multiple_of([of_c]),
        stride: stride.multiple_of([of_c]),
        batch_stride: batch_stride.multiple_of([of_c]),
        size: [m, n.multiple_of([of_c])],
        batch,
        data: data.of_any_rows(),
    };
    let unit = if form.epilogue.has_pairs() {
        of_c.max(2)
    } else {
        of_c
    };
    let layout = |shape| lines(shape, unit, warps);
    ending.store_in_parts(layout, [row, column], acc.wait_all());
}
