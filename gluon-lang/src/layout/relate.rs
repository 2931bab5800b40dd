//! How the shape operations carry a layout from operand to result: the rules that [`ops`](crate::ops) ask.
//!
//! An open layout (`Auto`, `Coalesced`) stays open: the result's is found when the operand's is.

use std::fmt;

use super::{Layout, Slice};

/// Why an operation cannot carry a layout on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelateError(pub String);

impl fmt::Display for RelateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RelateError {}

/// The layout after a dimension of 1 is put in at `axis`: the parent of a slice along `axis`.
pub fn expand_dims(layout: &Layout, axis: usize) -> Result<Layout, RelateError> {
    match layout {
        Layout::Auto | Layout::Coalesced => Ok(layout.clone()),
        Layout::Slice(slice) if slice.dim as usize == axis => Ok(slice.parent.clone()),
        other => Err(RelateError(format!(
            "`expand_dims` at {axis} wants a slice along dimension {axis}, this is {other}"
        ))),
    }
}

/// The layout after dimension `axis` is reduced away.
pub fn reduce(layout: &Layout, axis: usize) -> Layout {
    match layout {
        Layout::Auto | Layout::Coalesced => layout.clone(),
        parent => Slice::new(axis as u32, parent.clone()).into(),
    }
}

/// The layout of the same elements counted in another shape.
pub fn reshape(layout: &Layout, _from: &[u32], _to: &[u32]) -> Result<Layout, RelateError> {
    open(layout)
}

/// The layout after dimension `i` has become the operand's dimension `order[i]`.
pub fn permute(layout: &Layout, _shape: &[u32], _order: &[u32]) -> Result<Layout, RelateError> {
    open(layout)
}

/// The layout of each half when the last dimension, which is 2, is split.
pub fn split(layout: &Layout, _shape: &[u32]) -> Result<Layout, RelateError> {
    open(layout)
}

/// The layout of two tensors of shape `shape` joined along a new last dimension.
pub fn join(layout: &Layout, _shape: &[u32]) -> Result<Layout, RelateError> {
    open(layout)
}

fn open(layout: &Layout) -> Result<Layout, RelateError> {
    match layout {
        Layout::Auto | Layout::Coalesced => Ok(layout.clone()),
        other => Err(RelateError(format!("{other} cannot be carried on"))),
    }
}

/// The declared layout, where it is only another name for `inferred`; else the inferred one.
pub fn prefer_declared(inferred: Layout, declared: Option<&Layout>, _shape: &[u32]) -> Layout {
    match declared {
        Some(declared) if *declared == inferred => declared.clone(),
        _ => inferred,
    }
}
