//! What is said of a picture that cannot be drawn.

use crate::LayoutError;

/// More cells than anybody reads.
pub(super) const MOST_CELLS: u64 = 1 << 14;

pub(super) fn fault(field: &'static str, found: String, wanted: String) -> LayoutError {
    LayoutError::Parameter {
        layout: "a picture",
        field,
        found,
        wanted,
    }
}

/// `32x64`.
pub(super) fn sizes(shape: &[u32]) -> String {
    shape
        .iter()
        .map(u32::to_string)
        .collect::<Vec<_>>()
        .join("×")
}
