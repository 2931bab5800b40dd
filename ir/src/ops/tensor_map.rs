//! Tensor maps that a kernel makes (PTX ISA, `tensormap.replace`), for tensors that the host does not know: groups of
//! different sizes, or addresses that lie in memory.

use smallvec::smallvec;

use super::create::one_declared;
use super::define::{Values, answers, define_op};
use super::tma::is_whole_units;
use super::{OpRules, Types};
use crate::OpError;
use crate::elem::{DType, Elem};
use crate::entity::Value;
use crate::{Effects, Func, Spaces, TensorMapMode, TensorMapType, Type};
use diag::Code;

define_op! {
    /// A tensor map of elements in global memory, written to `place` by one thread and then visible to all of the partition.
    pub struct MakeTensorMap = "make_tensor_map" {
        /// Elements outside of the tensor are loaded as NaN and not as zero.
        fills_with_nan: bool,
        /// Elements of f32 are rounded to the nearest tf32 as they are loaded.
        rounds_to_tf32: bool,
        /// The address of the map, [`TENSOR_MAP_BYTES`](target::TENSOR_MAP_BYTES) aligned to their number.
        place: Value,
        /// The first element of the tensor, aligned to [`unit_bytes`](target::TensorMapLimits::unit_bytes).
        base: Value,
        /// The sizes of its dimensions, the slowest first; scalars i32.
        shape: Values,
        /// Elements from one index to the next along each dimension but the last, which is dense; scalars i64.
        strides: Values,
    }
}

impl OpRules for MakeTensorMap {
    fn result_types(&self, func: &Func, declared: &[Type]) -> Result<Types, OpError> {
        let to = one_declared(declared, "make_tensor_map")?;
        let Some(m) = to
            .as_tensor_map()
            .filter(|m| m.mode == TensorMapMode::Tiled)
        else {
            return Err(OpError::new(
                Code::BrokenRule,
                format!("`make_tensor_map` gives a tiled tensor map, not {to}"),
            ));
        };
        check_pointer(func, self.place, Elem::Data(DType::U64), "for the map")?;
        check_pointer(func, self.base, m.elem, "to the tensor")?;
        if self.fills_with_nan && !m.elem.is_float() {
            let message = format!("{} has no NaN to be loaded outside of the tensor", m.elem);
            return Err(OpError::new(Code::ElementMismatch, message)
                .help("use a float element type, or remove `filled_with_nan()`"));
        }
        if self.rounds_to_tf32 && m.elem != Elem::F32 {
            let message = format!("{} cannot be rounded to tf32 as it is loaded", m.elem);
            return Err(OpError::new(Code::ElementMismatch, message)
                .help("use f32 elements, or remove `rounded_to_tf32()`"));
        }
        self.check_dimensions(func, m)?;
        Ok(smallvec![to.clone()])
    }
    answers!(effects(MAKES), free_layouts);
}

const MAKES: Effects = Effects {
    writes: Spaces::GLOBAL,
    is_ordered: true,
    is_guarded: true,
    ..Effects::PURE
};

impl MakeTensorMap {
    fn check_dimensions(&self, func: &Func, m: &TensorMapType) -> Result<(), OpError> {
        let rank = m.block.rank();
        if self.shape.len() != rank || self.strides.len() + 1 != rank {
            let message = format!(
                "a tensor of {} dimensions with {} strides, and blocks of {rank} dimensions",
                self.shape.len(),
                self.strides.len()
            );
            return Err(OpError::new(Code::RankMismatch, message).help(
                "give a size for each dimension of the block, and a stride for each but the last",
            ));
        }
        for &size in &self.shape {
            check_scalar(func, size, Elem::I32, "size")?;
        }
        for &stride in &self.strides {
            check_scalar(func, stride, Elem::I64, "stride")?;
            check_stride(func, stride, m.elem.bytes())?;
        }
        Ok(())
    }
}

fn check_pointer(func: &Func, ptr: Value, pointee: Elem, what: &str) -> Result<(), OpError> {
    let ty = func.ty(ptr);
    match ty {
        Type::Scalar(Elem::Ptr(dtype)) if Elem::Data(*dtype) == pointee => Ok(()),
        _ => Err(OpError::new(
            Code::ElementMismatch,
            format!("a tensor map takes a pointer to {pointee} {what}, not {ty}"),
        )
        .typed(ptr, ty)),
    }
}

fn check_scalar(func: &Func, value: Value, elem: Elem, what: &str) -> Result<(), OpError> {
    let ty = func.ty(value);
    if *ty == Type::Scalar(elem) {
        return Ok(());
    }
    let message = format!("a {what} of a tensor is a scalar {elem}, not {ty}");
    Err(OpError::new(Code::ElementMismatch, message).typed(value, ty))
}

/// Strides are multiples of the bytes that TMA copies. Constants are checked here, runtime values when the kernel runs.
fn check_stride(func: &Func, stride: Value, elem_bytes: u32) -> Result<(), OpError> {
    let unit = func.target.tensor_map.unit_bytes;
    match func.constant_int(stride) {
        Some(known) if known < 0 || !is_whole_units(func, known, elem_bytes) => Err(OpError::new(
            Code::AccessWidth,
            format!(
                "a stride of {known} elements of {elem_bytes} bytes, and strides of a tensor map are multiples of {unit} bytes"
            ),
        )
        .origin(stride, "this stride")
        .help(format!("pad rows to a multiple of {} elements", unit / elem_bytes))),
        _ => Ok(()),
    }
}
