//! Products with few tiles of matrices whose rows begin anywhere but between two elements of 4 bytes: `cp.async` fills a ring of stages ahead of the tensor cores, so that nothing is copied in
//! memory first. CTAs of a cluster share the steps along K as in [`few_tiles`](super::few_tiles).

use std::fmt;

use tilekit::prelude::*;

use super::any_rows::Lines;
use super::ending::Ending;
use super::epilogue::{DataOf, Epilogue};
use super::factor::{INSTRUCTION_ROWS, Operand, ResultOf, depth};
use super::few_tiles::FewTile;
use super::form::Form;

/// A tile of [`copied_tiles`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CopiedTile {
    /// That of the same product of matrices that tensor maps take.
    pub tile: FewTile,
    /// Elements of which rows of X, Y and C begin and end at multiples: 2, 4 or 8 of X and of Y, of C 1 too.
    pub units: [usize; 3],
}

impl CopiedTile {
    /// Of one warpgroup and so many columns in each of `ctas` CTAs, for elements in pairs.
    pub const fn of(columns: usize, ctas: usize, turned: bool) -> Self {
        let tile = FewTile {
            ctas,
            groups: 1,
            columns,
            stages: if columns > 64 { 6 } else { 8 },
            turned,
        };
        CopiedTile {
            tile,
            units: [2, 2, 1],
        }
    }

    /// The same for lines of A, B and C that begin and end at multiples of so many elements.
    #[must_use]
    pub fn with_units(self, [a, b, c]: [usize; 3]) -> Self {
        let units = if self.tile.turned {
            [b, a, c]
        } else {
            [a, b, c]
        };
        CopiedTile { units, ..self }
    }

    /// Whether it was measured for such products: of few rows or columns, and of steps along K for several stages of each CTA.
    pub(super) fn is_for(self, [m, n]: [usize; 2], steps: usize) -> bool {
        m.min(n) <= 256 && steps >= 4.max(2 * self.tile.ctas)
    }

    /// Rows and columns.
    pub fn shape(self) -> [usize; 2] {
        [self.rows(), self.tile.columns]
    }

    /// Warps that copy.
    pub(super) fn copiers(self) -> usize {
        if self.tile.columns > 64 { 8 } else { 4 }
    }

    fn rows(self) -> usize {
        self.tile.groups * INSTRUCTION_ROWS
    }
}

impl fmt::Display for CopiedTile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, c] = self.units;
        write!(f, "{}+{x}+{y}+{c}", self.tile)
    }
}

/// `D[M, N] = X[M, K] · Y[N, K]ᵀ`, a tile for each cluster, whose CTAs share the steps along K. Rows of X and of Y are `x_pitch` and `y_pitch` elements apart. Element `[i, j]` of the result is at
/// `out + i * stride + j`, or in a turned tile at `out + j * stride + i`: the product with X and Y exchanged.
#[kernel(warps = form.tile.copiers(), cluster = form.tile.tile.ctas, min_ctas_per_sm = 1)]
pub fn copied_tiles<T: Operand, O: ResultOf<T>, E: Epilogue<O>>(
    #[fixed] form: Form<CopiedTile, E>,
    #[align(size_of::<T>())] x: Ptr<T>,
    x_pitch: i32,
    #[align(size_of::<T>())] y: Ptr<T>,
    y_pitch: i32,
    #[align(size_of::<O>())] out: Ptr<O>,
    stride: i32,
    m: i32,
    n: i32,
    k: i32,
    data: DataOf<O, E, true>,
) {
    launch_dependents();
    let (CopiedTile { tile, units }, copiers) = (form.tile, form.tile.copiers());
    let FewTile {
        ctas,
        groups,
        columns,
        stages,
        turned,
    } = tile;
    let [of_x, of_y, of_c] = units;
    let [row, column] = [cluster_id(0) * form.tile.rows(), program_id(1) * columns];
    let lines = |base: Ptr<T>, pitch, [first, rows]: [Scalar<i32>; 2], of_tile, unit| Lines::<T> {
        base: base.cast::<T::Bits>().multiple_of([unit]),
        pitch,
        of_batch: scalar(0),
        first,
        rows,
        k,
        side: form.sides[0],
        unit,
        depth: depth::<T>(),
        of_tile,
        warps: copiers,
    };
    let x = lines(x, x_pitch, [row, m], form.tile.rows(), of_x);
    let y = lines(y, y_pitch, [column, n], columns, of_y);
    let ending = Ending {
        epilogue: form.epilogue,
        columns,
        ctas,
        turned,
        is_batched: false,
        out: out.multiple_of([of_c]),
        stride: stride.multiple_of([of_c]),
        batch_stride: scalar(0),
        size: [m, n],
        batch: scalar(0),
        data: data.of_any_rows(),
    };
    let buffers = (x.alloc_stages(stages), y.alloc_stages(stages));
    let copies = Producers::Copies { warps: copiers };
    let pipeline = Pipeline::new(buffers, copies, Consumers::warpgroups(groups));
    let exchange = ending.exchange::<T::Sum>(groups);
    let rank = cluster_rank();
    let steps = steps_along(k, depth::<T>());

    let multiply = |group: usize| {
        let first = group * INSTRUCTION_ROWS;
        let mut at = pipeline.start();
        let mut before = pipeline.nothing_held(&at);
        let mut acc = T::zeros([INSTRUCTION_ROWS, columns], columns);
        for step in range(rank, steps).step(ctas) {
            let stage = pipeline.consumer_wait(at);
            let (of_x, of_y) = stage.tiles;
            let of_x = x.by_rows(of_x).slice(0, first..first + INSTRUCTION_ROWS);
            acc = acc.mma(of_x, y.by_rows(of_y).transpose()).wait(1);
            let held = stage.hold();
            at = held.next();
            let done = std::mem::replace(&mut before, held);
            pipeline.consumer_release_when(step >= ctas, done);
        }
        ending.store(exchange, group, [row + first, column], acc.wait_all());
    };
    let copy = || {
        launch_wait();
        let mut at = pipeline.start();
        for step in range(rank, steps).step(ctas) {
            let stage = pipeline.producer_acquire(at);
            let (of_x, of_y) = stage.tiles;
            x.copy(step, of_x);
            y.copy(step, of_y);
            at = pipeline.commit(stage).advance();
        }
    };
    warp_specialize()
        .main(copy)
        .workers(0..groups, Warps(4), multiply)
        .run();
    if ctas > 1 {
        // Copies read this CTA's shared memory until they have arrived.
        cluster_barrier_relaxed();
    }
}
