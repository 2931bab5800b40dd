//! Products with large tiles of any width: a persistent kernel in which two warpgroups of 64 or 128 rows each, or three of 64, multiply a tile together. Results leave at most 64 rows at a time, so that 256x152 has four stages beside them (`result_parts.rs`).
//! Tiles may be exchanged, so that their columns are rows of C. Columns are multiples of 8, or of 16 where two instructions stand beside each other (`registers.rs`) and of three warpgroups.

use tilekit::prelude::*;

use super::epilogue::{DataOf, Epilogue};
use super::factor::{Operand, ResultOf, depth};
use super::form::{Form, swizzle_of_results};
use super::persistent::Persistent;
use super::persistent_tile::PersistentTile;

/// `D[M, N] = X[M, K] · Y[N, K]ᵀ`; in a turned tile `C` is the transpose of `D`: the product with X and Y exchanged. TMA loads read zeros outside of a tensor, and TMA stores drop what is written there. Both operands are along K.
#[kernel(warps = 4, cluster = form.tile.ctas(), min_ctas_per_sm = 1)]
pub fn cooperative<T: Operand, O: ResultOf<T>, E: Epilogue<O>>(
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
    multiply_cooperatively(Persistent::new(form, (x, y, c), [m, n, k], data));
}

/// The product, in tiles of all warpgroups. While they store one, the next is loaded.
#[device]
pub(super) fn multiply_cooperatively<T: Operand, O: ResultOf<T>, E: Epilogue<O>>(
    product: Persistent<T, O, E>,
) {
    let Persistent {
        pipeline,
        own,
        steps,
        ..
    } = product;
    product.run(|group: usize| {
        product.wait_for_epilogue();
        let mut fill = scalar(0);
        let mut turn = product.start();
        for number in own.of_group(group) {
            let (sums, held) = product.sums(product.rows(group), fill);
            let sums = sums.wait_all();
            pipeline.consumer_release_when(steps > 0, held);
            fill += steps;
            turn = product.finish(group, sums, number, turn);
        }
    });
}
