//! Reshapes: the same elements in row-major order under another shape.

use super::names::named_or_linear;
use super::refusal::no_relation;
use crate::linear::cut::{bits_below, same_but_ones};
use crate::{Axis, Blocked, Dims, Layout, LayoutError, LinearLayout, rules};

/// The layout of a tensor of `dst_shape` that holds, in the same registers, the elements of a tensor of `src_shape`
/// with `layout` in row-major order. Backward, call it with the shapes exchanged.
pub fn reshape(
    layout: &Layout,
    src_shape: &[u32],
    dst_shape: &[u32],
) -> Result<Layout, LayoutError> {
    rules::shape(layout, src_shape.len(), src_shape)?;
    rules::shape(layout, dst_shape.len(), dst_shape)?;
    let (from, to) = (Dims::from(src_shape), Dims::from(dst_shape));
    if from.product() != to.product() {
        return Err(LayoutError::ElementCount { from, to });
    }
    if layout.rank().is_none() || from == to {
        return Ok(layout.clone());
    }
    if !keeps_cuts(src_shape, dst_shape) {
        if let Some(dims) = same_but_ones(src_shape, dst_shape) {
            let map = layout.linear(src_shape)?.with_dims(&dims);
            let named = blocked_like(layout, &map);
            return Ok(named_or_linear(&map, dst_shape, layout, named));
        }
        let why = format!(
            "of the dimensions of {from} that become one of {to}, or several, only the first may be no power of two"
        );
        return Err(no_relation("reshape", layout, why));
    }
    let map = reshape_map(&layout.linear(src_shape)?, &to);
    let named = blocked_like(layout, &map);
    Ok(named_or_linear(&map, dst_shape, layout, named))
}

/// Do extents that are no powers of two stay first among the dimensions that are merged, and among those that one is taken
/// apart into? Then row-major numbers are put together from bits.
fn keeps_cuts(from: &[u32], to: &[u32]) -> bool {
    let (mut from, mut to) = (from.iter().copied(), to.iter().copied());
    loop {
        let (Some(a), Some(b)) = (from.next(), to.next()) else {
            // What is left on one side are dimensions of 1.
            return true;
        };
        let (mut a, mut b) = (u64::from(a), u64::from(b));
        while a != b {
            let (smaller, rest) = if a < b {
                (&mut a, &mut from as &mut dyn Iterator<Item = u32>)
            } else {
                (&mut b, &mut to as &mut dyn Iterator<Item = u32>)
            };
            match rest.next() {
                Some(size) if size.is_power_of_two() => *smaller *= u64::from(size),
                _ => return false,
            }
        }
    }
}

impl LinearLayout {
    /// The same registers and threads, seen through another shape of as many elements in row-major order; `None` where it
    /// merges or takes apart extents that are no powers of two.
    #[must_use]
    pub fn reshaped(&self, shape: &Dims) -> Option<Self> {
        let own = self.out_sizes();
        if keeps_cuts(&own, shape) {
            return Some(reshape_map(self, shape));
        }
        same_but_ones(&own, shape).map(|dims| self.with_dims(&dims))
    }

    /// The map onto one dimension that numbers the elements row by row. Of the sizes, only the first may be no power of two.
    #[must_use]
    pub fn row_major(&self) -> Self {
        let elements = self.out_sizes().product();
        let elements = u32::try_from(elements).expect("a tensor has fewer than 2^32 elements");
        reshape_map(self, &Dims::from([elements]))
    }
}

/// The map onto `shape`, elements numbered in row-major order on both sides.
fn reshape_map(map: &LinearLayout, shape: &Dims) -> LinearLayout {
    // Packed outputs have dimension 0 lowest; row-major numbers have the last dimension lowest.
    let last_first: Vec<Axis> = Axis::dims(map.outs().len()).rev().collect();
    let sizes = Axis::dims(shape.rank())
        .zip(shape.iter().map(|&size| bits_below(size)))
        .rev();
    // Elements that a cut leaves out come after all others among the dimensions that it is the first of.
    let whole = map.clone().uncut();
    let reshaped = whole
        .with_outs_ordered(&last_first)
        .with_outs_reshaped(sizes);
    let first_first: Vec<Axis> = Axis::dims(shape.rank()).collect();
    reshaped.with_outs_ordered(&first_first).cut_to(shape)
}

/// The blocked layouts that `map` may be, to be verified by its bases; only sought where the source was blocked,
/// since elsewhere the name would say something new.
fn blocked_like(layout: &Layout, map: &LinearLayout) -> impl Iterator<Item = Layout> {
    use Axis::{Lane, Register, Warp};
    // A dimension that registers skip may still have its place among the lanes: whom to ask first differs.
    const ASKED: [[Axis; 3]; 4] = [
        [Register, Lane, Warp],
        [Lane, Register, Warp],
        [Lane, Warp, Register],
        [Warp, Lane, Register],
    ];
    let is_blocked = matches!(layout, Layout::Blocked(_));
    let orders = ASKED
        .into_iter()
        .filter(move |_| is_blocked)
        .map(|axes| order_of_first_use(map, axes));
    orders.filter_map(|order| blocked_in_order(map, order, layout.warps()?))
}

fn blocked_in_order(map: &LinearLayout, order: Dims, warps_of_cta: u32) -> Option<Layout> {
    let rank = order.rank();
    let along = |axis: Axis| -> Dims {
        let count = |dim: usize| {
            map.bases(axis)
                .iter()
                .filter(|&&basis| map.unpack_out(basis)[dim] != 0)
                .count()
        };
        (0..rank).map(|dim| 1 << count(dim)).collect()
    };
    let (mut threads, mut warps) = (along(Axis::Lane), along(Axis::Warp));
    if let Some((dim, count)) = map.divided() {
        warps[dim] = (warps[dim] >> bits_below(count)) * count;
    }
    // Threads and warps beyond the shape hold copies; the slowest dimension is where they may stand.
    let slowest = *order.last()? as usize;
    threads[slowest] *= 32 / u32::try_from(threads.product()).ok()?;
    warps[slowest] *= warps_of_cta / u32::try_from(warps.product()).ok()?;
    let per_thread: Dims = (0..rank).map(|dim| low_register_run(map, dim)).collect();
    Some(
        Blocked::new(per_thread, threads, warps, order)
            .with_ctas(cta_bases(map))
            .into(),
    )
}

/// The dimensions in the order in which the bases of `axes` first touch them, the rest last-first.
fn order_of_first_use(map: &LinearLayout, axes: [Axis; 3]) -> Dims {
    let rank = map.outs().len();
    let mut order = Dims::empty();
    let touched = axes
        .into_iter()
        .flat_map(|axis| map.bases(axis))
        .flat_map(|&basis| {
            let coords = map.unpack_out(basis);
            (0..rank as u32).filter(move |&dim| coords[dim as usize] != 0)
        });
    for dim in touched.chain((0..rank as u32).rev()) {
        if !order.contains(&dim) {
            order.push(dim);
        }
    }
    order
}

/// How far the coordinates 1, 2, 4, ... of a dimension are all register bases, as a size.
fn low_register_run(map: &LinearLayout, dim: usize) -> u32 {
    let shift = map.out_shift(Axis::dim(dim));
    let bits = map.out_bits(Axis::dim(dim));
    let is_register = |bit: &u32| map.bases(Axis::Register).contains(&(1 << (shift + bit)));
    1 << (0..bits).take_while(is_register).count()
}

/// The block bases in units of CTAs.
fn cta_bases(map: &LinearLayout) -> Vec<Dims> {
    let shape = map.out_sizes();
    let bases = map.basis_coords(Axis::Block);
    let split: Dims = (0..shape.rank())
        .map(|dim| 1 << bases.iter().filter(|basis| basis[dim] != 0).count())
        .collect();
    let in_ctas = |basis: &Dims| -> Dims {
        (0..shape.rank())
            .map(|dim| basis[dim] / (shape[dim] / split[dim]).max(1))
            .collect()
    };
    bases.iter().map(in_ctas).collect()
}
