//! From names to bases: the one place where each named layout becomes a linear map.
//!
//! The rules are those of Gluon (reference: its `toLinearLayout`), checked against its own values in
//! `tests/golden_layouts.rs`.

mod distributed;
mod shared;

use super::{Axis, Dims, LinearLayout};

/// The layout of a tensor of `shape` over the CTAs of a cluster: `within` gives the layout of one CTA's share, which
/// `cta_bases` (in units of CTAs) then repeat over the cluster. A layout of one CTA may lack the axis of CTAs.
fn over_ctas(
    cta_bases: &[Dims],
    shape: &[u32],
    within: impl FnOnce(&[u32]) -> LinearLayout,
) -> LinearLayout {
    if cta_bases.is_empty() {
        return within(shape);
    }
    let split = cta_grid(cta_bases, shape);
    let share: Dims = shape
        .iter()
        .zip(split.out_sizes().iter())
        .map(|(size, ctas)| size / ctas)
        .collect();
    within(&share).product(&split)
}

/// Do the CTAs of a cluster split a dimension whose size is no power of two?
fn splits_cut(cta_bases: &[Dims], shape: &[u32]) -> bool {
    let sizes = || shape.iter().map(|size| size.is_power_of_two());
    let moves = |basis: &Dims| {
        basis
            .iter()
            .zip(sizes())
            .any(|(&at, whole)| at != 0 && !whole)
    };
    cta_bases.iter().any(moves)
}

/// Into how many parts the CTAs of a cluster cut each dimension.
fn cta_split(cta_bases: &[Dims], shape: &[u32]) -> Dims {
    if cta_bases.is_empty() {
        return Dims::filled(1, shape.len());
    }
    cta_grid(cta_bases, shape).out_sizes()
}

/// The CTAs of a cluster as a grid over the dimensions; splits past the shape become copies.
fn cta_grid(cta_bases: &[Dims], shape: &[u32]) -> LinearLayout {
    let mut reached = Dims::filled(0, shape.len());
    for basis in cta_bases {
        for (dim, &entry) in basis.iter().enumerate() {
            reached[dim] |= entry;
        }
    }
    let sizes: Dims = reached
        .iter()
        .map(|bits| (bits + 1).next_power_of_two())
        .collect();
    LinearLayout::from_bases([(Axis::Block, cta_bases)], &sizes).clipped_to(shape)
}
