//! Element types as tensor maps have them.

use ir::elem::DType;
use ptx::TensorElement;

/// The type that the TMA unit takes elements for. It moves bytes; what it does not know as a number is an unsigned integer of the same width.
pub fn tensor_element(dtype: DType) -> TensorElement {
    match dtype {
        DType::I1
        | DType::I8
        | DType::U8
        | DType::E4m3
        | DType::E5m2
        | DType::E4m3b15
        | DType::E2m1
        | DType::E8m0 => TensorElement::U8,
        DType::I16 | DType::U16 => TensorElement::U16,
        DType::I32 => TensorElement::S32,
        DType::U32 => TensorElement::U32,
        DType::I64 => TensorElement::S64,
        DType::U64 => TensorElement::U64,
        DType::F16 => TensorElement::F16,
        DType::Bf16 => TensorElement::Bf16,
        DType::F32 => TensorElement::F32,
        DType::F64 => TensorElement::F64,
    }
}
