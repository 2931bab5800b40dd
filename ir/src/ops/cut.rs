//! Extents that are made of whole tiles of an op.

use layout::Dims;

/// The extents that are made of whole tiles of the op: the nearest ones, below and above.
pub(crate) fn nearest_multiples(size: u32, of: u32) -> String {
    let below = size / of * of;
    match below {
        0 => format!("{of}"),
        below => format!("{below} or {}", below + of),
    }
}

/// Are all sizes multiples of the steps?
pub(super) fn are_multiples(sizes: &Dims, steps: &[u32]) -> bool {
    sizes
        .iter()
        .zip(steps)
        .all(|(size, step)| size.is_multiple_of(*step))
}
