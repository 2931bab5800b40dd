//! Products with few tiles: the CTAs of a cluster share the steps along K of one tile (split-K), and add their parts (`ending.rs`).

use std::fmt;

use tilekit::prelude::*;

use super::ending::{Ending, Finish};
use super::epilogue::{DataOf, Epilogue};
use super::factor::{INSTRUCTION_ROWS, Operand, ResultOf, unit};
use super::form::{Form, Side, Source, steps_of_tile};
use super::ring::{Ring, overlapped};
use super::settled::{are_settled, load_steps};

/// A tile of [`few_tiles`]: `[groups * 64, columns]`, of `ctas` CTAs along K.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FewTile {
    /// CTAs of a cluster.
    pub ctas: usize,
    /// Consumer warpgroups.
    pub groups: usize,
    /// Columns.
    pub columns: usize,
    /// Stages of the ring.
    pub stages: usize,
    /// A and B are exchanged: rows of the tile are columns of C.
    pub turned: bool,
}

impl FewTile {
    /// Of warpgroups, columns and stages, by one CTA.
    pub const fn of([groups, columns, stages]: [usize; 3]) -> Self {
        FewTile {
            ctas: 1,
            groups,
            columns,
            stages,
            turned: false,
        }
    }

    /// The same of A and B exchanged.
    #[must_use]
    pub const fn exchanged(self) -> Self {
        FewTile {
            turned: true,
            ..self
        }
    }

    /// The same by a cluster of `ctas`, with so many stages each.
    #[must_use]
    pub const fn by(self, ctas: usize, stages: usize) -> Self {
        FewTile {
            ctas,
            stages,
            ..self
        }
    }
}

impl fmt::Display for FewTile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FewTile {
            ctas,
            groups,
            columns,
            stages,
            turned,
        } = self;
        write!(f, "{ctas}x{groups}x{columns}x{stages}")?;
        if *turned {
            write!(f, "+turned")
        } else {
            Ok(())
        }
    }
}

/// `D[M, N] = X[M, K] · Y[N, K]ᵀ` of each product of a batch, a tile for each cluster, whose CTAs share the steps along K; without clusters rows of tiles of one product go on along z. Element
/// `[i, j]` of the result is at `out + i * stride + j`, or in a turned tile at `out + j * stride + i`: the product with X and Y exchanged.
#[kernel(warps = 4, cluster = form.tile.ctas, min_ctas_per_sm = 1)]
pub fn few_tiles<T: Operand, O: ResultOf<T>, E: Epilogue<O>>(
    #[fixed] form: Form<FewTile, E>,
    #[block(form.sides[0].block::<T>(form.tile.groups * INSTRUCTION_ROWS), form.sides[0].swizzle::<T>(form.tile.groups * INSTRUCTION_ROWS))]
    x: TensorMap<T>,
    #[block(form.sides[1].block::<T>(form.tile.columns), form.sides[1].swizzle::<T>(form.tile.columns))]
    y: TensorMap<T>,
    out: Ptr<O>,
    #[multiple_of(unit::<O>())] stride: i32,
    #[multiple_of(unit::<O>())] batch_stride: i64,
    m: i32,
    n: i32,
    k: i32,
    data: DataOf<O, E>,
) {
    let FewTile {
        ctas,
        groups,
        columns,
        turned,
        ..
    } = form.tile;
    let rows = groups * INSTRUCTION_ROWS;
    launch_dependents();
    let batch = form.batch();
    let ending = Ending {
        epilogue: form.epilogue,
        columns,
        ctas,
        turned,
        is_batched: form.is_batched,
        out,
        stride,
        batch_stride,
        size: [m, n],
        batch,
        data,
    };
    let place = || {
        let place = [form.row_of_cluster(ctas) * rows, program_id(1) * columns];
        (place, steps_of_tile::<T>(k, [place[0], m], ctas))
    };
    multiply_tile((form.tile, form.sides), (x, y), place, ending);
}

/// The tile of a cluster, which begins at the row and column that `place` gives, with its steps along K.
#[device]
pub(crate) fn multiply_tile<T: Operand, O: ResultOf<T>, E: Finish<O>>(
    (tile, sides): (FewTile, [Side; 2]),
    (x, y): (TensorMap<T>, TensorMap<T>),
    place: impl FnOnce() -> ([Scalar<i32>; 2], Scalar<i32>),
    ending: Ending<O, E>,
) {
    let FewTile {
        ctas,
        groups,
        columns,
        stages,
        ..
    } = tile;
    let x = Source::new(x, sides[0], groups * INSTRUCTION_ROWS);
    let y = Source::new(y, sides[1], columns);
    let ring = Ring::new(x, y, stages, groups);
    let pipeline = ring.pipeline;
    let exchange = ending.exchange::<T::Sum>(groups);
    let rank = cluster_rank();
    let ([row, column], steps) = place();

    let multiply = |group: usize| {
        let ending = ending.begun();
        let first = group * INSTRUCTION_ROWS;
        let at = pipeline.start();
        let acc = T::zeros([INSTRUCTION_ROWS, columns], columns);
        let rows = first..first + INSTRUCTION_ROWS;
        let multiply = |acc, tiles| ring.multiply(acc, tiles, rows.clone());
        let own = || range(rank, steps).step(ctas);
        let own = (own, |step: Scalar<i32>| step >= ctas);
        // Producers wait for no stage behind their last load: the last one is not released.
        let (acc, _, _) = overlapped(pipeline, at, own, (acc, multiply));
        if are_settled(sides) {
            // What it writes, launches in front may read or write.
            launch_wait();
        }
        ending.store(exchange, group, [row + first, column], acc.wait_all());
    };
    let load = || {
        let load_x = |step, stage: &Filling<(Smem<T>, Smem<T>)>| {
            x.load([ending.batch, row, step], stage.tiles.0, stage.full);
        };
        let load_y = |step, stage: &Filling<(Smem<T>, Smem<T>)>| {
            y.load([ending.batch, column, step], stage.tiles.1, stage.full);
        };
        let own = (rank, steps, ctas);
        let at = load_steps((pipeline, stages), sides, own, [&load_x, &load_y]);
        ring.end(at);
    };
    // The TMA loads come first in the code too: all warps wait for them, and the first instructions miss the instruction cache.
    warp_specialize()
        .main(load)
        .workers(0..groups, Warps(4), multiply)
        .run();
    if ctas > 1 {
        // Copies read this CTA's shared memory until they have arrived.
        cluster_barrier_relaxed();
    }
}
