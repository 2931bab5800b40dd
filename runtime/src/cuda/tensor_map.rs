//! Tensor maps in the hardware's encoding, which only the driver knows.

#![allow(unsafe_code, reason = "foreign functions of the driver")]

use std::ffi::{c_int, c_void};
use target::MOST_TENSOR_RANK;

use cudarc::driver::sys::{
    self, CUtensorMapDataType_enum as DataType, CUtensorMapFloatOOBfill_enum as Fill,
    CUtensorMapInterleave_enum as Interleave, CUtensorMapL2promotion_enum as Promotion,
    CUtensorMapSwizzle_enum as Swizzle,
};
use ptx::{EncodedTensorMap, L2Promotion, TensorAccess, TensorElement, TensorMap};

use super::{Context, CudaFailure};

/// The bytes of a tensor map whose rules have been checked.
pub(crate) fn encode_tensor_map(
    context: &Context,
    map: &TensorMap,
) -> Result<EncodedTensorMap, CudaFailure> {
    let mut encoded = sys::CUtensorMap { opaque: [0; 16] };
    context.bind()?;
    match map.access {
        TensorAccess::Tiled { box_dims } => {
            encode_tiled(context, map, &box_dims, &mut encoded)?;
        }
        TensorAccess::Im2col {
            lower_corner,
            upper_corner,
            channels,
            pixels,
        } => {
            let corners = [lower_corner, upper_corner].map(|corner| corner.map(c_int::from));
            let block = [channels, pixels].map(u32::from);
            encode_im2col(context, map, &corners, block, &mut encoded)?;
        }
    }
    let mut bytes = [0; size_of::<EncodedTensorMap>()];
    for (part, word) in bytes.chunks_exact_mut(8).zip(encoded.opaque) {
        part.copy_from_slice(&word.to_ne_bytes());
    }
    Ok(bytes)
}

/// A map with boxes of `box_dims`.
fn encode_tiled(
    context: &Context,
    map: &TensorMap,
    box_dims: &[u32; MOST_TENSOR_RANK],
    encoded: &mut sys::CUtensorMap,
) -> Result<(), CudaFailure> {
    // SAFETY: writes one aligned tensor map; each array has at least `rank` entries, the strides `rank` - 1; the
    // address is only recorded.
    let code = unsafe {
        (context.driver.cuTensorMapEncodeTiled)(
            encoded,
            data_type(map.element),
            map.rank,
            std::ptr::without_provenance_mut::<c_void>(map.address as usize),
            map.dims.as_ptr(),
            map.strides.as_ptr(),
            box_dims.as_ptr(),
            map.element_strides.as_ptr(),
            Interleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
            swizzle(map.swizzle),
            l2_promotion(map.l2_promotion),
            fill(map),
        )
    };
    context.driver.check("cuTensorMapEncodeTiled", code)
}

/// A map of the pixels of an image, between the lower and the upper corner, in blocks of so many channels and pixels.
fn encode_im2col(
    context: &Context,
    map: &TensorMap,
    [lower, upper]: &[[c_int; 3]; 2],
    [channels, pixels]: [u32; 2],
    encoded: &mut sys::CUtensorMap,
) -> Result<(), CudaFailure> {
    // SAFETY: as above; a corner has `rank` - 2 entries, 3 at the most.
    let code = unsafe {
        (context.driver.cuTensorMapEncodeIm2col)(
            encoded,
            data_type(map.element),
            map.rank,
            std::ptr::without_provenance_mut::<c_void>(map.address as usize),
            map.dims.as_ptr(),
            map.strides.as_ptr(),
            lower.as_ptr(),
            upper.as_ptr(),
            channels,
            pixels,
            map.element_strides.as_ptr(),
            Interleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
            swizzle(map.swizzle),
            l2_promotion(map.l2_promotion),
            fill(map),
        )
    };
    context.driver.check("cuTensorMapEncodeIm2col", code)
}

fn fill(map: &TensorMap) -> Fill {
    if map.nan_fill {
        Fill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA
    } else {
        Fill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE
    }
}

fn data_type(element: TensorElement) -> DataType {
    match element {
        TensorElement::U8 => DataType::CU_TENSOR_MAP_DATA_TYPE_UINT8,
        TensorElement::U16 => DataType::CU_TENSOR_MAP_DATA_TYPE_UINT16,
        TensorElement::U32 => DataType::CU_TENSOR_MAP_DATA_TYPE_UINT32,
        TensorElement::S32 => DataType::CU_TENSOR_MAP_DATA_TYPE_INT32,
        TensorElement::U64 => DataType::CU_TENSOR_MAP_DATA_TYPE_UINT64,
        TensorElement::S64 => DataType::CU_TENSOR_MAP_DATA_TYPE_INT64,
        TensorElement::F16 => DataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        TensorElement::F32 => DataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        TensorElement::F64 => DataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
        TensorElement::Bf16 => DataType::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        TensorElement::F32Ftz => DataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ,
        TensorElement::Tf32 => DataType::CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
        TensorElement::Tf32Ftz => DataType::CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ,
    }
}

/// The driver's name of a swizzle over `bytes` bytes, which is 0, 32, 64 or 128 in a valid map.
fn swizzle(bytes: u32) -> Swizzle {
    match bytes {
        32 => Swizzle::CU_TENSOR_MAP_SWIZZLE_32B,
        64 => Swizzle::CU_TENSOR_MAP_SWIZZLE_64B,
        128 => Swizzle::CU_TENSOR_MAP_SWIZZLE_128B,
        _ => Swizzle::CU_TENSOR_MAP_SWIZZLE_NONE,
    }
}

fn l2_promotion(promotion: L2Promotion) -> Promotion {
    match promotion {
        L2Promotion::None => Promotion::CU_TENSOR_MAP_L2_PROMOTION_NONE,
        L2Promotion::Bytes64 => Promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_64B,
        L2Promotion::Bytes128 => Promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        L2Promotion::Bytes256 => Promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
    }
}
