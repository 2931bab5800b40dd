//! Product and all-reduce in one kernel: each rank has some of K, and gets all rows of the sum.
//!
//! It is the [product with a reduce-scatter](super::scatter), whose results each rank sends to the others as soon as a tile is done; these store what they got when their own tiles are.
//! So all ranks have the same bits.

use tilekit::prelude::*;

use crate::patience::Patience;
use crate::products::dense::ManyTile;
use crate::products::epilogue::Plain;
use crate::products::factor::{Operand, ResultOf};
use crate::products::form::{Form, block_of, swizzle_of};

use super::mail::Mail;
use super::scatter::add_over_ranks;

/// `C[ranks * M, N] = Σ A[ranks * M, K] · B[N, K]ᵀ` over the ranks, of which `a` has this rank's `[ranks, M, K]`, `b` its `[N, K]`, and `c` is `[ranks, M, N]` on each.
///
/// `staged` has `groups * rows` by `columns` elements for each tile of `[M, N]`, twice for each rank but one. `flags` has a number for each rank at most, and
/// behind them one for each warpgroup of each of these tiles. `launches` is one number of this rank. A wait for other ranks
/// ends the kernel behind `limit` nanoseconds and says in `late`, a word of the host, what it waited for.
#[kernel(warps = 4, min_ctas_per_sm = 1, cooperative)]
pub fn product_reduce<T: Operand + ResultOf<T>>(
    #[fixed] form: Form<ManyTile, Plain>,
    #[block(form.sides[0].block::<T>(form.tile.shape()[0]), form.sides[0].swizzle::<T>(form.tile.shape()[0]))]
    a: TensorMap<T>,
    #[block(form.sides[1].block::<T>(form.tile.columns), form.sides[1].swizzle::<T>(form.tile.columns))]
    b: TensorMap<T>,
    #[block(block_of([form.tile.rows, form.tile.columns], true), swizzle_of::<T>(form.tile.columns))]
    c: TensorMap<T>,
    staged: Ptr<T>,
    staged_of: PeerMap<T>,
    flags: Ptr<i32>,
    flags_of: PeerMap<i32>,
    launches: Ptr<u64>,
    limit: i64,
    late: Ptr<i64>,
    rank: i32,
    ranks: i32,
    m: i32,
    n: i32,
    k: i32,
    pause: i32,
) {
    let patience = Patience { limit, late };
    let mail = Mail::open(launches, (flags, flags_of), [rank, ranks], patience);
    add_over_ranks(
        form,
        (a, b, c),
        (staged, staged_of),
        (mail, pause),
        [m, n, k],
        true,
    );
}
