//! Asynchronous copies by the threads themselves (PTX ISA 9.7.9.25.3): the elements of a thread that are contiguous both in
//! global and in shared memory are one copy, of a width that the target has.
//!
//! A mask that ends within a run costs no width: the copy reads fewer bytes, and the machine fills the rest with zeros.

use diag::Place;
use diag::{Code as ErrorCode, Diagnostic};
use ir::elem::Elem;
use ir::entity::Inst;
use ir::ops::cp_async::{AsyncArrive, AsyncCommit, AsyncCopy, AsyncWait};
use ir::ops::global::CacheOp;
use ptx::{CpAsyncCache, MbarSpace, Operand, Predicate, Type};

use crate::analysis::access::shared::places;
use crate::analysis::access::{Cut, GlobalPlan};

use super::code::Code;
use super::element::Element;
use super::global::l2_prefetch;
use super::shared::View;
use super::{Emitted, Emitter, Lower};

impl Lower for AsyncCopy {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let view = View::of(cx, self.view);
        let elem = view.ty.elem;
        let mask = self.mask.expand();
        let plan = cx.global_plan(inst);
        let widths = &cx.func.target.access.async_bytes;
        let widest = widths[0];
        check_width(self, &plan, widths, cx.func.place(inst))?;
        let local = plan.shared.as_ref();
        let local = local.expect("a copy's plan says where it goes in shared memory");
        let places = places(local);
        let pointers = cx.elements(self.ptr);
        let masks = mask.map(|m| cx.elements(m));
        let owner = cx.owner_of(self.ptr).map(Predicate::is);
        for part in &plan.runs {
            let (access, at) = places[part[0]];
            let mut dst = cx.access_address(&view, local, local.accesses[access].offset);
            dst.offset += (at as u32 * elem.bytes()) as i32;
            let src = cx.code.address(pointers[part[0]]);
            let bytes = plan.access.bytes;
            let src_bytes = masks.as_ref().and_then(|m| {
                cx.code
                    .bytes_in(part.iter().map(|&r| m[r]), plan.access.cut, elem)
            });
            let copy = ptx::CpAsync {
                prefetch: l2_prefetch(self.prefetch),
                src_bytes,
                ..ptx::CpAsync::new(
                    cache(self.cache, bytes == widest),
                    dst,
                    src,
                    Operand::from(bytes),
                )
            };
            cx.code.push_guarded(owner, copy);
        }
        Ok(())
    }
}

/// Refuses a copy of a width that the instruction does not have.
fn check_width(
    copy: &AsyncCopy,
    plan: &GlobalPlan,
    widths: &[u32],
    place: Option<Place>,
) -> Emitted {
    let wanted: &[u32] = if copy.cache == CacheOp::Cg {
        &widths[..1]
    } else {
        widths
    };
    if wanted.contains(&plan.access.bytes) {
        return Ok(());
    }
    let why_so_many = if copy.cache == CacheOp::Cg {
        "as `CacheOp::Cg` asks for"
    } else {
        "the least that an asynchronous copy moves"
    };
    let least = wanted.last().unwrap_or(&0);
    let what = format!("{least} bytes at once, {why_so_many}");
    let error = Diagnostic::error(
        ErrorCode::AccessWidth,
        place,
        format!("no thread can copy {what}: its elements are not contiguous in both memories"),
    );
    let why = if plan.access.cut == Cut::Anywhere {
        "the mask may be different for each element of a thread"
    } else {
        "the width follows from the layout of the pointers, the facts about their offsets and alignment (`multiple_of`), and the layout of the tile"
    };
    Err(error.note(why).help(format!(
        "give each thread contiguous elements of a row (`Coalesced` does), and the tile a layout with {} contiguous bytes",
        widths[0]
    )))
}

/// Only the widest copies can pass L1 by, which they then do: what is copied is read from shared memory.
fn cache(asked: CacheOp, is_widest: bool) -> CpAsyncCache {
    if is_widest && asked != CacheOp::Ca {
        CpAsyncCache::Cg
    } else {
        CpAsyncCache::Ca
    }
}

impl Code {
    /// How many bytes of a part its mask lets in; none where that is all of it.
    fn bytes_in(
        &mut self,
        mask: impl Iterator<Item = Element>,
        cut: Cut,
        elem: Elem,
    ) -> Option<Operand> {
        let each: Vec<Element> = mask.collect();
        if each.iter().all(|m| m.as_int() == Some(1)) {
            return None;
        }
        if cut == Cut::Nowhere {
            let all = each.len() as u32 * elem.bytes();
            return Some(self.bytes_where(each[0], all));
        }
        // The mask holds up to some element, so that the bytes of those it holds for come first.
        let mut sum = Operand::Int(0);
        for one in each {
            let bytes = self.bytes_where(one, elem.bytes());
            sum = match (sum, bytes) {
                (Operand::Int(a), Operand::Int(b)) => Operand::Int(a + b),
                (Operand::Int(0), bytes) => bytes,
                (sum, bytes) => self
                    .binary(ptx::BinaryOp::Add, Type::U32, bytes, sum)
                    .into(),
            };
        }
        Some(sum)
    }

    fn bytes_where(&mut self, holds: Element, bytes: u32) -> Operand {
        match holds.as_int() {
            Some(0) => Operand::Int(0),
            Some(_) => bytes.into(),
            None => {
                let holds = self.whole(holds, Elem::I1);
                self.selp(Type::B32, bytes, 0_u32, holds).into()
            }
        }
    }
}

impl Lower for AsyncCommit {
    fn lower(&self, _: Inst, cx: &mut Emitter<'_>) -> Emitted {
        cx.code.push(ptx::CpAsyncCommitGroup::new());
        Ok(())
    }
}

impl Lower for AsyncWait {
    fn lower(&self, _: Inst, cx: &mut Emitter<'_>) -> Emitted {
        cx.code.push(ptx::CpAsyncWaitGroup::new(self.pending));
        Ok(())
    }
}

impl Lower for AsyncArrive {
    fn lower(&self, _: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let addr = cx.view_address(self.barrier, 0);
        let arrive = ptx::CpAsyncMbarrierArrive {
            noinc: self.is_counted,
            space: Some(MbarSpace::Cta),
            ..ptx::CpAsyncMbarrierArrive::new(addr)
        };
        let guard = cx.every_thread(None);
        cx.code.push_guarded(guard, arrive);
        Ok(())
    }
}
