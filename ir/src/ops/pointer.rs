//! Pointers moved by offsets, and pointers into memory of other ranks.

use smallvec::smallvec;

use super::create::one_declared;
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

define_op! {
    /// The pointer at an address in memory of another rank, as a map of peers holds it. It is a multiple of 16, and one address in all threads. Atomics
    /// through it have the scope of the system: that of the GPU leaves out the other rank (TK0039).
    pub struct PeerPtr = "peer_ptr" {
        /// A `u64`.
        address: Value,
    }
}

define_op! {
    /// The same pointer, to a table of the addresses of all ranks. What is loaded from it may be of another rank, as is a pointer that is made of it (TK0039).
    pub struct PeerTable = "peer_table" {
        /// A pointer to `u64`.
        table: Value,
    }
}

impl OpRules for PeerTable {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        let ty = func.ty(self.table);
        if *ty != Type::Scalar(Elem::Ptr(DType::U64)) {
            let message = "`peer_table` takes a pointer to `u64`";
            return Err(OpError::new(Code::BrokenRule, message));
        }
        Ok(smallvec![ty.clone()])
    }
    fn is_peer_table(&self) -> bool {
        true
    }
    fn result_facts(&self, _: &Func, known: &KnownFacts, _: &Type) -> Facts {
        known[self.table].clone()
    }
}

/// What a runtime promises of the addresses in a map of peers: 16 bytes, as of every pointer that is passed.
const PEER_DIVISIBILITY: u8 = 4;

impl OpRules for PeerPtr {
    fn result_types(&self, func: &Func, declared: &[Type]) -> Result<Types, OpError> {
        let to = one_declared(declared, "peer_ptr")?;
        let from = func.ty(self.address);
        let gives_pointer = matches!(to, Type::Scalar(Elem::Ptr(_)));
        if *from != Type::Scalar(Elem::Data(DType::U64)) || !gives_pointer {
            let message = "`peer_ptr` makes a pointer of a `u64`";
            return Err(OpError::new(Code::BrokenRule, message));
        }
        Ok(smallvec![to.clone()])
    }
    fn is_peer(&self) -> bool {
        true
    }
    fn result_facts(&self, _: &Func, _: &KnownFacts, _: &Type) -> Facts {
        Facts::splat(&[], PEER_DIVISIBILITY, None)
    }
}
