//! Sparse products with few columns, which memory bounds: the CTAs of a cluster share the steps along K of a tile (split-K), and add their parts (`ending.rs`).

use std::fmt;

use tilekit::prelude::*;

use super::SparseOperand;
use super::form::SparseForm;
use super::layout::STRIP;
use super::stage::Operands;
use crate::products::ending::Ending;
use crate::products::epilogue::{Data, Epilogue};
use crate::products::factor::{ResultOf, depth, unit};
use crate::products::form::Source;
use crate::products::output_handles::NoOutputs;
use crate::products::warpgroup_sums::WarpgroupSums;

/// A tile of [`sparse_few`]: `groups` strips of 64 rows of A by `columns` of B.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FewSparse {
    /// CTAs of a cluster.
    pub ctas: usize,
    /// Strips of 64 rows, each of so many consumer warpgroups as there are parts.
    pub groups: usize,
    /// Consumer warpgroups that take steps along K of a strip in turn.
    pub parts: usize,
    /// Columns of B.
    pub columns: usize,
    /// Stages of the ring, of 256 bytes of B along K.
    pub stages: usize,
}

/// How many times 128 bytes of B along K a stage has: rows of kept elements are whole lines.
pub(super) const DEPTHS: usize = 2;

impl fmt::Display for FewSparse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FewSparse {
            ctas,
            groups,
            parts,
            columns,
            stages,
        } = self;
        write!(f, "{ctas}x{groups}x{parts}x{columns}x{stages}")
    }
}

/// `C[M, N] = A[M, K] · B[N, K]ᵀ`, A compressed as [`layout`](super::layout) says, a tile for each cluster. Element `[i, j]` of C is at `out + i * stride + j`, where the form says that it is turned at
/// `out + j * stride + i`; then the source, bias and scales are those of what is stored.
#[kernel(warps = 4, cluster = form.tile.ctas, min_ctas_per_sm = 1)]
pub fn sparse_few<
    T: SparseOperand,
    O: ResultOf<T, Addend = O>,
    E: Epilogue<O, Outputs = NoOutputs>,
>(
    #[fixed] form: SparseForm<FewSparse, E>,
    #[block([form.tile.groups * STRIP, DEPTHS * depth::<T>() / 2], Nvmma::B128)] kept: TensorMap<T>,
    #[align(16)] places: Ptr<u16>,
    #[block(form.b.block::<T>(form.tile.columns), form.b.swizzle::<T>(form.tile.columns))]
    b: TensorMap<T>,
    out: Ptr<O>,
    #[multiple_of(unit::<O>())] stride: i32,
    m: i32,
    n: i32,
    k: i32,
    data: Data<O>,
) {
    let FewSparse {
        ctas,
        groups,
        parts,
        columns,
        stages,
    } = form.tile;
    launch_dependents();
    let steps = steps_along(k, depth::<T>());
    let operands = Operands {
        kept,
        places,
        b: Source::new(b, form.b, columns),
        groups,
        columns,
        depths: DEPTHS,
        strips: cdiv(m, STRIP),
        steps,
    };
    let pipeline = Pipeline::new(
        operands.alloc(stages),
        Producers::Tma,
        Consumers::warpgroups(groups),
    );
    let ending = Ending {
        epilogue: form.epilogue,
        columns,
        ctas,
        turned: form.turned,
        is_batched: false,
        out,
        stride,
        batch_stride: scalar(0),
        size: [m, n],
        batch: scalar(0),
        data,
    };
    let exchange = ending.exchange::<T::Sum>(groups);
    let sums_of_parts = WarpgroupSums::<T::Sum>::new(groups, parts, columns);
    let rank = cluster_rank();
    let stages_along = cdiv(steps, DEPTHS);
    let [strip, column] = [cluster_id(0) * groups, program_id(1) * columns];

    let multiply = |worker: usize| {
        let (group, part) = (worker / parts, worker % parts);
        let ending = ending.begun();
        let mut acc = T::zeros([STRIP, columns], columns);
        for fill in range(part, cdiv(stages_along - rank, ctas)).step(parts) {
            let stage = pipeline.consumer_wait(pipeline.of_fill(fill));
            // The registers of metadata are loaded anew when the product has completed: so long it reads them. Another warpgroup multiplies meanwhile.
            acc = operands.multiply(acc, stage.tiles, group).wait(0);
            pipeline.consumer_release(stage);
        }
        let place = [(strip + group) * STRIP, column];
        sums_of_parts.add(worker, acc.wait_all(), |sums| {
            ending.store(exchange, group, place, sums);
        });
    };
    let load = || {
        // What a launch in front writes.
        launch_wait();
        let mut at = pipeline.start();
        for step in range(rank, stages_along).step(ctas) {
            let stage = pipeline.producer_acquire(at);
            operands.load([strip, column, step], &stage);
            at = pipeline.commit(stage).advance();
        }
    };
    warp_specialize()
        .main(load)
        .workers(0..groups * parts, Warps(4), multiply)
        .run();
    if ctas > 1 {
        // Copies read this CTA's shared memory until they have arrived.
        cluster_barrier_relaxed();
    }
}
