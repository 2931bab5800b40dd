//! Joining two tensors along a new last dimension of size 2, and splitting them again.

use super::names::named_or_linear;
use super::refusal::no_relation;
use crate::{Axis, Blocked, Dims, Layout, LayoutError, LinearLayout};

/// The layout of `join(a, b)` when no data moves: both tensors have `layout` and `shape`, the result's new last
/// dimension lies in the lowest register bit. Backward, this is the operand of `split` with results of `layout`.
pub fn join(layout: &Layout, shape: &[u32]) -> Result<Layout, LayoutError> {
    if layout.rank().is_none() {
        return Ok(layout.clone());
    }
    if shape.is_empty() {
        return Err(no_relation("join", layout, "scalars cannot be joined"));
    }
    let map = layout.linear(shape)?;
    let rank = shape.len();
    let everywhere = LinearLayout::grid(Axis::Register, &Dims::filled(1, rank), &[]);
    let pair = LinearLayout::identity(Axis::Register, Axis::dim(rank), 1);
    let joined = everywhere.product(&pair).product(&map);
    let joined = joined.with_ins_ordered(&[Axis::Register, Axis::Lane, Axis::Warp, Axis::Block]);
    let candidate = match layout {
        Layout::Blocked(blocked) => Some(join_blocked(blocked).into()),
        _ => None,
    };
    Ok(named_or_linear(
        &joined,
        &Dims::from(shape).with_inserted(rank, 2),
        layout,
        candidate,
    ))
}

/// The layout of both results of `split` when no data moves: the last dimension must have size 2 and lie in one
/// register bit. Backward, this is the operand of `join` with result `layout`.
pub fn split(layout: &Layout, shape: &[u32]) -> Result<Layout, LayoutError> {
    if layout.rank().is_none() {
        return Ok(layout.clone());
    }
    let Some((&2, rest)) = shape.split_last() else {
        let why = format!(
            "the last dimension of {} must have size 2",
            Dims::from(shape)
        );
        return Err(no_relation("split", layout, why));
    };
    if rest.is_empty() {
        return Err(no_relation(
            "split",
            layout,
            "a vector of two elements splits into scalars, not tensors",
        ));
    }
    let map = layout.linear(shape)?;
    let last = Axis::dim(rest.len());
    let pair = 1 << map.out_shift(last);
    if !map.bases(Axis::Register).contains(&pair) {
        return Err(no_relation(
            "split",
            layout,
            "a thread must hold both elements of the last dimension",
        ));
    }
    let outs: Vec<Axis> = Axis::dims(rest.len()).collect();
    let halves = map
        .with_bases_kept(Axis::Register, |_, basis| basis != pair)
        .with_outs_ordered(&outs);
    let candidate = match layout {
        Layout::Blocked(blocked) => Some(split_blocked(blocked).into()),
        _ => None,
    };
    Ok(named_or_linear(&halves, rest, layout, candidate))
}

fn join_blocked(blocked: &Blocked) -> Blocked {
    let rank = blocked.rank();
    Blocked {
        size_per_thread: blocked.size_per_thread.with_inserted(rank, 2),
        threads_per_warp: blocked.threads_per_warp.with_inserted(rank, 1),
        warps: blocked.warps.with_inserted(rank, 1),
        order: blocked.order.with_inserted(0, rank as u32),
        cta_bases: blocked
            .cta_bases
            .iter()
            .map(|basis| basis.with_inserted(rank, 0))
            .collect(),
    }
}

fn split_blocked(blocked: &Blocked) -> Blocked {
    let last = blocked.rank() - 1;
    Blocked {
        size_per_thread: blocked.size_per_thread.without(last),
        threads_per_warp: blocked.threads_per_warp.without(last),
        warps: blocked.warps.without(last),
        order: blocked
            .order
            .iter()
            .copied()
            .filter(|&dim| dim as usize != last)
            .collect(),
        cta_bases: blocked
            .cta_bases
            .iter()
            .map(|basis| basis.without(last))
            .collect(),
    }
}
