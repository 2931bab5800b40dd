//! Tensor maps in the emulator's encoding.

use ptx::{L2Promotion, TensorAccess, TensorElement, TensorMap};
use target::Target;
use tilekit_launch::driver::{MapAccess, MapElement, MapShape};

/// The bytes of a tensor map for this target.
///
/// # Errors
/// The rule of the target that it breaks.
pub(crate) fn encoded(shape: &MapShape, target: &Target) -> Result<[u8; 128], String> {
    let MapAccess::Tiled { box_dims } = shape.access else {
        return Err("it is one of pixels (im2col), which exports do not make".to_owned());
    };
    let map = TensorMap {
        element: element(shape.element),
        rank: shape.rank,
        address: shape.address,
        dims: shape.dims,
        strides: shape.strides_bytes,
        element_strides: shape.steps,
        access: TensorAccess::Tiled { box_dims },
        swizzle: shape.swizzle_bytes,
        nan_fill: shape.fills_with_nan,
        // The emulator has no caches.
        l2_promotion: L2Promotion::None,
    };
    emulator::encode_tensor_map(&map, target).map_err(|error| error.0)
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
