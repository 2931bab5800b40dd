//! Operations done once for each element, by the thread that owns it; the result is broadcast to the threads with copies.

use ir::elem::Elem;
use ir::entity::{Inst, Value};
use ir::ops::Scratch;
use layout::Axis;
use ptx::{Addr, Predicate, Reg, ShflMode, Space};

use super::Emitter;
use super::element::Element;
use super::global::zero;
use super::vector::{Shape, plain_load, plain_store};
use crate::analysis::scratch::numbering::Numbering;

/// One register whose element a thread may have to work on.
pub(super) struct Turn {
    /// The register.
    pub register: usize,
    /// Where it is done; everywhere if there is none.
    pub guard: Option<Predicate>,
}

impl Emitter<'_> {
    /// The registers of `like` that are no copies and whose mask is not false everywhere, each with the threads that own
    /// their element and have a true mask.
    pub(super) fn turns(&mut self, like: Value, mask: Option<Value>) -> Vec<Turn> {
        let owner = self.owner_of(like);
        self.turns_of(owner, like, mask)
    }

    /// The same, each with the threads for which `owner` holds: with all threads if there is none.
    pub(super) fn turns_of(
        &mut self,
        owner: Option<Reg>,
        like: Value,
        mask: Option<Value>,
    ) -> Vec<Turn> {
        let masks = mask.map(|mask| self.elements(mask));
        let own: Vec<usize> = match self.func.ty(like).as_tensor() {
            None => vec![0],
            Some(t) => {
                let distribution = self.distribution(t);
                let registers = 0..distribution.registers();
                registers.filter(|&r| distribution.is_own(r)).collect()
            }
        };
        let mut turns = Vec::new();
        for register in own {
            let mask = masks.as_ref().map(|m| m[register]);
            if mask.is_some_and(|m| m.as_int() == Some(0)) {
                self.code.skip_access();
                continue;
            }
            let mask = mask.filter(|m| m.as_int().is_none());
            let mask = mask.map(|m| self.code.whole(m, Elem::I1));
            let guard = match (mask, owner) {
                (Some(mask), Some(owner)) => Some(self.code.both(mask, owner)),
                (mask, owner) => mask.or(owner),
            };
            let guard = guard.map(Predicate::is);
            turns.push(Turn { register, guard });
        }
        turns
    }

    /// A register for a result that only some threads get: 0 in the others.
    pub(super) fn guarded_result(&mut self, elem: Elem, guard: Option<Predicate>) -> Reg {
        let preset = guard.map(|_| [zero(elem)]);
        let shape = Shape::new(elem, 1);
        self.code
            .vector_regs(shape, preset.as_ref().map(|p| &p[..]))[0]
    }

    /// Sets the result of an instruction from the elements that the owners have in these registers; the elements of other
    /// registers that are no copies are 0. Returns whether a barrier of the partition was passed.
    pub(super) fn broadcast_to_copies(
        &mut self,
        inst: Inst,
        known: Vec<(usize, Element)>,
        scratch: Scratch,
    ) -> bool {
        let result = self.func.result(inst);
        let elem = self.elem(result);
        let count = self.count(self.func.ty(result));
        let mut elements = vec![zero(elem); count];
        for (register, element) in known {
            elements[register] = element;
        }
        if !self.is_used(result) {
            self.set(result, elements);
            return false;
        }
        let (copied_lanes, copied_warps) = self.copies(result);
        let tensor = self.func.ty(result).as_tensor();
        let distribution = tensor.map(|t| self.distribution(t));
        let original = |r: usize| distribution.as_ref().map_or(r, |d| d.original(r));
        if copied_warps {
            self.through_scratch(result, &mut elements, scratch);
        } else if copied_lanes != 0 {
            let owner = self.code.lane_with(0, copied_lanes);
            for register in (0..count).filter(|&r| original(r) == r) {
                let element = elements[register];
                elements[register] = self.code.shuffled(element, elem, ShflMode::Idx, owner);
            }
        }
        let all: Vec<Element> = (0..count).map(|r| elements[original(r)]).collect();
        self.set(result, all);
        copied_warps
    }

    /// The bits of lanes that hold copies, and whether warps hold copies.
    fn copies(&mut self, value: Value) -> (u32, bool) {
        let partition = self.code.partition;
        let is_followed = partition.followers > 0;
        let Some(t) = self.func.ty(value).as_tensor() else {
            let lanes = if partition.is_one_thread { 0 } else { 31 };
            return (lanes, partition.warps > 1 || is_followed);
        };
        let distribution = self.distribution(t);
        let lanes = (1 << distribution.map.in_bits(Axis::Lane)) - 1;
        (
            distribution.copied_threads & lanes,
            is_followed || distribution.copied_threads & !lanes != 0,
        )
    }

    /// Owners write their elements in the order of their numbers, and every thread reads its own.
    fn through_scratch(&mut self, value: Value, elements: &mut [Element], scratch: Scratch) {
        let elem = self.elem(value);
        let owner = self.owner_of(value).map(Predicate::is);
        let (numbers, own, thread): (Vec<u32>, Vec<usize>, _) =
            match self.func.ty(value).as_tensor() {
                None => (vec![0], vec![0], ptx::Operand::Int(0)),
                Some(t) => {
                    let distribution = self.distribution(t);
                    let numbering = Numbering::of_elements(&distribution.map);
                    let bases = distribution.thread_bases();
                    let entries: Vec<u32> = bases
                        .map(|basis| numbering.number(basis) * elem.bytes())
                        .collect();
                    let registers = 0..distribution.registers();
                    let own = registers.filter(|&r| distribution.is_own(r)).collect();
                    let thread = self.code.of_thread(&entries);
                    let numbers = distribution.offsets.iter();
                    let numbers = numbers.map(|&place| numbering.number(place));
                    (numbers.collect(), own, thread)
                }
            };
        let base = self.shared_place(scratch.start, thread);
        let shape = Shape::new(elem, 1);
        // A register adds bits that no thread has, so the sum is the XOR.
        let place = |register: usize| Addr {
            offset: base.offset + (numbers[register] * elem.bytes()) as i32,
            ..base
        };
        for &register in &own {
            let store = plain_store(Space::Shared);
            let element = [elements[register]];
            self.code
                .store(shape, &element, place(register), owner, &store);
        }
        self.sync_partition();
        for &register in &own {
            let regs = self.code.vector_regs(shape, None);
            let load = plain_load(Space::Shared);
            self.code
                .load_into(shape, &regs, place(register), None, &load);
            elements[register] = self.code.vector_elements(shape, &regs)[0];
        }
    }
}
