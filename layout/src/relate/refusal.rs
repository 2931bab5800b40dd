//! What is said of a relation that a layout does not have.

use std::fmt;

use crate::{Dims, Layout, LayoutError};

/// The error that `operation` is not possible on `layout`.
pub(super) fn no_relation(
    operation: &'static str,
    layout: &impl fmt::Display,
    why: impl Into<String>,
) -> LayoutError {
    LayoutError::NoRelation {
        operation,
        layout: layout.to_string(),
        why: why.into(),
    }
}

/// Checks that `order` is a permutation of the dimensions of `layout`.
pub(super) fn check_order(
    operation: &'static str,
    layout: &Layout,
    rank: usize,
    order: &[u32],
) -> Result<(), LayoutError> {
    let mut sorted = Dims::from(order);
    sorted.sort_unstable();
    if sorted.iter().copied().eq(0..rank as u32) {
        return Ok(());
    }
    let why = format!(
        "{} is not an order of its {rank} dimensions",
        Dims::from(order)
    );
    Err(no_relation(operation, layout, why))
}
