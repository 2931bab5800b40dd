//! TMA (PTX ISA, `cp.async.bulk.tensor`): blocks between a tensor in global memory, described by a tensor map,
//! and shared memory.
//!
//! One thread issues, TMA moves, and completion is signalled elsewhere: a load completes bytes on a barrier, a store
//! belongs to a group that the asking thread waits for. Elements outside the tensor are not moved: loads fill them, stores
//! drop them, and both count them.
//!
//! Where the CTAs of a cluster split the blocks of a map, coordinates are those of the whole block, and each CTA moves its
//! part. Of CTAs with the same part all load it, or one for all of them, and one stores it.

use cranelift_entity::packed_option::PackedOption;
use smallvec::smallvec;

use super::cluster::check_cluster;
use super::cp_async::check_pending;
use super::define::{answers, attr_enum, define_op};
use super::global::L2Policy;
use super::mbarrier::{check_predicate, one_barrier};
use super::shared::descriptor;
use super::{OpRules, SharedAccess, SharedAccesses, Types, Values};
use crate::OpError;
use crate::elem::{DType, Elem};
use crate::entity::Value;
use crate::{Effects, Func, Spaces, TensorMapMode, TensorMapType, Type};
use diag::Code;
use layout::{Dims, SharedLayout};

attr_enum! {
    /// How a store combines with what is there (PTX ISA, `cp.reduce.async.bulk.tensor`).
    pub enum TmaReduceOp {
        /// Replaces it.
        Store = "store",
        /// Adds.
        Add = "add",
        /// The smaller stays.
        Min = "min",
        /// The larger stays.
        Max = "max",
        /// Bitwise and.
        And = "and",
        /// Bitwise or.
        Or = "or",
        /// Bitwise exclusive or.
        Xor = "xor",
    }
    unsaid Store
}

impl TmaReduceOp {
    /// Does TMA have it for elements of this type?
    pub fn accepts(self, dtype: DType) -> bool {
        let is_word = matches!(dtype, DType::I32 | DType::U32 | DType::I64 | DType::U64);
        let is_half = matches!(dtype, DType::F16 | DType::Bf16);
        match self {
            TmaReduceOp::Store => true,
            TmaReduceOp::Add => {
                is_half || matches!(dtype, DType::I32 | DType::U32 | DType::U64 | DType::F32)
            }
            TmaReduceOp::Min | TmaReduceOp::Max => is_word || is_half,
            TmaReduceOp::And | TmaReduceOp::Or | TmaReduceOp::Xor => is_word,
        }
    }

    /// Does TMA have it for linear copies of elements of this type (PTX ISA, `cp.reduce.async.bulk`)?
    pub fn accepts_linear(self, dtype: DType) -> bool {
        self.accepts(dtype) || self == TmaReduceOp::Add && dtype == DType::F64
    }
}

/// What every copy through a map has in common.
fn check_copy(
    func: &Func,
    op: &str,
    map: Value,
    coordinates: &[Value],
) -> Result<TensorMapType, OpError> {
    let ty = func.ty(map);
    let Some(m) = ty.as_tensor_map() else {
        return Err(OpError::new(
            Code::ElementMismatch,
            format!("`{op}` wants a tensor map, this is {ty}"),
        )
        .typed(map, ty));
    };
    if m.block.is_empty() {
        return Err(OpError::new(
            Code::BadDescriptor,
            "a kernel's tensor map states the block of one copy, and this one has none",
        )
        .origin(map, "this parameter")
        .help("write `#[block([64, 64], Nvmma::B128)]` before the parameter"));
    }
    let wanted = m.coordinates();
    if coordinates.len() != wanted {
        return Err(OpError::new(
            Code::RankMismatch,
            format!(
                "`{op}` through {ty} wants {wanted} coordinates, these are {}",
                coordinates.len()
            ),
        )
        .help("write one coordinate for each dimension of the tensor, the slowest first"));
    }
    for &c in coordinates {
        if *func.ty(c) != Type::Scalar(Elem::I32) {
            return Err(OpError::new(
                Code::ElementMismatch,
                format!("a coordinate is a scalar i32, not {}", func.ty(c)),
            )
            .typed(c, func.ty(c)));
        }
    }
    check_innermost(func, op, m, coordinates)?;
    Ok(m.clone())
}

/// The TMA unit reads and writes global memory from multiples of [`unit_bytes`](target::TensorMapLimits::unit_bytes) on. What is
/// known while tracing is checked here, the rest where the kernel runs.
fn check_innermost(
    func: &Func,
    op: &str,
    m: &TensorMapType,
    coordinates: &[Value],
) -> Result<(), OpError> {
    let Some(&innermost) = coordinates.last() else {
        return Ok(());
    };
    let unit = func.target.tensor_map.unit_bytes;
    let elements = unit / m.elem.bytes();
    match func.constant_int(innermost) {
        Some(at) if !is_whole_units(func, at, m.elem.bytes()) => Err(OpError::new(
            Code::AccessWidth,
            format!(
                "`{op}` begins at element {at} of the innermost dimension; the TMA unit begins at multiples of {unit} bytes, {elements} elements of {}",
                m.elem
            ),
        )
        .origin(innermost, "this coordinate")
        .help("move a wider block that begins at such a multiple, and use a part of it")),
        _ => Ok(()),
    }
}

/// A store that begins in front of its tensor is an illegal instruction. What is known while tracing is checked here, unless a condition may leave the store out, the rest where the kernel runs.
fn check_begin(
    func: &Func,
    coordinates: &[Value],
    predicate: PackedOption<Value>,
) -> Result<(), OpError> {
    let negative = |at: &Value| func.constant_int(*at).filter(|at| *at < 0);
    let Some((dim, at)) = coordinates
        .iter()
        .enumerate()
        .find_map(|(dim, at)| Some((dim, negative(at)?)))
        .filter(|_| predicate.is_none())
    else {
        return Ok(());
    };
    Err(OpError::new(
        Code::AccessWidth,
        format!("`tma_store` begins at coordinate {at} of dimension {dim}, in front of the tensor; the hardware loads from there, and cannot store to there"),
    )
    .origin(coordinates[dim], "this coordinate")
    .help("begin at 0 at least: let the first block be a narrower one, or store its part by threads"))
}

/// Are so many elements a multiple of what the TMA unit counts in?
pub(super) fn is_whole_units(func: &Func, elements: i128, elem_bytes: u32) -> bool {
    let unit = i128::from(func.target.tensor_map.unit_bytes);
    elements * i128::from(elem_bytes) % unit == 0
}

pub(super) fn check_multicast(func: &Func, mask: PackedOption<Value>) -> Result<(), OpError> {
    let Some(mask) = mask.expand() else {
        return Ok(());
    };
    if *func.ty(mask) != Type::Scalar(Elem::I32) {
        return Err(OpError::new(
            Code::ElementMismatch,
            format!("the mask of a multicast is an i32, not {}", func.ty(mask)),
        ));
    }
    check_cluster(func, "multicast")?;
    let ctas = func.cluster_ctas();
    match func.constant_int(mask) {
        Some(bits) if bits <= 0 || bits >> ctas != 0 => Err(OpError::new(
            Code::ConstantRange,
            format!("a multicast with the mask {bits:#b} in a cluster of {ctas} CTAs"),
        )
        .origin(mask, "this mask")
        .help(format!(
            "bit i selects the CTA of rank i; {:#b} selects all {ctas}",
            (1_u64 << ctas) - 1
        ))),
        _ => Ok(()),
    }
}

/// One CTA can load for several where these have the same part.
pub(super) fn check_copies(
    func: &Func,
    op: &str,
    origins: &[Dims],
    view: Value,
    (to_copies, multicast): (bool, PackedOption<Value>),
) -> Result<(), OpError> {
    if !to_copies {
        return Ok(());
    }
    check_cluster(func, op)?;
    if multicast.is_some() {
        let message =
            format!("`{op}` gets its multicast destinations both from a mask and from its layout");
        return Err(OpError::new(Code::InvalidLayout, message)
            .help("remove `multicast(mask)` or `multicast_copies()`"));
    }
    if origins
        .iter()
        .any(|origin| origin.iter().all(|&at| at == 0))
    {
        return Ok(());
    }
    let ty = func.ty(view);
    let message = format!(
        "`{op}` multicasts to the CTAs that have the same part, and in {ty} each CTA has another part"
    );
    Err(OpError::new(Code::InvalidLayout, message)
        .typed(view, ty)
        .help("replicate the block by a zero CTA basis, `with_ctas([[0, 0]])`, or remove `multicast_copies()`"))
}

/// The view must be what the map moves: same elements, same block, same layout.
fn check_view(
    func: &Func,
    op: &str,
    m: &TensorMapType,
    map: Value,
    view: Value,
) -> Result<(), OpError> {
    let s = descriptor(func, op, view)?;
    let differ = |code, what: &str| {
        OpError::new(
            code,
            format!("the map and the shared memory of `{op}` differ in {what}: {m} and {s}"),
        )
        .typed(map, m)
        .typed(view, s)
    };
    if s.elem != m.elem {
        return Err(differ(Code::ElementMismatch, "element type"));
    }
    if s.shape != m.block {
        return Err(differ(Code::ShapeMismatch, "block"));
    }
    if m.messages_in(func.target, s).is_ok() {
        return Ok(());
    }
    let is_part = s.alloc_shape != s.shape;
    if is_part && (s.layout == m.layout || matches!(s.layout, SharedLayout::Linear(_))) {
        return Err(
            differ(Code::LayoutMismatch, "the placement of their elements")
                .note("the view is a part of an allocation, and not contiguous as a TMA box is")
                .help("use whole rows, at least 8 of them, no narrower than the swizzle"),
        );
    }
    Err(differ(Code::LayoutMismatch, "layout")
        .help("give the buffer the layout of the map: `map.layout()`"))
}

/// The reductions that there are (PTX ISA, `cp.reduce.async.bulk.tensor`).
pub(super) const REDUCTIONS: &str = "it adds 32-bit integers, u64, f16, bf16 and f32; takes the smaller or larger of 32- and 64-bit integers, f16 and bf16; and combines the bits of 32- and 64-bit integers";

define_op! {
    /// A block from global into shared memory; its bytes complete on `barrier`, which must expect them.
    pub struct TmaLoad = "tma_load" {
        /// How long it should stay in L2.
        policy: L2Policy,
        /// The map.
        map: Value,
        /// Where the block begins, in elements, the slowest dimension first; scalars i32.
        coordinates: Values,
        /// For im2col, the offsets of the filter tap; scalars i32, none otherwise.
        offsets: Values,
        /// Where to.
        view: Value,
        /// What completes.
        barrier: Value,
        /// Whether at all; a scalar boolean.
        predicate: PackedOption<Value>,
        /// The CTAs of the cluster that get the block, each at this view's place in its own shared memory, and whose
        /// barriers in that place complete: one bit for each rank, an i32. Without it only the CTA that asks.
        multicast: PackedOption<Value>,
        /// Whether one CTA loads for all that have the same part of the block; without it each loads its own.
        to_copies: bool,
    }
}

impl OpRules for TmaLoad {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        self.policy.check()?;
        let m = check_copy(func, "tma_load", self.map, &self.coordinates)?;
        check_view(func, "tma_load", &m, self.map, self.view)?;
        one_barrier(func, "tma_load", self.barrier)?;
        check_predicate(func, "tma_load", self.predicate)?;
        check_multicast(func, self.multicast)?;
        let copies = (self.to_copies, self.multicast);
        check_copies(func, "tma_load", &m.part_origins(), self.map, copies)?;
        let wanted = match m.mode {
            TensorMapMode::Tiled => 0,
            TensorMapMode::Im2col { rank } => rank as usize - 2,
        };
        if self.offsets.len() != wanted {
            return Err(OpError::new(
                Code::RankMismatch,
                format!(
                    "a load through {m} wants {wanted} offsets, these are {}",
                    self.offsets.len()
                ),
            )
            .help(if wanted == 0 {
                "remove them: offsets apply to im2col maps; write `map.load(at, tile, barrier)`"
            } else {
                "give the tap of the filter, one offset for each spatial dimension: `map.load_im2col(at, offsets, tile, barrier)`"
            }));
        }
        Ok(smallvec![])
    }
    fn shared_accesses(&self) -> SharedAccesses {
        smallvec![
            (self.view, SharedAccess::AsyncWrite),
            (self.barrier, SharedAccess::AsyncAtomic)
        ]
    }
    fn accesses_other_ctas(&self) -> bool {
        self.multicast.is_some() || self.to_copies
    }
    fn shared_by_ctas(&self, func: &Func) -> Values {
        of_all_ctas(func, self.map, &self.coordinates)
    }
    answers!(effects(LOADS), one_thread, free_layouts);
}

define_op! {
    /// A block from shared into global memory, stored or combined with what is there. It belongs to a group of its own,
    /// committed at once; `tma_store_wait` waits for it.
    pub struct TmaStore = "tma_store" {
        /// How it combines.
        op: TmaReduceOp,
        /// How long it should stay in L2.
        policy: L2Policy,
        /// The map.
        map: Value,
        /// Where the block begins, in elements, the slowest dimension first; scalars i32.
        coordinates: Values,
        /// Where from.
        view: Value,
        /// Whether at all; a scalar boolean. The group is committed all the same.
        predicate: PackedOption<Value>,
    }
}

impl OpRules for TmaStore {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        self.policy.check()?;
        let m = check_copy(func, "tma_store", self.map, &self.coordinates)?;
        check_begin(func, &self.coordinates, self.predicate)?;
        check_view(func, "tma_store", &m, self.map, self.view)?;
        check_predicate(func, "tma_store", self.predicate)?;
        match m.elem {
            Elem::Data(dtype) if self.op.accepts(dtype) => Ok(smallvec![]),
            elem => Err(OpError::new(
                Code::ElementMismatch,
                format!("TMA has no `{}` for {elem}", self.op),
            )
            .help(REDUCTIONS)),
        }
    }
    fn shared_by_ctas(&self, func: &Func) -> Values {
        of_all_ctas(func, self.map, &self.coordinates)
    }
    answers!(effects(ASYNC_COPY), shared(view: AsyncRead), one_thread, free_layouts);
}

define_op! {
    /// Waits until at most `pending` store groups of the issuing thread are in flight: for their reads of shared memory
    /// if `is_read`, else until what they wrote is visible.
    pub struct TmaStoreWait = "tma_store_wait" {
        /// Groups that may still be in flight.
        pending: u32,
        /// Only the reads of shared memory.
        is_read: bool,
    }
}

impl OpRules for TmaStoreWait {
    fn result_types(&self, _: &Func, _: &[Type]) -> Result<Types, OpError> {
        check_pending(self.pending)?;
        Ok(smallvec![])
    }
    fn waits_for_async_reads(&self) -> Option<(SharedAccess, u32)> {
        Some((SharedAccess::AsyncRead, self.pending))
    }
    answers!(effects(ASYNC_COPY), one_thread, free_layouts);
}

define_op! {
    /// A block from global memory into L2.
    pub struct TmaPrefetch = "tma_prefetch" {
        /// How long it should stay in L2.
        policy: L2Policy,
        /// The map.
        map: Value,
        /// Where the block begins, in elements, the slowest dimension first; scalars i32.
        coordinates: Values,
        /// Whether at all; a scalar boolean.
        predicate: PackedOption<Value>,
    }
}

impl OpRules for TmaPrefetch {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        self.policy.check()?;
        let m = check_copy(func, "tma_prefetch", self.map, &self.coordinates)?;
        check_predicate(func, "tma_prefetch", self.predicate)?;
        match m.mode {
            TensorMapMode::Tiled => Ok(smallvec![]),
            TensorMapMode::Im2col { .. } => Err(OpError::new(
                Code::AccessWidth,
                "a prefetch goes through a tiled map; im2col maps are for loads and stores",
            )
            .help("give the kernel another parameter for the same tensor, with `#[block(..)]`")),
        }
    }
    answers!(effects(Effects::ORDERED));
    fn shared_by_ctas(&self, func: &Func) -> Values {
        of_all_ctas(func, self.map, &self.coordinates)
    }
    answers!(one_thread, free_layouts);
}

define_op! {
    /// A tensor map itself, ahead of the first copy through it (PTX ISA 9.7.9.15, `prefetch.tensormap`).
    pub struct TensorMapPrefetch = "prefetch_map" {
        /// The map.
        map: Value,
    }
}

impl OpRules for TensorMapPrefetch {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        let ty = func.ty(self.map);
        if ty.as_tensor_map().is_none() {
            let message = format!("`prefetch_map` wants a tensor map, this is {ty}");
            return Err(OpError::new(Code::ElementMismatch, message));
        }
        Ok(smallvec![])
    }
    answers!(effects(Effects::ORDERED));
    answers!(one_thread, free_layouts);
}

/// The coordinates, where they are those of a block that the CTAs of the cluster split.
fn of_all_ctas(func: &Func, map: Value, coordinates: &Values) -> Values {
    let m = func.ty(map).as_tensor_map();
    if m.is_some_and(|m| m.layout.ctas() > 1) {
        coordinates.clone()
    } else {
        Values::new()
    }
}

/// TMA reads and writes both memories asynchronously.
const ASYNC_COPY: Effects = Effects {
    reads: Spaces::ALL,
    writes: Spaces::ALL,
    is_ordered: true,
    is_guarded: true,
    ..Effects::PURE
};

/// A load writes shared memory alone, so that what it reads may be promised to be only read.
const LOADS: Effects = Effects {
    writes: Spaces::SHARED,
    ..ASYNC_COPY
};
