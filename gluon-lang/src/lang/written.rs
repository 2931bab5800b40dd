//! What an author writes for each op of the tile IR. The book's list of operations is made of it
//! (`snapshots/tests/lists`); an op without a row does not compile.

use ir::ops::{
    OpDef, arith, atomic, bulk, cast, cluster, control, cp_async, create, debug, dot, gather,
    global, inline_ptx, layout, map, mbarrier, part, pointer, poll, reduce, remote, rounded, scan,
    shape, shared, sort, sync, tensor_map, tma, vote, warps, wgmma,
};

/// How an op comes into a kernel.
#[diagnostic::on_unimplemented(
    message = "nothing says what an author writes for op `{Self}`",
    note = "add a row to `written!` in gluon-lang/src/lang/written.rs, then `UPDATE_LISTS=1 cargo test -p snapshots --test lists`"
)]
pub trait Written {
    /// In Markdown: the functions and methods, as `` `Type::name` `` or `` `name` ``, or where the op comes from.
    const AS: &'static str;
}

macro_rules! written {
    ($($op:path: $text:literal;)*) => {
        $(impl Written for $op {
            const AS: &'static str = $text;
        })*
    };
}

written! {
    create::Constant: "`scalar`, `Scalar::of`, `zeros`, `zeros_like`, `full`, and host numbers beside values of the kernel";
    create::Arange: "`arange`";
    create::Splat: "`full`, `full_like`, and scalars beside tensors";
    create::Undefined: "nothing: what a way that leaves early does not give";
    create::ProgramId: "`program_id`";
    create::NumPrograms: "`num_programs`";
    arith::Unary: "`-x`, `!x`, `abs`, `exp`, `exp2`, `log`, `log2`, `sin`, `cos`, `tan`, `tanh`, `erf`, `sqrt`, `rsqrt`, `floor`, `ceil`, `rint`, `trunc`";
    arith::Binary: "`+`, `-`, `*`, `/`, `%`, `&`, `|`, `^`, `<<`, `>>`, `minimum`, `maximum`, `minimum_nan`, `maximum_nan`, `mul_high`, `umulhi`, `fdiv`, `div_rn`, `copysign`";
    arith::Compare: "`==`, `!=`, `<`, `<=`, `>`, `>=`";
    arith::Select: "`select`, `where_`";
    arith::Fma: "`fma`";
    arith::Rescale: "`rescale`";
    rounded::Rounded: "`add_rn`, `sub_rz`, `mul_rd`, `div_ru`, `fma_rn`, `sqrt_rn`, `rcp_rn` and the like";
    cast::Cast: "`cast`, `cast_rounded`, `address`, `to_pointer`";
    cast::Bitcast: "`bitcast`";
    pointer::PtrAdd: "`Ptr::at`, `Pointers::at`";
    pointer::PeerPtr: "`PeerMap::of`";
    pointer::PeerTable: "`PeerMap::table`";
    inline_ptx::InlinePtx: "`inline_ptx`, `inline_ptx_packed`, and with effects `inline_ptx_with_effects`, `inline_ptx_packed_with_effects`";
    map::Map: "`map_elementwise`, `map_elementwise_packed`";
    shape::ExpandDims: "`expand_dims`";
    shape::Broadcast: "`broadcast_to`, and dimensions of 1 beside longer ones";
    shape::Reshape: "`reshape`, `ravel`";
    shape::Permute: "`permute`, `transpose`";
    shape::Split: "`split`";
    part::Part: "`slice`, `chunks`";
    part::Cat: "`cat`";
    shape::Join: "`join`";
    global::Load: "`Access::load`";
    global::Store: "`Access::store`";
    global::PrefetchLines: "`Access::prefetch`";
    reduce::Reduce: "`Tensor::reduce`, `Tensor::sum`, `Tensor::product`, `Tensor::max`, `Tensor::min`, `Tensor::reduce_or`, `Tensor::reduce_and`, `Tensor::xor_sum`, `Tensor::argmax`, `Tensor::argmin`";
    vote::AnyInWarp: "`Tensor::any_in_warp`";
    scan::Scan: "`Tensor::scan`, `Tensor::scan_with_total`, `Tensor::cumsum_with_total`, `scan_with_total`, `scan_reverse_with_total`, `Tensor::scan_reverse`, `Tensor::cumsum`, `Tensor::cumprod`, `Tensor::cummax`, `Tensor::cummin`, `Tensor::cumsum_reverse`, `Tensor::cumprod_reverse`";
    sort::Sort: "`Tensor::sort`, `Tensor::sort_descending`, `Tensor::top_k`";
    gather::Gather: "`Tensor::gather`";
    gather::Histogram: "`Tensor::histogram`, `Tensor::histogram_where`";
    atomic::AtomicRmw: "`Access::atomic_add`, `Access::atomic_min`, `Access::atomic_max`, `Access::atomic_and`, `Access::atomic_or`, `Access::atomic_xor`, `Access::atomic_xchg`";
    atomic::AtomicCas: "`Access::atomic_cas`";
    atomic::AtomicLoad: "`Access::atomic_load`";
    poll::AtomicPoll: "`Access::atomic_poll`";
    atomic::AtomicStore: "`Access::atomic_store`";
    shared::SmemAlloc: "`Smem::alloc`, `Smem::alloc_with`, `Mbarrier::alloc`, `Mbarriers::alloc`";
    shared::SmemLoad: "`Smem::load`";
    shared::SmemStore: "`Smem::store`";
    shared::SmemIndex: "`Smem::index`, `Mbarriers::index`";
    shared::SmemSlice: "`Smem::slice`";
    shared::SmemPermute: "`Smem::permute`, `Smem::transpose`";
    shared::SmemReshape: "`Smem::reshape`";
    shared::SmemReinterpret: "`Smem::reinterpret`";
    shared::SmemGather: "`Smem::gather`";
    shared::SmemScatter: "`Smem::scatter`";
    atomic::SmemAtomicScatter: "`Smem::at_indices`, then `Indexed::atomic_add`, `Indexed::atomic_min`, `Indexed::atomic_max`, `Indexed::atomic_and`, `Indexed::atomic_or`, `Indexed::atomic_xor`, `Indexed::atomic_xchg`";
    atomic::SmemAtomicFetch: "`Smem::at_indices`, then `Indexed::fetch_add`, `Indexed::fetch_min`, `Indexed::fetch_max`, `Indexed::fetch_and`, `Indexed::fetch_or`, `Indexed::fetch_xor`, `Indexed::fetch_xchg`";
    shared::SmemKeep: "`Smem::keep_alive`";
    cp_async::AsyncCopy: "`Access::copy_to`";
    cp_async::AsyncCommit: "`async_copy_commit`";
    cp_async::AsyncWait: "`async_copy_wait`";
    cp_async::AsyncArrive: "`Mbarrier::arrive_after_copies`, `Mbarrier::include_copies`";
    mbarrier::MbarrierInit: "`Mbarrier::alloc`, `Mbarriers::alloc`, `Mbarrier::init`";
    mbarrier::MbarrierInvalidate: "`Mbarrier::invalidate`";
    mbarrier::MbarrierExpect: "`Mbarrier::expect`, `Mbarrier::expect_when`";
    mbarrier::MbarrierArrive: "`Mbarrier::arrive`, `Arrival::arrive`";
    mbarrier::MbarrierWait: "`Mbarrier::wait`, `Mbarrier::wait_when`, `Tried::wait`";
    mbarrier::MbarrierTryWait: "`Mbarrier::try_wait`, `Mbarrier::try_wait_for`";
    tensor_map::MakeTensorMap: "`GlobalTensor::map`";
    tma::TmaLoad: "`TensorMap::load`, `TensorMap::load_im2col`";
    tma::TmaStore: "`TensorMap::store`, `TensorMap::reduce`, `TensorMap::store_add`";
    tma::TmaStoreWait: "`tma_store_wait`, `tma_store_wait_read`";
    tma::TmaPrefetch: "`TensorMap::prefetch`";
    tma::TensorMapPrefetch: "`TensorMap::prefetch_map`";
    bulk::BulkLoad: "`BulkCopy::load`";
    bulk::BulkStore: "`BulkCopy::store`, `BulkCopy::reduce`, `BulkCopy::store_add`";
    bulk::BulkPrefetch: "`BulkCopy::prefetch`";
    wgmma::AccumulatorBegin: "`Accumulator::zeros`, `Accumulator::from_tensor`";
    wgmma::WgmmaStart: "`Accumulator::mma`, `Accumulator::mma_if`, `Accumulator::mma_sparse`, `Accumulator::mma_sparse_if`";
    wgmma::WgmmaWait: "`Accumulator::wait`, `Accumulator::wait_all`, `Accumulator::wait_older_than`";
    wgmma::FenceAsyncGlobal: "`fence_async_global`";
    wgmma::FenceAsyncShared: "`fence_async_shared`";
    dot::MmaV2: "`mma_v2`, `mma_v2_tf32`";
    dot::DotFma: "`dot_fma`";
    cluster::ClusterBarrier: "`cluster_barrier`, `cluster_barrier_relaxed`";
    cluster::ClusterArrive: "`cluster_arrive`, `cluster_arrive_relaxed`";
    cluster::ClusterWait: "`cluster_wait`";
    cluster::ClusterRank: "`cluster_rank`";
    cluster::ClusterId: "`cluster_id`";
    cluster::NumClusters: "`num_clusters`";
    cluster::ExchangeInit: "nothing: planned for exchanges between the CTAs of a cluster";
    cluster::RemoteLoad: "`Smem::in_cta`, then `RemoteSmem::load`";
    cluster::RemoteStore: "`Smem::in_cta`, then `RemoteSmem::store`";
    remote::RemoteCopy: "`RemoteSmem::bulk`, then `RemoteCopy::store`, `RemoteCopy::reduce`";
    remote::RemoteStoreAsync: "`RemoteSmem::store_async`";
    cluster::LaunchWait: "`launch_wait`";
    cluster::LaunchDependents: "`launch_dependents`";
    warps::WarpSpecialize: "`warp_specialize`";
    layout::ConvertLayout: "`convert_layout`, `convert_layout_trivial`";
    layout::SetLayout: "`set_layout`, and `Auto` beside a named layout";
    debug::Hint: "`multiple_of`, `max_contiguous`, `max_constancy`";
    debug::Assume: "`assume`";
    debug::Assert: "`device_assert`";
    debug::Print: "`device_print`";
    debug::Mark: "`mark`, `mark_with`, `mark_range`, `mark_range_with`";
    sync::Barrier: "`cta_barrier`; planned where threads exchange data through shared memory";
    sync::NamedSync: "`NamedBarrier::sync`";
    sync::NamedArrive: "`NamedBarrier::arrive`";
    control::For: "`for i in range(low, high) { .. }`";
    control::While: "`while condition { .. }`";
    control::If: "`if condition { .. } else { .. }`, `&&`, `||`";
    control::Yield: "nothing: the end of a branch or of the body of a loop";
    control::Condition: "nothing: the test of a loop `while condition { .. }`, and the end of a loop that may stop";
    control::Return: "nothing: the end of the kernel";
}

/// An op of the registry, with what an author writes for it.
#[derive(Clone, Copy, Debug)]
pub struct WrittenOp {
    /// Its name in the text of the IR.
    pub mnemonic: &'static str,
    /// The lines of its documentation.
    pub doc: &'static [&'static str],
    /// See [`Written::AS`].
    pub written: &'static str,
}

macro_rules! every_op {
    ($($name:ident in $family:ident,)*) => {
        /// Every op of the registry, in its order.
        pub const WRITTEN: &[WrittenOp] = &[$(WrittenOp {
            mnemonic: <$family::$name as OpDef>::MNEMONIC,
            doc: <$family::$name as OpDef>::DOC,
            written: <$family::$name as Written>::AS,
        },)*];
    };
}

ir::for_each_op!(every_op);
