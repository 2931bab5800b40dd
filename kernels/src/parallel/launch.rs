//! The parameters of the kernels, and what a rank passes of the memory of all ranks.

use tilekit::prelude::*;
use tilekit::{Buffer, Peers};

use crate::handles::handles;

use super::memory::Parts;

/// The parameters of `gather_product`.
pub(super) type GatherHandles<T> = handles! {
    a a_pieces b c: TensorMap<T>,
    gathered: Ptr<T>,
    gathered_of: PeerMap<T>,
    flags: Ptr<i32>,
    flags_of: PeerMap<i32>,
    launches: Ptr<u64>,
    limit: Scalar<i64>,
    late: Ptr<i64>,
    rank ranks m n k pause: Scalar<i32>,
};

/// The parameters of `product_scatter`.
pub(super) type ScatterHandles<T> = handles! {
    a b c: TensorMap<T>,
    staged: Ptr<T>,
    staged_of: PeerMap<T>,
    flags: Ptr<i32>,
    flags_of: PeerMap<i32>,
    launches: Ptr<u64>,
    limit: Scalar<i64>,
    late: Ptr<i64>,
    rank ranks m n k pause: Scalar<i32>,
};

/// Memory of a rank, and that of all.
pub(crate) type Both<'a, T> = (&'a Buffer<T>, Peers<'a, T>);

/// What rank `rank` passes of the memory: elements, flags, the number of launches.
pub(crate) fn parts<T: DeviceElement>(
    memory: &Parts<T>,
    rank: usize,
) -> (Both<'_, T>, Both<'_, i32>, &Buffer<u64>) {
    let (elements, flags) = (&*memory.elements, &*memory.flags);
    (
        (elements.part(rank), elements.peers(rank)),
        (flags.part(rank), flags.peers(rank)),
        memory.launches.part(rank),
    )
}
