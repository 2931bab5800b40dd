//! Products of many rows of activations with packed weights, which the tensor cores bound: persistent, as [`dense`](crate::products::dense) is, but that consumer warpgroups decode
//! weights in registers while what they decoded before is multiplied.

use std::fmt;

use tilekit::prelude::*;

use super::decode::{Scales, Unquantised};
use super::form::WeightForm;
use super::format::{STEP, STRIP, WeightGroup};
use super::stage::{Operands, Packed, Shape};
use crate::products::dense::rows_of_group;
use crate::products::epilogue::{Data, Epilogue};
use crate::products::factor::ResultOf;
use crate::products::finished::Finished;
use crate::products::form::swizzle_of;
use crate::products::output_handles::NoOutputs;
use crate::products::registers::registers_of;

/// Weights along K of a stage.
pub(super) const DEPTH: usize = 64;

/// A tile of [`weight_only_many`]: `groups` strips of weights, each of a consumer warpgroup, by `columns` rows of activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ManyWeights {
    /// Strips.
    pub groups: usize,
    /// Rows of activations.
    pub columns: usize,
    /// Stages of the ring, of 64 along K.
    pub stages: usize,
}

impl ManyWeights {
    /// Rows of weights, and of activations.
    pub(super) fn shape(self) -> [usize; 2] {
        [self.groups * STRIP, self.columns]
    }
}

impl fmt::Display for ManyWeights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}x{}", self.groups, self.columns, self.stages)
    }
}

/// `Y[M, N] = X[M, K] · W[N, K]ᵀ`, W packed as the form says.
#[kernel(warps = 4, min_ctas_per_sm = 1)]
pub fn weight_only_many<
    T: Unquantised,
    O: ResultOf<T, Addend = O>,
    E: Epilogue<O, Outputs = NoOutputs>,
>(
    #[fixed] form: WeightForm<ManyWeights, E>,
    #[align(16)] words: Ptr<u32>,
    #[align(16)] scales: Ptr<T>,
    #[block([form.tile.columns, DEPTH], Nvmma::B128)] x: TensorMap<T>,
    #[block([form.tile.columns, STRIP], swizzle_of::<O>(STRIP))] y: TensorMap<O>,
    m: i32,
    n: i32,
    k: i32,
    data: Data<O>,
) {
    let ManyWeights {
        groups,
        columns,
        stages,
    } = form.tile;
    let format = form.format;
    let shape = Shape {
        format,
        groups,
        depth: DEPTH,
        piece: format.width(),
    };
    let operands = Operands::alloc(x, shape, stages);
    let pipeline = Pipeline::new(operands, Producers::Tma, Consumers::warpgroups(groups));
    let turns = Turns::of_warpgroups(groups).with_buffers(1);
    let epilogue = EpilogueStore::alloc(y, turns);
    let tiles = GroupedRows::new([n, m], form.tile.shape(), rows_of_group(form.tile.shape()));
    let steps = steps_along(k, DEPTH);
    let packed = Packed {
        words,
        scales,
        strips: cdiv(n, STRIP),
        steps: cdiv(k, STEP),
    };

    let multiply = |group: usize| {
        let (mut at, mut turn) = (pipeline.start(), epilogue.start());
        for number in tiles.of_program() {
            let [row, column] = tiles.place(number);
            let strip = minimum(row * groups + group, packed.strips - 1);
            let of_rows = (format.group == WeightGroup::Row).then(|| {
                let begin = strip * (format.kinds() * STRIP);
                Scales::of_rows(scales, begin, format.values.has_zeros(), columns)
            });
            let mut before = pipeline.nothing_held(&at);
            let mut acc = T::zeros([STRIP, columns], columns);
            for step in range(0, steps) {
                let stage = pipeline.consumer_wait(at);
                let tiles = stage.tiles;
                for (along, weights) in tiles.decoded(shape, group, of_rows, columns) {
                    let x = tiles.x.slice(1, along..along + shape.piece);
                    // Registers of weights are decoded into again when what is multiplied from them has completed.
                    acc = acc.mma(weights, x.transpose()).wait(0);
                }
                let held = stage.hold();
                at = held.next();
                let done = std::mem::replace(&mut before, held);
                pipeline.consumer_release_when(step > 0, done);
            }
            let sums = acc.wait_all();
            pipeline.consumer_release(before);
            turn = epilogue.fill_by(group, turn, |buffer| {
                let finished = Finished {
                    first: [column * columns, (row * groups + group) * STRIP],
                    batch: scalar(0),
                    size: [m, n],
                    rows_apart: 1,
                    turned: true,
                    data,
                };
                finished.store(form.epilogue, sums, buffer);
            });
        }
    };
    let store = |group: usize| {
        let mut turn = epilogue.start();
        for number in tiles.of_program() {
            let [row, column] = tiles.place(number);
            let at = [column * columns, (row * groups + group) * STRIP];
            turn = epilogue.store(group, turn, y, at);
        }
    };
    let load = || {
        let mut at = pipeline.start();
        for number in tiles.of_program() {
            let [row, column] = tiles.place(number);
            for step in range(0, steps) {
                let stage = pipeline.producer_acquire(at);
                let tiles = stage.tiles;
                tiles.load(packed, shape, [row * groups, step], stage.full);
                x.load([column * columns, step * DEPTH], tiles.x, stage.full);
                at = pipeline.commit(stage).advance();
            }
        }
    };
    let [of_consumers, of_others] = registers_of(groups);
    warp_specialize()
        .registers(of_consumers)
        .main(|| multiply(0))
        .workers(1..groups, Warps(4).registers(of_consumers), multiply)
        .worker(Warps(1).registers(of_others), load)
        .workers(0..groups, Warps(1).registers(of_others), store)
        .run();
}
