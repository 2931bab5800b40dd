//! Products with many tiles whose end would show: a persistent kernel in which each of two warpgroups has a tile of its own (pingpong). They take turns at the tensor cores, so that one multiplies all steps of its tile
//! while the other stores. Tiles may be exchanged, so that their columns, in steps of 8, are rows of C.

use tilekit::prelude::*;

use super::epilogue::{DataOf, Epilogue};
use super::factor::{Operand, ResultOf, depth};
use super::form::{Form, swizzle_of_results};
use super::persistent::{GROUPS, Persistent};
pub use super::persistent_tile::PersistentTile;

/// `D[M, N] = X[M, K] · Y[N, K]ᵀ`; in a turned tile `C` is the transpose of `D`: the product with X and Y exchanged. TMA loads read zeros outside of a tensor, and TMA stores drop what is written there. Both operands are along K.
#[kernel(warps = 4, cluster = form.tile.ctas(), min_ctas_per_sm = 1)]
pub fn alternating<T: Operand, O: ResultOf<T>, E: Epilogue<O>>(
    #[fixed] form: Form<PersistentTile, E>,
    #[block([form.tile.boxes()[0], depth::<T>()], Nvmma::B128)] x: TensorMap<T>,
    #[block([form.tile.boxes()[1], depth::<T>()], Nvmma::B128)] y: TensorMap<T>,
    #[block(form.tile.stored(), swizzle_of_results::<O>(form.tile.stored()[1]))] c: TensorMap<O>,
    m: i32,
    n: i32,
    k: i32,
    data: DataOf<O, E>,
) {
    launch_dependents();
    multiply_in_turns(Persistent::new(form, (x, y, c), [m, n, k], data));
}

/// The product, in tiles of one warpgroup each.
#[device]
pub(super) fn multiply_in_turns<T: Operand, O: ResultOf<T>, E: Epilogue<O>>(
    product: Persistent<T, O, E>,
) {
    let Persistent {
        pipeline,
        own,
        steps,
        ..
    } = product;
    let turns = NamedTurns::<GROUPS>::new(128);
    product.run(|group: usize| {
        product.wait_for_epilogue();
        turns.begin(group);
        let mut fill = steps * group;
        let mut turn = product.start();
        for number in own.of_group(group) {
            // Each program has a tile, and so warpgroup 0 its first turn.
            turns.wait(group);
            let (sums, held) = product.sums(product.rows(group), fill);
            if number + own.by < own.all {
                turns.pass(group);
            }
            let sums = sums.wait_all();
            pipeline.consumer_release_when(steps > 0, held);
            fill += steps * GROUPS;
            turn = product.finish(group, sums, number, turn);
        }
    });
}
