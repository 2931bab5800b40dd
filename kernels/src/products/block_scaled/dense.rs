//! One product with scales for blocks.

use tilekit::prelude::*;

use super::factors::{BlockScales, Factors, Maps};
use super::mainloop::Mainloop;
use super::order::ScaledTiles;
use super::tile::ScaledTile;
use crate::products::factor::{BLOCK, Operand, ResultOf};
use crate::products::form::swizzle_of_results;
use crate::products::registers::registers_of;

/// `C[M, N] = A[M, K] · B[N, K]ᵀ`, where the elements of A count times `a_scales[k / 128, m]` and those of B times the scale of their block of 128 by 128, at
/// `b_scales + n / 128 * b_scales_of_columns + k / 128 * b_scales_of_steps`.
#[kernel(warps = 4, cluster = tile.ctas(), min_ctas_per_sm = 1)]
pub fn block_scaled<T: Operand<Sum = f32>, O: ResultOf<T, Addend = O>>(
    #[fixed] tile: ScaledTile,
    #[block([tile.shares()[0], BLOCK], Nvmma::B128)] a: TensorMap<T>,
    #[block([tile.shares()[1], BLOCK], Nvmma::B128)] b: TensorMap<T>,
    #[block([1, tile.shape()[0]], Nvmma::PLAIN)] a_scales: TensorMap<f32>,
    #[block([tile.rows, tile.columns], swizzle_of_results::<O>(tile.columns))] c: TensorMap<O>,
    #[readonly]
    #[align(4)]
    b_scales: Ptr<f32>,
    b_scales_of_columns: i32,
    b_scales_of_steps: i32,
    m: i32,
    n: i32,
    k: i32,
) {
    launch_dependents();
    let factors = Factors::alloc([a, b], a_scales, None, tile);
    let mainloop = Mainloop::new(factors, steps_along(k, BLOCK), tile);
    let turns = Turns::of_warpgroups(tile.groups).with_buffers(tile.buffers(size_of::<O>()));
    let epilogue = EpilogueStore::alloc(c, turns);
    let tiles = ScaledTiles::new([m, n], tile);
    let blocks = BlockScales {
        at: b_scales,
        of_columns: b_scales_of_columns,
        of_steps: b_scales_of_steps,
        n,
    };

    let multiply = |group: usize| {
        // Scales of B may be of the launch before.
        launch_wait();
        let (mut at, mut turn) = (mainloop.pipeline.start(), epilogue.start());
        mainloop.begin(group);
        for number in tiles.of_program() {
            let [_, column] = tiles.first(number);
            let (sums, next) = mainloop.of_blocks(group, at, blocks, column);
            at = next;
            turn = epilogue.fill_by(group, turn, |buffer| mainloop.store(&sums, buffer));
        }
        mainloop.end(group);
    };
    let store = |group: usize| {
        let mut turn = epilogue.start();
        for number in tiles.of_program() {
            let [row, column] = tiles.first(number);
            turn = epilogue.store(group, turn, c, [row + group * tile.rows, column]);
        }
    };
    let load = || {
        launch_wait();
        let (mut at, maps) = (mainloop.pipeline.start(), Maps { a, b, a_scales });
        for number in tiles.of_program() {
            let first = tiles.first(number);
            for step in range(0, mainloop.steps) {
                let stage = mainloop.pipeline.producer_acquire(at);
                maps.load(tile.shared, (stage.tiles, stage.full), first, None, step);
                at = mainloop.pipeline.commit(stage).advance();
            }
        }
        mainloop.end_of_loads(at);
    };
    let [of_consumers, of_others] = registers_of(tile.groups);
    warp_specialize()
        .registers(of_consumers)
        .main(|| multiply(0))
        .workers(1..tile.groups, Warps(4).registers(of_consumers), multiply)
        .worker(Warps(1).registers(of_others), load)
        .workers(0..tile.groups, Warps(1).registers(of_others), store)
        .run();
}
