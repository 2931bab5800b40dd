//! Values of 8 bits, transposed in shared memory: `wgmma` reads operands of 8 bits along K only, and K of P · V is the keys.
//!
//! The orders of columns and keys are free: the accumulator's columns are put back at the end, and those of P are keys in any order. They
//! are such that P stays in the registers of the threads that computed it, that each access takes whole words, and that no two lanes
//! meet in a bank.

use tilekit::prelude::*;

/// Keys whose order changes: two groups of eight columns of the accumulator of scores, of which each of four threads has two columns, are
/// sixteen columns of the operand P, of which each thread has four in a row.
const UNIT: usize = 16;

/// Bytes of a word, which is what a lane reads: so many columns of a key.
const WORD: usize = 4;

/// P, `[rows, keys]`, with its columns in the order of the operand.
#[device]
pub(super) fn order_of_operand(powers: Tensor<f32>, rows: usize, keys: usize) -> Tensor<f32> {
    let groups = powers.reshape([rows, keys / UNIT, 2, 4, 2]);
    groups.permute([0, 1, 3, 2, 4]).reshape([rows, keys])
}

/// The sums of P · V, `[rows, columns]`, with their columns in the order of V.
#[device]
pub(super) fn order_of_values(sums: Tensor<f32>, rows: usize, columns: usize) -> Tensor<f32> {
    let words = sums.reshape([rows, WORD, columns / WORD]);
    words.permute([0, 2, 1]).reshape([rows, columns])
}

/// Stores `from`, `[keys, columns]`, as `[columns, keys]` to `to`, by a partition of four warps. Column `4 i + j` becomes row `j columns / 4 + i`,
/// so that lanes with neighbouring words store to neighbouring rows; keys are in the order of [`order_of_operand`].
#[device]
pub(super) fn transpose<T: Element>(from: Smem<T>, to: Smem<T>) {
    let [keys, columns] = [0, 1].map(|dim| from.shape()[dim] as usize);
    // The columns and keys that a warp reads at a time, and how four warps divide them.
    let across = columns.min(32 * WORD);
    let units = 32 * WORD / across;
    let beside = columns / across;
    let at_once = 4 / beside * units * UNIT;
    let words = (0..5).map(|bit| {
        let word = WORD << bit;
        if word < across {
            [0, word]
        } else {
            [UNIT * word / across, 0]
        }
    });
    let warps = (0..2).map(|bit| {
        let warp = 1 << bit;
        if warp < beside {
            [0, across * warp]
        } else {
            [units * UNIT * warp / beside, 0]
        }
    });
    let layout = DistributedLinear::new(
        [[0, 1], [0, 2], [1, 0], [2, 0], [4, 0], [8, 0]],
        words.collect::<Vec<_>>(),
        warps.collect::<Vec<_>>(),
        [],
    );
    for first in (0..keys).step_by(at_once) {
        let part = from.slice(0, first..first + at_once).load(layout.clone());
        let part = part.reshape([at_once / UNIT, 2, 4, 2, columns / WORD, WORD]);
        let part = part.permute([5, 4, 0, 2, 1, 3]);
        to.slice(1, first..first + at_once)
            .store(part.reshape([columns, at_once]));
    }
}
