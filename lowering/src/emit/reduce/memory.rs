//! Reductions between warps and between CTAs: what they found goes through shared memory.

use ir::elem::Elem;
use layout::Axis;
use ptx::{Addr, Space};
use target::WIDEST_ACCESS_BYTES;

use super::{Partial, Plan, Share, bits_along};
use crate::analysis::scratch::Area;
use crate::emit::element::Element;
use crate::emit::peers::Exchange;
use crate::emit::vector::{Shape, plain_load, plain_store};
use crate::emit::{Emitted, Emitter};

impl Plan<'_> {
    /// Each warp leaves its parts in shared memory, and every thread combines those of its results: of its share of them, if
    /// that `is_kept`.
    pub(super) fn between_warps(
        &self,
        partial: &mut Partial,
        is_kept: bool,
        cx: &mut Emitter<'_>,
    ) -> Emitted {
        self.leave(partial, cx);
        cx.sync_partition();
        if !is_kept {
            partial.shares.clear();
        }
        let addrs: Vec<Addr> = (0..self.elems.len())
            .map(|at| self.address(at, false, &partial.shares, cx))
            .collect();
        for number in partial.read_numbers() {
            let lists: Vec<Vec<Element>> = addrs
                .iter()
                .zip(&self.elems)
                .map(|(&addr, &elem)| {
                    let from = self.slot(addr, number, elem);
                    cx.load_parts(from, elem, self.sizes.warp_parts)
                })
                .collect();
            let parts = (0..self.sizes.warp_parts as usize)
                .map(|p| lists.iter().map(|l| l[p]).collect())
                .collect();
            partial.tuples.insert(number, self.tree(parts, cx)?);
        }
        Ok(())
    }

    /// One lane writes for all that hold the same part.
    fn leave(&self, partial: &Partial, cx: &mut Emitter<'_>) {
        let lanes = bits_along(&self.source.map, Axis::Lane, self.axis);
        let alike: u32 = lanes.iter().map(|bit| 1 << bit).sum();
        let shared: u32 = partial.shares.iter().map(|share| 1 << share.lane_bit).sum();
        let writer = cx
            .code
            .holders(alike & !shared | self.source.copied_threads);
        for (at, &elem) in self.elems.iter().enumerate() {
            let addr = self.address(at, true, &partial.shares, cx);
            for (&number, tuple) in &partial.tuples {
                cx.code.store(
                    Shape::new(elem, 1),
                    &[tuple[at]],
                    self.slot(addr, number, elem),
                    writer,
                    &plain_store(Space::Shared),
                );
            }
        }
    }

    /// Where the parts of a result lie, given where those of the thread's first one do.
    fn slot(&self, first: Addr, number: u32, elem: Elem) -> Addr {
        let offset = (number * self.sizes.slots * elem.bytes()) as i32;
        Addr {
            offset: first.offset + offset,
            ..first
        }
    }

    /// Where a thread's results of one operand, and its warp's parts of them if it writes, begin in shared memory.
    fn address(
        &self,
        operand: usize,
        is_written: bool,
        shares: &[Share],
        cx: &mut Emitter<'_>,
    ) -> Addr {
        let slots = self.sizes.slots;
        let lanes = self.source.map.in_bits(Axis::Lane) as usize;
        let numbers = self.thread_numbers(shares);
        let mut part = 1;
        let mut entries = Vec::new();
        for (bit, basis) in self.source.thread_bases().enumerate() {
            let mut index = numbers[bit] * slots;
            if bit >= lanes && self.along(basis) != 0 {
                if is_written {
                    index |= part;
                }
                part <<= 1;
            }
            entries.push(index * self.elems[operand].bytes());
        }
        let thread = cx.code.of_thread(&entries);
        cx.shared_place(self.place(operand), thread)
    }

    /// Where the parts of one operand begin in shared memory.
    fn place(&self, operand: usize) -> u32 {
        let slots = self.sizes.results.count() * self.sizes.slots;
        let before = self.elems[..operand].iter();
        before.fold(
            self.op.scratch.start.next_multiple_of(WIDEST_ACCESS_BYTES),
            |place, elem| (place + slots * elem.bytes()).next_multiple_of(WIDEST_ACCESS_BYTES),
        )
    }

    /// What each bit of the thread's number adds to the numbers of its results, or of its share of them.
    fn thread_numbers(&self, shares: &[Share]) -> Vec<u32> {
        let of_basis = self.source.thread_bases().map(|b| self.result_number(b));
        let mut numbers: Vec<u32> = of_basis.collect();
        for share in shares {
            numbers[share.lane_bit as usize] |= share.number;
        }
        numbers
    }

    /// Each CTA sends what it found to all that hold parts of the same results, and combines what they send in the order of
    /// their ranks: so all have the same result to the last bit.
    pub(super) fn between_ctas(
        &self,
        partial: &mut Partial,
        is_kept: bool,
        (offset, area): (u32, &Area),
        cx: &mut Emitter<'_>,
    ) -> Emitted {
        let sender_numbers = self.thread_numbers(&partial.shares);
        if !is_kept {
            partial.shares.clear();
        }
        let exchange = Exchange {
            area,
            place: self.op.scratch.start + offset,
            rank_bits: &bits_along(&self.source.map, Axis::Block, self.axis),
            sender_numbers: &sender_numbers,
            thread_numbers: &self.thread_numbers(&partial.shares),
            elems: &self.elems,
        };
        let tuples: Vec<_> = partial
            .tuples
            .iter()
            .map(|(number, tuple)| (*number, tuple))
            .collect();
        let wanted = partial.read_numbers();
        let found = exchange.run(&tuples, &wanted, cx);
        for (number, parts) in wanted.into_iter().zip(found) {
            partial.tuples.insert(number, self.tree(parts, cx)?);
        }
        Ok(())
    }
}

impl Partial {
    /// The numbers of what a thread reads from memory: of its share, or of all.
    fn read_numbers(&self) -> Vec<u32> {
        let of_others: u32 = self.shares.iter().map(|share| share.number).sum();
        let numbers = self.numbers.iter().copied();
        numbers.filter(|number| number & of_others == 0).collect()
    }
}

impl Emitter<'_> {
    /// Neighbouring elements of shared memory, as wide as they can be loaded. The first lies where as many can as the next power
    /// of two.
    pub(in crate::emit) fn load_parts(
        &mut self,
        addr: Addr,
        elem: Elem,
        count: u32,
    ) -> Vec<Element> {
        let most = self.func.target.access.widest_bytes / elem.bytes();
        let mut elements = Vec::new();
        while (elements.len() as u32) < count {
            let first = elements.len() as u32;
            let left = count - first;
            let shape = Shape::new(elem, most.min(1 << left.ilog2()) as usize);
            let from = Addr {
                offset: addr.offset + (first * elem.bytes()) as i32,
                ..addr
            };
            let code = &mut self.code;
            let regs = code.vector_regs(shape, None);
            code.load_into(shape, &regs, from, None, &plain_load(Space::Shared));
            elements.extend(code.vector_elements(shape, &regs));
        }
        elements
    }
}
