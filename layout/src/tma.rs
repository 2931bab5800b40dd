//! Cutting a block into the boxes that TMA moves, one instruction each.
//!
//! The kernel asks for the messages and the host makes the tensor map with the same box, so both take it from here.
//! Where the CTAs of a cluster split a block, each moves its own part: what is cut into boxes is the part of one CTA.

use target::{Target, TensorMapLimits};

use super::linear::cut::{bits_below, granule};
use super::local::{Places, Storage};
use super::relate::shared_alignment;
use super::{Dims, LayoutError, Nvmma, SharedLayout};

/// How a block is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BoxKind {
    /// Boxes of a tensor of the block's rank.
    Tiled,
    /// Rows of pixels, each with a run of channels: blocks of two dimensions.
    Im2col,
}

/// One message of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TmaMessage {
    /// Where its box begins in the block, or in the CTA's part of it, in elements.
    pub origin: Dims,
    /// Where its box begins in the CTA's shared memory, in bytes from the begin of what it holds of the block.
    pub offset_bytes: u32,
}

/// The box of one message: the block with at most
/// [`box_elements`](TensorMapLimits::box_elements) along each dimension, and as wide as the swizzle along
/// the innermost. An im2col box keeps all its pixels. Boxes are all of one size, so that of a longer dimension which is no
/// power of two a box has what divides it.
///
/// # Errors
/// A layout or block that TMA cannot move.
pub fn tma_box(
    target: &Target,
    block: &[u32],
    layout: &SharedLayout,
    elem_bits: u32,
    kind: BoxKind,
) -> Result<Dims, LayoutError> {
    let nvmma = tma_layout(layout, elem_bits)?;
    layout.check(block)?;
    let limits = &target.tensor_map;
    check_block(limits, block, layout, elem_bits, kind)?;
    let part = layout.part_of(block)?;
    check_part(limits, (block, &part), layout, elem_bits, kind)?;
    let mut dims: Dims = part
        .iter()
        .map(|&size| along_box(size, limits.box_elements))
        .collect();
    if kind == BoxKind::Im2col {
        dims[0] = part[0];
    }
    let innermost = part.len() - 1;
    if nvmma.swizzle_bytes > 0 {
        dims[innermost] = nvmma.swizzle_bytes * 8 / elem_bits;
    }
    Ok(dims)
}

/// Elements of a box along a dimension of this size: all, or the most that divide it and fit a box. A multiple of 8, if it can
/// be, lets each box begin where a swizzle does.
fn along_box(size: u32, most_elements: u32) -> u32 {
    if size <= most_elements || size.is_power_of_two() {
        return size.min(most_elements);
    }
    let divides = |of: &u32| size.is_multiple_of(*of);
    let step = granule(size).min(8);
    let most = (1..=most_elements / step)
        .rev()
        .map(|boxes| boxes * step)
        .find(divides);
    most.unwrap_or(step)
}

/// The messages that move a block, or a CTA's part of it, in the order of its rows, where an allocation of its own holds it.
///
/// # Errors
/// Those of [`tma_box`], and a block whose boxes are not laid out in shared memory as TMA writes them.
pub fn tma_messages(
    target: &Target,
    block: &[u32],
    layout: &SharedLayout,
    elem_bits: u32,
    kind: BoxKind,
) -> Result<Vec<TmaMessage>, LayoutError> {
    tma_messages_in(target, (layout, block), block, layout, elem_bits, kind)
}

/// The same where a view holds the block: a view of the block's shape of an allocation with this layout and shape. A part of
/// an allocation will do, since each box may begin anywhere that the swizzle does.
///
/// # Errors
/// Those of [`tma_messages`].
pub fn tma_messages_in(
    target: &Target,
    (view, alloc_shape): (&SharedLayout, &[u32]),
    block: &[u32],
    layout: &SharedLayout,
    elem_bits: u32,
    kind: BoxKind,
) -> Result<Vec<TmaMessage>, LayoutError> {
    let size = tma_box(target, block, layout, elem_bits, kind)?;
    let part = layout.part_of(block)?;
    let places = Places::new(view, alloc_shape)?;
    if !places.hold_parts(&part, &layout.part_origins(block)?) {
        let why = "the CTAs of the cluster split what holds the block in another way";
        return Err(refuse(layout, why.to_owned()));
    }
    let storage = Storage::new(view, alloc_shape, elem_bits / 8)?;
    let holder = Holder {
        places: &places,
        storage: &storage,
        view,
        alloc_shape,
    };
    holder.check_box(&size, layout, block)?;
    holder.check_pattern(layout, block)?;
    let message = |origin: Dims| TmaMessage {
        offset_bytes: storage.bytes(places.offset(&origin)),
        origin,
    };
    let messages: Vec<TmaMessage> = origins(&part, &size).into_iter().map(message).collect();
    check_alignment(&messages, layout, block)?;
    Ok(messages)
}

/// Where the boxes of this size that a block is cut into begin.
fn origins(block: &[u32], size: &Dims) -> Vec<Dims> {
    let mut origins = vec![Dims::filled(0, block.len())];
    for dim in 0..block.len() {
        let steps = block[dim] / size[dim];
        let along = |origin: &Dims| -> Vec<Dims> {
            let step = |at| origin.with(dim, at * size[dim]);
            (0..steps).map(step).collect()
        };
        origins = origins.iter().flat_map(along).collect();
    }
    origins
}

fn refuse(layout: &SharedLayout, why: String) -> LayoutError {
    LayoutError::NotForCopies {
        layout: layout.to_string(),
        why,
    }
}

/// The parameters of a layout that TMA writes.
fn tma_layout(layout: &SharedLayout, elem_bits: u32) -> Result<&Nvmma, LayoutError> {
    let SharedLayout::Nvmma(nvmma) = layout else {
        return Err(refuse(layout, "it writes `Nvmma` layouts only".to_owned()));
    };
    if nvmma.transposed {
        let why = "it writes rows of the innermost dimension; take the layout without `transpose`, and transpose the view";
        return Err(refuse(layout, why.to_owned()));
    }
    if nvmma.fp4_padded {
        return Err(refuse(layout, "it does not pad 4-bit elements".to_owned()));
    }
    if nvmma.element_bits != elem_bits {
        let why = format!("the elements have {elem_bits} bits");
        return Err(refuse(layout, why));
    }
    Ok(nvmma)
}

fn check_block(
    limits: &TensorMapLimits,
    block: &[u32],
    layout: &SharedLayout,
    elem_bits: u32,
    kind: BoxKind,
) -> Result<(), LayoutError> {
    let rank = block.len();
    if kind == BoxKind::Im2col && rank != 2 {
        let why = format!("an im2col block has pixels and channels, not {rank} dimensions");
        return Err(refuse(layout, why));
    }
    if rank > limits.rank as usize {
        let why = format!("a block has 1 to {} dimensions, not {rank}", limits.rank);
        return Err(refuse(layout, why));
    }
    let bytes = block.iter().fold(u64::from(elem_bits), |bits, &extent| {
        bits.saturating_mul(extent.into())
    }) / 8;
    if bytes > u32::MAX.into() {
        let block = Dims::from(block);
        let why = format!(
            "the block {block} has {bytes} bytes, and places in shared memory have 32 bits"
        );
        return Err(refuse(layout, why));
    }
    Ok(())
}

/// What one CTA moves of a block; all of it without a cluster.
fn check_part(
    limits: &TensorMapLimits,
    (block, part): (&[u32], &Dims),
    layout: &SharedLayout,
    elem_bits: u32,
    kind: BoxKind,
) -> Result<(), LayoutError> {
    if kind == BoxKind::Im2col && part[0] != block[0] {
        let why = "the CTAs of a cluster split its pixels, and where a part of them begins depends on the image; split the channels, or give each CTA a block of its own";
        return Err(refuse(layout, why.to_owned()));
    }
    if kind == BoxKind::Im2col && part[0] > limits.pixels {
        let why = format!(
            "an im2col block has at most {} pixels, not {}",
            limits.pixels, part[0]
        );
        return Err(refuse(layout, why));
    }
    let row_bytes = u64::from(part[part.rank() - 1]) * u64::from(elem_bits) / 8;
    if row_bytes < limits.unit_bytes.into() {
        let whose = if part[..] == *block {
            ""
        } else {
            "of a CTA's part "
        };
        let why = format!(
            "a row {whose}of the block {} has {row_bytes} bytes, and TMA moves multiples of {}",
            Dims::from(block),
            limits.unit_bytes
        );
        return Err(refuse(layout, why));
    }
    Ok(())
}

/// What holds a block in shared memory.
struct Holder<'a> {
    places: &'a Places,
    storage: &'a Storage,
    view: &'a SharedLayout,
    alloc_shape: &'a [u32],
}

impl Holder<'_> {
    /// Within a box the elements lie as in the layout of the box alone, which is what TMA writes.
    fn check_box(
        &self,
        size: &Dims,
        layout: &SharedLayout,
        block: &[u32],
    ) -> Result<(), LayoutError> {
        let own = Places::new(&layout.without_ctas(), size)?;
        let own_storage = Storage::new(&layout.without_ctas(), size, self.storage.elem_bytes)?;
        for dim in 0..size.len() {
            for bit in 0..bits_below(size[dim]) {
                let at = Dims::filled(0, size.len()).with(dim, 1 << bit);
                let own_bytes = own_storage.bytes(own.offset(&at));
                if self.storage.bytes(self.places.offset(&at)) != own_bytes {
                    let why = format!(
                        "the boxes of {size} that the block {} is cut into do not lie in one piece",
                        Dims::from(block)
                    );
                    return Err(refuse(layout, why));
                }
            }
        }
        Ok(())
    }

    /// The view begins where the swizzle's pattern does, and beyond one pattern places are sums of those of coordinates.
    fn check_pattern(&self, layout: &SharedLayout, block: &[u32]) -> Result<(), LayoutError> {
        let pattern = layout.alignment_bytes();
        let elem_bytes = self.storage.elem_bytes;
        let starts = self.places.start_reach(block) * elem_bytes;
        let swizzled = (self.places.swizzled() + 1) * elem_bytes;
        let alignment = shared_alignment(self.view, self.alloc_shape, elem_bytes)?;
        let fits = starts.is_multiple_of(pattern)
            && swizzled <= pattern
            && alignment.is_multiple_of(pattern)
            && !matches!(self.view, SharedLayout::Padded(_));
        if fits {
            return Ok(());
        }
        let why = format!(
            "what holds the block {} does not begin at a multiple of {pattern} bytes",
            Dims::from(block)
        );
        Err(refuse(layout, why))
    }
}

/// TMA swizzles by the bits of the address, so that each box must begin where the pattern does.
fn check_alignment(
    messages: &[TmaMessage],
    layout: &SharedLayout,
    block: &[u32],
) -> Result<(), LayoutError> {
    let pattern = layout.alignment_bytes();
    let is_off = |m: &&TmaMessage| !m.offset_bytes.is_multiple_of(pattern);
    let Some(off) = messages.iter().find(is_off) else {
        return Ok(());
    };
    let why = format!(
        "the block {} is cut into {} boxes, one of which begins {} bytes behind the first, and each must begin at a multiple of {pattern}; take at least 8 rows, or a row no wider than the swizzle",
        Dims::from(block),
        messages.len(),
        off.offset_bytes
    );
    Err(refuse(layout, why))
}
