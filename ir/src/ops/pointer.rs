//! Pointers moved by offsets.

use smallvec::smallvec;

use super::define::{answers, define_op};
use super::operand_types::{element, mismatch, no_such_op};
use super::{OpRules, Types};
use crate::OpError;
use crate::elem::{DType, Elem};
use crate::entity::Value;
use crate::facts::{self, DimFacts, Facts, KnownFacts, MAX_DIVISIBILITY};
use crate::{Func, Type};
use diag::Code;

define_op! {
    /// Moves each pointer by `offset` elements.
    pub struct PtrAdd = "ptr_add" {
        /// The pointers.
        ptr: Value,
        /// Elements, not bytes; a signed or unsigned integer of 32 or 64 bits.
        offset: Value,
    }
}

impl OpRules for PtrAdd {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        let (ptr, offset) = (func.ty(self.ptr), func.ty(self.offset));
        if !element(ptr)?.is_ptr() {
            return Err(no_such_op("ptr_add", element(ptr)?));
        }
        match element(offset)? {
            Elem::Data(DType::I32 | DType::I64 | DType::U32 | DType::U64) => {}
            other => {
                return Err(OpError::new(
                    Code::ElementMismatch,
                    format!("a pointer moves by integers of 32 or 64 bits, not by {other}"),
                ));
            }
        }
        let wanted = ptr.with_elem(element(offset)?);
        if *offset != wanted {
            return Err(mismatch("ptr_add", self.ptr, ptr, self.offset, offset));
        }
        Ok(smallvec![ptr.clone()])
    }
    answers!(elementwise);
    fn result_facts(&self, _: &Func, known: &KnownFacts, ty: &Type) -> Facts {
        let (ptr, offset) = (&known[self.ptr], &known[self.offset]);
        let elem_bytes = ty.elem().and_then(Elem::pointee).map_or(1, DType::bytes);
        let dims = ptr.dims.iter().zip(&offset.dims).map(|(p, o)| {
            let contiguity = facts::contiguity_of_sum(*p, *o);
            let offset_bytes = o
                .divisibility_at(contiguity)
                .saturating_add(facts::log2(elem_bytes));
            // Within a run of pointers, shorter runs begin at multiples of whole elements.
            let base = if contiguity < p.contiguity {
                p.divisibility.min(contiguity + facts::log2(elem_bytes))
            } else {
                p.divisibility
            };
            DimFacts {
                contiguity,
                divisibility: base.min(offset_bytes).min(MAX_DIVISIBILITY),
                constancy: p.constancy.min(o.constancy),
                stride: stride_bytes(*p, *o, elem_bytes),
            }
        });
        Facts {
            dims: dims.collect(),
            range: None,
        }
    }
}

fn stride_bytes(ptr: DimFacts, offset: DimFacts, elem_bytes: u32) -> Option<i64> {
    let offset = offset.stride?.checked_mul(elem_bytes.into())?;
    ptr.stride?.checked_add(offset)
}
