//! The parameters of the kernels, and what a rank passes.

use tilekit::prelude::*;

use super::added::Added;
use super::mail::Mailbox;
use crate::handles::handles;

/// The parameters of `gather_product`.
pub(super) type GatherHandles<T> = handles! {
    a a_pieces b c: TensorMap<T>,
    added: Added<T>,
    gathered: Ptr<T>,
    gathered_of: PeerMap<T>,
    mail: Mailbox,
    m n k pause: Scalar<i32>,
};

/// The parameters of `product_scatter`.
pub(super) type ScatterHandles<T> = handles! {
    a b c: TensorMap<T>,
    added: Added<T>,
    staged: Ptr<T>,
    staged_of: PeerMap<T>,
    mail: Mailbox,
    m n k pause: Scalar<i32>,
};

/// The parameters of `product_one_shot`.
pub(super) type OneShotHandles<T> = handles! {
    b a: TensorMap<T>,
    out: Ptr<T>,
    stride: Scalar<i32>,
    added: Added<T>,
    packets: Ptr<u64>,
    packets_of: PeerMap<u64>,
    slot_packets: Scalar<i64>,
    launches: Ptr<u64>,
    limit: WaitLimit,
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
        let [m, n, k] = of.size.map(|extent| extent as i32);
        (
            $($matrix,)+
            ($source, $pitch, $bias),
            memory.elements.part(of.rank),
            memory.elements.peers(of.rank),
            (
                memory.flags.part(of.rank),
                memory.flags.peers(of.rank),
                memory.launches.part(of.rank),
                of.limit,
                of.rank as i32,
                of.ranks as i32,
            ),
            m,
            n,
            k,
            of.pause,
        )
    }};
}

pub(super) use arguments;
