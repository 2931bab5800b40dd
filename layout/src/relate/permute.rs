//! Transposition.

use super::names::named_or_linear;
use super::refusal::check_order;
use crate::{Axis, Blocked, Dims, Layout, LayoutError, Slice};

/// The layout of the transposed tensor when no data moves: dimension `i` of the result is dimension `order[i]` of the
/// source, which has `layout` and `shape`. Backward, call it with [`inverse_order`] and the result's shape.
pub fn permute(layout: &Layout, shape: &[u32], order: &[u32]) -> Result<Layout, LayoutError> {
    check_order("permute", layout, shape.len(), order)?;
    if layout.rank().is_none() || order.iter().copied().eq(0..order.len() as u32) {
        return Ok(layout.clone());
    }
    if layout.is_resolved() {
        layout.check(shape)?;
    }
    if let Some(named) = permute_named(layout, order) {
        return Ok(named);
    }
    let outs: Vec<Axis> = order.iter().map(|&dim| Axis::dim(dim as usize)).collect();
    let moved = layout.linear(shape)?.with_outs_ordered(&outs);
    let renumbered = moved.with_outs_renamed(|axis| {
        let at = outs
            .iter()
            .position(|&out| out == axis)
            .expect("the order names every dimension");
        Axis::dim(at)
    });
    Ok(named_or_linear(
        &renumbered,
        &Dims::from(shape).permuted(order),
        layout,
        None,
    ))
}

/// The order that undoes `order`.
pub fn inverse_order(order: &[u32]) -> Dims {
    let mut inverse = Dims::filled(0, order.len());
    for (to, &from) in order.iter().enumerate() {
        inverse[from as usize] = to as u32;
    }
    inverse
}

fn permute_named(layout: &Layout, order: &[u32]) -> Option<Layout> {
    match layout {
        Layout::Blocked(blocked) => Some(permute_blocked(blocked, order).into()),
        Layout::Slice(slice) => {
            // The parent's order: the lost dimension stays where it is, the others move around it.
            let lost = slice.dim;
            let in_parent = |dim: u32| if dim >= lost { dim + 1 } else { dim };
            let parent_order = order.iter().map(|&dim| in_parent(dim)).collect::<Dims>();
            let parent_order = parent_order.with_inserted(lost as usize, lost);
            Some(Slice::new(lost, permute_named(&slice.parent, &parent_order)?).into())
        }
        _ => None,
    }
}

fn permute_blocked(blocked: &Blocked, order: &[u32]) -> Blocked {
    let place = inverse_order(order);
    Blocked {
        size_per_thread: blocked.size_per_thread.permuted(order),
        threads_per_warp: blocked.threads_per_warp.permuted(order),
        warps: blocked.warps.permuted(order),
        order: blocked
            .order
            .iter()
            .map(|&dim| place[dim as usize])
            .collect(),
        cta_bases: blocked
            .cta_bases
            .iter()
            .map(|basis| basis.permuted(order))
            .collect(),
    }
}
