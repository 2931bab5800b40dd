//! Tensor maps as `tilekit-launch` has the driver encode them.

use ::launch::driver::{MapAccess, MapElement, MapShape, Promotion};
use ptx::{EncodedTensorMap, L2Promotion, TensorAccess, TensorElement, TensorMap};

use super::{Context, CudaFailure};

/// The bytes of a tensor map whose rules have been checked.
pub(crate) fn encode_tensor_map(
    context: &Context,
    map: &TensorMap,
) -> Result<EncodedTensorMap, CudaFailure> {
    context.bind()?;
    let shape = MapShape {
        element: element(map.element),
        rank: map.rank,
        address: map.address,
        dims: map.dims,
        strides_bytes: map.strides,
        steps: map.element_strides,
        access: access(&map.access),
        swizzle_bytes: map.swizzle,
        promotion: promotion(map.l2_promotion),
        fills_with_nan: map.nan_fill,
    };
    shape.encode(context.driver.launcher)
}

fn access(access: &TensorAccess) -> MapAccess {
    match *access {
        TensorAccess::Tiled { box_dims } => MapAccess::Tiled { box_dims },
        TensorAccess::Im2col {
            lower_corner,
            upper_corner,
            channels,
            pixels,
        } => MapAccess::Im2col {
            lower_corner: lower_corner.map(i32::from),
            upper_corner: upper_corner.map(i32::from),
            channels: channels.into(),
            pixels: pixels.into(),
        },
    }
}

fn element(element: TensorElement) -> MapElement {
    match element {
        TensorElement::U8 => MapElement::U8,
        TensorElement::U16 => MapElement::U16,
        TensorElement::U32 => MapElement::U32,
        TensorElement::S32 => MapElement::I32,
        TensorElement::U64 => MapElement::U64,
        TensorElement::S64 => MapElement::I64,
        TensorElement::F16 => MapElement::F16,
        TensorElement::F32 => MapElement::F32,
        TensorElement::F64 => MapElement::F64,
        TensorElement::Bf16 => MapElement::Bf16,
        TensorElement::F32Ftz => MapElement::F32Ftz,
        TensorElement::Tf32 => MapElement::Tf32,
        TensorElement::Tf32Ftz => MapElement::Tf32Ftz,
    }
}

fn promotion(promotion: L2Promotion) -> Promotion {
    match promotion {
        L2Promotion::None => Promotion::None,
        L2Promotion::Bytes64 => Promotion::Bytes64,
        L2Promotion::Bytes128 => Promotion::Bytes128,
        L2Promotion::Bytes256 => Promotion::Bytes256,
    }
}
