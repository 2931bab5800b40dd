//! Tiles in shared memory: allocations, views of them, and moves between them and registers.
//!
//! A view is free: it is an address and a map, nothing is copied. Views of views are allowed wherever the map of the
//! layout allows them.

mod indexed;
mod views;

pub use indexed::{SmemGather, SmemScatter};
pub(super) use indexed::{check_indexed_ctas, check_indices, check_values};
pub use views::{SmemIndex, SmemPermute, SmemReinterpret, SmemReshape, SmemSlice};

use std::ops::Range;

use cranelift_entity::packed_option::PackedOption;
use smallvec::smallvec;

use super::create::one_declared;
use super::define::{answers, define_op};
use super::shape::tensor;
use super::{OpRules, Scratch, Types};
use crate::OpError;
use crate::entity::Value;
use crate::{Effects, Func, SmemType, Spaces, TensorType, Type};
use diag::Code;
use layout::local::Places;

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
            format!("`{op}` takes shared memory, not {ty}"),
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

/// Checks that each CTA of a cluster accesses its own shared memory.
pub(super) fn check_ctas(func: &Func, t: &TensorType, s: &SmemType) -> Result<(), OpError> {
    if !func.has_cluster() && s.layout.ctas() == 1 {
        return Ok(());
    }
    let maps = (
        t.layout.linear(&t.shape),
        Places::new(&s.layout, &s.alloc_shape),
    );
    let (Ok(registers), Ok(places)) = maps else {
        // Unresolved layouts are checked once resolved, invalid ones where they are made.
        return Ok(());
    };
    if places.stay_in_cta(&registers) {
        return Ok(());
    }
    let message = format!("the CTAs of the cluster split {t} and {s} in different ways");
    Err(OpError::new(Code::LayoutMismatch, message)
        .help("a CTA reads and writes its own shared memory: give both layouts the same CTA bases"))
}

/// The same of the shared memory of another CTA, where that one has its own part.
pub(super) fn check_remote_ctas(
    func: &Func,
    t: &TensorType,
    view: Value,
    s: &SmemType,
) -> Result<(), OpError> {
    let help = "a CTA accesses the part of the other CTA at its own offsets: give both layouts the same CTA bases";
    check_ctas(func, t, s).map_err(|e| e.typed(view, s).help(help))
}

/// The tensor that a load of a view gives, which has its shape and elements.
pub(super) fn check_loaded<'a>(
    to: &'a Type,
    view: Value,
    s: &SmemType,
) -> Result<&'a TensorType, OpError> {
    match to {
        Type::Tensor(t) if t.shape == s.shape && t.elem == s.elem => Ok(t),
        _ => {
            let message = format!("a load of {s} does not give {to}");
            Err(OpError::new(Code::ShapeMismatch, message).typed(view, s))
        }
    }
}

/// The tensor that `op` stores in a view, which has its shape and elements.
pub(super) fn check_stored<'a>(
    func: &'a Func,
    op: &str,
    value: Value,
    (view, s): (Value, &SmemType),
) -> Result<&'a TensorType, OpError> {
    let t = tensor(func, op, value)?;
    if t.shape == s.shape && t.elem == s.elem {
        return Ok(t);
    }
    let message = format!("{t} cannot be stored in {s}");
    let error = OpError::new(Code::ShapeMismatch, message);
    let help = if t.elem == s.elem {
        format!("store a tensor of shape {}, or slice the tile", s.shape)
    } else {
        format!("cast the tensor to {}", s.elem)
    };
    Err(error.typed(view, s).typed(value, t).help(help))
}

/// Bits of the coordinate along a dimension that a view leaves to its start: they must not lead into the shared memory of
/// another CTA.
fn check_start(s: &SmemType, op: &str, dim: usize, bits: Range<u32>) -> Result<(), OpError> {
    let is_covered = s.alloc_shape.rank() == s.layout.rank() || dim > 0;
    if s.layout.ctas() == 1 || !is_covered {
        return Ok(());
    }
    let places = Places::new(&s.layout, &s.alloc_shape);
    if places.is_ok_and(|places| places.choose_cta(dim, bits)) {
        return Err(elsewhere(s, op, dim));
    }
    Ok(())
}

fn elsewhere(s: &SmemType, op: &str, dim: usize) -> OpError {
    let message = format!(
        "`{op}` along dimension {dim} of {s}, which the CTAs of the cluster split: its elements are in the shared memory of several CTAs"
    );
    OpError::new(Code::InvalidLayout, message).help(
        "split another dimension, or give each CTA a tile of its own: a layout without CTA bases",
    )
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
                format!("an allocation is no view of another: {s}"),
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
    answers!(cta_parts, free_layouts);
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
        let t = check_loaded(to, self.view, s)?;
        check_ctas(func, t, s).map_err(|e| e.typed(self.view, s))?;
        Ok(smallvec![to.clone()])
    }
    fn effects(&self) -> Effects {
        Effects {
            is_guarded: true,
            ..touches(true, false)
        }
    }
    answers!(shared(view: Read), cta_parts, free_layouts);
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
        let t = check_stored(func, "store", self.value, (self.view, s))?;
        check_ctas(func, t, s).map_err(|e| e.typed(self.view, s))?;
        Ok(smallvec![])
    }
    fn effects(&self) -> Effects {
        touches(false, true)
    }
    answers!(shared(view: Write), cta_parts, free_layouts);
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
    answers!(effects(Effects::ORDERED));
    answers!(free_layouts);
}
