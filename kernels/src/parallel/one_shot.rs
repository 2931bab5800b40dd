//! Product and all-reduce of few rows in one kernel: each rank has some of K, and gets all rows of the sum.
//!
//! For few rows a product reads its weights once and takes as long as that; what follows is latency. So each CTA multiplies one tile, sends what it has of it to every other rank as soon as its
//! steps along K are done, and adds what these have, among four ranks and more in two steps (`across.rs`). There is no second launch, no signal and no barrier of the grid: CTAs of one index on all ranks wait for each other alone.
//!
//! Rows of a tile are columns of C, so that a tile is 64 columns of C by 16 rows or a multiple of that; the CTAs of a cluster share its steps along K.

use std::fmt;

use tilekit::prelude::*;

use crate::products::ending::{Ending, adders};
use crate::products::epilogue::{Epilogue, Named};
use crate::products::factor::{INSTRUCTION_ROWS, Operand, ResultOf, depth, unit};
use crate::products::few_tiles::{FewTile, multiply_tile};
use crate::products::form::Form;
use crate::products::output_handles::NoOutputs;

use super::across::AcrossRanks;
use super::added::Added;

/// What [`product_one_shot`] is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OneShotForm<E> {
    /// Of one rank. Its tile is turned, of one warpgroup.
    pub product: Form<FewTile, E>,
    /// Ranks that take part, 1 to 16.
    pub ranks: usize,
}

impl<E: Named> fmt::Display for OneShotForm<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OneShotForm { product, ranks } = self;
        write!(f, "{product}+{ranks}_ranks")
    }
}

/// Parts of C that are summed by a CTA each: for each tile of C one, or for each CTA of its cluster that adds up columns.
pub(super) fn parts_of(tile: FewTile, [m, n]: [usize; 2]) -> usize {
    let tiles = n.div_ceil(INSTRUCTION_ROWS) * m.div_ceil(tile.columns);
    tiles * adders(tile.columns, tile.ctas)
}

/// Packets of such a part.
pub(super) fn packets_of_part(tile: FewTile) -> usize {
    INSTRUCTION_ROWS / 2 * (tile.columns / adders(tile.columns, tile.ctas))
}

/// `C[M, N] = Σ A[M, K] · B[N, K]ᵀ` over the ranks, of which `b` and `a` have this rank's. Element `[i, j]` of C is at `out + i * stride + j`, and of the source, which an epilogue may add, at
/// `source + i * source_pitch + j`.
///
/// The grid is a cluster for each tile, along N first. `packets` has room for two slots of packets (for each rank the packets of all tiles, padded),
/// `slot_packets` apart. `launches` is one number of this rank, for all kernels of this module. A wait for other ranks ends the kernel behind `limit` nanoseconds: `late`, a word
/// of the host, names the rank.
#[kernel(warps = 4, cluster = form.product.tile.ctas, min_ctas_per_sm = 1, cooperative)]
pub fn product_one_shot<
    T: Operand + ResultOf<T, Addend = T> + Float,
    E: Epilogue<T, Outputs = NoOutputs>,
>(
    #[fixed] form: OneShotForm<E>,
    #[block(form.product.sides[0].block::<T>(INSTRUCTION_ROWS), form.product.sides[0].swizzle::<T>(INSTRUCTION_ROWS))]
    b: TensorMap<T>,
    #[block(form.product.sides[1].block::<T>(form.product.tile.columns), form.product.sides[1].swizzle::<T>(form.product.tile.columns))]
    a: TensorMap<T>,
    out: Ptr<T>,
    #[multiple_of(unit::<T>())] stride: i32,
    added: Added<T>,
    packets: Ptr<u64>,
    packets_of: PeerMap<u64>,
    #[multiple_of(64)] slot_packets: i64,
    launches: Ptr<u64>,
    limit: WaitLimit,
    rank: i32,
    m: i32,
    n: i32,
    k: i32,
) {
    let tile = form.product.tile;
    let of_columns = cdiv(n, INSTRUCTION_ROWS);
    let number = cluster_id(0);
    let place = || {
        let row = number % of_columns * INSTRUCTION_ROWS;
        let place = [row, number / of_columns * tile.columns];
        (place, steps_along(k, depth::<T>()))
    };
    let adders = adders(tile.columns, tile.ctas);
    let tiles = of_columns * cdiv(m, tile.columns);
    let across = AcrossRanks {
        epilogue: form.product.epilogue,
        ranks: form.ranks,
        rank,
        packets,
        packets_of,
        slot_packets,
        part: [number * adders + cluster_rank(), tiles * adders],
        launches,
        launch: None,
        limit,
    };
    let ending = Ending {
        epilogue: across,
        columns: tile.columns,
        ctas: tile.ctas,
        turned: true,
        is_batched: false,
        out,
        stride,
        batch_stride: scalar(0),
        // Rows and columns of the turned result.
        size: [n, m],
        batch: scalar(0),
        data: added.data(scalar(0)),
    };
    multiply_tile((tile, form.product.sides), (b, a), place, ending);
}
