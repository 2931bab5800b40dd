//! Copies and stores into the shared memory of other CTAs that complete on their barriers (PTX ISA 9.7.9.25.4, 9.7.9.12).

use diag::{Code as ErrorCode, Diagnostic};
use ir::entity::Inst;
use ir::ops::remote::{RemoteCopy, RemoteStoreAsync};
use ptx::Predicate;

use super::bulk::reduction;
use super::element::Element;
use super::shared::View;
use super::tma::atom_op;
use super::vector::Shape;
use super::{Emitted, Emitter, Lower};

impl Lower for RemoteCopy {
    fn lower(&self, _: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let guard = cx.one_thread(self.predicate.expand());
        let src = cx.view_address(self.from, 0);
        let dst = cx.view_address(self.view, 0);
        let dst = cx.in_cta(dst, self.cta);
        let mbar = cx.view_address(self.barrier, 0);
        let mbar = cx.in_cta(mbar, self.cta);
        let (bytes, guard) = cx.run_bytes(self.from, self.count, guard);
        match atom_op(self.op) {
            None => {
                let copy = ptx::BulkSharedToCluster::new(dst, src, bytes, mbar);
                cx.code.push_guarded(guard, copy);
            }
            Some(op) => {
                let (op, ty) = reduction(op, cx.func.ty(self.view).elem());
                let reduce = ptx::BulkReduceCluster::new(op, ty, dst, src, bytes, mbar);
                cx.code.push_guarded(guard, reduce);
            }
        }
        Ok(())
    }
}

/// The fewest bytes of a store that completes on a barrier.
const LEAST_BYTES: u32 = 4;

impl Lower for RemoteStoreAsync {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let view = View::of(cx, self.view);
        let elem = view.ty.elem;
        let distribution = cx.distribution(cx.tensor(self.value));
        let elements = cx.elements(self.value);
        let plan = cx.local_plan(inst);
        // A barrier counts bytes, so that each place is stored to once.
        let owner = distribution.owner(&mut cx.code).map(Predicate::is);
        let mbar = cx.view_address(self.barrier, 0);
        let mbar = cx.in_cta(mbar, self.cta);
        for access in &plan.accesses {
            let registers = access.registers.iter();
            let values: Vec<Element> = registers.map(|&r| elements[r as usize]).collect();
            if values.len() as u32 * elem.bytes() < LEAST_BYTES {
                return Err(too_narrow(cx, inst));
            }
            let addr = cx.access_address(&view, &plan, access.offset);
            let addr = cx.in_cta(addr, self.cta);
            let shape = Shape::new(elem, values.len());
            cx.code.store_async(shape, &values, addr, mbar, owner);
        }
        Ok(())
    }
}

fn too_narrow(cx: &Emitter<'_>, inst: Inst) -> Diagnostic {
    let message = "no thread can store 4 bytes at once, the least that completes on a barrier: its elements are not contiguous in the tile";
    Diagnostic::error(ErrorCode::AccessWidth, cx.func.place(inst), message).help(
        "give each thread several contiguous elements of a row, and the tile an unswizzled layout",
    )
}
