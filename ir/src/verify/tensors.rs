//! Which tensors and tensor maps there can be.

use crate::OpError;
use crate::{Func, Stage, TensorMapType, TensorType};
use diag::Code;
use layout::{Layout, LayoutError};

/// More elements than this in one tensor would not fit the registers of any CTA.
pub const MOST_TENSOR_ELEMENTS: usize = 1 << 20;

/// Is this a tensor that may exist at `stage` in a kernel of `warps` warps and clusters of `ctas` CTAs?
pub fn check_tensor(t: &TensorType, stage: Stage, warps: u32, ctas: u32) -> Result<(), OpError> {
    check_shape(t)?;
    if matches!(t.layout, Layout::Auto | Layout::Coalesced) {
        if stage >= Stage::Resolved {
            return Err(OpError::new(
                Code::UnresolvedLayout,
                format!("no operation determines the layout of this {t}"),
            ));
        }
        return Ok(());
    }
    check_layout(t)?;
    check_spread(t, warps, ctas)
}

fn check_shape(t: &TensorType) -> Result<(), OpError> {
    if t.shape.contains(&0) {
        let message = format!("the shape {} has a dimension without elements", t.shape);
        return Err(OpError::new(Code::ShapeMismatch, message)
            .help("a tile has at least one element along each dimension"));
    }
    let elements = t
        .shape
        .iter()
        .try_fold(1_usize, |n, &d| n.checked_mul(d as usize));
    if elements.is_none_or(|n| n > MOST_TENSOR_ELEMENTS) {
        let error = OpError::new(
            Code::TooLarge,
            format!(
                "a tensor of shape {} has more than {MOST_TENSOR_ELEMENTS} elements",
                t.shape
            ),
        );
        return Err(
            error.help("use a smaller tensor, and more CTAs or a loop: a tensor is one CTA's tile")
        );
    }
    Ok(())
}

/// Does a layout that is known fit the shape?
fn check_layout(t: &TensorType) -> Result<(), OpError> {
    if t.layout.rank() != Some(t.rank()) {
        let rank = t
            .layout
            .rank()
            .map_or_else(|| "any".into(), |r| r.to_string());
        let error = OpError::new(
            Code::RankMismatch,
            format!(
                "a tensor of {} dimensions with a layout of {rank}: {t}",
                t.rank()
            ),
        );
        return Err(error.help(
            "a layout has one entry for each dimension; `Slice::new(axis, parent)` is one with a dimension less than `parent`",
        ));
    }
    t.layout.check(&t.shape).map_err(|e| invalid(&e))
}

/// What a layout says of a shape.
pub(super) fn invalid(error: &LayoutError) -> OpError {
    if !error.is_of_cut() {
        return OpError::new(Code::InvalidLayout, error.to_string());
    }
    OpError::new(Code::NotPowerOfTwo, error.to_string())
        .help("use extents that are powers of two, or another layout")
}

/// Is the layout for so many warps, and for one CTA or as many as a cluster has?
fn check_spread(t: &TensorType, warps: u32, ctas: u32) -> Result<(), OpError> {
    check_ctas(t, t.layout.ctas().unwrap_or(1), ctas)?;
    match t.layout.warps() {
        Some(n) if n != warps => Err(OpError::new(
            Code::WrongWarps,
            format!("the layout of {t} is for {n} warps, and {warps} run this"),
        )
        .help(format!(
            "give the layout {warps} warps, or let {n} run it: `#[kernel(warps = {n})]`, of a worker `Warps({n})`"
        ))),
        _ => Ok(()),
    }
}

/// Is a layout for `n` CTAs for one, or for as many as a cluster has?
pub(super) fn check_ctas(of: &impl std::fmt::Display, n: u32, ctas: u32) -> Result<(), OpError> {
    if n == 1 || n == ctas {
        return Ok(());
    }
    let message = format!(
        "the layout of {of} is spread over {n} CTAs, and the kernel's clusters have {ctas}"
    );
    Err(OpError::new(Code::WrongWarps, message).help(format!(
        "leave `with_ctas(..)` out, so that each CTA has a tile of its own, or give the kernel `cluster = {n}`"
    )))
}

/// Is this a tensor map whose blocks TMA can move, on the kernel's target and in its clusters?
pub fn check_map(m: &TensorMapType, func: &Func) -> Result<(), (Code, String)> {
    if m.block.is_empty() {
        return Err((
            Code::BadDescriptor,
            "a kernel's tensor map states the block of one copy, and this one has none".to_owned(),
        ));
    }
    m.messages(func.target)
        .map_err(|e| invalid(&e))
        .map_err(|e| (e.code, e.message))?;
    check_ctas(m, m.layout.ctas(), func.cluster_ctas()).map_err(|e| (e.code, e.message))
}
