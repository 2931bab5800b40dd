//! Tensor maps in the emulator's encoding.

use std::fmt::Display;

use ptx::{L2Promotion, TensorAccess, TensorElement, TensorMap};
use target::Target;
use tilekit_launch::driver::{MapAccess, MapElement, MapShape};

/// The bytes of a tensor map for this target.
///
/// # Errors
/// The rule of the target that it breaks.
pub(crate) fn encoded(shape: &MapShape, target: &Target) -> Result<[u8; 128], String> {
    let access = access(&shape.access)?;
    let map = TensorMap {
        element: element(shape.element),
        rank: shape.rank,
        address: shape.address,
        dims: shape.dims,
        strides: shape.strides_bytes,
        element_strides: shape.steps,
        access,
        swizzle: shape.swizzle_bytes,
        nan_fill: shape.fills_with_nan,
        // The emulator has no caches.
        l2_promotion: L2Promotion::None,
    };
    emulator::encode_tensor_map(&map, target).map_err(|error| error.0)
}

fn access(access: &MapAccess) -> Result<TensorAccess, String> {
    Ok(match *access {
        MapAccess::Tiled { box_dims } => TensorAccess::Tiled { box_dims },
        MapAccess::Im2col {
            lower_corner,
            upper_corner,
            channels,
            pixels,
        } => TensorAccess::Im2col {
            lower_corner: narrow("corner", lower_corner)?,
            upper_corner: narrow("corner", upper_corner)?,
            channels: narrow("number of channels", [channels])?[0],
            pixels: narrow("number of pixels", [pixels])?[0],
        },
    })
}

/// Numbers of 16 bits.
fn narrow<V: Copy + Display, W: Copy + Default + TryFrom<V>, const N: usize>(
    what: &str,
    values: [V; N],
) -> Result<[W; N], String> {
    let mut narrowed = [W::default(); N];
    for (to, from) in narrowed.iter_mut().zip(values) {
        *to = W::try_from(from).map_err(|_| format!("its {what} {from} has more than 16 bits"))?;
    }
    Ok(narrowed)
}

fn element(element: MapElement) -> TensorElement {
    match element {
        MapElement::U8 => TensorElement::U8,
        MapElement::U16 => TensorElement::U16,
        MapElement::U32 => TensorElement::U32,
        MapElement::I32 => TensorElement::S32,
        MapElement::U64 => TensorElement::U64,
        MapElement::I64 => TensorElement::S64,
        MapElement::F16 => TensorElement::F16,
        MapElement::F32 => TensorElement::F32,
        MapElement::F64 => TensorElement::F64,
        MapElement::Bf16 => TensorElement::Bf16,
        MapElement::F32Ftz => TensorElement::F32Ftz,
        MapElement::Tf32 => TensorElement::Tf32,
        MapElement::Tf32Ftz => TensorElement::Tf32Ftz,
    }
}
