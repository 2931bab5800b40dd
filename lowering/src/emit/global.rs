//! Loads and stores of global memory.
//!
//! Which elements of a thread are accessed together is planned by the analysis of accesses. Where the mask may split such a
//! run, it is accessed as one where the mask holds for all of it, and element by element elsewhere, so that a ragged edge
//! costs no width in the rest of the tile.

use ir::elem::Elem;
use ir::entity::{Inst, Value};
use ir::ops::arith::BinaryOp;
use ir::ops::global::{CacheOp, Eviction, Load, Prefetch, PrefetchInto, PrefetchLines, Store};
use layout::Axis;
use ptx::{AccessSem, Addr, L1Eviction, L2Prefetch, LoadCache, Predicate, Reg, Space, StoreCache};

use crate::analysis::access::Cut;

use super::code::Code;
use super::element::Element;
use super::vector::{Shape, plain_load, plain_store};
use super::{Emitted, Emitter, Lower};

impl Emitter<'_> {
    /// Whether a load may go past the coherent cache: nothing changes what is there from the kernel's begin to its end (PTX ISA 9.7.9.9). In a kernel that waits for the launch before,
    /// that launch may until then, and ptxas moves `ld.global.nc` in front of `griddepcontrol.wait`.
    fn is_constant(&self, load: &Load) -> bool {
        let is_cached = !load.is_volatile && load.cache != CacheOp::Cv;
        is_cached && !self.waits_for_launch && self.roots.is_readonly(load.ptr)
    }
}

impl Lower for Load {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let elem = cx.elem(cx.func.result(inst));
        let like = ptx::Ld {
            sem: self.is_volatile.then_some(AccessSem::Volatile),
            cache: load_cache(self.cache),
            l1: l1_eviction(self.eviction),
            prefetch: l2_prefetch(self.prefetch),
            policy: cx.l2_policy(self.policy),
            nc: cx.is_constant(self),
            ..plain_load(Space::Global)
        };
        let plan = cx.global_plan(inst);
        let pointers = cx.elements(self.ptr);
        let masks = self.mask.expand().map(|m| cx.elements(m));
        let others = self.other.expand().map(|o| cx.elements(o));
        let mut loaded = vec![None; plan.copies.len()];
        for run in &plan.runs {
            let addr = cx.code.address(pointers[run[0]]);
            let mask = masks
                .as_ref()
                .map(|m| Mask::of_run(plan.access.cut, run, m));
            let other: Vec<Element> = run
                .iter()
                .map(|&r| others.as_ref().map_or(zero(elem), |o| o[r]))
                .collect();
            let values = cx.code.load_run(elem, addr, mask.as_ref(), &other, &like);
            for (&register, value) in run.iter().zip(values) {
                loaded[register] = Some(value);
            }
        }
        let elements: Vec<Element> = plan
            .copies
            .iter()
            .map(|&r| loaded[r].expect("every register that is no copy stands in a run"))
            .collect();
        cx.set_result(inst, elements);
        Ok(())
    }
}

impl Lower for Store {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let elem = cx.elem(self.value);
        let like = ptx::St {
            sem: self.is_volatile.then_some(AccessSem::Volatile),
            cache: store_cache(self.cache),
            l1: l1_eviction(self.eviction),
            policy: cx.l2_policy(self.policy),
            ..plain_store(Space::Global)
        };
        let plan = cx.global_plan(inst);
        let (pointers, values) = (cx.elements(self.ptr), cx.elements(self.value));
        let masks = self.mask.expand().map(|m| cx.elements(m));
        let owner = cx.owner_in_cluster(self.ptr);
        for run in &plan.runs {
            let addr = cx.code.address(pointers[run[0]]);
            let stored: Vec<Element> = run.iter().map(|&r| values[r]).collect();
            let mask = masks
                .as_ref()
                .map(|m| Mask::of_run(plan.access.cut, run, m));
            cx.code
                .store_run(elem, addr, (mask.as_ref(), owner), &stored, &like);
        }
        Ok(())
    }
}

/// The mask of one run.
pub(super) struct Mask {
    /// For each element, whether it is accessed.
    pub(super) each: Vec<Element>,
    /// Predicates that together say whether all of the run is.
    all: Vec<Element>,
}

impl Mask {
    /// The mask of a run, of the elements of the whole mask.
    pub(super) fn of_run(cut: Cut, run: &[usize], elements: &[Element]) -> Mask {
        let each: Vec<Element> = match cut {
            Cut::Nowhere => run.iter().map(|_| elements[run[0]]).collect(),
            Cut::Once | Cut::Anywhere => run.iter().map(|&r| elements[r]).collect(),
        };
        let all = match cut {
            Cut::Anywhere => each.clone(),
            Cut::Nowhere | Cut::Once => each.last().copied().into_iter().collect(),
        };
        Mask { each, all }
    }
}

impl Emitter<'_> {
    /// The same among all threads of the cluster, where a tensor is spread over its CTAs.
    fn owner_in_cluster(&mut self, pointers: Value) -> Option<Reg> {
        let owner = self.owner_of(pointers);
        let copied = match self.func.ty(pointers).as_tensor() {
            Some(t) => self.distribution(t).map.free_mask(Axis::Block),
            None => 0,
        };
        if copied == 0 {
            return owner;
        }
        let is_first = self.code.rank_bits_are(copied, 0);
        Some(match owner {
            Some(owner) => self.code.in_prologue(|code| code.both(owner, is_first)),
            None => is_first,
        })
    }

    /// A predicate that holds in the one thread of a CTA that stands for all that hold a copy; none when each holds its own.
    pub(super) fn owner_of(&mut self, pointers: Value) -> Option<Reg> {
        if let Some(t) = self.func.ty(pointers).as_tensor() {
            let distribution = self.distribution(t);
            distribution.owner(&mut self.code)
        } else {
            let all = self.code.partition.thread_bits();
            Some(self.code.thread_bits_clear(all))
        }
    }
}

/// What stands where nothing is loaded and nothing is requested.
pub(super) fn zero(elem: Elem) -> Element {
    match elem {
        Elem::Data(ir::elem::DType::F32) => Element::Whole(ptx::Operand::F32(0)),
        Elem::Data(ir::elem::DType::F64) => Element::Whole(ptx::Operand::F64(0)),
        _ => Element::int(0),
    }
}

/// How much of a run is accessed.
pub(super) enum Part<'m> {
    /// All of it, wherever.
    All,
    /// None of it anywhere.
    None,
    /// All of it where the predicate holds, and none elsewhere.
    Where(Reg),
    /// Each element where its predicate holds.
    Each(&'m Mask),
}

impl Code {
    /// The address that a pointer holds.
    pub(super) fn address(&mut self, pointer: Element) -> Addr {
        match pointer {
            Element::Sum(reg, add) if i32::try_from(add).is_ok() => Addr::reg(reg, add as i32),
            other => {
                let reg = self.whole(other, Elem::Data(ir::elem::DType::U64));
                Addr::reg(reg, 0)
            }
        }
    }

    pub(super) fn part_of<'m>(&mut self, mask: Option<&'m Mask>) -> Part<'m> {
        let Some(whole) = mask else { return Part::All };
        let mask = &whole.each;
        if mask.iter().all(|m| m.as_int() == Some(1)) {
            return Part::All;
        }
        if mask.iter().all(|m| m.as_int() == Some(0)) {
            return Part::None;
        }
        if mask.iter().all(|m| *m == mask[0]) {
            return Part::Where(self.whole(mask[0], Elem::I1));
        }
        Part::Each(whole)
    }

    /// Whether all of a run is accessed.
    pub(super) fn all_of(&mut self, mask: &Mask) -> Reg {
        let all = mask.all[1..].iter().fold(mask.all[0], |all, &m| {
            self.int_binary(BinaryOp::And, all, m, Elem::I1)
        });
        self.whole(all, Elem::I1)
    }

    fn load_run(
        &mut self,
        elem: Elem,
        addr: Addr,
        mask: Option<&Mask>,
        other: &[Element],
        like: &ptx::Ld,
    ) -> Vec<Element> {
        let shape = Shape::new(elem, other.len());
        let regs = match self.part_of(mask) {
            Part::None => {
                self.skip_access();
                return other.to_vec();
            }
            Part::All => {
                let regs = self.vector_regs(shape, None);
                self.load_into(shape, &regs, addr, None, like);
                regs
            }
            Part::Where(p) => {
                let regs = self.vector_regs(shape, Some(other));
                self.load_into(shape, &regs, addr, Some(p.into()), like);
                regs
            }
            Part::Each(mask) => self.load_cut_run(shape, elem, addr, mask, other, like),
        };
        self.vector_elements(shape, &regs)
    }

    /// A run that its mask may cut.
    fn load_cut_run(
        &mut self,
        shape: Shape,
        elem: Elem,
        addr: Addr,
        mask: &Mask,
        other: &[Element],
        like: &ptx::Ld,
    ) -> Vec<Reg> {
        let all = self.all_of(mask);
        let regs = self.vector_regs(shape, Some(other));
        self.load_into(shape, &regs, addr, Some(all.into()), like);
        let single = Shape::new(elem, 1);
        // The narrow loads stand apart: in line they would write the registers of the wide one, and the machine would wait
        // for it although they do not run.
        let (cut, back) = (self.label("cut"), self.label("whole"));
        self.branch(Some(Predicate::not(all)), cut, false);
        self.bind(back);
        self.in_cold(|code| {
            code.bind(cut);
            let elements: Vec<Element> = mask
                .each
                .iter()
                .zip(other)
                .enumerate()
                .map(|(at, (&m, &o))| {
                    let m = code.whole(m, Elem::I1);
                    let reg = code.vector_regs(single, Some(&[o]));
                    code.load_into(single, &reg, moved(addr, at, elem), Some(m.into()), like);
                    code.vector_elements(single, &reg)[0]
                })
                .collect();
            let words = code.vector_words(shape, &elements);
            for (&reg, word) in regs.iter().zip(words) {
                code.copy(reg, word);
            }
            code.branch(None, back, false);
        });
        regs
    }

    fn store_run(
        &mut self,
        elem: Elem,
        addr: Addr,
        (mask, owner): (Option<&Mask>, Option<Reg>),
        values: &[Element],
        like: &ptx::St,
    ) {
        let shape = Shape::new(elem, values.len());
        let owned = |code: &mut Code, p: Reg| match owner {
            Some(owner) => code.both(p, owner),
            None => p,
        };
        match self.part_of(mask) {
            Part::None => self.skip_access(),
            Part::All => self.store(shape, values, addr, owner.map(Predicate::is), like),
            Part::Where(p) => {
                let p = owned(self, p);
                self.store(shape, values, addr, Some(p.into()), like);
            }
            Part::Each(mask) => {
                let all = self.all_of(mask);
                let whole = owned(self, all);
                self.store(shape, values, addr, Some(whole.into()), like);
                self.store_cut_run(elem, addr, (mask, all, owner), values, like);
            }
        }
    }

    fn store_cut_run(
        &mut self,
        elem: Elem,
        addr: Addr,
        (mask, all, owner): (&Mask, Reg, Option<Reg>),
        values: &[Element],
        like: &ptx::St,
    ) {
        let single = Shape::new(elem, 1);
        let (cut, back) = (self.label("cut"), self.label("whole"));
        self.branch(Some(Predicate::not(all)), cut, false);
        self.bind(back);
        self.in_cold(|code| {
            code.bind(cut);
            for (at, (&m, &value)) in mask.each.iter().zip(values).enumerate() {
                let m = code.whole(m, Elem::I1);
                let p = owner.map_or(m, |owner| code.both(m, owner));
                code.store(
                    single,
                    &[value],
                    moved(addr, at, elem),
                    Some(p.into()),
                    like,
                );
            }
            code.branch(None, back, false);
        });
    }

    pub(super) fn both(&mut self, a: Reg, b: Reg) -> Reg {
        let both = self.int_binary(BinaryOp::And, a.into(), b.into(), Elem::I1);
        self.whole(both, Elem::I1)
    }
}

/// The address of element `at` of a run.
pub(super) fn moved(addr: Addr, at: usize, elem: Elem) -> Addr {
    Addr {
        offset: addr.offset + (at as u32 * elem.bytes()) as i32,
        ..addr
    }
}

fn load_cache(cache: CacheOp) -> Option<LoadCache> {
    match cache {
        CacheOp::Ca => Some(LoadCache::Ca),
        CacheOp::Cg => Some(LoadCache::Cg),
        CacheOp::Cs => Some(LoadCache::Cs),
        CacheOp::Cv => Some(LoadCache::Cv),
        CacheOp::Default | CacheOp::Wb | CacheOp::Wt => None,
    }
}

fn store_cache(cache: CacheOp) -> Option<StoreCache> {
    match cache {
        CacheOp::Cg => Some(StoreCache::Cg),
        CacheOp::Cs => Some(StoreCache::Cs),
        CacheOp::Wb => Some(StoreCache::Wb),
        CacheOp::Wt => Some(StoreCache::Wt),
        CacheOp::Default | CacheOp::Ca | CacheOp::Cv => None,
    }
}

fn l1_eviction(eviction: Eviction) -> Option<L1Eviction> {
    match eviction {
        Eviction::Default => None,
        Eviction::First => Some(L1Eviction::First),
        Eviction::Last => Some(L1Eviction::Last),
        Eviction::Unchanged => Some(L1Eviction::Unchanged),
        Eviction::NoAllocate => Some(L1Eviction::NoAllocate),
    }
}

impl Lower for PrefetchLines {
    /// One prefetch for each pointer; threads of a warp that ask for one line do so at once.
    fn lower(&self, _: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let level = match self.into {
            PrefetchInto::L2 => ptx::PrefetchLevel::L2,
            PrefetchInto::L2Last => ptx::PrefetchLevel::L2Last,
            PrefetchInto::L1 => ptx::PrefetchLevel::L1,
        };
        let pointers = cx.elements(self.ptr);
        for turn in cx.turns(self.ptr, self.mask.expand()) {
            let from = cx.code.address(pointers[turn.register]);
            let prefetch = ptx::Prefetch {
                space: Some(Space::Global),
                ..ptx::Prefetch::new(level, from)
            };
            cx.code.push_guarded(turn.guard, prefetch);
        }
        Ok(())
    }
}

pub(super) fn l2_prefetch(prefetch: Prefetch) -> Option<L2Prefetch> {
    match prefetch {
        Prefetch::Default => None,
        Prefetch::L2B64 => Some(L2Prefetch::B64),
        Prefetch::L2B128 => Some(L2Prefetch::B128),
        Prefetch::L2B256 => Some(L2Prefetch::B256),
    }
}
