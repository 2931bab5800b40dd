//! Linear copies by TMA (PTX ISA, `cp.async.bulk`): elements that are contiguous in global and in shared memory. They need no tensor map.
//!
//! As through tensor maps, one thread issues the copy, a load completes bytes on an mbarrier, and a store is a bulk group that the
//! issuing thread waits for. Source, destination and size are multiples of [`unit_bytes`](target::TensorMapLimits::unit_bytes).
//!
//! Of a tile that the CTAs of a cluster split, each CTA moves its part of the run. Of CTAs with the same part all load it, or
//! one for all of them, and one stores it.

use std::ops::Range;
use std::sync::Arc;

use cranelift_entity::packed_option::PackedOption;
use smallvec::smallvec;

use super::define::{answers, define_op};
use super::global::L2Policy;
use super::mbarrier::{check_predicate, one_barrier};
use super::shared::descriptor;
use super::tma::is_whole_units;
use super::tma::{REDUCTIONS, TmaReduceOp, check_copies, check_multicast};
use super::{OpRules, SharedAccess, SharedAccesses, Types, Values};
use crate::OpError;
use crate::elem::{DType, Elem};
use crate::entity::Value;
use crate::{Effects, Func, SmemType, Spaces, Type};
use diag::Code;
use layout::local::{Places, Storage};
use layout::{Dims, LayoutError};

/// A pointer to one element.
fn check_pointer(func: &Func, op: &str, ptr: Value) -> Result<DType, OpError> {
    let ty = func.ty(ptr);
    match ty {
        Type::Scalar(Elem::Ptr(pointee)) => Ok(*pointee),
        _ => Err(OpError::new(
            Code::ElementMismatch,
            format!("`{op}` takes a pointer to the first element, not {ty}"),
        )
        .typed(ptr, ty)),
    }
}

/// The view is contiguous, of the pointer's element type, and a multiple of the bytes that a bulk copy moves.
fn check_run<'f>(
    func: &'f Func,
    op: &str,
    ptr: Value,
    view: Value,
) -> Result<&'f SmemType, OpError> {
    let pointee = check_pointer(func, op, ptr)?;
    let s = descriptor(func, op, view)?;
    if s.elem != pointee.into() {
        let message = format!(
            "`{op}` does not convert elements, and {} does not point to those of {s}",
            func.ty(ptr)
        );
        return Err(OpError::new(Code::ElementMismatch, message)
            .typed(ptr, func.ty(ptr))
            .typed(view, s));
    }
    check_together(func, op, s, view)?;
    Ok(s)
}

/// The view is contiguous, and its bytes are a multiple of those that a bulk copy moves.
pub(super) fn check_together(
    func: &Func,
    op: &str,
    s: &SmemType,
    view: Value,
) -> Result<(), OpError> {
    let unit = func.target.tensor_map.unit_bytes;
    let part = s.part();
    let part =
        part.map_err(|e| OpError::new(Code::LayoutMismatch, e.to_string()).typed(view, s))?;
    let bytes = part.product() * u64::from(s.elem.bytes());
    if !bytes.is_multiple_of(unit.into()) {
        let whose = if part == s.shape {
            ""
        } else {
            "each CTA's part of "
        };
        let message =
            format!("`{op}` copies multiples of {unit} bytes, and {whose}{s} has {bytes}");
        let help = format!(
            "make the tile a multiple of {unit} bytes, and copy a part of it by `.count(n)`"
        );
        return Err(OpError::new(Code::AccessWidth, message)
            .typed(view, s)
            .help(help));
    }
    match follow_one_another(s, unit) {
        Ok(true) => Ok(()),
        Err(error) => Err(OpError::new(Code::InvalidLayout, error.to_string())),
        Ok(false) => Err(OpError::new(
            Code::LayoutMismatch,
            format!("`{op}` copies contiguous elements, and those of {s} are not contiguous"),
        )
        .typed(view, s)
        .help(if s.layout.ctas() == 1 {
            "allocate it unswizzled, `Swizzled::plain([0])` or `Swizzled::plain([1, 0])`, and copy whole rows of it"
        } else {
            "allocate it unswizzled, `Swizzled::plain([0])` or `Swizzled::plain([1, 0])`, with CTA bases that give each CTA consecutive whole rows"
        })),
    }
}

/// Is a view, or each CTA's part of it, contiguous in row-major order, and aligned to `unit` bytes wherever it begins?
fn follow_one_another(s: &SmemType, unit: u32) -> Result<bool, LayoutError> {
    let part = s.part()?;
    let run = Run {
        s,
        places: Places::new(&s.layout, &s.alloc_shape)?,
        storage: Storage::new(&s.layout, &s.alloc_shape, s.elem.bytes())?,
    };
    if !run.places.hold_parts(&part, &s.part_origins()?) || !is_run(&part, &s.shape) {
        return Ok(false);
    }
    let has_buffers = s.alloc_shape.rank() > s.layout.rank();
    let (mut stride, mut inside, mut begins) = (1, 0, 0);
    for dim in (usize::from(has_buffers)..s.shape.rank()).rev() {
        let (own, left_out) = (bits(part[dim]), run.left_out(dim));
        if !run.counts(dim, own.clone(), stride) {
            return Ok(false);
        }
        inside |= run.reach(dim, own);
        // Where a view begins is a sum, if all its coordinates count on, or has other bits of the offset than its elements.
        if run.counts_from(dim, &left_out, stride, unit) {
            inside |= run.reach(dim, left_out);
        } else if s.shape[dim].is_power_of_two() {
            begins |= run.reach(dim, left_out);
        } else {
            return Ok(false);
        }
        stride *= part[dim];
    }
    let buffers_follow = !has_buffers || run.buffers_follow(stride, unit);
    Ok(begins & inside == 0 && run.is_aligned(begins, unit) && buffers_follow)
}

/// A view that may be a run, and how the bits of its coordinates move the place of an element.
struct Run<'s> {
    s: &'s SmemType,
    places: Arc<Places>,
    storage: Storage,
}

impl Run<'_> {
    fn offset(&self, dim: usize, bit: u32) -> u32 {
        let origin = Dims::filled(0, self.s.shape.rank());
        self.places.offset(&origin.with(dim, 1 << bit))
    }

    /// The bits of the offset that these bits of a coordinate move.
    fn reach(&self, dim: usize, bits: Range<u32>) -> u32 {
        bits.fold(0, |all, bit| all | self.offset(dim, bit))
    }

    /// Do these bits of a coordinate count elements, `stride` to a step? Each moves one bit of the offset, so that the bytes of an
    /// element are the sum of theirs.
    fn counts(&self, dim: usize, mut bits: Range<u32>, stride: u32) -> bool {
        bits.all(|bit| {
            let at = self.offset(dim, bit);
            at.is_power_of_two()
                && self.storage.bytes(at) == (stride << bit) * self.storage.elem_bytes
        })
    }

    /// The bits of the coordinate at which the view may begin: none where it has all of the allocation.
    fn left_out(&self, dim: usize) -> Range<u32> {
        let (size, whole) = (self.s.shape[dim], self.s.alloc_shape[dim]);
        let least = if size == whole {
            bits(whole).end
        } else {
            size.trailing_zeros()
        };
        least..bits(whole).end
    }

    /// Do they count elements too, by steps of whole units?
    fn counts_from(&self, dim: usize, bits: &Range<u32>, stride: u32, unit: u32) -> bool {
        let step = (stride << bits.start) * self.storage.elem_bytes;
        bits.is_empty() || step.is_multiple_of(unit) && self.counts(dim, bits.clone(), stride)
    }

    /// Does each buffer begin at a whole unit, and the second of two behind the elements of the first?
    fn buffers_follow(&self, elements: u32, unit: u32) -> bool {
        let bytes = self.storage.bytes(self.offset(0, 0));
        bytes.is_multiple_of(unit)
            && (self.s.shape[0] == 1 || bytes == elements * self.storage.elem_bytes)
    }

    /// Are the bytes of every offset that has some of these bits a multiple of `unit`?
    fn is_aligned(&self, offsets: u32, unit: u32) -> bool {
        let lowest = (offsets & offsets.wrapping_neg()) * self.storage.elem_bytes;
        let mut gaps = self.storage.gaps.iter();
        let are_whole = |&(shift, bytes): &(u32, i32)| {
            offsets >> shift == 0 || bytes.unsigned_abs().is_multiple_of(unit)
        };
        lowest.is_multiple_of(unit) && gaps.all(are_whole)
    }
}

/// The bits of a coordinate below `size`.
fn bits(size: u32) -> Range<u32> {
    0..size.next_power_of_two().trailing_zeros()
}

/// Does a box of a tensor follow in row-major order without others between?
fn is_run(part: &[u32], shape: &[u32]) -> bool {
    let cut = (0..shape.len()).rev().find(|&dim| part[dim] != shape[dim]);
    cut.is_none_or(|cut| part[..cut].iter().all(|&size| size == 1))
}

/// Checks a count of elements: an i32, in whole units of a bulk copy, at most `most`. Constants are checked here, runtime values
/// when the kernel runs.
pub(super) fn check_count(
    func: &Func,
    op: &str,
    elem_bytes: u32,
    most: Option<u64>,
    count: PackedOption<Value>,
) -> Result<(), OpError> {
    let Some(count) = count.expand() else {
        return Ok(());
    };
    let ty = func.ty(count);
    if *ty != Type::Scalar(Elem::I32) {
        return Err(OpError::new(
            Code::ElementMismatch,
            format!("a count of elements is an i32, not {ty}"),
        )
        .typed(count, ty));
    }
    let Some(known) = func.constant_int(count) else {
        return Ok(());
    };
    let wrong = |code, message, help: String| {
        Err(OpError::new(code, message)
            .origin(count, "this count")
            .help(help))
    };
    let unit = func.target.tensor_map.unit_bytes;
    if known <= 0 || most.is_some_and(|most| known > i128::from(most)) {
        let bound = most.map_or("at least 1".to_owned(), |most| format!("1 to {most}"));
        let message = format!("`{op}` copies {bound} elements of this tile, not {known}");
        return wrong(
            Code::ConstantRange,
            message,
            format!("count {bound} elements"),
        );
    }
    if !is_whole_units(func, known, elem_bytes) {
        let message = format!(
            "`{op}` copies multiples of {unit} bytes, and {known} elements of {elem_bytes} bytes are {} bytes",
            known * i128::from(elem_bytes)
        );
        let help = format!("count multiples of {} elements", unit / elem_bytes);
        return wrong(Code::AccessWidth, message, help);
    }
    Ok(())
}

define_op! {
    /// Elements from global into shared memory; their bytes complete on `barrier`, which must expect them.
    pub struct BulkLoad = "bulk_load" {
        /// How long they should stay in L2.
        policy: L2Policy,
        /// The address of the first, aligned to [`unit_bytes`](target::TensorMapLimits::unit_bytes).
        src: Value,
        /// Where to.
        view: Value,
        /// What completes.
        barrier: Value,
        /// How many, an i32 above zero; as many as the view has without it.
        count: PackedOption<Value>,
        /// Whether at all; a scalar boolean.
        predicate: PackedOption<Value>,
        /// The CTAs of the cluster that get the elements, each at this view's place in its own shared memory, and whose
        /// barriers in that place complete: one bit for each rank, an i32. Without it only the CTA that asks.
        multicast: PackedOption<Value>,
        /// Whether one CTA loads for all that have the same part of the view; without it each loads its own.
        to_copies: bool,
    }
}

impl OpRules for BulkLoad {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        self.policy.check()?;
        let s = check_run(func, "bulk_load", self.src, self.view)?;
        one_barrier(func, "bulk_load", self.barrier)?;
        let most = Some(s.shape.product());
        check_count(func, "bulk_load", s.elem.bytes(), most, self.count)?;
        check_predicate(func, "bulk_load", self.predicate)?;
        check_multicast(func, self.multicast)?;
        // What lies together was checked, so that the parts are known.
        let origins = s.part_origins().unwrap_or_default();
        let copies = (self.to_copies, self.multicast);
        check_copies(func, "bulk_load", &origins, self.view, copies)?;
        Ok(smallvec![])
    }
    fn effects(&self) -> Effects {
        Effects {
            reads: Spaces::ALL,
            writes: Spaces::SHARED,
            is_ordered: true,
            is_guarded: true,
            ..Effects::PURE
        }
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
        of_all_ctas(func, self.view, self.src, self.count)
    }
    answers!(one_thread, free_layouts);
}

define_op! {
    /// Elements from shared into global memory, stored or combined with what is there. They belong to a group of their own,
    /// committed at once; `tma_store_wait` waits for it.
    pub struct BulkStore = "bulk_store" {
        /// How they combine.
        op: TmaReduceOp,
        /// How long they should stay in L2.
        policy: L2Policy,
        /// The destination of the first, aligned to [`unit_bytes`](target::TensorMapLimits::unit_bytes).
        dst: Value,
        /// Where from.
        view: Value,
        /// How many, an i32 above zero; as many as the view has without it.
        count: PackedOption<Value>,
        /// Whether at all; a scalar boolean. The group is committed all the same.
        predicate: PackedOption<Value>,
    }
}

impl OpRules for BulkStore {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        self.policy.check()?;
        let s = check_run(func, "bulk_store", self.dst, self.view)?;
        match s.elem {
            Elem::Data(dtype) if self.op.accepts_linear(dtype) => {}
            elem => {
                return Err(OpError::new(
                    Code::ElementMismatch,
                    format!("TMA has no `{}` for {elem}", self.op),
                )
                .help(format!("{REDUCTIONS}; in linear copies it adds f64 too")));
            }
        }
        let most = Some(s.shape.product());
        check_count(func, "bulk_store", s.elem.bytes(), most, self.count)?;
        check_predicate(func, "bulk_store", self.predicate)?;
        Ok(smallvec![])
    }
    fn effects(&self) -> Effects {
        Effects {
            reads: Spaces::ALL,
            writes: Spaces::ALL,
            is_ordered: true,
            is_guarded: true,
            ..Effects::PURE
        }
    }
    fn shared_by_ctas(&self, func: &Func) -> Values {
        of_all_ctas(func, self.view, self.dst, self.count)
    }
    answers!(shared(view: AsyncRead), one_thread, free_layouts);
}

/// Where the run begins and how long it is, if the CTAs of the cluster split its tile.
fn of_all_ctas(func: &Func, view: Value, ptr: Value, count: PackedOption<Value>) -> Values {
    let s = func.ty(view).as_smem();
    if s.is_none_or(|s| s.layout.ctas() == 1) {
        return Values::new();
    }
    [Some(ptr), count.expand()].into_iter().flatten().collect()
}

define_op! {
    /// Elements from global memory into L2.
    pub struct BulkPrefetch = "bulk_prefetch" {
        /// How long they should stay in L2.
        policy: L2Policy,
        /// The address of the first, aligned to [`unit_bytes`](target::TensorMapLimits::unit_bytes).
        src: Value,
        /// How many, an i32 above zero.
        count: Value,
        /// Whether at all; a scalar boolean.
        predicate: PackedOption<Value>,
    }
}

impl OpRules for BulkPrefetch {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        self.policy.check()?;
        let pointee = check_pointer(func, "bulk_prefetch", self.src)?;
        let count = Some(self.count).into();
        check_count(func, "bulk_prefetch", pointee.bytes(), None, count)?;
        check_predicate(func, "bulk_prefetch", self.predicate)?;
        Ok(smallvec![])
    }
    answers!(effects(Effects::ORDERED));
    answers!(one_thread, free_layouts);
}
