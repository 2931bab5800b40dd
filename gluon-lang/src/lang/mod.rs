//! What an author writes: handles and their operations, and the tracing that turns a Rust function into tile IR.
//!
//! A kernel is an ordinary Rust function under `#[kernel]`. It runs once, while it is *traced*: its variables hold
//! [handles](Tensor), and every operation on a handle appends one to the kernel (`trace`). Whatever is not a handle is
//! host code, and is gone when the trace ends.
//!
//! - **Element types are Rust types.** `Tensor<f16> + Tensor<f32>` does not compile. Shapes and layouts are values,
//!   checked while tracing; a mistake is a [diagnostic](diag) at the operator, and its result is poison, which
//!   says nothing more.
//! - **Scalars and host numbers broadcast.** An operation of a tensor with a [`Scalar`] or a host number applies it to each element. Host
//!   numbers must fit the element type. Dimensions of 1 repeat. An index of 32 bits on the right of one of 64 widens;
//!   there are no other implicit conversions.
//! - **Layouts never change implicitly.** Operands of different layouts are an error; `Auto` takes the layout of the other.

mod access;
mod accumulator;
mod atomic;
mod axes;
mod bulk;
mod cast;
mod checks;
mod cluster;
mod compare;
mod copies;
mod create;
mod dims;
mod dot;
mod element;
mod functions;
mod gather;
mod handle;
mod indexing;
mod inline_ptx;
mod kernel;
mod kernel_param;
mod layouts;
mod literal;
mod loop_values;
mod map;
mod marks;
mod math;
mod mbarrier;
mod microscaling;
mod mix;
mod named_barrier;
mod narrow;
mod operators;
mod param;
mod parts;
mod peer;
mod pointer;
mod precision;
pub mod prelude;
pub(crate) mod range;
mod reduce;
mod remote;
mod scan;
mod scatter;
mod shape;
mod shared;
mod sort;
mod sparse;
mod tensor_map;
mod tma;
mod trace;
mod warps;
mod written;

pub use access::{Access, Target, async_copy_commit, async_copy_wait};
pub use accumulator::{Accumulator, OperandA, WgmmaOperand};
pub use atomic::{Old, Seen};
pub use axes::{Axes, Axis};
pub use bulk::BulkCopy;
pub use cast::CastTo;
pub use checks::{Hinted, Printable, assume, device_assert, device_print};
pub use cluster::{
    RemoteSmem, cluster_arrive, cluster_arrive_relaxed, cluster_barrier, cluster_barrier_relaxed,
    cluster_id, cluster_rank, cluster_size, cluster_wait, cta_barrier, is_cooperative,
    launch_dependents, launch_wait, num_clusters,
};
pub use compare::{ComparedWithoutDevice, KernelEq, KernelOrd};
pub use create::{arange, full, full_like, num_programs, program_id, scalar, zeros, zeros_like};
pub use dims::IntoDims;
pub use dot::{FmaOperand, MmaOperand, dot_fma, mma_v2, mma_v2_tf32};
pub use element::{
    Bits, Element, Float, HostInt, HostNumber, HostValue, Index, Int, Numeric, WidensTo,
};
pub use functions::{
    ACCURACY, Accuracy, Dp4a, Wide, byte_perm, philox, rand, rand4x, randint, randint4x, randn,
    randn4x,
};
pub use handle::{PeerMap, PeerPtr, Pointers, Ptr, Scalar, Smem, Tensor, TensorMap};
pub use indexing::{PointerIndex, TensorIndex, TileIndex};
pub use inline_ptx::{
    PtxOperand, PtxOperands, PtxResults, PtxTile, inline_ptx, inline_ptx_packed,
    inline_ptx_packed_with_effects, inline_ptx_with_effects,
};
pub use kernel::{Fixed, KernelFn, fixed};
pub use kernel_param::{InAggregates, KernelParam, NextParam, Param, ParamHandle, ParamStruct};
pub use literal::WideLiteral;
pub use map::{Mapped, map_elementwise, map_elementwise_packed};
pub use marks::{MarkRange, mark, mark_range, mark_range_with, mark_with};
pub use math::{
    WithPrecision, cdiv, clamp, div_rn, fdiv, fma, maximum, maximum_nan, minimum, minimum_nan,
    select, umulhi, where_,
};
pub use mbarrier::{Arrival, Arrivals, Arrivers, Mbarrier, Mbarriers, Tried};
pub use microscaling::{ScaledOperand, mma_v2_scaled};
pub use mix::{Condition, Handle, Mix, Operand, ScalarOperand, WithScalar};
pub use named_barrier::NamedBarrier;
pub use narrow::{E2m1, E4m3, E4m3b15, E5m2, E8m0};
pub use operators::LeftLiteral;
pub use param::BlockLayout;
pub(crate) use param::set_block;
pub use parts::{Parts, Promises};
pub use pointer::Offset;
pub use precision::{mma_v2_bf16x3, mma_v2_tf32x3};
pub use range::{HostEnd, IntoLoop, NoEnd, Range, RangeEnds, Reversed, range};
pub use reduce::{Reducible, reduce};
pub use remote::RemoteCopy;
pub use scan::{scan, scan_reverse, scan_reverse_with_total, scan_with_total};
pub use scatter::Indexed;
pub use shape::{cat, interleave, join};
pub use sparse::sparse_metadata;
pub use tensor_map::{GlobalTensor, Strides};
pub use tma::{
    Coordinates, TmaCopy, TmaReduceOp, fence_async_global, fence_async_shared, tma_store_wait,
    tma_store_wait_read,
};
pub use trace::{
    AfterScalar, Again, Branch, Carrier, Carry, Decided, Ended, EndlessLoop, ExitTarget, Frame,
    FunctionScope, GenericArg, HostBranch, HostCarrier, HostLogic, HostLoop, HostState, HostWhile,
    Inside, KernelBranch, KernelEntry, KernelExit, KernelHead, KernelInstance, KernelLoop,
    KernelWhile, Logic, LogicSide, NoExit, ParamHead, Printed, Question, Raw, ScalarLogic,
    Signature, TensorLogic, Traced, Undecided, Walker, Watcher, WhileLoop,
};
pub(crate) use trace::{
    begin_kernel, const_arg, depth, enter, here, leaving, name_value, set_signature,
    static_assert_failed, static_print, type_arg,
};
pub use warps::{WarpSpecialize, Warps, num_warps, warp_specialize};
pub use written::{WRITTEN, Written, WrittenOp};
