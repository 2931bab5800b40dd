//! Layout conversions: registers renamed where every thread holds what it needs, else through shared memory, laid out so that
//! both sides have the fewest bank conflicts.

use gluon_lang::elem::Elem;
use gluon_lang::entity::Inst;
use gluon_lang::layout::local::{LocalPlan, plan_local};
use gluon_lang::layout::relate::registers_in;
use gluon_lang::layout::{Dims, SharedLayout, Swizzled};
use gluon_lang::ops::layout::{ConvertLayout, SetLayout};
use ptx::{Addr, Predicate, Space};

use super::element::Element;
use super::vector::{Shape, plain_load, plain_store};
use super::{Emitted, Emitter, Lower};

impl Lower for SetLayout {
    fn lower(&self, _: Inst, _: &mut Emitter<'_>) -> Emitted {
        panic!("the verifier leaves no `set_layout` once layouts are resolved");
    }
}

impl Lower for ConvertLayout {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let result = cx.func.result(inst);
        let source = cx.distribution(cx.tensor(self.operand));
        let target = cx.distribution(cx.tensor(result));
        let elements = cx.elements(self.operand);
        if let Some(registers) = registers_in(&source.map, &target.map) {
            let picked: Vec<Element> = registers.iter().map(|&r| elements[r as usize]).collect();
            cx.set(result, picked);
            return Ok(());
        }
        let elem = cx.elem(self.operand);
        let shape = cx.tensor(self.operand).shape.clone();
        let bits = elem.bytes() * 8;
        let (store, load) = best_exchange(&shape, bits, |shared| {
            let plan = |map| plan_local(map, shared, &shape, bits).ok();
            Some((plan(&source.map)?, plan(&target.map)?))
        });
        let owner = source.owner(&mut cx.code).map(Predicate::is);
        for access in cx.shared_accesses(&store, self.scratch.start, elem) {
            let values: Vec<Element> = access.1.iter().map(|&r| elements[r as usize]).collect();
            cx.code.store(
                Shape::new(elem, values.len()),
                &values,
                access.0,
                owner,
                &plain_store(Space::Shared),
            );
        }
        cx.meet();
        let mut loaded = vec![Element::int(0); target.registers()];
        for (addr, registers) in cx.shared_accesses(&load, self.scratch.start, elem) {
            let access = Shape::new(elem, registers.len());
            let regs = cx.code.vector_regs(access, None);
            cx.code
                .load_into(access, &regs, addr, None, &plain_load(Space::Shared));
            for (&register, element) in registers.iter().zip(cx.code.vector_elements(access, &regs))
            {
                loaded[register as usize] = element;
            }
        }
        let results: Vec<Element> = load.originals.iter().map(|&r| loaded[r as usize]).collect();
        cx.set(result, results);
        Ok(())
    }
}

/// Of plain and swizzled rows in every order of the dimensions, what takes both sides the least time.
fn best_exchange(
    shape: &Dims,
    elem_bits: u32,
    plans: impl Fn(&SharedLayout) -> Option<(LocalPlan, LocalPlan)>,
) -> (LocalPlan, LocalPlan) {
    let rank = shape.rank() as u32;
    let mut best: Option<(u32, (LocalPlan, LocalPlan))> = None;
    for fastest in (0..rank).rev() {
        let mut order: Vec<u32> = vec![fastest];
        order.extend((0..rank).rev().filter(|&d| d != fastest));
        for vec in [1_u32, 2, 4, 8, 16]
            .into_iter()
            .filter(|v| v * elem_bits <= 128)
        {
            for max_phase in [1_u32, 2, 4, 8, 16, 32] {
                let is_swizzled = max_phase > 1 && rank > 1;
                if !is_swizzled && (max_phase > 1 || vec > 1) {
                    continue;
                }
                let shared: SharedLayout = Swizzled::new(vec, 1, max_phase, order.clone()).into();
                let Some(pair) = plans(&shared) else { continue };
                let cost = wavefronts(&pair.0, elem_bits) + wavefronts(&pair.1, elem_bits);
                if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                    best = Some((cost, pair));
                }
            }
        }
    }
    best.expect("plain rows fit every shape").1
}

/// How many times a warp's accesses go through the banks: 32 banks of 4 bytes, 128 bytes of lanes at a time.
fn wavefronts(plan: &LocalPlan, elem_bits: u32) -> u32 {
    let access_bytes = (plan.vector * elem_bits / 8).max(1);
    let lanes_at_once = 128 / access_bytes.max(4);
    let offset = |lane: u32| {
        plan.thread
            .iter()
            .take(5)
            .enumerate()
            .filter(|&(b, _)| lane >> b & 1 == 1)
            .fold(0, |s, (_, e)| s ^ e)
    };
    let mut total = 0;
    for first in (0..32).step_by(lanes_at_once as usize) {
        let mut words_of_bank = vec![std::collections::BTreeSet::new(); 32];
        for lane in first..first + lanes_at_once {
            let start = offset(lane) * elem_bits / 8 / 4;
            for word in start..start + access_bytes.div_ceil(4) {
                words_of_bank[word as usize % 32].insert(word);
            }
        }
        total += words_of_bank
            .iter()
            .map(|w| w.len() as u32)
            .max()
            .unwrap_or(1)
            .max(1);
    }
    total * plan.accesses.len() as u32
}

impl Emitter<'_> {
    /// The address and the registers of every access of a plan.
    pub(super) fn shared_accesses(
        &mut self,
        plan: &LocalPlan,
        place: u32,
        elem: Elem,
    ) -> Vec<(Addr, Vec<u32>)> {
        let bytes = elem.bytes();
        let entries: Vec<u32> = plan.thread.iter().map(|e| e * bytes).collect();
        plan.accesses
            .iter()
            .map(|access| {
                // Bits that no thread has are added as they are; the others change by XOR.
                let (flipped, added) = (
                    access.offset & plan.thread_reach,
                    access.offset & !plan.thread_reach,
                );
                let thread = self.code.of_thread(&entries);
                let thread = self.code.flipped(thread, flipped * bytes);
                let addr = self.shared_place(place, thread);
                (
                    Addr {
                        offset: addr.offset + (added * bytes) as i32,
                        ..addr
                    },
                    access.registers.to_vec(),
                )
            })
            .collect()
    }
}

impl super::code::Code {
    /// A number of the thread with these bits flipped.
    fn flipped(&mut self, thread: ptx::Operand, bits: u32) -> ptx::Operand {
        if bits == 0 {
            return thread;
        }
        self.in_prologue(|code| {
            code.binary(ptx::BinaryOp::Xor, ptx::Type::B32, thread, bits)
                .into()
        })
    }
}
