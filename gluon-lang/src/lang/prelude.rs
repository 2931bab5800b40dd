//! Everything that a kernel uses, to be imported at once.

pub use half::{bf16, f16};

pub use super::{
    Access, Accumulator, Arrival, Arrivals, Arrivers, Bits, E2m1, E4m3, E4m3b15, E5m2, E8m0,
    Element, Float, FmaOperand, Hinted, HostValue, Index, Int, KernelFn, Mbarrier, Mbarriers,
    MmaOperand, NamedBarrier, Numeric, OperandA, Param, PeerMap, PeerPtr, Pointers, Ptr, Range,
    Scalar, Smem, Tensor, TensorMap, TmaReduceOp, Tried, WarpSpecialize, Warps, WgmmaOperand,
    arange, assume, async_copy_commit, async_copy_wait, cdiv, clamp, cluster_arrive,
    cluster_arrive_relaxed, cluster_barrier, cluster_barrier_relaxed, cluster_id, cluster_rank,
    cluster_size, cluster_wait, cta_barrier, device_assert, device_print, div_rn, dot_fma, fdiv,
    fence_async_global, fence_async_shared, fixed, fma, full, full_like, inline_ptx,
    inline_ptx_with_effects, join, launch_dependents, launch_wait, mark, mark_range,
    mark_range_with, mark_with, maximum, maximum_nan, minimum, minimum_nan, mma_v2, mma_v2_tf32,
    num_clusters, num_programs, num_warps, program_id, range, reduce, scalar, select,
    tma_store_wait, tma_store_wait_read, umulhi, warp_specialize, where_, zeros, zeros_like,
};
pub use super::{ScaledOperand, mma_v2_bf16x3, mma_v2_scaled, mma_v2_tf32x3};
pub use super::{
    byte_perm, map_elementwise, map_elementwise_packed, philox, rand, rand4x, randint, randint4x,
    randn, randn4x,
};
pub use super::{cat, interleave, is_cooperative, sparse_metadata};
pub use super::{inline_ptx_packed, inline_ptx_packed_with_effects};
pub use super::{scan, scan_reverse, scan_reverse_with_total, scan_with_total};
pub use crate::{static_assert, static_print};
pub use gluon_lang_macros::{Aggregate, KernelParam, case, device, kernel};
pub use ir::ops::atomic::Scope;
pub use ir::ops::cast::Rounding;
pub use ir::ops::global::{CacheOp, Eviction, L2Policy, PrefetchInto};
pub use layout::{
    Auto, Blocked, Coalesced, Dims, DistributedLinear, DotOperand, Layout, Mma, Nvmma, Padded,
    SharedLayout, SharedLinear, Slice, Swizzled, Wgmma,
};
pub use std::f64::consts::{LN_2, LOG2_E, PI};
