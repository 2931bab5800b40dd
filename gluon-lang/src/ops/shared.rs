//! Tiles in shared memory: allocations, views of them, and moves between them and registers.
//!
//! A view is free: it is an address and a map, nothing is copied. Views of views are allowed wherever the map of the
//! layout allows them.

use std::ops::Range;

use cranelift_entity::packed_option::PackedOption;
use smallvec::smallvec;

use super::arith::mismatch;
use super::create::one_declared;
use super::define::{answers, define_op};
use super::shape::tensor;
use super::tma::constant_int;
use super::{Op, OpRules, Scratch, Types};
use crate::diag::{Code, OpError};
use crate::elem::{DType, Elem};
use crate::entity::Value;
use crate::ir::{Effects, Func, SmemType, Spaces, TensorType, Type};
use crate::layout::local::{Places, Storage};
use crate::layout::{Dims, LayoutError, SharedLayout, relate};

/// The descriptor type of an operand, or a diagnostic that says that it is none.
pub(super) fn descriptor<'f>(
    func: &'f Func,
    op: &str,
    value: Value,
) -> Result<&'f SmemType, OpError> {
    let ty = func.ty(value);
    ty.as_smem().ok_or_else(|| {
        OpError::new(
            Code::ElementMismatch,
            format!("`{op}` wants shared memory, this is {ty}"),
        )
        .typed(value, ty)
    })
}

/// The results of an op on shared memory: reads, writes or both, never a conflict with global memory.
fn touches(reads: bool, writes: bool) -> Effects {
    let space = |on: bool| if on { Spaces::SHARED } else { Spaces::NONE };
    Effects {
        reads: space(reads),
        writes: space(writes),
        ..Effects::PURE
    }
}

/// A CTA of a cluster reaches its own shared memory only.
fn check_ctas(func: &Func, t: &TensorType, s: &SmemType) -> Result<(), OpError> {
    if !func.has_cluster() && s.layout.ctas() == 1 {
        return Ok(());
    }
    let maps = (
        t.layout.linear(&t.shape),
        Places::new(&s.layout, &s.alloc_shape),
    );
    let (Ok(registers), Ok(places)) = maps else {
        // Open layouts are looked at again once they are decided, wrong ones are reported where they are made.
        return Ok(());
    };
    if places.stay_in_cta(&registers) {
        return Ok(());
    }
    let message = format!("{t} and {s} are split otherwise over the CTAs of the cluster");
    Err(OpError::new(Code::LayoutMismatch, message)
        .help("a CTA reads and writes its own shared memory: give both layouts the same CTA bases"))
}

define_op! {
    /// A new tile in shared memory, with the elements of `init` or undefined. It lives until its last use; the planner
    /// gives its bytes to others before and after.
    pub struct SmemAlloc = "smem_alloc" {
        /// What it holds at first.
        init: PackedOption<Value>,
        /// Its bytes, once shared memory is planned.
        bytes: Scratch,
    }
}

impl OpRules for SmemAlloc {
    fn result_types(&self, func: &Func, declared: &[Type]) -> Result<Types, OpError> {
        let to = one_declared(declared, "smem_alloc")?;
        let Type::Smem(s) = to else {
            return Err(OpError::new(
                Code::BrokenRule,
                format!("`smem_alloc` gives shared memory, not {to}"),
            ));
        };
        if s.alloc_shape != s.shape {
            return Err(OpError::new(
                Code::ShapeMismatch,
                format!("an allocation is whole: {s}"),
            ));
        }
        if let Some(init) = self.init.expand() {
            let t = tensor(func, "smem_alloc", init)?;
            if t.shape != s.shape || t.elem != s.elem {
                return Err(
                    OpError::new(Code::ShapeMismatch, format!("{s} cannot hold {t}"))
                        .typed(init, t),
                );
            }
            check_ctas(func, t, s)?;
        }
        Ok(smallvec![to.clone()])
    }
    fn effects(&self) -> Effects {
        Effects {
            is_unique: true,
            ..touches(false, self.init.is_some())
        }
    }
    fn allocation(&self) -> Option<Scratch> {
        Some(self.bytes)
    }
    fn set_allocation(&mut self, bytes: Scratch) {
        self.bytes = bytes;
    }
    answers!(free_layouts);
}

define_op! {
    /// Reads a whole view into registers.
    pub struct SmemLoad = "smem_load" {
        /// The view.
        view: Value,
    }
}

impl OpRules for SmemLoad {
    fn result_types(&self, func: &Func, declared: &[Type]) -> Result<Types, OpError> {
        let s = descriptor(func, "load", self.view)?;
        let to = one_declared(declared, "smem_load")?;
        match to {
            Type::Tensor(t) if t.shape == s.shape && t.elem == s.elem => {
                check_ctas(func, t, s).map_err(|e| e.typed(self.view, s))?;
                Ok(smallvec![to.clone()])
            }
            _ => Err(OpError::new(
                Code::ShapeMismatch,
                format!("a load of {s} does not give {to}"),
            )
            .typed(self.view, s)),
        }
    }
    fn effects(&self) -> Effects {
        Effects {
            is_guarded: true,
            ..touches(true, false)
        }
    }
    answers!(shared(view: Read), free_layouts);
}

define_op! {
    /// Writes a tensor into a view.
    pub struct SmemStore = "smem_store" {
        /// The view.
        view: Value,
        /// What to write.
        value: Value,
    }
}

impl OpRules for SmemStore {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        let s = descriptor(func, "store", self.view)?;
        let t = tensor(func, "store", self.value)?;
        if t.shape != s.shape || t.elem != s.elem {
            return Err(
                OpError::new(Code::ShapeMismatch, format!("{t} cannot be stored in {s}"))
                    .typed(self.view, s)
                    .typed(self.value, t),
            );
        }
        check_ctas(func, t, s).map_err(|e| e.typed(self.view, s))?;
        Ok(smallvec![])
    }
    fn effects(&self) -> Effects {
        touches(false, true)
    }
    answers!(shared(view: Write), free_layouts);
}

define_op! {
    /// Element `index` of the first dimension, which the layout does not cover: one buffer of several.
    pub struct SmemIndex = "smem_index" {
        /// The view.
        view: Value,
        /// A scalar integer of 32 bits.
        index: Value,
    }
}

impl OpRules for SmemIndex {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        let s = descriptor(func, "index", self.view)?;
        if s.shape.rank() < 2 {
            return Err(OpError::new(
                Code::RankMismatch,
                format!("`index` takes the first dimension away, and {s} has no other"),
            )
            .typed(self.view, s));
        }
        match func.ty(self.index) {
            Type::Scalar(Elem::Data(DType::I32 | DType::U32)) => {}
            other => {
                return Err(OpError::new(
                    Code::ElementMismatch,
                    format!("an index is a scalar of 32 bits, not {other}"),
                ));
            }
        }
        let (shape, alloc_shape) = (s.shape.without(0), s.alloc_shape.without(0));
        let layout = relate::index_shared(&s.layout, &s.alloc_shape)
            .map_err(|e| OpError::new(Code::InvalidLayout, e.to_string()))?;
        Ok(smallvec![Type::Smem(SmemType {
            shape,
            elem: s.elem,
            layout,
            alloc_shape
        })])
    }

    fn part_of_view(&self, func: &Func) -> Option<Range<u32>> {
        let s = func.ty(self.view).as_smem()?;
        let index = u32::try_from(constant_int(func, self.index)?).ok()?;
        if index >= s.shape[0] {
            return None;
        }
        let (first, last) = Places::new(&s.layout, &s.alloc_shape).ok()?.span_of(index);
        let storage = Storage::new(&s.layout, &s.alloc_shape, s.elem.bytes()).ok()?;
        Some(storage.bytes(first)..storage.bytes(last) + s.elem.bytes())
    }

    answers!(free_layouts);
}

define_op! {
    /// A part of a view: `lengths[d]` elements from `starts[d]` of each dimension.
    pub struct SmemSlice = "smem_slice" {
        /// First element of each dimension.
        starts: Dims,
        /// Elements of each dimension.
        lengths: Dims,
        /// The view.
        view: Value,
    }
}

impl OpRules for SmemSlice {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        let s = descriptor(func, "slice", self.view)?;
        let error =
            |message: String| OpError::new(Code::ShapeMismatch, message).typed(self.view, s);
        if self.starts.rank() != s.shape.rank() || self.lengths.rank() != s.shape.rank() {
            return Err(error(format!(
                "a slice of {s} has {} dimensions, not {}",
                s.shape.rank(),
                self.starts.rank()
            )));
        }
        for (d, ((&start, &length), &size)) in self
            .starts
            .iter()
            .zip(self.lengths.iter())
            .zip(s.shape.iter())
            .enumerate()
        {
            if length == 0 || start.checked_add(length).is_none_or(|end| end > size) {
                return Err(error(format!(
                    "elements {start} to {} of dimension {d} do not lie in its {size}",
                    u64::from(start) + u64::from(length)
                )));
            }
            let is_free = d == 0 && s.shape.rank() == s.layout.rank() + 1;
            if !is_free && (!length.is_power_of_two() || !start.is_multiple_of(length)) {
                return Err(error(format!(
                    "a slice of dimension {d} has a power of two of elements and begins at a multiple of that; {length} from {start} does not"
                )));
            }
        }
        Ok(smallvec![Type::Smem(SmemType {
            shape: self.lengths.clone(),
            ..s.clone()
        })])
    }
    answers!(free_layouts);
}

define_op! {
    /// The view with its dimensions reordered: dimension `i` of the result is dimension `order[i]`.
    pub struct SmemPermute = "smem_permute" {
        /// The new order.
        order: Dims,
        /// The view.
        view: Value,
    }
}

impl OpRules for SmemPermute {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        let s = descriptor(func, "permute", self.view)?;
        let mut sorted = self.order.to_vec();
        sorted.sort_unstable();
        if !sorted.iter().copied().eq(0..s.shape.rank() as u32) {
            return Err(OpError::new(
                Code::ShapeChange,
                format!(
                    "{} is no order of the {} dimensions of {s}",
                    self.order,
                    s.shape.rank()
                ),
            ));
        }
        let layout = relate::permute_shared(&s.layout, &s.alloc_shape, &self.order)
            .map_err(|e| OpError::new(Code::ShapeChange, e.to_string()))?;
        Ok(smallvec![Type::Smem(SmemType {
            shape: s.shape.permuted(&self.order),
            elem: s.elem,
            layout,
            alloc_shape: s.alloc_shape.permuted(&self.order),
        })])
    }
    answers!(free_layouts);
}

define_op! {
    /// The view counted in another shape, row-major. The result's layout is the operand's seen through it.
    pub struct SmemReshape = "smem_reshape" {
        /// The new shape.
        shape: Dims,
        /// The view.
        view: Value,
    }
}

impl OpRules for SmemReshape {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        let s = descriptor(func, "reshape", self.view)?;
        if self.shape.product() != s.shape.product() || self.shape.rank() == 0 {
            return Err(OpError::new(
                Code::ShapeChange,
                format!(
                    "a reshape keeps the number of elements: {} has {}, {} has {}",
                    s.shape,
                    s.shape.product(),
                    self.shape,
                    self.shape.product()
                ),
            )
            .typed(self.view, s));
        }
        let (layout, alloc_shape) =
            relate::reshape_shared(&s.layout, &s.shape, &s.alloc_shape, &self.shape)
                .map_err(|e| OpError::new(Code::ShapeChange, e.to_string()).typed(self.view, s))?;
        Ok(smallvec![Type::Smem(SmemType {
            shape: self.shape.clone(),
            elem: s.elem,
            layout,
            alloc_shape
        })])
    }
    answers!(free_layouts);
}

/// Is it known that the view begins where an allocation or one of its buffers does?
fn begins_whole(func: &Func, view: Value) -> bool {
    let Some(inst) = func.def_inst(view) else {
        return false;
    };
    match func.op(inst) {
        Op::SmemAlloc(_) => true,
        Op::SmemIndex(op) => {
            let from = func.ty(op.view).as_smem();
            let has_buffers = from.is_some_and(|s| s.shape.rank() > s.layout.rank());
            has_buffers && begins_whole(func, op.view)
        }
        Op::SmemPermute(op) => begins_whole(func, op.view),
        Op::SmemReshape(op) => begins_whole(func, op.view),
        Op::SmemReinterpret(op) => begins_whole(func, op.view),
        _ => false,
    }
}

/// Does the view hold every byte of its allocation, so that these may be taken as something else?
fn is_whole(s: &SmemType) -> bool {
    let covered = relate::covered(&s.layout, &s.alloc_shape);
    let is_dense = match &s.layout {
        SharedLayout::Linear(_) => s.layout.linear(covered).is_ok_and(|map| map.is_bijective()),
        _ => true,
    };
    is_dense && s.shape == s.alloc_shape
}

define_op! {
    /// The bytes of a whole allocation taken as another element type, shape and layout, no larger than it.
    pub struct SmemReinterpret = "smem_reinterpret" {
        /// The view.
        view: Value,
    }
}

impl OpRules for SmemReinterpret {
    fn result_types(&self, func: &Func, declared: &[Type]) -> Result<Types, OpError> {
        let s = descriptor(func, "reinterpret", self.view)?;
        let to = one_declared(declared, "smem_reinterpret")?;
        let Type::Smem(t) = to else {
            return Err(OpError::new(
                Code::BrokenRule,
                format!("`reinterpret` gives shared memory, not {to}"),
            ));
        };
        let error = |code, message| OpError::new(code, message).typed(self.view, s);
        if !is_whole(s) || !begins_whole(func, self.view) {
            return Err(error(
                Code::ShapeMismatch,
                format!(
                    "`reinterpret` takes a whole allocation or buffer, and this {s} is, or may be, a part of one"
                ),
            )
            .help("reinterpret first, then take the part, or carry it round the loop"));
        }
        let size = |s: &SmemType| {
            let elem_bytes = s.elem.bytes();
            let bytes = relate::shared_bytes(&s.layout, &s.alloc_shape, elem_bytes)?;
            let alignment = relate::shared_alignment(&s.layout, &s.alloc_shape, elem_bytes)?;
            Ok((bytes, alignment))
        };
        let invalid = |e: LayoutError| OpError::new(Code::InvalidLayout, e.to_string());
        let (have, want) = (size(s).map_err(invalid)?, size(t).map_err(invalid)?);
        if want.0 > have.0 {
            return Err(error(
                Code::ShapeMismatch,
                format!("{t} takes {} bytes, and {s} has {}", want.0, have.0),
            ));
        }
        // An allocation is aligned for all that it is taken as; its buffers follow one another as they are.
        let maker = func.def_inst(self.view).map(|inst| func.op(inst));
        let is_allocation = matches!(maker, Some(Op::SmemAlloc(_)));
        if want.1 > have.1 && !is_allocation {
            return Err(error(
                Code::InvalidLayout,
                format!("{t} begins at a multiple of {} bytes, and {s} at one of {}", want.1, have.1),
            )
            .help("reinterpret the allocation and then index it, or give it a layout with that alignment"));
        }
        Ok(smallvec![to.clone()])
    }
    answers!(free_layouts);
}

define_op! {
    /// For each index: the element of the view at the index along `axis`, and at the index's own coordinates along the
    /// other dimensions.
    pub struct SmemGather = "smem_gather" {
        /// The dimension indexed.
        axis: u32,
        /// The view.
        view: Value,
        /// Integers, a tensor of the view's rank.
        indices: Value,
    }
}

impl OpRules for SmemGather {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        let s = descriptor(func, "gather", self.view)?;
        check_indices(func, "gather", s, self.indices, self.axis)?;
        Ok(smallvec![func.ty(self.indices).with_elem(s.elem)])
    }
    fn effects(&self) -> Effects {
        Effects {
            is_guarded: true,
            ..touches(true, false)
        }
    }
    answers!(shared(view: Read));
}

define_op! {
    /// For each index: writes the value into the view at the index along `axis`, and at the index's own coordinates
    /// along the other dimensions. Two values for one place leave either.
    pub struct SmemScatter = "smem_scatter" {
        /// The dimension indexed.
        axis: u32,
        /// The view.
        view: Value,
        /// What to write.
        values: Value,
        /// Integers of the same shape and layout as the values.
        indices: Value,
    }
}

impl OpRules for SmemScatter {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        let s = descriptor(func, "scatter", self.view)?;
        check_indices(func, "scatter", s, self.indices, self.axis)?;
        check_values(func, "scatter", s, self.values, self.indices)?;
        Ok(smallvec![])
    }
    fn effects(&self) -> Effects {
        touches(false, true)
    }
    answers!(shared(view: Write));
}

define_op! {
    /// Keeps an allocation alive until here, for readers that the planner cannot see.
    pub struct SmemKeep = "smem_keep" {
        /// The view.
        view: Value,
    }
}

impl OpRules for SmemKeep {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        descriptor(func, "keep_alive", self.view)?;
        Ok(smallvec![])
    }
    fn effects(&self) -> Effects {
        Effects {
            is_ordered: true,
            ..Effects::PURE
        }
    }
    answers!(free_layouts);
}

pub(super) fn check_indices(
    func: &Func,
    op: &str,
    s: &SmemType,
    indices: Value,
    axis: u32,
) -> Result<(), OpError> {
    let t = tensor(func, op, indices)?;
    if !t.elem.is_int() {
        return Err(OpError::new(
            Code::ElementMismatch,
            format!("`{op}` wants integer indices, these are {t}"),
        ));
    }
    if t.rank() != s.shape.rank() {
        return Err(OpError::new(
            Code::RankMismatch,
            format!("`{op}` wants indices of the rank of {s}, these are {t}"),
        )
        .typed(indices, t));
    }
    if axis as usize >= s.shape.rank() {
        return Err(OpError::new(
            Code::NoSuchAxis,
            format!(
                "`{op}` along dimension {axis} of {s}, which has 0 to {}",
                s.shape.rank() - 1
            ),
        ));
    }
    let others = t.shape.iter().zip(s.shape.iter()).enumerate();
    for (d, (index, size)) in others {
        if d != axis as usize && index > size {
            return Err(OpError::new(
                Code::ShapeMismatch,
                format!("the indices have {index} elements in dimension {d}, and {s} has {size}"),
            )
            .typed(indices, t));
        }
    }
    Ok(())
}

pub(super) fn check_values(
    func: &Func,
    op: &str,
    s: &SmemType,
    values: Value,
    indices: Value,
) -> Result<(), OpError> {
    let wanted = func.ty(indices).with_elem(s.elem);
    let ty = func.ty(values);
    if *ty != wanted {
        return Err(mismatch(op, values, ty, indices, &wanted));
    }
    Ok(())
}
