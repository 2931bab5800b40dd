//! Tensors that the CTAs of a cluster split: ops that would combine elements of several CTAs.

use crate::OpError;
use crate::entity::Value;
use crate::{Func, TensorType};
use diag::Code;
use layout::{Axis, Dims};

/// The bases of a tensor's CTAs; none while its layout is open.
fn bases(t: &TensorType) -> Vec<Dims> {
    let map = t.layout.linear(&t.shape);
    map.map_or_else(|_| Vec::new(), |map| map.basis_coords(Axis::Block))
}

/// Each element is in one CTA alone.
pub(super) fn held_once(func: &Func, op: &str, value: Value) -> Result<(), OpError> {
    let Some(t) = func.ty(value).as_tensor() else {
        return Ok(());
    };
    if bases(t).iter().all(|basis| basis.iter().any(|c| *c != 0)) {
        return Ok(());
    }
    let message = format!(
        "`{op}` on elements that several CTAs of the cluster own: each of them would perform it"
    );
    Err(OpError::new(Code::InvalidLayout, message)
        .typed(value, t)
        .help("give it a layout whose CTA bases split the tensor, without zeros"))
}

/// The CTAs hold the same part of two tensors along all dimensions but one.
pub(super) fn alike_but(
    func: &Func,
    op: &str,
    (a, b): (Value, Value),
    axis: usize,
) -> Result<(), OpError> {
    let without = |value: Value| -> Vec<Dims> {
        let all = func.ty(value).as_tensor().map(bases).unwrap_or_default();
        all.iter().map(|basis| basis.without(axis)).collect()
    };
    let is_open = |value: Value| {
        let layout = func.ty(value).layout();
        layout.is_none_or(|layout| !layout.is_resolved())
    };
    if is_open(a) || is_open(b) || without(a) == without(b) {
        return Ok(());
    }
    let message = format!("the CTAs of the cluster split the operands of `{op}` in different ways");
    Err(OpError::new(Code::InvalidLayout, message)
        .typed(a, func.ty(a))
        .typed(b, func.ty(b))
        .help("give both layouts with the same CTA bases"))
}
