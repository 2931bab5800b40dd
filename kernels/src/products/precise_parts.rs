//! Products of f32 by three products of tf32 whose tiles fill no whole wave: the steps along K of each tile are divided into parts, one of each program, which are added through memory as in
//! [`split_k`](super::split_k). Few rows are the columns of a tile, so that large weights go through registers and only the small parts of the few rows cost shared memory.

use tilekit::prelude::*;

use super::dense::rows_of_group;
use super::ending::Ending;
use super::epilogue::{DataOf, Epilogue};
use super::factor::{Operand, ResultOf, depth, unit};
use super::form::{Form, Source};
use super::precise::{PreciseTile, Rings};
use super::split_k::SplitTile;
use super::split_workspace::{Exchange, MOST_PARTS};

impl PreciseTile {
    /// The tile whose parts are exchanged.
    pub(super) const fn exchange(self) -> SplitTile {
        let tile = SplitTile::of([self.groups, self.columns, self.stages]);
        if self.turned { tile.exchanged() } else { tile }
    }
}

/// `D[M, N] = A[M, K] · B[N, K]ᵀ` in parts of `each` steps along K, of which each tile has `parts`, none empty, and the grid a program for each. Operands are f32, contiguous along K. `sums` and `counts` are
/// as [`SplitTile::workspace`] says; counts are 0 before the first launch. The programs of a tile wait for each other, so that there are no more than are resident at a time. Element `[i, j]` of the result is at
/// `out + i * stride + j`, or in a turned tile at `out + j * stride + i`: the product with A and B exchanged.
#[kernel(warps = 4, min_ctas_per_sm = 1)]
pub fn precise_parts<T: Operand, O: ResultOf<T>, E: Epilogue<O>>(
    #[fixed] form: Form<PreciseTile, E>,
    #[block([form.tile.shape()[0], depth::<T>()], Nvmma::B128)] a: TensorMap<T>,
    #[block([form.tile.columns, depth::<T>()], Nvmma::B128)] b: TensorMap<T>,
    out: Ptr<O>,
    #[multiple_of(unit::<O>())] stride: i32,
    m: i32,
    n: i32,
    k: i32,
    parts: i32,
    each: i32,
    data: DataOf<O, E>,
    sums: Ptr<T::Sum>,
    counts: Ptr<u32>,
) {
    launch_dependents();
    let tile = form.tile;
    let [rows, columns] = tile.shape();
    let a = Source::new(a, form.sides[0], rows);
    let b = Source::new(b, form.sides[1], columns);
    let rings = Rings::new(tile, a, b);
    let order = GroupedRows::new([m, n], tile.shape(), rows_of_group(tile.shape()));
    let (tiles, program) = (order.count(), program_id(0));
    let (part, number) = (program / tiles, program % tiles);
    let first = part * each;
    let steps = || range(first, minimum(first + each, steps_along(k, depth::<f32>())));
    let place = || {
        let [row, column] = order.place(number);
        [row * rows, column * columns]
    };
    let ending = Ending {
        epilogue: form.epilogue,
        columns,
        ctas: 1,
        turned: tile.turned,
        is_batched: false,
        out,
        stride,
        batch_stride: scalar(0),
        size: [m, n],
        batch: scalar(0),
        data,
    };
    let exchange = Exchange {
        tile: tile.exchange(),
        tiles,
        loaded: MOST_PARTS,
        parts,
        sums: sums.cast::<f32>(),
        counts,
    };

    let multiply = |group: usize| {
        // The launch before may still read the workspace.
        launch_wait();
        let (sums, _) = rings.sums(group, steps, rings.start());
        let [row, column] = place();
        exchange.add_up([number, part], group, sums, |[i, j], sums| {
            ending.store_rows([row + i, column + j], sums);
        });
    };
    let split = || {
        let _ = rings.split(steps, rings.start());
    };
    let load = || {
        launch_wait();
        let [row, column] = place();
        let [at, _] = rings.start();
        let _ = rings.load([scalar(0), row, column], steps, at);
    };
    let [of_consumers, of_splitters, of_others] = tile.registers();
    warp_specialize()
        .registers(of_consumers)
        .main(|| multiply(0))
        .workers(1..tile.groups, Warps(4).registers(of_consumers), multiply)
        .worker(Warps(4).registers(of_splitters), split)
        .worker(Warps(1).registers(of_others), load)
        .run();
}
