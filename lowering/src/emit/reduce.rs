//! Reductions: in the thread, then between the lanes of a warp, then between warps through shared memory, and last between
//! the CTAs of a cluster.

use std::collections::BTreeMap;
use std::rc::Rc;

use gluon_lang::elem::Elem;
use gluon_lang::entity::{Inst, Region, Value};
use gluon_lang::layout::{Axis, LinearLayout};
use gluon_lang::ops::control::yielded;
use gluon_lang::ops::flow;
use gluon_lang::ops::reduce::Reduce;
use ptx::{Addr, Operand, PairDest, Predicate, Reg, RegClass, ShflMode, Space, Type};

use super::code::Code;
use super::distribute::Distribution;
use super::element::{Element, class};
use super::numbering::Numbering;
use super::peers::{Area, Exchange};
use super::vector::{Shape, plain_load, plain_store};
use super::{Emitted, Emitter, Lower};

/// One element of each operand.
type Tuple = Vec<Element>;

impl Lower for Reduce {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let plan = Plan::new(self, inst, cx);
        let mut partial = plan.in_threads(cx)?;
        plan.between_lanes(&mut partial, cx)?;
        if plan.sizes.warp_parts > 1 {
            plan.between_warps(&mut partial, cx)?;
        }
        if let Some((offset, area)) = &plan.sizes.exchange {
            plan.between_ctas(&mut partial, (*offset, area), cx)?;
        }
        plan.set_results(inst, &partial, cx);
        Ok(())
    }
}

/// What a reduction works on.
struct Plan<'r> {
    op: &'r Reduce,
    source: Rc<Distribution>,
    axis: usize,
    elems: Vec<Elem>,
    sizes: Sizes,
}

/// How many parts make up a result, and the shared memory that they go through.
pub(super) struct Sizes {
    /// Numbers the results of a CTA.
    results: Numbering,
    /// How many warps of a CTA hold parts of one result.
    pub(super) warp_parts: u32,
    /// If several CTAs hold parts of one result, the memory of their exchange, and where it begins.
    pub(super) exchange: Option<(u32, Area)>,
    /// Bytes in all.
    pub(super) bytes: u32,
}

impl Sizes {
    /// The sizes for a reduction along `axis` of tensors of one layout.
    pub(super) fn new(map: &LinearLayout, axis: usize, elems: &[Elem], is_repeated: bool) -> Sizes {
        let results = Numbering::of_results(map, axis);
        let warp_parts = 1 << bits_along(map, Axis::Warp, axis).len();
        let mut bytes: u32 = 0;
        if warp_parts > 1 {
            for elem in elems {
                // Each operand's part begins at a multiple of 16 bytes.
                bytes = bytes.next_multiple_of(16) + results.count() * warp_parts * elem.bytes();
            }
        }
        let cta_parts = 1 << bits_along(map, Axis::Block, axis).len();
        let exchange = (cta_parts > 1).then(|| {
            let start = bytes.next_multiple_of(16);
            let area = Area::new(elems, results.count(), cta_parts, is_repeated);
            bytes = start + area.bytes();
            (start, area)
        });
        Sizes {
            results,
            warp_parts,
            exchange,
            bytes,
        }
    }
}

/// The bits of `input` that move along dimension `axis`.
fn bits_along(map: &LinearLayout, input: Axis, axis: usize) -> Vec<u32> {
    let bases = map.basis_coords(input).into_iter().zip(0..);
    let along = bases.filter(|(basis, _)| basis[axis] != 0);
    along.map(|(_, bit)| bit).collect()
}

/// Partial results of a thread, by the number of the result element that they belong to.
type Partial = BTreeMap<u32, Tuple>;

impl<'r> Plan<'r> {
    fn new(op: &'r Reduce, inst: Inst, cx: &mut Emitter<'_>) -> Plan<'r> {
        let t = cx.tensor(op.operands[0]);
        let axis = op.axis as usize;
        let elems: Vec<Elem> = op.operands.iter().map(|v| cx.elem(*v)).collect();
        let source = cx.distribution(t);
        let sizes = Sizes::new(&source.map, axis, &elems, flow::is_in_loop(cx.func, inst));
        Plan {
            op,
            source,
            axis,
            elems,
            sizes,
        }
    }

    /// The number of the result element at a packed place of the source.
    fn result_number(&self, packed: u64) -> u32 {
        self.sizes.results.number(packed)
    }

    /// The coordinate of a packed place along the axis.
    fn along(&self, packed: u64) -> u32 {
        self.source.coordinate(packed, self.axis)
    }

    fn in_threads(&self, cx: &mut Emitter<'_>) -> Result<Partial, gluon_lang::diag::Diagnostic> {
        let lists: Vec<_> = self.op.operands.iter().map(|v| cx.elements(*v)).collect();
        let mut groups: BTreeMap<u32, Vec<Tuple>> = BTreeMap::new();
        for register in (0..self.source.registers()).filter(|&r| self.source.is_own(r)) {
            let number = self.result_number(self.source.offsets[register]);
            groups
                .entry(number)
                .or_default()
                .push(lists.iter().map(|l| l[register]).collect());
        }
        let mut partial = Partial::new();
        for (number, tuples) in groups {
            partial.insert(number, self.tree(tuples, cx)?);
        }
        Ok(partial)
    }

    /// Combines pairs, then pairs of pairs: short chains let the machine overlap them.
    fn tree(
        &self,
        mut tuples: Vec<Tuple>,
        cx: &mut Emitter<'_>,
    ) -> Result<Tuple, gluon_lang::diag::Diagnostic> {
        while tuples.len() > 1 {
            let mut next = Vec::with_capacity(tuples.len().div_ceil(2));
            let mut rest = tuples.into_iter();
            while let Some(left) = rest.next() {
                next.push(match rest.next() {
                    Some(right) => cx.combine(self.op.combine, &left, &right)?,
                    None => left,
                });
            }
            tuples = next;
        }
        Ok(tuples.pop().expect("every result has at least one element"))
    }

    fn between_lanes(&self, partial: &mut Partial, cx: &mut Emitter<'_>) -> Emitted {
        let bases = self.source.map.bases(Axis::Lane).to_vec();
        for (bit, basis) in bases.into_iter().enumerate() {
            if self.along(basis) == 0 {
                continue;
            }
            for tuple in partial.values_mut() {
                let other: Tuple = tuple
                    .iter()
                    .zip(&self.elems)
                    .map(|(&e, &elem)| cx.code.exchange(e, elem, 1 << bit))
                    .collect();
                *tuple = cx.combine(self.op.combine, tuple, &other)?;
            }
        }
        Ok(())
    }

    /// Each warp leaves its parts in shared memory, and every thread combines those of its results.
    fn between_warps(&self, partial: &mut Partial, cx: &mut Emitter<'_>) -> Emitted {
        let parts = self.sizes.warp_parts;
        let results = self.sizes.results.count();
        let writer = self.writer(cx);
        let mut base = self.op.scratch.start;
        let mut places = Vec::new();
        for &elem in &self.elems {
            base = base.next_multiple_of(16);
            places.push(base);
            base += results * parts * elem.bytes();
        }
        for (at, (&place, &elem)) in places.iter().zip(&self.elems).enumerate() {
            let addr = self.address(place, elem, true, cx);
            for (&number, tuple) in partial.iter() {
                let offset = (number * parts * elem.bytes()) as i32;
                let to = Addr {
                    offset: addr.offset + offset,
                    ..addr
                };
                cx.code.store(
                    Shape::new(elem, 1),
                    &[tuple[at]],
                    to,
                    writer,
                    &plain_store(Space::Shared),
                );
            }
        }
        cx.meet();
        let addrs: Vec<Addr> = places
            .iter()
            .zip(&self.elems)
            .map(|(&place, &elem)| self.address(place, elem, false, cx))
            .collect();
        for (&number, tuple) in partial.iter_mut() {
            let lists: Vec<Vec<Element>> = addrs
                .iter()
                .zip(&self.elems)
                .map(|(&addr, &elem)| {
                    let offset = (number * parts * elem.bytes()) as i32;
                    cx.code.load_parts(
                        Addr {
                            offset: addr.offset + offset,
                            ..addr
                        },
                        elem,
                        parts,
                    )
                })
                .collect();
            let tuples = (0..parts as usize)
                .map(|p| lists.iter().map(|l| l[p]).collect())
                .collect();
            *tuple = self.tree(tuples, cx)?;
        }
        Ok(())
    }

    /// Each CTA sends what it found to all that hold parts of the same results, and combines what they send in the order of
    /// their ranks: so all have the same result to the last bit.
    fn between_ctas(
        &self,
        partial: &mut Partial,
        (offset, area): (u32, &Area),
        cx: &mut Emitter<'_>,
    ) -> Emitted {
        let thread_numbers = self.source.thread_bases().map(|b| self.result_number(b));
        let exchange = Exchange {
            area,
            place: self.op.scratch.start + offset,
            rank_bits: &bits_along(&self.source.map, Axis::Block, self.axis),
            thread_numbers: &thread_numbers.collect::<Vec<_>>(),
            elems: &self.elems,
        };
        let tuples: Vec<_> = partial
            .iter()
            .map(|(number, tuple)| (*number, tuple))
            .collect();
        let found = exchange.run(&tuples, cx);
        for (tuple, parts) in partial.values_mut().zip(found) {
            *tuple = self.tree(parts, cx)?;
        }
        Ok(())
    }

    /// One lane writes for all that hold the same part.
    fn writer(&self, cx: &mut Emitter<'_>) -> Option<Predicate> {
        let lanes = self.source.map.bases(Axis::Lane).iter().enumerate();
        let alike: u32 = lanes
            .filter(|&(_, &b)| self.along(b) != 0)
            .map(|(bit, _)| 1 << bit)
            .sum();
        let mask = alike | self.source.copied_threads;
        cx.code.holders(mask)
    }

    /// Where a thread's results, and its warp's parts of them if it writes, begin in shared memory.
    fn address(&self, place: u32, elem: Elem, is_written: bool, cx: &mut Emitter<'_>) -> Addr {
        let parts = self.sizes.warp_parts;
        let lanes = self.source.map.in_bits(Axis::Lane) as usize;
        let mut part = 1;
        let mut entries = Vec::new();
        for (bit, basis) in self.source.thread_bases().enumerate() {
            let mut index = self.result_number(basis) * parts;
            if bit >= lanes && self.along(basis) != 0 {
                if is_written {
                    index |= part;
                }
                part <<= 1;
            }
            entries.push(index * elem.bytes());
        }
        let thread = cx.code.of_thread(&entries);
        cx.shared_place(place, thread)
    }

    /// The results of a thread, in the registers of their layout.
    fn set_results(&self, inst: Inst, partial: &Partial, cx: &mut Emitter<'_>) {
        let results = cx.func.results(inst).to_vec();
        for (at, result) in results.into_iter().enumerate() {
            let elements: Vec<Element> = match cx.func.ty(result).as_tensor() {
                None => vec![partial[&0][at]],
                Some(t) => {
                    let distribution = cx.distribution(t);
                    // A result stands where the axis has coordinate 0.
                    let number = |&offset: &u64| {
                        let coords = distribution.map.unpack_out(offset);
                        let in_source = coords.with_inserted(self.axis, 0);
                        self.result_number(self.source.map.pack_out(&in_source))
                    };
                    let numbers = distribution.offsets.iter().map(number);
                    numbers.map(|number| partial[&number][at]).collect()
                }
            };
            cx.set(result, elements);
        }
    }
}

impl Emitter<'_> {
    /// Combines two tuples by a region: all left elements, then all right ones.
    pub(super) fn combine(
        &mut self,
        region: Region,
        left: &[Element],
        right: &[Element],
    ) -> Result<Tuple, gluon_lang::diag::Diagnostic> {
        let params: Vec<Value> = self.func.region(region).params.to_vec();
        for (param, element) in params.into_iter().zip(left.iter().chain(right)) {
            self.set(param, vec![*element]);
        }
        self.region(region)?;
        Ok(yielded(self.func, region)
            .to_vec()
            .into_iter()
            .map(|v| self.scalar(v))
            .collect())
    }

    /// The address of a byte of shared memory plus what the thread adds.
    pub(super) fn shared_place(&mut self, place: u32, thread: Operand) -> Addr {
        let base = self.shared_address(0);
        let reg = match thread {
            Operand::Int(0) => base,
            thread => self
                .code
                .in_prologue(|code| code.binary(ptx::BinaryOp::Add, Type::U32, base, thread)),
        };
        Addr::reg(reg, place as i32)
    }
}

impl Code {
    /// The element of the lane whose number differs in these bits.
    pub(super) fn exchange(&mut self, element: Element, elem: Elem, lanes: u32) -> Element {
        self.shuffled(element, elem, ShflMode::Bfly, Operand::from(lanes))
    }

    /// The element of another lane.
    pub(super) fn shuffled(
        &mut self,
        element: Element,
        elem: Elem,
        mode: ShflMode,
        lane: Operand,
    ) -> Element {
        if elem.bits() == 64 {
            let whole = self.whole(element, elem);
            let halves = self.unpack(Type::B64, whole);
            let halves = halves.map(|half| {
                Operand::Reg(self.shuffle_word(RegClass::B32, half.into(), mode, lane))
            });
            let word = self.pack(Type::B64, &halves);
            return if class(elem) == RegClass::F64 {
                self.mov_bits(RegClass::F64, word).into()
            } else {
                word.into()
            };
        }
        let word = self.bits32(element, elem);
        let held = if class(elem) == RegClass::F32 {
            RegClass::F32
        } else {
            RegClass::B32
        };
        let moved = self.shuffle_word(held, word, mode, lane);
        self.from_bits32(moved, elem)
    }

    fn shuffle_word(
        &mut self,
        held: RegClass,
        word: Operand,
        mode: ShflMode,
        lane: Operand,
    ) -> Reg {
        let to = self.reg(held);
        // All 32 lanes take part: segments of a whole warp, all lanes in the mask.
        self.push(ptx::Shfl::new(
            mode,
            PairDest::from(to),
            word,
            lane,
            31,
            u32::MAX,
        ));
        to
    }

    /// Neighbouring elements of shared memory, as wide as they can be loaded.
    pub(super) fn load_parts(&mut self, addr: Addr, elem: Elem, count: u32) -> Vec<Element> {
        let at_once = count.min(16 / elem.bytes());
        let shape = Shape::new(elem, at_once as usize);
        let mut elements = Vec::new();
        for first in (0..count).step_by(at_once as usize) {
            let from = Addr {
                offset: addr.offset + (first * elem.bytes()) as i32,
                ..addr
            };
            let regs = self.vector_regs(shape, None);
            self.load_into(shape, &regs, from, None, &plain_load(Space::Shared));
            elements.extend(self.vector_elements(shape, &regs));
        }
        elements
    }
}
