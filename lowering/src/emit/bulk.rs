//! Linear TMA copies, `cp.async.bulk` (PTX ISA 9.7.9.25.4): one elected thread issues the whole run.

use cranelift_entity::packed_option::PackedOption;
use ir::SmemType;
use ir::elem::{DType, Elem};
use ir::entity::{Inst, Value};
use ir::ops::arith::BinaryOp;
use ir::ops::bulk::{BulkLoad, BulkPrefetch, BulkStore};
use layout::Dims;
use ptx::{Addr, AtomOp, BulkSharedDst, Compare, Operand, Predicate, Type};

use super::element::Element;
use super::tma::atom_op;
use super::{Emitted, Emitter, Lower};

impl Lower for BulkLoad {
    fn lower(&self, _: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let mut guard = cx.one_thread(self.predicate.expand());
        let policy = cx.l2_policy(self.policy);
        let mut multicast = self.multicast.expand().map(|mask| cx.cta_mask(mask));
        if self.to_copies {
            let origins = cx.part_origins(self.view);
            guard = cx.first_of_copies(guard, &origins);
            multicast = Some(cx.mask_of_copies(&origins));
        }
        let src = cx.part_pointer(self.src, self.view);
        let dst = cx.view_address(self.view, 0);
        let mbar = cx.view_address(self.barrier, 0);
        let (bytes, guard) = cx.run_bytes(self.view, self.count, guard);
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
        let guard = cx.first_of_copies(guard, &cx.part_origins(self.view));
        let dst = cx.part_pointer(self.dst, self.view);
        let src = cx.view_address(self.view, 0);
        let (bytes, guard) = cx.run_bytes(self.view, self.count, guard);
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

/// TMA's name of a reduction (PTX ISA, `cp.reduce.async.bulk`).
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

impl<'f> Emitter<'f> {
    /// Where the parts of a view begin that the CTAs of the cluster have.
    fn part_origins(&self, view: Value) -> Vec<Dims> {
        let origins = self.smem(view).part_origins();
        origins.expect("layouts of an allocated kernel fit their shapes")
    }

    /// The address in global memory of the elements that this CTA has of a run in a view.
    fn part_pointer(&mut self, pointer: Value, view: Value) -> Addr {
        let s = self.smem(view);
        let start = self.part_start_in_order(&self.part_origins(view), &s.shape);
        let moved = self.moved_pointer(self.scalar(pointer), start, s.elem);
        self.code.address(moved)
    }

    pub(super) fn smem(&self, view: Value) -> &'f SmemType {
        let s = self.func.ty(view).as_smem();
        s.expect("the verifier admits only shared memory here")
    }

    /// The bytes of the first `count` elements of a view, or of all, that this CTA has; and where they are copied, with
    /// `guard` where the elements are: where there are none of them, nothing is.
    pub(super) fn run_bytes(
        &mut self,
        view: Value,
        count: PackedOption<Value>,
        guard: Option<Predicate>,
    ) -> (Operand, Option<Predicate>) {
        let s = self.smem(view);
        let elem_bytes = s.elem.bytes();
        let part = s.part().expect("the verifier admits only runs of boxes");
        let most = part.product();
        let Some(count) = count.expand() else {
            return (Operand::Int((most * u64::from(elem_bytes)) as i64), guard);
        };
        self.state_count(count, view, guard);
        let start = self.part_start_in_order(&self.part_origins(view), &s.shape);
        if start.as_int() == Some(0) {
            return (self.bytes_of(count, elem_bytes), guard);
        }
        let (count, zero) = (self.scalar(count), Element::int(0));
        let code = &mut self.code;
        let left = code.int_binary(BinaryOp::Sub, count, start, Elem::I32);
        let some = code.int_compare(Compare::Gt, left, zero, Elem::I32);
        let own = code.int_binary(BinaryOp::Min, left, Element::int(most as i64), Elem::I32);
        let some = Predicate::is(code.whole(some, Elem::I1));
        (self.in_bytes(own, elem_bytes), Some(self.both(guard, some)))
    }

    fn bytes_of(&mut self, count: Value, elem_bytes: u32) -> Operand {
        let count = self.scalar(count);
        self.in_bytes(count, elem_bytes)
    }

    fn in_bytes(&mut self, count: Element, elem_bytes: u32) -> Operand {
        let size = Element::int(elem_bytes.into());
        let bytes = self.code.int_binary(BinaryOp::Mul, count, size, Elem::I32);
        self.code.operand(bytes, Elem::I32)
    }
}
