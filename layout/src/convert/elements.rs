//! The elements that an exchange stores, and the byte offset of each.

use smallvec::SmallVec;

use super::exchange::Scope;
use super::pull::Pull;
use super::swizzle::Order;
use crate::linear::gf2::Span;
use crate::{Axis, LinearLayout};

/// The elements that one CTA stores, numbered by the source's places: one bit per register, lane and warp bit that
/// tells them apart.
pub(super) struct Elements {
    pub(super) bits: u32,
    /// From the source's places to elements; block bits tell CTAs apart, not elements.
    pub(super) stored: LinearLayout,
    /// From the result's places to elements (of the CTA that `remote` names).
    pub(super) loaded: LinearLayout,
    pub(super) idle_lanes: u32,
    pub(super) idle_warps: u32,
    pub(super) remote: Blocks,
    /// Elements that no access of a thread moves together with the first one.
    pub(super) apart: SmallVec<[u64; 4]>,
}

/// The place of the block number within a packed place of the source, and its result registers' parts.
pub(super) struct Blocks {
    pub(super) shift: u32,
    /// The block part of each register bit of the result.
    pub(super) register: SmallVec<[u32; 8]>,
}

impl Blocks {
    pub(super) fn block_of(&self, place: u64) -> u32 {
        (place >> self.shift) as u32
    }
}

impl Elements {
    pub(super) fn new(pull: &Pull, scope: Scope) -> Self {
        let src = &pull.src;
        // Where warps keep to themselves, each has a part of its own, even those that hold copies.
        let alone = scope == Scope::Warp;
        let telling = telling_bits(src, alone);
        let bits = telling.len() as u32;
        let number = |place: u64| -> u64 {
            telling
                .iter()
                .enumerate()
                .filter(|&(_, &unit)| place & unit != 0)
                .map(|(to, _)| 1 << to)
                .sum()
        };
        let outs = [(Axis::Offset, bits)];
        let stored = (0..src.total_in_bits()).map(|at| number(1 << at));
        let loaded = pull.map.columns().iter().map(|&place| number(place));
        let shift = src.in_shift(Axis::Block);
        let columns = src.columns().iter().zip(0..);
        let cut = columns.filter(|(column, _)| *column & pull.cut != 0);
        Self {
            bits,
            apart: cut.map(|(_, at)| number(1 << at)).collect(),
            stored: LinearLayout::from_columns(src.ins(), outs, stored),
            loaded: LinearLayout::from_columns(pull.map.ins(), outs, loaded),
            idle_lanes: src.free_mask(Axis::Lane),
            idle_warps: if alone { 0 } else { src.free_mask(Axis::Warp) },
            remote: Blocks {
                shift,
                register: pull
                    .map
                    .bases(Axis::Register)
                    .iter()
                    .map(|&place| (place >> shift) as u32)
                    .collect(),
            },
        }
    }
}

/// The place bits of one CTA that tell stored elements apart, as packed places.
pub(super) fn telling_bits(src: &LinearLayout, warps_alone: bool) -> SmallVec<[u64; 20]> {
    let warps = src.in_shift(Axis::Warp)..src.in_shift(Axis::Block);
    let mut span = Span::new();
    let places = src.columns().iter().zip(0_u32..).take(warps.end as usize);
    let telling =
        places.filter(|&(&column, at)| span.insert(column) || warps_alone && warps.contains(&at));
    telling.map(|(_, at)| 1 << at).collect()
}

/// The byte offset of every element, without the pass.
pub(super) struct Offsets {
    pub(super) span: Span,
    pub(super) elem_bytes: u32,
    pub(super) pass_shift: u32,
    pub(super) pass_bits: u32,
}

impl Offsets {
    pub(super) fn new(order: &Order, elem_bytes: u32) -> Self {
        Self {
            span: Span::of(order.basis.iter().copied()),
            elem_bytes,
            pass_shift: order.basis.len() as u32 - order.pass_bits,
            pass_bits: order.pass_bits,
        }
    }

    /// The bytes of one pass.
    pub(super) fn pass_bytes(&self) -> u32 {
        self.elem_bytes << self.pass_shift
    }

    /// The element's number, with the pass in the highest bits.
    pub(super) fn number(&self, element: u64) -> u32 {
        self.span
            .solve(element)
            .expect("the order numbers every element") as u32
    }

    /// The byte offset within a pass.
    pub(super) fn of(&self, element: u64) -> u32 {
        (self.number(element) & ((1 << self.pass_shift) - 1)) * self.elem_bytes
    }

    pub(super) fn pass(&self, element: u64) -> usize {
        (self.number(element) >> self.pass_shift) as usize
    }
}
