//! Tensors in scratch, dimension after dimension, without swizzling.

use ir::elem::Elem;
use layout::{Axis, LinearLayout};
use ptx::{Addr, BinaryOp, Operand, Predicate, Space, Type};

use super::Emitter;
use super::distribute::Distribution;
use super::element::Element;
use super::vector::{Shape, plain_load, plain_store};
use crate::analysis::scratch::numbering::{bits_of, held_by_ctas};

/// Where the elements of a tensor that a CTA holds lie: each bit of a coordinate has a bit of its own in the offset, but for
/// those that the CTA's rank decides.
pub(super) struct Flat {
    /// For each dimension, what each bit of the coordinate adds to the offset, which is counted in elements.
    steps: Vec<Vec<u32>>,
    elem: Elem,
    /// The first byte.
    start: u32,
}

impl Flat {
    /// Row-major order, but for one dimension that comes slowest.
    pub(super) fn new(map: &LinearLayout, slowest: usize, elem: Elem, start: u32) -> Flat {
        let rank = map.outs().len();
        let elsewhere = held_by_ctas(map);
        let mut steps = vec![Vec::new(); rank];
        let mut step = 1;
        let fastest_first = (0..rank).rev().filter(|&d| d != slowest).chain([slowest]);
        for dim in fastest_first {
            let of_bit = |bit: u32| {
                let is_here = elsewhere >> bit & 1 == 0;
                let own = if is_here { step } else { 0 };
                step <<= u32::from(is_here);
                own
            };
            steps[dim] = bits_of(map, dim).map(of_bit).collect();
        }
        Flat { steps, elem, start }
    }

    /// The first byte.
    pub(super) fn start(&self) -> u32 {
        self.start
    }

    /// The offset of a packed place in bytes.
    pub(super) fn bytes_of(&self, map: &LinearLayout, packed: u64) -> u32 {
        self.offset(map, packed, |_| true) * self.elem.bytes()
    }

    /// What each bit of the coordinate along a dimension adds to an address.
    pub(super) fn bytes_along(&self, dim: usize) -> Vec<u32> {
        let steps = self.steps[dim].iter();
        steps.map(|step| step * self.elem.bytes()).collect()
    }

    /// The offset of a packed place in elements; dimensions for which `counts` does not hold count as 0.
    pub(super) fn offset(
        &self,
        map: &LinearLayout,
        packed: u64,
        counts: impl Fn(usize) -> bool,
    ) -> u32 {
        let coords = map.unpack_out(packed);
        let dims = coords.iter().enumerate().filter(|(dim, _)| counts(*dim));
        let along = |(dim, &coord): (usize, &u32)| -> u32 {
            let bits = self.steps[dim].iter().enumerate();
            bits.map(|(bit, step)| (coord >> bit & 1) * step).sum()
        };
        dims.map(along).sum()
    }

    /// The address of a thread's part of an offset: the sum of those of all bits of its number.
    pub(super) fn thread_address(
        &self,
        held: &Distribution,
        counts: impl Fn(usize) -> bool + Copy,
        cx: &mut Emitter<'_>,
    ) -> Addr {
        let bytes = self.elem.bytes();
        let bases = held.thread_bases();
        let entries: Vec<u32> = bases
            .map(|basis| self.offset(&held.map, basis, counts) * bytes)
            .collect();
        let thread: Operand = cx.code.of_thread(&entries);
        cx.shared_place(self.start, thread)
    }

    /// The address of what the thread holds whose warp differs in one bit.
    pub(super) fn address_across(
        &self,
        held: &Distribution,
        warp_bit: u32,
        cx: &mut Emitter<'_>,
    ) -> Addr {
        let bytes = self.elem.bytes();
        let entry = |basis: u64| self.offset(&held.map, basis, |_| true) * bytes;
        let entries: Vec<u32> = held.thread_bases().map(entry).collect();
        let thread = cx.code.of_thread(&entries);
        let across = entry(held.map.bases(Axis::Warp)[warp_bit as usize]);
        let thread = cx
            .code
            .in_prologue(|code| code.binary(BinaryOp::Xor, Type::B32, thread, across));
        cx.shared_place(self.start, thread.into())
    }

    /// Sets of registers that are accessed together, with their offset in elements; every register that is no copy stands
    /// in one.
    fn accesses(&self, held: &Distribution, widest_bytes: u32) -> Vec<(u32, Vec<usize>)> {
        let offset = |packed: u64| self.offset(&held.map, packed, |_| true);
        let bases = held.map.bases(Axis::Register);
        let most = widest_bytes / self.elem.bytes();
        let mut steps: Vec<u32> = Vec::new();
        while 1 << (steps.len() + 1) <= most {
            let wanted = 1 << steps.len();
            match bases.iter().position(|&basis| offset(basis) == wanted) {
                // Across a cut, the other register need not exist.
                Some(bit) if held.held.cut() >> bit & 1 == 0 => steps.push(1_u32 << bit),
                _ => break,
            }
        }
        let within: u32 = steps.iter().sum();
        let is_first = |r: &usize| held.is_own(*r) && held.held.number(*r) & within == 0;
        let first = (0..held.registers()).filter(is_first);
        let access = |first: usize| {
            let step = |at: usize| {
                let set = steps.iter().enumerate().filter(|(k, _)| at >> k & 1 == 1);
                set.map(|(_, step)| step).sum::<u32>()
            };
            let registers = (0..1 << steps.len())
                .map(|at| held.held.across(first, step(at)))
                .collect();
            (offset(held.offsets[first]), registers)
        };
        first.map(access).collect()
    }

    /// Owners write all elements of a thread.
    pub(super) fn store(&self, held: &Distribution, elements: &[Element], cx: &mut Emitter<'_>) {
        let owner = held.owner(&mut cx.code).map(Predicate::is);
        let base = self.thread_address(held, |_| true, cx);
        for (offset, registers) in self.accesses(held, cx.func.target.access.widest_bytes) {
            let values: Vec<Element> = registers.iter().map(|&r| elements[r]).collect();
            let shape = Shape::new(self.elem, values.len());
            let to = self.moved(base, offset);
            cx.code
                .store(shape, &values, to, owner, &plain_store(Space::Shared));
        }
    }

    /// All elements of a thread.
    pub(super) fn load(&self, held: &Distribution, cx: &mut Emitter<'_>) -> Vec<Element> {
        let base = self.thread_address(held, |_| true, cx);
        self.load_from(held, base, Space::Shared, cx)
    }

    /// The same from where its first one lies.
    pub(super) fn load_from(
        &self,
        held: &Distribution,
        base: Addr,
        space: Space,
        cx: &mut Emitter<'_>,
    ) -> Vec<Element> {
        let mut loaded = vec![Element::int(0); held.registers()];
        for (offset, registers) in self.accesses(held, cx.func.target.access.widest_bytes) {
            let shape = Shape::new(self.elem, registers.len());
            let regs = cx.code.vector_regs(shape, None);
            let from = self.moved(base, offset);
            cx.code
                .load_into(shape, &regs, from, None, &plain_load(space));
            let elements = cx.code.vector_elements(shape, &regs);
            for (register, element) in registers.into_iter().zip(elements) {
                loaded[register] = element;
            }
        }
        (0..loaded.len())
            .map(|register| loaded[held.original(register)])
            .collect()
    }

    /// The address so many elements further on.
    pub(super) fn moved(&self, addr: Addr, offset: u32) -> Addr {
        Addr {
            offset: addr.offset + (offset * self.elem.bytes()) as i32,
            ..addr
        }
    }
}
