//! One product with scales for blocks.

use tilekit::prelude::*;

use super::factors::{BlockScales, Factors};
use super::mainloop::Mainloop;
use super::tile::{BLOCK, ScaledTile};
use crate::products::dense::rows_of_group;
use crate::products::factor::{Operand, ResultOf};
use crate::products::form::swizzle_of;

/// `C[M, N] = A[M, K] · B[N, K]ᵀ`, where the elements of A count times `a_scales[k / 128, m]` and those of B times the scale of their block of 128 by 128, at
/// `b_scales + n / 128 * b_scales_of_columns + k / 128 * b_scales_of_steps`.
#[kernel(warps = 4, min_ctas_per_sm = 1)]
pub fn block_scaled<T: Operand<Sum = f32>, O: ResultOf<T>>(
    #[fixed] tile: ScaledTile,
    #[block([tile.shape()[0], BLOCK], Nvmma::B128)] a: TensorMap<T>,
    #[block([tile.columns, BLOCK], Nvmma::B128)] b: TensorMap<T>,
    #[block([1, tile.shape()[0]], Nvmma::PLAIN)] a_scales: TensorMap<f32>,
    #[block([tile.rows, tile.columns], swizzle_of::<O>(tile.columns))] c: TensorMap<O>,
    #[readonly]
    #[align(4)]
    b_scales: Ptr<f32>,
    b_scales_of_columns: i32,
    b_scales_of_steps: i32,
    m: i32,
    n: i32,
    k: i32,
) {
    let [rows, columns] = tile.shape();
    let factors = Factors::alloc([a, b], a_scales, None, tile.stages);
    let mainloop = Mainloop::new(factors, steps_along(k, BLOCK), tile);
    let turns = Turns::of_warpgroups(tile.groups).with_buffers(tile.buffers(size_of::<O>()));
    let epilogue = EpilogueStore::alloc(c, turns);
    let tiles = GroupedRows::new([m, n], [rows, columns], rows_of_group([rows, columns]));
    let blocks = BlockScales {
        at: b_scales,
        of_columns: b_scales_of_columns,
        of_steps: b_scales_of_steps,
        n,
    };

    let multiply = |group: usize| {
        let (mut at, mut turn) = (mainloop.pipeline.start(), epilogue.start());
        mainloop.begin(group);
        for number in tiles.of_program() {
            let [_, column] = tiles.place(number);
            let (sums, next) = mainloop.of_blocks(group, at, blocks, column * columns);
            at = next;
            turn = epilogue.fill_by(group, turn, |buffer| mainloop.store(&sums, buffer));
        }
        mainloop.end(group);
    };
    let store = |group: usize| {
        let mut turn = epilogue.start();
        for number in tiles.of_program() {
            let [row, column] = tiles.place(number);
            let row = row * rows + group * tile.rows;
            turn = epilogue.store(group, turn, c, [row, column * columns]);
        }
    };
    let load = || {
        let mut at = mainloop.pipeline.start();
        for number in tiles.of_program() {
            let [row, column] = tiles.place(number);
            for step in range(0, mainloop.steps) {
                let stage = mainloop.pipeline.producer_acquire(at);
                let tiles = stage.tiles;
                a.load([row * rows, step * BLOCK], tiles.a, stage.full);
                b.load([column * columns, step * BLOCK], tiles.b, stage.full);
                a_scales.load([step, row * rows], tiles.a_scales, stage.full);
                at = mainloop.pipeline.commit(stage).advance();
            }
        }
    };
    let [of_consumers, of_others] = tile.registers();
    warp_specialize()
        .registers(of_consumers)
        .main(|| multiply(0))
        .workers(1..tile.groups, Warps(4).registers(of_consumers), multiply)
        .worker(Warps(1).registers(of_others), load)
        .workers(0..tile.groups, Warps(1).registers(of_others), store)
        .run();
}
