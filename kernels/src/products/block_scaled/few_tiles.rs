//! Products with few tiles and scales for blocks: the CTAs of a cluster share the steps along K of one tile, and add their parts (`products/ending.rs`).

use std::fmt;

use tilekit::prelude::*;

use super::factors::{BlockScales, Factors, Maps};
use super::mainloop::Mainloop;
use super::tile::{Overlap, ScaledTile, Shared};
use crate::products::ending::Ending;
use crate::products::epilogue::{Data, Plain};
use crate::products::factor::{BLOCK, INSTRUCTION_ROWS, Operand, ResultOf, unit};

/// A tile of [`block_scaled_few_tiles`]: `[groups * 64, columns]`, of `ctas` CTAs along K.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FewScaledTile {
    /// CTAs of a cluster.
    pub ctas: usize,
    /// Consumer warpgroups.
    pub groups: usize,
    /// Columns: a power of two up to 128, so that they share scales of B.
    pub columns: usize,
    /// Stages of the ring.
    pub stages: usize,
}

impl FewScaledTile {
    /// The tile of each CTA.
    pub fn scaled(self) -> ScaledTile {
        ScaledTile {
            groups: self.groups,
            rows: INSTRUCTION_ROWS,
            columns: self.columns,
            width: self.columns,
            stages: self.stages,
            overlap: Overlap::Ahead,
            shared: Shared::Nothing,
        }
    }

    /// Rows and columns.
    pub fn shape(self) -> [usize; 2] {
        self.scaled().shape()
    }
}

impl fmt::Display for FewScaledTile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FewScaledTile {
            ctas,
            groups,
            columns,
            stages,
        } = self;
        write!(f, "{ctas}x{groups}x{columns}x{stages}")
    }
}

/// The product of [`block_scaled`](super::dense::block_scaled), a tile for each cluster, whose CTAs share the steps along K. Rows of C begin every `pitch` elements.
#[kernel(warps = 4, cluster = tile.ctas, min_ctas_per_sm = 1)]
pub fn block_scaled_few_tiles<T: Operand<Sum = f32>, O: ResultOf<T, Addend = O>>(
    #[fixed] tile: FewScaledTile,
    #[block([tile.shape()[0], BLOCK], Nvmma::B128)] a: TensorMap<T>,
    #[block([tile.columns, BLOCK], Nvmma::B128)] b: TensorMap<T>,
    #[block([1, tile.shape()[0]], Nvmma::PLAIN)] a_scales: TensorMap<f32>,
    out: Ptr<O>,
    #[multiple_of(unit::<O>())] pitch: i32,
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
    let (of_cta, [rows, columns]) = (tile.scaled(), tile.shape());
    let factors = Factors::alloc([a, b], a_scales, None, of_cta);
    let all = steps_along(k, BLOCK);
    let mainloop = Mainloop::new(factors, all, of_cta).divided(tile.ctas);
    let nothing = (out, pitch, scalar(0_i64));
    let ending = Ending {
        epilogue: Plain,
        columns,
        ctas: tile.ctas,
        turned: false,
        is_batched: false,
        out,
        stride: pitch,
        batch_stride: scalar(0_i64),
        size: [m, n],
        batch: scalar(0),
        data: Data::of_sum(nothing, out),
    };
    let exchange = ending.exchange::<f32>(tile.groups);
    let blocks = BlockScales {
        at: b_scales,
        of_columns: b_scales_of_columns,
        of_steps: b_scales_of_steps,
        n,
    };
    let first = [cluster_id(0) * rows, program_id(1) * columns];

    let multiply = |group: usize| {
        // Scales of B may be of the launch before.
        launch_wait();
        let [row, column] = first;
        let at = mainloop.pipeline.start();
        let (sums, _) = mainloop.of_blocks(group, at, blocks, column);
        let row = row + group * INSTRUCTION_ROWS;
        ending.store(exchange, group, [row, column], sums[0]);
    };
    let load = || {
        launch_wait();
        let (mut at, maps) = (mainloop.pipeline.start(), Maps { a, b, a_scales });
        for number in range(0, mainloop.steps) {
            let stage = mainloop.pipeline.producer_acquire(at);
            let step = mainloop.step(number);
            maps.load(
                Shared::Nothing,
                (stage.tiles, stage.full),
                first,
                None,
                step,
            );
            at = mainloop.pipeline.commit(stage).advance();
        }
    };
    // The TMA loads come first in the code too: all warps wait for them, and the first instructions miss the instruction cache.
    warp_specialize()
        .main(load)
        .workers(0..tile.groups, Warps(4), multiply)
        .run();
    if tile.ctas > 1 {
        // Copies read this CTA's shared memory until they have arrived.
        cluster_barrier_relaxed();
    }
}
