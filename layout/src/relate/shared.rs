//! Views of shared memory: the layout of a view so that no data moves.

use super::refusal::no_relation;
use crate::linear::cut::{is_cut, same_but_ones};
use crate::local::{Places, Storage};
use crate::{Axis, Dims, LayoutError, LinearLayout, Padded, SharedLayout, SharedLinear, Unpadded};

/// The dimensions of `alloc_shape` that the layout covers: all but a leading one that counts buffers.
pub fn covered<'s>(layout: &SharedLayout, alloc_shape: &'s [u32]) -> &'s [u32] {
    &alloc_shape[alloc_shape.len() - layout.rank()..]
}

/// What one buffer of an allocation takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferSize {
    /// Offsets in elements, before padding: a power of two.
    pub offsets: u32,
    /// From one buffer to the next of an allocation that holds several, and the size of an allocation of one.
    pub bytes: u32,
    /// Up to its last element: without what aligns the next buffer.
    pub used_bytes: u32,
}

/// What one buffer of an allocation takes.
pub fn buffer_size(
    layout: &SharedLayout,
    alloc_shape: &[u32],
    elem_bytes: u32,
) -> Result<BufferSize, LayoutError> {
    let covered = covered(layout, alloc_shape);
    let elements = Dims::from(covered).product();
    let too_large = || {
        let why = format!("{elements} elements do not fit any shared memory");
        no_relation("allocate", layout, why)
    };
    if elements > MAX_ELEMENTS * u64::from(layout.ctas()) {
        return Err(too_large());
    }
    let places = Places::new(layout, covered)?;
    let offsets = places.buffer_offsets();
    let padding: u64 = match layout {
        SharedLayout::Padded(padded) => {
            let pairs = padded.pairs.iter();
            pairs.map(|p| padding(offsets.into(), *p)).sum()
        }
        _ => 0,
    };
    let alignment = alignment(layout, &places, elem_bytes);
    let bytes = if places.fields().is_empty() {
        (u64::from(offsets) + padding) * u64::from(elem_bytes)
    } else {
        Storage::cut(&places, elem_bytes).1.into()
    };
    let used_bytes = u32::try_from(bytes).map_err(|_| too_large())?;
    u32::try_from(bytes.next_multiple_of(u64::from(alignment)))
        .ok()
        .filter(|&bytes| u64::from(bytes) <= 8 * MAX_ELEMENTS)
        .map(|bytes| BufferSize {
            offsets,
            bytes,
            used_bytes,
        })
        .ok_or_else(too_large)
}

/// More elements than this fit no shared memory.
const MAX_ELEMENTS: u64 = 1 << 20;

/// The padding between `offsets` elements; none follows the last.
fn padding(offsets: u64, [interval, padding]: [u32; 2]) -> u64 {
    offsets.saturating_sub(1) / u64::from(interval) * u64::from(padding)
}

/// The alignment in bytes that an allocation and each of its buffers need: the layout's own, that of the widest access of any
/// target, and so much that the bytes that a swizzle exchanges are not moved apart by the address.
pub fn shared_alignment(
    layout: &SharedLayout,
    alloc_shape: &[u32],
    elem_bytes: u32,
) -> Result<u32, LayoutError> {
    let places = Places::new(layout, covered(layout, alloc_shape))?;
    Ok(alignment(layout, &places, elem_bytes))
}

fn alignment(layout: &SharedLayout, places: &Places, elem_bytes: u32) -> u32 {
    let period = (places.swizzled() + 1).next_power_of_two() * elem_bytes;
    layout
        .alignment_bytes()
        .max(period)
        .max(target::WIDEST_ACCESS_BYTES)
}

/// The bytes of a whole allocation.
pub fn shared_bytes(
    layout: &SharedLayout,
    alloc_shape: &[u32],
    elem_bytes: u32,
) -> Result<u32, LayoutError> {
    let one = buffer_size(layout, alloc_shape, elem_bytes)?.bytes;
    of_buffers(layout, alloc_shape, one)
}

/// The bytes of all buffers of an allocation, without what aligns each: those that copies into all of them complete.
pub fn shared_payload_bytes(
    layout: &SharedLayout,
    alloc_shape: &[u32],
    elem_bytes: u32,
) -> Result<u32, LayoutError> {
    let one = buffer_size(layout, alloc_shape, elem_bytes)?.used_bytes;
    of_buffers(layout, alloc_shape, one)
}

fn of_buffers(layout: &SharedLayout, alloc_shape: &[u32], one: u32) -> Result<u32, LayoutError> {
    let buffers = if alloc_shape.len() > layout.rank() {
        alloc_shape[0]
    } else {
        1
    };
    one.checked_mul(buffers).ok_or_else(|| {
        no_relation(
            "allocate",
            layout,
            format!("{buffers} buffers of {one} bytes do not fit any shared memory"),
        )
    })
}

/// The layout after the first dimension is indexed away.
pub fn index_shared(
    layout: &SharedLayout,
    alloc_shape: &[u32],
) -> Result<SharedLayout, LayoutError> {
    if alloc_shape.len() > layout.rank() {
        return Ok(layout.clone());
    }
    let map = layout.linear(alloc_shape)?;
    if !alloc_shape[0].is_power_of_two() && !Places::new(layout, alloc_shape)?.is_outermost(0) {
        return Err(no_relation(
            "index",
            layout,
            format!(
                "its first dimension has the size {} and lies below another one; allocate it with one dimension more than the layout has",
                alloc_shape[0]
            ),
        ));
    }
    let first = Axis::dim(0);
    let mixes = map
        .basis_coords(Axis::Offset)
        .into_iter()
        .any(|b| b[0] != 0 && b[1..].iter().any(|&c| c != 0));
    if mixes {
        return Err(no_relation(
            "index",
            layout,
            "its swizzle mixes the first dimension into the others; allocate it with one dimension more than the layout has",
        ));
    }
    // What stands between elements would be counted for the padding, and cannot be said of it.
    let is_behind = map
        .basis_coords(Axis::Offset)
        .is_sorted_by_key(|b| b[0] != 0);
    if matches!(layout, SharedLayout::Padded(_)) && !is_behind {
        return Err(no_relation(
            "index",
            layout,
            "its first dimension does not lie behind all others; allocate it with one dimension more than the layout has",
        ));
    }
    let others: Vec<Axis> = Axis::dims(alloc_shape.len())
        .filter(|&a| a != first)
        .collect();
    let rest = map.sublayout(&[Axis::Offset, Axis::Block], &others);
    let renamed = rest.with_outs_renamed(|axis| Axis::dim(dim_of(axis, alloc_shape.len()) - 1));
    from_map(layout, &without_last_zeros(&renamed))
}

/// The map without the offsets behind all elements: what an index has taken away. Buffers, which would lie closer, have
/// been indexed before.
fn without_last_zeros(map: &LinearLayout) -> LinearLayout {
    let (mut offset, block) = (
        map.basis_coords(Axis::Offset),
        map.basis_coords(Axis::Block),
    );
    while offset
        .pop_if(|basis| basis.iter().all(|&c| c == 0))
        .is_some()
    {}
    let groups = [(Axis::Offset, &offset[..]), (Axis::Block, &block[..])];
    LinearLayout::from_bases(groups, &map.out_sizes())
}

/// The layout after dimension `i` has become the operand's dimension `order[i]`.
pub fn permute_shared(
    layout: &SharedLayout,
    alloc_shape: &[u32],
    order: &[u32],
) -> Result<SharedLayout, LayoutError> {
    let order: Dims = if alloc_shape.len() > layout.rank() {
        if order.first() != Some(&0) {
            return Err(no_relation(
                "permute",
                layout,
                "the dimension that counts buffers stays in front",
            ));
        }
        order[1..].iter().map(|d| d - 1).collect()
    } else {
        Dims::from(order)
    };
    if let SharedLayout::Nvmma(nvmma) = layout
        && order[..] == [1, 0]
    {
        let mut turned = (**nvmma).clone();
        turned.transposed = !turned.transposed;
        let turned = SharedLayout::from(turned);
        let shape = Dims::from(covered(layout, alloc_shape)).permuted(&order);
        // The name is kept only where it says the same: a cluster's split is not turned with it.
        let plain = permuted_map(layout, covered(layout, alloc_shape), &order)?;
        if turned.linear(&shape).is_ok_and(|map| map == plain) {
            return Ok(turned);
        }
    }
    from_map(
        layout,
        &permuted_map(layout, covered(layout, alloc_shape), &order)?,
    )
}

fn permuted_map(
    layout: &SharedLayout,
    shape: &[u32],
    order: &[u32],
) -> Result<LinearLayout, LayoutError> {
    let outs: Vec<Axis> = order.iter().map(|&dim| Axis::dim(dim as usize)).collect();
    let moved = layout.linear(shape)?.with_outs_ordered(&outs);
    Ok(moved.with_outs_renamed(|axis| {
        let at = outs.iter().position(|&out| out == axis);
        Axis::dim(at.expect("the order names every dimension"))
    }))
}

/// The layout and allocation shape of a view of `shape` in `alloc_shape`, counted row-major as `to`. What a slice left out
/// becomes high bits of the first dimension of the allocation.
pub fn reshape_shared(
    layout: &SharedLayout,
    shape: &[u32],
    alloc_shape: &[u32],
    to: &[u32],
) -> Result<(SharedLayout, Dims), LayoutError> {
    if alloc_shape.len() > layout.rank() {
        return Err(no_relation(
            "reshape",
            layout,
            "index the dimension that counts buffers away first",
        ));
    }
    if [to, shape, alloc_shape].into_iter().any(is_cut) {
        return reshape_cut(layout, shape, alloc_shape, to);
    }
    let map = layout.linear(alloc_shape)?;
    // For every bit of the old coordinates, the bit of the new ones: row-major over the view, the left-out bits on top.
    let mut alloc_to = Dims::from(to);
    let left_out: u32 = shape
        .iter()
        .zip(alloc_shape)
        .map(|(s, a)| a.trailing_zeros() - s.trailing_zeros())
        .sum();
    alloc_to[0] <<= left_out;
    let view_bits: u32 = shape.iter().map(|s| s.trailing_zeros()).sum();
    let mut kept = view_bits;
    let mut dropped = view_bits;
    let mut number_of = vec![Vec::new(); shape.len()];
    for dim in 0..shape.len() {
        kept -= shape[dim].trailing_zeros();
        for bit in 0..alloc_shape[dim].trailing_zeros() {
            let inside = bit < shape[dim].trailing_zeros();
            number_of[dim].push(if inside { kept + bit } else { dropped });
            dropped += u32::from(!inside);
        }
    }
    let renumber = |basis: &Dims| -> Dims {
        let mut number = 0_u64;
        for (dim, &coord) in basis.iter().enumerate() {
            for (bit, &at) in number_of[dim].iter().enumerate() {
                number |= u64::from(coord >> bit & 1) << at;
            }
        }
        coordinates(number, &alloc_to)
    };
    let groups = [Axis::Offset, Axis::Block].map(|axis| {
        (
            axis,
            map.basis_coords(axis)
                .iter()
                .map(renumber)
                .collect::<Vec<_>>(),
        )
    });
    let reshaped = LinearLayout::from_bases(
        groups.iter().map(|(axis, bases)| (*axis, &bases[..])),
        &alloc_to,
    );
    Ok((from_map(layout, &reshaped)?, alloc_to))
}

/// The same of sizes that are no powers of two: dimensions of 1 come and go.
fn reshape_cut(
    layout: &SharedLayout,
    shape: &[u32],
    alloc_shape: &[u32],
    to: &[u32],
) -> Result<(SharedLayout, Dims), LayoutError> {
    let same = same_but_ones(shape, to);
    let is_part = |dim: usize| shape[dim] == 1 && alloc_shape[dim] != 1;
    let Some(dims) = same.filter(|_| !(0..shape.len()).any(is_part)) else {
        let (shape, to) = (Dims::from(shape), Dims::from(to));
        let why = format!(
            "of {shape}, which {to} is to be, a dimension is no power of two: then only dimensions of 1 come and go"
        );
        return Err(no_relation("reshape", layout, why));
    };
    let map = layout.linear(alloc_shape)?.with_dims(&dims);
    let alloc_to = dims.iter().map(|dim| dim.map_or(1, |dim| alloc_shape[dim]));
    Ok((from_map(layout, &map)?, alloc_to.collect()))
}

/// The coordinates of a row-major number.
fn coordinates(mut number: u64, shape: &Dims) -> Dims {
    let mut coords = Dims::filled(0, shape.rank());
    for dim in (0..shape.rank()).rev() {
        // The first dimension takes all that is left.
        let size = if dim == 0 {
            u64::MAX
        } else {
            u64::from(shape[dim])
        };
        coords[dim] = (number % size) as u32;
        number /= size;
    }
    coords
}

fn dim_of(axis: Axis, rank: usize) -> usize {
    let at = Axis::dims(rank).position(|a| a == axis);
    at.expect("an output of a layout is a dimension")
}

/// A layout of the same kind of storage as `like` (padded or not) with the bases of `map`.
fn from_map(like: &SharedLayout, map: &LinearLayout) -> Result<SharedLayout, LayoutError> {
    let (mut offset, block) = (
        map.basis_coords(Axis::Offset),
        map.basis_coords(Axis::Block),
    );
    let layout: SharedLayout = match like {
        SharedLayout::Padded(padded) if map.total_out_bits() > 0 => Padded {
            pairs: padded.pairs.clone(),
            unpadded: Unpadded::Bases(offset),
            cta_bases: block,
        }
        .into(),
        _ => {
            // A single element has no basis that tells the number of dimensions.
            if offset.is_empty() && block.is_empty() {
                offset.push(Dims::filled(0, map.outs().len()));
            }
            SharedLinear {
                offset,
                block,
                alignment_bytes: like.alignment_bytes(),
            }
            .into()
        }
    };
    layout.check_parameters()?;
    Ok(layout)
}
