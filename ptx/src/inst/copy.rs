//! Asynchronous copies: cp.async, bulk copies and TMA (PTX ISA 9.7.9.25 to 9.7.9.27).

use super::family::family;
use super::memory::AtomOp;
use crate::operand::{Addr, CachePolicy, CtaMask, Im2colOffsets, Operand, TensorAddr};
use crate::spelling::spelled;
use crate::types::{L2Prefetch, Type};

spelled! {
    /// Caches that a `cp.async` goes through: L1 and L2, or L2 only (16 bytes).
    CpAsyncCache { Ca = "ca", Cg = "cg" }

    /// Destination of a bulk copy into shared memory: some CTA of the cluster, or the own CTA (PTX 8.6).
    BulkSharedDst { Cluster = "shared::cluster", Cta = "shared::cta" }

    /// Dimensions of a tensor.
    TensorDim { D1 = "1d", D2 = "2d", D3 = "3d", D4 = "4d", D5 = "5d" }

    /// How coordinates address the tensor; absent means tiles.
    TensorMode { Tile = "tile", Im2col = "im2col", Im2colNoOffsets = "im2col_no_offs" }
}

impl TensorDim {
    /// Number of coordinates.
    pub const fn rank(self) -> usize {
        self as usize + 1
    }

    /// The modifier for this many dimensions, one to five.
    pub const fn of_rank(rank: usize) -> Option<Self> {
        match rank {
            1 => Some(Self::D1),
            2 => Some(Self::D2),
            3 => Some(Self::D3),
            4 => Some(Self::D4),
            5 => Some(Self::D5),
            _ => None,
        }
    }
}

family! {
    /// Copies as many bytes as [`async_bytes`](target::AccessLimits::async_bytes) allows from global to shared memory (PTX ISA 9.7.9.25.3). `src_bytes` may be fewer
    /// (the rest becomes zero), or a predicate that skips the source.
    CpAsync: ["cp.async" cache: CpAsyncCache, "shared" "global" policy ? CachePolicy, prefetch ? L2Prefetch]
        (in dst: Addr, in src: Addr, in bytes: Operand, in src_bytes ? Operand; in policy);

    /// Closes a group of `cp.async` (PTX ISA 9.7.9.25.3).
    CpAsyncCommitGroup: [; "cp.async.commit_group"] ();

    /// Waits until at most `pending` groups are open (PTX ISA 9.7.9.25.3).
    CpAsyncWaitGroup: [; "cp.async.wait_group"] (in pending: Operand);

    /// Waits for all `cp.async` of the thread (PTX ISA 9.7.9.25.3).
    CpAsyncWaitAll: [; "cp.async.wait_all"] ();

    /// Bulk copy from global to shared memory (PTX ISA 9.7.9.25.4).
    BulkLoad: ["cp.async.bulk" dst_space: BulkSharedDst, "global" "mbarrier::complete_tx::bytes"
               multicast ? CtaMask, policy ? CachePolicy]
        (in dst: Addr, in src: Addr, in bytes: Operand, in mbar: Addr; in multicast, in policy);

    /// Bulk copy from the own CTA's shared memory to that of another CTA (PTX ISA 9.7.9.25.4).
    BulkSharedToCluster: [; "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"]
        (in dst: Addr, in src: Addr, in bytes: Operand, in mbar: Addr);

    /// Bulk copy from shared to global memory (PTX ISA 9.7.9.25.4).
    BulkStore: ["cp.async.bulk.global.shared::cta.bulk_group" policy ? CachePolicy]
        (in dst: Addr, in src: Addr, in bytes: Operand; in policy);

    /// Prefetches a range of global memory into L2 (PTX ISA 9.7.9.25.4).
    BulkPrefetch: ["cp.async.bulk.prefetch.L2.global" policy ? CachePolicy]
        (in src: Addr, in bytes: Operand; in policy);

    /// Bulk reduction from shared into global memory (PTX ISA 9.7.9.25.4).
    BulkReduce: ["cp.reduce.async.bulk.global.shared::cta.bulk_group" policy ? CachePolicy, op: AtomOp, ty: Type]
        (in dst: Addr, in src: Addr, in bytes: Operand; in policy);

    /// Bulk reduction into the shared memory of a CTA of the cluster (PTX ISA 9.7.9.25.4).
    BulkReduceCluster: ["cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes" op: AtomOp,
                        ty: Type]
        (in dst: Addr, in src: Addr, in bytes: Operand, in mbar: Addr);

    /// TMA load of a box (PTX ISA 9.7.9.27).
    TensorLoad: ["cp.async.bulk.tensor" dim: TensorDim, dst_space: BulkSharedDst, "global" mode ? TensorMode,
                 "mbarrier::complete_tx::bytes" multicast ? CtaMask, policy ? CachePolicy]
        (in dst: Addr, in src: TensorAddr, in mbar: Addr, in offsets ? Im2colOffsets; in multicast, in policy);

    /// TMA store of a box (PTX ISA 9.7.9.27).
    TensorStore: ["cp.async.bulk.tensor" dim: TensorDim, "global.shared::cta" mode ? TensorMode, "bulk_group"
                  policy ? CachePolicy]
        (in dst: TensorAddr, in src: Addr; in policy);

    /// TMA reduction of a box into global memory (PTX ISA 9.7.9.27).
    TensorReduce: ["cp.reduce.async.bulk.tensor" dim: TensorDim, "global.shared::cta" op: AtomOp,
                   mode ? TensorMode, "bulk_group" policy ? CachePolicy]
        (in dst: TensorAddr, in src: Addr; in policy);

    /// Prefetches a box into L2 (PTX ISA 9.7.9.27).
    TensorPrefetch: ["cp.async.bulk.prefetch.tensor" dim: TensorDim, "L2.global" mode ? TensorMode,
                     policy ? CachePolicy]
        (in src: TensorAddr, in offsets ? Im2colOffsets; in policy);

    /// Closes a group of bulk stores (PTX ISA 9.7.9.25.4).
    BulkCommitGroup: [; "cp.async.bulk.commit_group"] ();

    /// Waits until at most `pending` groups are open; with `.read` only for their reads of shared memory
    /// (PTX ISA 9.7.9.25.4).
    BulkWaitGroup: ["cp.async.bulk.wait_group" read = "read"] (in pending: Operand);
}
