//! Reductions and their opposite, and the first elements of a tensor.

use super::names::linear_like;
use super::refusal::no_relation;
use super::registers::registers_in;
use crate::{Dims, Layout, LayoutError, Slice};

/// The layout of `layout` reduced along `axis`. Backward, this is the operand of `expand_dims(axis)` with result
/// `layout`. That the axis exists is checked with the result: see [`Layout::check`].
pub fn reduce(layout: &Layout, axis: usize) -> Layout {
    match layout {
        Layout::Auto | Layout::Coalesced => layout.clone(),
        parent => Slice::new(axis as u32, parent).into(),
    }
}

/// The layout of `layout` with a dimension of size 1 put in before `axis`: it must be a slice along that dimension.
/// Backward, this is the operand of a reduction along `axis` with result `layout`.
pub fn expand_dims(layout: &Layout, axis: usize) -> Result<Layout, LayoutError> {
    match layout {
        Layout::Auto | Layout::Coalesced => Ok(layout.clone()),
        Layout::Slice(slice) if slice.dim as usize == axis => Ok(slice.parent.clone()),
        Layout::Slice(slice) => {
            let why = format!(
                "it is a slice of dimension {}, and Slice({axis}, ...) is needed",
                slice.dim
            );
            Err(no_relation("expand_dims", layout, why))
        }
        _ => Err(no_relation(
            "expand_dims",
            layout,
            format!("it is no slice, and Slice({axis}, ...) is needed"),
        )),
    }
}

/// The layout of the first elements of a tensor, `kept` of `shape` in each dimension, when no data moves: `layout` itself
/// where it puts a tensor of that shape into the same threads, else the bases of what it puts there.
pub fn keep(layout: &Layout, shape: &[u32], kept: &[u32]) -> Layout {
    let (Ok(all), Ok(own)) = (layout.linear(shape), layout.linear(kept)) else {
        return layout.clone();
    };
    let there = all.clipped_to(kept);
    if registers_in(&there, &own).is_some() {
        return layout.clone();
    }
    let mut bases = linear_like(&there, layout);
    let moves = |basis: &Dims| basis.iter().any(|&step| step != 0);
    bases.register.retain(moves);
    bases.into()
}
