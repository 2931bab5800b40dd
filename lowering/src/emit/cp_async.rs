//! Asynchronous copies by the threads themselves (PTX ISA 9.7.9.25.3): the elements of a thread that lie together both in
//! global and in shared memory are one copy of 4, 8 or 16 bytes.
//!
//! A mask that ends within a run costs no width: the copy reads fewer bytes, and the machine fills the rest with zeros.

use gluon_lang::diag::{Code as ErrorCode, Diagnostic};
use gluon_lang::elem::Elem;
use gluon_lang::entity::Inst;
use gluon_lang::layout::local::LocalPlan;
use gluon_lang::ops::cp_async::{AsyncArrive, AsyncCommit, AsyncCopy, AsyncWait};
use gluon_lang::ops::global::CacheOp;
use ptx::{CpAsyncCache, MbarSpace, Operand, Predicate, Type};

use super::code::Code;
use super::element::Element;
use super::global::{Cut, l2_prefetch};
use super::shared::View;
use super::{Emitted, Emitter, Lower};

/// The bytes that one copy can have.
const COPY_BYTES: [u32; 3] = [16, 8, 4];

/// Where a register's element lies: the access of the plan that holds it, and its place there.
type Place = (usize, usize);

impl Lower for AsyncCopy {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let view = View::of(cx, self.view);
        let elem = view.ty.elem;
        let distribution = cx.distribution(cx.tensor(self.ptr));
        let plan = view.vectors(&distribution.map);
        let places = places(&plan, distribution.registers());
        let mask = self.mask.expand();
        let runs = cx.runs(self.ptr, mask, elem);
        let width = width(self, cx, inst, &places, &runs.groups, runs.cut, elem)?;
        let pointers = cx.elements(self.ptr);
        let masks = mask.map(|m| cx.elements(m));
        let owner = cx.owner_of(self.ptr).map(Predicate::is);
        for part in runs.groups.iter().flat_map(|run| run.chunks(width)) {
            let (access, at) = places[part[0]];
            let mut dst = cx.access_address(&view, &plan, plan.accesses[access].offset);
            dst.offset += (at as u32 * elem.bytes()) as i32;
            let src = cx.code.address(pointers[part[0]]);
            let bytes = width as u32 * elem.bytes();
            let src_bytes = masks
                .as_ref()
                .and_then(|m| cx.code.bytes_in(part.iter().map(|&r| m[r]), runs.cut, elem));
            let copy = ptx::CpAsync {
                prefetch: l2_prefetch(self.prefetch),
                src_bytes,
                ..ptx::CpAsync::new(cache(self.cache, bytes), dst, src, Operand::from(bytes))
            };
            cx.code.push_guarded(owner, copy);
        }
        Ok(())
    }
}

/// Elements of one copy.
fn width(
    copy: &AsyncCopy,
    cx: &Emitter<'_>,
    inst: Inst,
    places: &[Place],
    runs: &[Vec<usize>],
    cut: Cut,
    elem: Elem,
) -> Result<usize, Diagnostic> {
    let longest = if cut == Cut::Anywhere {
        1
    } else {
        runs[0].len()
    };
    let wanted: &[u32] = if copy.cache == CacheOp::Cg {
        &COPY_BYTES[..1]
    } else {
        &COPY_BYTES
    };
    let fits = |bytes: &&u32| {
        let width = (*bytes / elem.bytes()) as usize;
        width > 0 && width <= longest && lie_together(places, runs, width)
    };
    if let Some(bytes) = wanted.iter().find(fits) {
        return Ok((bytes / elem.bytes()) as usize);
    }
    let what = match wanted {
        [bytes] => format!("{bytes} bytes at once, as `CacheOp::Cg` asks for"),
        _ => "4 bytes at once, the least that an asynchronous copy moves".to_owned(),
    };
    let error = Diagnostic::error(
        ErrorCode::AccessWidth,
        cx.func.place(inst),
        format!("no thread can copy {what}: its elements do not lie together in both memories"),
    );
    let why = if cut == Cut::Anywhere {
        "the mask may be different for each element of a thread"
    } else {
        "what lies together follows from the layout of the pointers, from what is known of their offsets and alignment (`multiple_of`), and from the layout of the tile"
    };
    Err(error.note(why).help(
        "give each thread whole runs of a row (`Coalesced` does), and the tile a layout that keeps 16 bytes together",
    ))
}

/// The place of each register's element.
fn places(plan: &LocalPlan, registers: usize) -> Vec<Place> {
    let mut places = vec![(0, 0); registers];
    for (access, part) in plan.accesses.iter().enumerate() {
        for (at, &register) in part.registers.iter().enumerate() {
            places[register as usize] = (access, at);
        }
    }
    places
}

/// Are all parts of `width` elements of the runs in one piece in shared memory, and aligned there?
fn lie_together(places: &[Place], runs: &[Vec<usize>], width: usize) -> bool {
    runs.iter().flat_map(|run| run.chunks(width)).all(|part| {
        let (access, first) = places[part[0]];
        let is_next = |(at, &register): (usize, &usize)| places[register] == (access, first + at);
        first.is_multiple_of(width) && part.iter().enumerate().all(is_next)
    })
}

/// Only copies of 16 bytes can pass L1 by, which they then do: what is copied is read from shared memory.
fn cache(asked: CacheOp, bytes: u32) -> CpAsyncCache {
    if bytes == 16 && asked != CacheOp::Ca {
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
