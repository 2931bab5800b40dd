//! Products of few rows of activations with packed weights, which memory bounds: the CTAs of a cluster share the steps along K of a tile, and so do warpgroups of a CTA, for decoding and multiplying
//! takes one longer than its bytes take to arrive.

use std::fmt;

use tilekit::prelude::*;

use super::consumer::Consumer;
use super::decode::{Scales, Unquantised};
use super::form::WeightForm;
use super::format::{STEP, STRIP, WeightGroup, WeightValues};
use super::stage::{Operands, Packed, Shape};
use crate::products::ending::Ending;
use crate::products::epilogue::{Data, Epilogue};
use crate::products::factor::{ResultOf, unit};
use crate::products::output_handles::NoOutputs;
use crate::products::warpgroup_sums::WarpgroupSums;

/// A tile of [`weight_only_few`]: `groups` strips of weights by `columns` rows of activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FewWeights {
    /// CTAs of a cluster.
    pub ctas: usize,
    /// Strips, each of so many consumer warpgroups as there are parts.
    pub groups: usize,
    /// Consumer warpgroups that take steps along K of a strip in turn.
    pub parts: usize,
    /// Rows of activations.
    pub columns: usize,
    /// Stages of the ring.
    pub stages: usize,
}

impl FewWeights {
    /// Weights along K that are decoded at a time, where so many share a load and scales. The products of 64 columns take so long that with smaller pieces a warpgroup decodes beside two of them: 0.91 to 0.98 of the
    /// time of int4 with zeros or without, and as long of e2m1.
    fn piece(&self) -> usize {
        if self.columns == 64 { 32 } else { 64 }
    }

    /// Products in flight while the next piece is decoded. Of 8 bits a piece has 32 along K with one too, and a second one only has its stage released later: up to 1.03 of the time.
    pub(super) fn in_flight(&self, values: WeightValues) -> u32 {
        if self.columns == 64 && values.bits() == 4 {
            2
        } else {
            1
        }
    }
}

impl fmt::Display for FewWeights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FewWeights {
            ctas,
            groups,
            parts,
            columns,
            stages,
        } = self;
        write!(f, "{ctas}x{groups}x{parts}x{columns}x{stages}")
    }
}

/// `Y[M, N] = X[M, K] · W[N, K]ᵀ`, W packed as the form says, a tile for each cluster.
#[kernel(warps = 4, cluster = form.tile.ctas, min_ctas_per_sm = 1)]
pub fn weight_only_few<
    T: Unquantised,
    O: ResultOf<T, Addend = O>,
    E: Epilogue<O, Outputs = NoOutputs>,
>(
    #[fixed] form: WeightForm<FewWeights, E>,
    #[align(16)] words: Ptr<u32>,
    #[align(16)] scales: Ptr<T>,
    #[block([form.tile.columns, STEP], Nvmma::B128)] x: TensorMap<T>,
    out: Ptr<O>,
    #[multiple_of(unit::<O>())] stride: i32,
    m: i32,
    n: i32,
    k: i32,
    data: Data<O>,
) {
    let FewWeights {
        ctas,
        groups,
        parts,
        columns,
        stages,
    } = form.tile;
    let format = form.format;
    launch_dependents();
    let shape = Shape {
        format,
        groups,
        depth: STEP,
        piece: format.width().min(form.tile.piece()),
    };
    let operands = Operands::alloc(x, shape, stages);
    let pipeline = Pipeline::new(operands, Producers::Tma, Consumers::warpgroups(groups));
    let ending = Ending {
        epilogue: form.epilogue,
        columns,
        ctas,
        turned: true,
        is_batched: false,
        out,
        stride,
        batch_stride: scalar(0),
        size: [n, m],
        batch: scalar(0),
        data,
    };
    let exchange = ending.exchange::<f32>(groups);
    let sums_of_parts = WarpgroupSums::<f32>::new(groups, parts, columns);
    let rank = cluster_rank();
    let steps = steps_along(k, STEP);
    let packed = Packed {
        words,
        scales,
        strips: cdiv(n, STRIP),
        steps,
    };
    let [first, column] = [cluster_id(0) * groups, program_id(1) * columns];

    let consumer = Consumer {
        tile: form.tile,
        shape,
        pipeline,
        steps: cdiv(steps - rank, ctas),
    };
    let multiply = |worker: usize| {
        let (group, part) = (worker / parts, worker % parts);
        let strip = minimum(first + group, packed.strips - 1);
        let of_rows = (format.group == WeightGroup::Row).then(|| {
            launch_wait();
            let begin = strip * (format.kinds() * STRIP);
            Scales::of_rows(scales, begin, format.values.has_zeros(), columns)
        });
        let sums = consumer.sums([group, part], of_rows);
        let row = (first + group) * STRIP;
        sums_of_parts.add(worker, sums, |sums| {
            ending.store(exchange, group, [row, column], sums);
        });
    };
    let load = || {
        launch_wait();
        let mut at = pipeline.start();
        for step in range(rank, steps).step(ctas) {
            let stage = pipeline.producer_acquire(at);
            let tiles = stage.tiles;
            tiles.load(packed, shape, [first, step], stage.full);
            x.load([column, step * STEP], tiles.x, stage.full);
            at = pipeline.commit(stage).advance();
        }
    };
    let parts = warp_specialize().main(|| multiply(0));
    let parts = parts.workers(1..groups * form.tile.parts, Warps(4), multiply);
    parts.worker(Warps(1), load).run();
    if ctas > 1 {
        // Copies read this CTA's shared memory until they have arrived.
        cluster_barrier_relaxed();
    }
}
