//! A range of one dimension of a tensor, and tensors one after the other along a dimension.
//!
//! No data moves where each thread holds, of a part, what it holds of the whole: lanes, warps and CTAs step within the largest
//! power of two that divides where the part begins, and registers take the larger steps.

use std::collections::HashMap;

use super::names::linear_like;
use super::refusal::no_relation;
use crate::linear::cut::granule;
use crate::{Axis, Dims, Layout, LayoutError, LinearLayout};

/// A range of a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The dimension.
    pub axis: usize,
    /// The first coordinate.
    pub start: u32,
    /// How many there are.
    pub length: u32,
}

/// For each register of a tensor that is a range of another one's dimension, the register of that one with the same element
/// in the same thread, for all threads; `None` where some thread does not hold what it needs. Registers are counted among
/// those that [hold elements](LinearLayout::registers).
pub fn registers_of_part(
    whole: &LinearLayout,
    part: &LinearLayout,
    axis: usize,
    start: u32,
) -> Option<Vec<u32>> {
    let free = step_of_registers(start);
    for threads in [Axis::Lane, Axis::Warp, Axis::Block] {
        let bases = part.basis_coords(threads);
        // Below what divides the start nothing is carried, so that a thread adds to both the same.
        let is_alike = bases == whole.basis_coords(threads);
        if !is_alike || bases.iter().any(|basis| basis[axis] >= free) {
            return None;
        }
    }
    let places = whole.registers().into_iter();
    let places = places.map(|number| whole.apply_packed(u64::from(number)));
    let mut holder: HashMap<u64, u32> = HashMap::new();
    for (index, place) in places.enumerate() {
        holder.entry(place).or_insert(index as u32);
    }
    let wanted = part.registers().into_iter().map(|number| {
        let mut coords = part.unpack_out(part.apply_packed(u64::from(number)));
        coords[axis] += start;
        holder.get(&whole.pack_out(&coords)).copied()
    });
    wanted.collect()
}

/// The layout of a range of a dimension when no data moves: `layout` itself where it puts the range into the same threads,
/// else its bases without the steps that leave the range.
pub fn part(layout: &Layout, shape: &[u32], part: Part) -> Result<Layout, LayoutError> {
    if layout.rank().is_none() {
        return Ok(layout.clone());
    }
    let Part {
        axis,
        start,
        length,
    } = part;
    let whole = layout.linear(shape)?;
    let part_shape = Dims::from(shape).with(axis, length);
    let mut bases = linear_like(&whole, layout);
    let end = length.next_power_of_two();
    bases.register.retain(|basis| basis[axis] < end);
    let fits = |candidate: &Layout| {
        let map = candidate.linear(&part_shape).ok();
        map.is_some_and(|map| registers_of_part(&whole, &map, axis, start).is_some())
    };
    let found = [layout.clone(), bases.into()].into_iter().find(fits);
    found.ok_or_else(|| no_part(layout, part))
}

/// The layout of a tensor of which a range of a dimension has `layout`, when no data moves: `layout` itself where it puts the
/// whole into the same threads, else its bases and, in registers, the steps along the dimension that it lacks.
pub fn whole(
    layout: &Layout,
    part_shape: &[u32],
    part: Part,
    extent: u32,
) -> Result<Layout, LayoutError> {
    if layout.rank().is_none() {
        return Ok(layout.clone());
    }
    let Part { axis, start, .. } = part;
    let map = layout.linear(part_shape)?;
    let shape = Dims::from(part_shape).with(axis, extent);
    let mut bases = linear_like(&map, layout);
    let mut step = 1;
    while step < extent {
        let axes = [Axis::Register, Axis::Lane, Axis::Warp, Axis::Block];
        let has = |of: Axis| map.basis_coords(of).iter().any(|b| b[axis] == step);
        if !axes.into_iter().any(has) {
            let zero = Dims::filled(0, shape.rank());
            bases.register.push(zero.with(axis, step));
        }
        step *= 2;
    }
    let fits = |candidate: &Layout| {
        let whole = candidate.linear(&shape).ok();
        whole.is_some_and(|whole| registers_of_part(&whole, &map, axis, start).is_some())
    };
    let found = [layout.clone(), bases.into()].into_iter().find(fits);
    found.ok_or_else(|| no_part(layout, part))
}

/// The steps from which on registers alone may move along the dimension of a part that begins here.
fn step_of_registers(start: u32) -> u32 {
    match start {
        0 => u32::MAX,
        start => granule(start),
    }
}

fn no_part(layout: &Layout, part: Part) -> LayoutError {
    let Part {
        axis,
        start,
        length,
    } = part;
    let end = start + length;
    let step = step_of_registers(start).min(length.next_power_of_two());
    let why = format!(
        "for {start}..{end} of dimension {axis} to stay in its threads, registers must take the steps of {step} and more along it, \
         and lanes and warps none of them"
    );
    no_relation("slice", layout, why)
}
