//! From a tensor and its boxes to the tensor map that the hardware takes, with every rule checked.

use ir::elem::DType;
use lowering::tensor_element;
use ptx::{TensorAccess, TensorElement, TensorMap};
use target::{Target, TensorMapLimits};

use super::sequences::cut_into_sequences;
use super::{CopyOptions, Cut, TensorPlace};

/// A buffer as a tensor map sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Where it begins.
    pub(super) address: u64,
    /// How many elements it holds.
    pub(super) elements: usize,
    /// Of what type.
    pub(super) dtype: DType,
}

/// The map as data, its dimensions innermost first as the hardware counts them, or the rule of `target` that is broken.
pub(super) fn describe(
    target: &Target,
    room: Room,
    place: &TensorPlace,
    cut: &Cut,
    options: CopyOptions,
) -> Result<TensorMap, String> {
    let limits = &target.tensor_map;
    check_place(limits, room, place)?;
    let rank = place.shape.len();
    let element_bytes = room.dtype.bytes() as usize;
    let mut map = TensorMap {
        element: element_of(room.dtype, options)?,
        rank: rank as u32,
        address: room.address + (place.offset * element_bytes) as u64,
        dims: padded(place.shape.iter().rev().map(|&extent| extent as u64), 1),
        strides: padded(strides_bytes(limits, place, element_bytes), 0),
        element_strides: padded(cut.steps.iter().rev().copied(), 1),
        access: access(limits, cut, rank)?,
        swizzle: cut.swizzle_bytes,
        nan_fill: options.fills_with_nan,
        l2_promotion: options.l2_promotion,
    };
    if let Some(sequences) = options.sequences {
        cut_into_sequences(&mut map, sequences)?;
    }
    map.validate(target).map_err(|error| error.0)?;
    Ok(map)
}

fn check_place(limits: &TensorMapLimits, room: Room, place: &TensorPlace) -> Result<(), String> {
    let (rank, most) = (place.shape.len(), limits.rank);
    if !(1..=most as usize).contains(&rank) {
        return Err(format!(
            "a tensor of {rank} dimensions; there can be 1 to {most}"
        ));
    }
    if place.strides.len() != rank {
        let strides = place.strides.len();
        return Err(format!(
            "{rank} dimensions and {strides} strides; there must be as many"
        ));
    }
    if place.strides[rank - 1] != 1 {
        let stride = place.strides[rank - 1];
        return Err(format!(
            "the innermost dimension has a stride of {stride} elements; it must be 1"
        ));
    }
    if let Some(dim) = place.shape.iter().position(|&extent| extent == 0) {
        return Err(format!(
            "dimension {dim} of the tensor has no elements, and a tensor map needs one at least along each; leave the launch out where \
             there is nothing to do"
        ));
    }
    let (needs, has) = (place.needs_elements(), room.elements);
    if needs > has {
        return Err(format!(
            "the tensor ends after element {needs} and its buffer has {has}"
        ));
    }
    Ok(())
}

/// Bytes along every dimension but the innermost, inner ones first. Along a dimension with one index no step is ever
/// taken, so there any stride will do, and the hardware's rule for it is met.
fn strides_bytes(
    limits: &TensorMapLimits,
    place: &TensorPlace,
    element_bytes: usize,
) -> impl Iterator<Item = u64> {
    let unit = u64::from(limits.unit_bytes);
    let most = limits.stride_bytes - unit;
    let outer = place.strides.iter().zip(&place.shape).rev().skip(1);
    outer.map(move |(&stride, &extent)| {
        let bytes = (stride as u64).saturating_mul(element_bytes as u64);
        if extent == 1 {
            bytes.min(most).next_multiple_of(unit)
        } else {
            bytes
        }
    })
}

/// The box of a copy, or the pixels.
fn access(limits: &TensorMapLimits, cut: &Cut, rank: usize) -> Result<TensorAccess, String> {
    if cut.steps.len() != rank {
        let steps = cut.steps.len();
        return Err(format!(
            "{rank} dimensions and steps along {steps}; there must be as many"
        ));
    }
    if let Some(step) = cut.steps.last().filter(|&&step| step != 1) {
        return Err(format!(
            "steps of {step} along the innermost dimension; there it must be 1"
        ));
    }
    let Some(window) = &cut.window else {
        let spans = spans(limits, cut, rank)?;
        let box_dims = padded(spans.into_iter().rev(), 1);
        return Ok(TensorAccess::Tiled { box_dims });
    };
    let &[pixels, channels] = cut.block.as_slice() else {
        return Err(format!(
            "a block of {} dimensions; pixels of an image are taken by blocks of pixels and channels",
            cut.block.len()
        ));
    };
    let spatial = rank.saturating_sub(2);
    let offsets_allowed = limits.corner_offsets(rank).ok_or_else(|| {
        let (least, most) = (limits.least_im2col_rank, limits.rank);
        format!(
            "an image of {rank} dimensions; a batch of images with channels has {least} to {most}"
        )
    })?;
    let corner = |name: &str, offsets: &[i32]| -> Result<[i16; 3], String> {
        if offsets.len() != spatial {
            return Err(format!(
                "a window whose {name} corner has {} offsets; an image of {rank} dimensions has {spatial}",
                offsets.len()
            ));
        }
        if let Some(offset) = offsets
            .iter()
            .find(|offset| !offsets_allowed.contains(offset))
        {
            return Err(format!(
                "a window whose {name} corner is off by {offset}; with {rank} dimensions it can be {} to {}",
                offsets_allowed.start(),
                offsets_allowed.end()
            ));
        }
        Ok(padded(offsets.iter().rev().map(|&offset| offset as i16), 0))
    };
    Ok(TensorAccess::Im2col {
        lower_corner: corner("lower", &window.lower)?,
        upper_corner: corner("upper", &window.upper)?,
        channels: within("channels", channels)?,
        pixels: within("pixels", pixels)?,
    })
}

/// The elements that a block reaches over along each dimension, those that its steps pass over included: what the hardware
/// calls a box (CUDA driver API, `cuTensorMapEncodeTiled`, `elementStrides`).
fn spans(limits: &TensorMapLimits, cut: &Cut, rank: usize) -> Result<Vec<u32>, String> {
    let block = cut.block.len();
    if block != rank {
        return Err(format!(
            "{rank} dimensions and a block of {block}; there must be as many"
        ));
    }
    let along = cut.block.iter().zip(&cut.steps);
    let span = |(&count, &step): (&u32, &u32)| {
        let (span, most) = (count.saturating_mul(step), limits.box_elements);
        if span > most {
            return Err(format!(
                "{count} elements in steps of {step} reach over {span}; a copy reaches over at most {most}"
            ));
        }
        Ok(span)
    };
    along.map(span).collect()
}

fn within(what: &str, count: u32) -> Result<u16, String> {
    u16::try_from(count)
        .map_err(|_| format!("a block of {count} {what}; there can be {}", u16::MAX))
}

/// `values` with `rest` behind them.
fn padded<V: Copy, const N: usize>(values: impl Iterator<Item = V>, rest: V) -> [V; N] {
    let mut all = values.chain(std::iter::repeat(rest));
    std::array::from_fn(|_| all.next().unwrap_or(rest))
}

/// The type of the elements, which a load may round.
fn element_of(dtype: DType, options: CopyOptions) -> Result<TensorElement, String> {
    match (options.rounds_to_tf32, dtype) {
        (false, dtype) => Ok(tensor_element(dtype)),
        (true, DType::F32) => Ok(TensorElement::Tf32),
        (true, dtype) => Err(format!(
            "elements of {dtype} rounded to tf32 as they are loaded; only f32 can be"
        )),
    }
}
