//! Views of what is in shared memory.

use std::ops::Range;

use smallvec::smallvec;

use super::{check_start, descriptor};
use crate::OpError;
use crate::elem::{DType, Elem};
use crate::entity::Value;
use crate::ops::create::one_declared;
use crate::ops::define::{answers, define_op};
use crate::ops::{Op, OpRules, Types};
use crate::{Func, SmemType, Type};
use diag::Code;
use layout::linear::cut::bits_below;
use layout::local::{Places, Storage};
use layout::{Dims, LayoutError, SharedLayout, relate};

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
                format!("`index` removes the first dimension, and {s} has no other"),
            )
            .typed(self.view, s)
            .help("use `slice`, or allocate the buffers as the first of two dimensions"));
        }
        match func.ty(self.index) {
            Type::Scalar(Elem::Data(DType::I32 | DType::U32)) => {}
            other => {
                return Err(OpError::new(
                    Code::ElementMismatch,
                    format!("an index is a scalar of 32 bits, not {other}"),
                )
                .help("cast it: `i.cast::<i32>()`"));
            }
        }
        check_start(s, "index", 0, 0..bits_below(s.alloc_shape[0]))
            .map_err(|e| e.typed(self.view, s))?;
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
        let index = u32::try_from(func.constant_int(self.index)?).ok()?;
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
        let error = |message: String| OpError::new(Code::ShapeChange, message).typed(self.view, s);
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
                    "elements {start}..{} of dimension {d} exceed its {size} elements",
                    u64::from(start) + u64::from(length)
                ))
                .help(format!("slice a part of 0..{size}")));
            }
            let is_free = d == 0 && s.shape.rank() == s.layout.rank() + 1;
            if !is_free {
                check_step(s, d, start, length).map_err(error)?;
            }
            let left_out = length.trailing_zeros()..bits_below(size);
            check_start(s, "slice", d, left_out).map_err(|e| e.typed(self.view, s))?;
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
                    "{} is no permutation of the {} dimensions of {s}",
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
    /// The view in another shape, in row-major order. The result's layout follows from the operand's.
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
            .typed(self.view, s)
            .help(format!(
                "use dimensions whose product is {}",
                s.shape.product()
            )));
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

/// May a view begin at `start`, so that the places of its elements follow from those of its first? A type says nothing of the start, so that
/// accesses take from the length how views are aligned: the start is a multiple of the largest power of two that divides it. Of a length
/// that is no power of two the elements then have bits of the start, and these must lie where sums of coordinates are sums of places.
fn check_step(s: &SmemType, dim: usize, start: u32, length: u32) -> Result<(), String> {
    let step = 1 << length.trailing_zeros();
    if !start.is_multiple_of(step) {
        let (first, next) = (start / step * step, start.next_multiple_of(step));
        let starts = if s.shape[dim] - length >= next {
            format!("{first} or {next}")
        } else {
            first.to_string()
        };
        return Err(format!(
            "a slice of {length} elements of dimension {dim} starts at a multiple of {step}, and this one at {start}; slice fewer elements, start at {starts}, or `gather` elements from anywhere"
        ));
    }
    if length.is_power_of_two() || start == 0 {
        return Ok(());
    }
    if let Ok(places) = Places::new(&s.layout, &s.alloc_shape)
        && places.adds_up(dim, step.trailing_zeros())
    {
        return check_padding(s, &places, (dim, start, length));
    }
    Err(format!(
        "a slice of {length} elements of dimension {dim}, no power of two, cannot start at {start}: the layout swizzles steps of {step} there; slice from 0, or a power of two of elements"
    ))
}

/// Elements from `start` on must have padding between them where those from 0 have it.
fn check_padding(
    s: &SmemType,
    places: &Places,
    (dim, start, length): (usize, u32, u32),
) -> Result<(), String> {
    let storage = Storage::new(&s.layout, &s.alloc_shape, s.elem.bytes());
    let storage = storage.map_err(|e| e.to_string())?;
    let origin = Dims::filled(0, s.shape.rank());
    let byte = |at: u32| storage.bytes(places.offset(&origin.with(dim, at)));
    if storage.is_plain() || (0..length).all(|at| byte(start + at) == byte(start) + byte(at)) {
        return Ok(());
    }
    Err(format!(
        "a slice of {length} elements of dimension {dim}, no power of two, cannot start at {start}: padding stands elsewhere between them than behind the same elements from 0; slice from 0, or a power of two of elements"
    ))
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
            .help("reinterpret before slicing, and before the loop that carries it"));
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
            )
            .help(format!(
                "use a shape and layout of at most {} bytes, or allocate more",
                have.0
            )));
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
