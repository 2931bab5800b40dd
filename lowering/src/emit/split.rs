//! Blocks and tiles that the CTAs of a cluster split, as TMA moves them: where the part of a CTA begins, and which
//! CTA issues the multicast for several that have the same part.

use ir::elem::{DType, Elem};
use ir::ops::arith::BinaryOp as Op;
use layout::Dims;
use ptx::{BinaryOp, CtaMask, Operand, Predicate, Special, Type};

use super::Emitter;
use super::code::Code;
use super::element::Element;

/// The bits of the rank that do not change which part a CTA has.
fn copies(origins: &[Dims]) -> u32 {
    let bits = origins.iter().enumerate();
    let is_copy = |(_, origin): &(usize, &Dims)| origin.iter().all(|&at| at == 0);
    bits.filter(is_copy).fold(0, |all, (bit, _)| all | 1 << bit)
}

impl Emitter<'_> {
    /// Where this CTA's part begins along a dimension.
    pub(super) fn part_start(&mut self, origins: &[Dims], dim: usize) -> Element {
        let entries: Vec<u32> = origins.iter().map(|origin| origin[dim]).collect();
        self.of_rank(&entries)
    }

    /// Where this CTA's part of a tile begins, counted in elements in row-major order.
    pub(super) fn part_start_in_order(&mut self, origins: &[Dims], shape: &[u32]) -> Element {
        let flat = |origin: &Dims| {
            let dims = shape.iter().zip(origin.iter());
            dims.fold(0, |sum, (size, at)| sum * size + at)
        };
        let entries: Vec<u32> = origins.iter().map(flat).collect();
        self.of_rank(&entries)
    }

    fn of_rank(&mut self, entries: &[u32]) -> Element {
        if entries.iter().all(|&entry| entry == 0) {
            return Element::int(0);
        }
        match self.code.of_block(entries) {
            Operand::Int(known) => Element::int(known),
            operand => Element::Whole(operand),
        }
    }

    /// Where `guard` holds, in the first of the CTAs that have the same part.
    pub(super) fn first_of_copies(
        &mut self,
        guard: Option<Predicate>,
        origins: &[Dims],
    ) -> Option<Predicate> {
        match copies(origins) {
            0 => guard,
            copies => {
                let is_first = Predicate::is(self.code.rank_bits_are(copies, 0));
                Some(self.both(guard, is_first))
            }
        }
    }

    /// Both predicates.
    pub(super) fn both(&mut self, guard: Option<Predicate>, other: Predicate) -> Predicate {
        let Some(guard) = guard else { return other };
        let element = |code: &mut Code, p: Predicate| {
            let reg = if p.negated {
                code.negated(p.reg)
            } else {
                p.reg
            };
            Element::from(reg)
        };
        let (a, b) = (
            element(&mut self.code, guard),
            element(&mut self.code, other),
        );
        let both = self.code.int_binary(Op::And, a, b, Elem::I1);
        Predicate::is(self.code.whole(both, Elem::I1))
    }

    /// The CTAs that have the part of this one, if it is the first of them.
    pub(super) fn mask_of_copies(&mut self, origins: &[Dims]) -> CtaMask {
        let copies = copies(origins);
        let ranks = (0_u32..1 << origins.len()).filter(|rank| rank & !copies == 0);
        let first = ranks.fold(0_u32, |mask, rank| mask | 1 << rank);
        let is_only = copies.count_ones() as usize == origins.len();
        let mask: Operand = self.code.in_prologue(|code| {
            if is_only {
                return code.mov(Type::B16, Operand::Int(first.into())).into();
            }
            let rank = code.mov(Type::U32, Special::ClusterCtaRank);
            let word = code.binary(BinaryOp::Shl, Type::B32, first, rank);
            code.convert(Type::U16, Type::U32, None, word).into()
        });
        CtaMask(mask)
    }

    /// The address of an element in global memory, so many elements behind a pointer.
    pub(super) fn moved_pointer(
        &mut self,
        pointer: Element,
        elements: Element,
        elem: Elem,
    ) -> Element {
        if elements.as_int() == Some(0) {
            return pointer;
        }
        let size = Element::int(elem.bytes().into());
        let bytes = self.code.int_binary(Op::Mul, elements, size, Elem::I32);
        let bytes = self.code.whole(bytes, Elem::I32);
        let wide = self.code.convert(Type::U64, Type::U32, None, bytes);
        let address = Elem::Data(DType::U64);
        self.code.int_binary(Op::Add, pointer, wide.into(), address)
    }
}
