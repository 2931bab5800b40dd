//! The parameters of the kernels, and what a rank passes.

use tilekit::prelude::*;

use crate::handles::handles;

/// The parameters of `gather_product`.
pub(super) type GatherHandles<T> = handles! {
    a a_pieces b c: TensorMap<T>,
    source: Ptr<T>,
    source_pitch: Scalar<i32>,
    bias: Ptr<T>,
    gathered: Ptr<T>,
    gathered_of: PeerMap<T>,
    flags: Ptr<i64>,
    flags_of: PeerMap<i64>,
    launches: Ptr<u64>,
    limit: Scalar<i64>,
    late: Ptr<i64>,
    rank ranks m n k pause: Scalar<i32>,
};

/// The parameters of `product_scatter`.
pub(super) type ScatterHandles<T> = handles! {
    a b c: TensorMap<T>,
    source: Ptr<T>,
    source_pitch: Scalar<i32>,
    bias: Ptr<T>,
    staged: Ptr<T>,
    staged_of: PeerMap<T>,
    flags: Ptr<i64>,
    flags_of: PeerMap<i64>,
    launches: Ptr<u64>,
    limit: Scalar<i64>,
    late: Ptr<i64>,
    rank ranks m n k pause: Scalar<i32>,
};

/// The parameters of `product_one_shot`.
pub(super) type OneShotHandles<T> = handles! {
    b a: TensorMap<T>,
    out: Ptr<T>,
    stride: Scalar<i32>,
    source: Ptr<T>,
    source_pitch: Scalar<i32>,
    bias: Ptr<T>,
    packets: Ptr<u64>,
    packets_of: PeerMap<u64>,
    slot_packets: Scalar<i64>,
    launches: Ptr<u64>,
    limit: Scalar<i64>,
    late: Ptr<i64>,
    rank m n k: Scalar<i32>,
};

/// What a rank passes of a launch beside matrices and memory.
pub(super) struct OfRank<W> {
    pub(super) rank: usize,
    pub(super) ranks: usize,
    /// Rows of a rank, N and K.
    pub(super) size: [usize; 3],
    /// Nanoseconds of a wait, and the word that says what it waited for.
    pub(super) limit: (i64, W),
    /// Nanoseconds of a rest.
    pub(super) pause: i32,
}

/// The arguments of `gather_product` and `product_scatter`: matrices, source with its pitch and bias, memory of all ranks, and [`OfRank`].
macro_rules! arguments {
    ([$($matrix:expr),+], ($source:expr, $pitch:expr, $bias:expr), $memory:expr, $of:expr) => {{
        let (memory, of) = ($memory, $of);
        let ([m, n, k], (limit, late)) = (of.size.map(|extent| extent as i32), of.limit);
        (
            $($matrix,)+
            $source,
            $pitch,
            $bias,
            memory.elements.part(of.rank),
            memory.elements.peers(of.rank),
            memory.flags.part(of.rank),
            memory.flags.peers(of.rank),
            memory.launches.part(of.rank),
            limit,
            late,
            of.rank as i32,
            of.ranks as i32,
            m,
            n,
            k,
            of.pause,
        )
    }};
}

pub(super) use arguments;
