//! Reshapes: the same elements in row-major order under another shape.

use super::{named_or_linear, no_relation};
use crate::linear::cut::{bits_below, is_cut, same_but_ones};
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
    let is_cut_within = |shape: &&[u32]| is_cut(shape.get(1..).unwrap_or_default());
    if [src_shape, dst_shape].iter().any(is_cut_within) {
        if let Some(dims) = same_but_ones(src_shape, dst_shape) {
            let map = layout.linear(src_shape)?.with_dims(&dims);
            return Ok(named_or_linear(&map, dst_shape, blocked_like(layout, &map)));
        }
        let why = format!(
            "of {from} and {to}, only the first dimension may be no power of two, or dimensions of 1 may come and go"
        );
        return Err(no_relation("reshape", layout, why));
    }
    let map = reshape_map(&layout.linear(src_shape)?, &to);
    Ok(named_or_linear(&map, dst_shape, blocked_like(layout, &map)))
}

impl LinearLayout {
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
    // Elements that a cut of the first dimension leaves out come after all others in row-major order.
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
    orders.filter_map(|order| blocked_in_order(map, order))
}

fn blocked_in_order(map: &LinearLayout, order: Dims) -> Option<Layout> {
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
    // Threads and warps beyond the shape hold copies; the slowest dimension is where they may stand.
    let slowest = *order.last()? as usize;
    threads[slowest] *= 32 / u32::try_from(threads.product()).ok()?;
    warps[slowest] *= map.in_size(Axis::Warp) / u32::try_from(warps.product()).ok()?;
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
