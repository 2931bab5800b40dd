//! Linear copies of the copy engine (PTX ISA 9.7.9.25.4): one thread asks for the whole run.

use cranelift_entity::packed_option::PackedOption;
use gluon_lang::elem::{DType, Elem};
use gluon_lang::entity::{Inst, Value};
use gluon_lang::ops::arith::BinaryOp;
use gluon_lang::ops::bulk::{BulkLoad, BulkPrefetch, BulkStore};
use ptx::{AtomOp, BulkSharedDst, Operand, Predicate, Type};

use super::element::Element;
use super::tma::atom_op;
use super::{Emitted, Emitter, Lower};

impl Lower for BulkLoad {
    fn lower(&self, _: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let guard = cx.one_thread(self.predicate.expand());
        let policy = cx.l2_policy(self.policy);
        let multicast = self.multicast.expand().map(|mask| cx.cta_mask(mask));
        let src = cx.code.address(cx.scalar(self.src));
        let dst = cx.view_address(self.view, 0);
        let mbar = cx.view_address(self.barrier, 0);
        let bytes = cx.run_bytes(self.view, self.count, guard);
        let load = ptx::BulkLoad {
            policy,
            multicast,
            ..ptx::BulkLoad::new(BulkSharedDst::Cluster, dst, src, bytes, mbar)
        };
        cx.code.push_guarded(guard, load);
        Ok(())
    }
}

impl Lower for BulkStore {
    fn lower(&self, _: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let guard = cx.one_thread(self.predicate.expand());
        let policy = cx.l2_policy(self.policy);
        let dst = cx.code.address(cx.scalar(self.dst));
        let src = cx.view_address(self.view, 0);
        let bytes = cx.run_bytes(self.view, self.count, guard);
        match atom_op(self.op) {
            None => {
                let store = ptx::BulkStore::new(dst, src, bytes);
                cx.code
                    .push_guarded(guard, ptx::BulkStore { policy, ..store });
            }
            Some(op) => {
                let (op, ty) = reduction(op, cx.func.ty(self.view).elem());
                let reduce = ptx::BulkReduce::new(op, ty, dst, src, bytes);
                cx.code
                    .push_guarded(guard, ptx::BulkReduce { policy, ..reduce });
            }
        }
        let asker = cx.one_thread(None);
        cx.code.push_guarded(asker, ptx::BulkCommitGroup::new());
        Ok(())
    }
}

impl Lower for BulkPrefetch {
    fn lower(&self, _: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let guard = cx.one_thread(self.predicate.expand());
        let policy = cx.l2_policy(self.policy);
        let src = cx.code.address(cx.scalar(self.src));
        let elem = cx.func.ty(self.src).elem().and_then(Elem::pointee);
        let elem = elem.expect("the verifier admits only pointers here");
        let bytes = cx.bytes_of(self.count, elem.bytes());
        let prefetch = ptx::BulkPrefetch::new(src, bytes);
        cx.code
            .push_guarded(guard, ptx::BulkPrefetch { policy, ..prefetch });
        Ok(())
    }
}

/// How the engine calls a combination of elements (PTX ISA, `cp.reduce.async.bulk`).
pub(super) fn reduction(op: AtomOp, elem: Option<Elem>) -> (AtomOp, Type) {
    let dtype = elem.and_then(Elem::data).expect("shared memory holds data");
    let is_bitwise = matches!(op, AtomOp::And | AtomOp::Or | AtomOp::Xor);
    let ty = match (dtype, is_bitwise) {
        (DType::I32 | DType::U32, true) => Type::B32,
        (DType::I64 | DType::U64, true) => Type::B64,
        (DType::I32, _) => Type::S32,
        (DType::I64, _) => Type::S64,
        (DType::U32, _) => Type::U32,
        (DType::U64, _) => Type::U64,
        (DType::F16, _) => Type::F16,
        (DType::Bf16, _) => Type::Bf16,
        (DType::F32, _) => Type::F32,
        (DType::F64, _) => Type::F64,
        (other, _) => panic!("the verifier admits no combination of {other}"),
    };
    let is_half = matches!(ty, Type::F16 | Type::Bf16);
    match op {
        AtomOp::Add if is_half => (AtomOp::AddNoFtz, ty),
        op => (op, ty),
    }
}

impl Emitter<'_> {
    /// The bytes of the first `count` elements of a view, or of all. `guard` says where they are copied.
    pub(super) fn run_bytes(
        &mut self,
        view: Value,
        count: PackedOption<Value>,
        guard: Option<Predicate>,
    ) -> Operand {
        let s = self.func.ty(view).as_smem();
        let s = s.expect("the verifier admits only shared memory here");
        let elem_bytes = s.elem.bytes();
        match count.expand() {
            None => Operand::Int((s.shape.product() * u64::from(elem_bytes)) as i64),
            Some(count) => {
                self.state_count(count, view, guard);
                self.bytes_of(count, elem_bytes)
            }
        }
    }

    fn bytes_of(&mut self, count: Value, elem_bytes: u32) -> Operand {
        let count = self.scalar(count);
        let size = Element::int(elem_bytes.into());
        let bytes = self.code.int_binary(BinaryOp::Mul, count, size, Elem::I32);
        self.code.operand(bytes, Elem::I32)
    }
}
