//! Accesses to global memory, by what ops say of their effects.

use gluon_lang::elem::Elem;
use gluon_lang::entity::{Inst, Value};
use gluon_lang::ir::{Func, Spaces};
use gluon_lang::layout::AccessFacts;

use super::axis::Axes;

/// The tensor of pointers that an instruction goes through, if it accesses global memory through one.
pub fn pointers(func: &Func, inst: Inst) -> Option<Value> {
    let op = func.op(inst);
    let effects = op.rules().effects();
    if !(effects.reads | effects.writes).intersects(Spaces::GLOBAL) {
        return None;
    }
    let is_pointers = |v: &Value| func.ty(*v).as_tensor().is_some_and(|t| t.elem.is_ptr());
    op.operands().into_iter().find(is_pointers)
}

/// What is known of the addresses of an access through `pointers`.
pub fn facts(func: &Func, axes: &Axes, inst: Inst, pointers: Value) -> AccessFacts {
    let ty = func.ty(pointers);
    let per_dim = |of: &dyn Fn(usize) -> u32| (0..ty.shape().len()).map(of).collect();
    let pointee = ty.elem().and_then(Elem::pointee);
    AccessFacts {
        shape: ty.shape().into(),
        elem_bits: pointee.map_or(8, |d| d.bytes() * 8),
        contiguity: per_dim(&|d| axes.contiguity(pointers, d)),
        divisibility_bytes: per_dim(&|d| axes.divisibility(pointers, d)),
        is_load: func.op(inst).rules().effects().writes.is_none(),
    }
}
