//! Where each place of the result finds its element in the source.

use smallvec::SmallVec;

use crate::linear::gf2::Span;
use crate::{Axis, LinearLayout};

/// The source and the result without redundant registers, and for each place of the result the nearest place of the
/// source with the same element: the same thread if it can be, then the same warp, then the same CTA.
pub(super) struct Pull {
    /// The source, redundant registers dropped.
    pub(super) src: LinearLayout,
    /// The numbers of the source's kept registers.
    pub(super) src_registers: Vec<u32>,
    /// The result, redundant registers dropped.
    pub(super) dst: LinearLayout,
    /// For each register of the whole result, the kept register with the same element.
    pub(super) results: Vec<u32>,
    /// From packed places of `dst` to packed places of `src`.
    pub(super) map: LinearLayout,
    /// The bits of packed coordinates that no access of a thread reaches across.
    pub(super) cut: u64,
}

impl Pull {
    pub(super) fn new(whole_src: &LinearLayout, whole_dst: &LinearLayout) -> Self {
        let order: SmallVec<[Axis; 4]> = whole_src.outs().map(|(axis, _)| axis).collect();
        let whole_dst = whole_dst.with_outs_ordered(&order);
        let (src, src_registers) = without_copies(whole_src);
        let (dst, _) = without_copies(&whole_dst);
        let results = registers_of(&whole_dst, &dst);
        let map = nearest(&src, &dst);
        Self {
            src,
            src_registers,
            dst,
            results,
            map,
            cut: 0,
        }
    }

    /// The same of maps onto a shape that cuts them: of those onto the sizes rounded up.
    pub(super) fn across(src: &LinearLayout, dst: &LinearLayout) -> Self {
        Self {
            cut: src.cut_mask(),
            ..Self::new(&src.clone().uncut(), &dst.clone().uncut())
        }
    }

    /// Whether every warp already holds what it needs.
    pub(super) fn stays_in_warp(&self) -> bool {
        self.keeps(Axis::Warp) && self.stays_in_block()
    }

    /// Whether every CTA already holds what it needs.
    pub(super) fn stays_in_block(&self) -> bool {
        self.keeps(Axis::Block)
    }

    /// Whether each place finds its element where `axis` has the same value; lanes and registers may depend on it.
    fn keeps(&self, axis: Axis) -> bool {
        let (first, shift) = (self.map.in_shift(axis), self.map.out_shift(axis));
        let mask = ((1_u64 << self.map.out_bits(axis)) - 1) << shift;
        let own = first..first + self.map.in_bits(axis);
        self.map.columns().iter().zip(0_u32..).all(|(&column, at)| {
            let wanted = if own.contains(&at) {
                1 << (shift + at - first)
            } else {
                0
            };
            column & mask == wanted
        })
    }
}

/// The map without the register bits that add nothing, and the numbers of the registers that stay.
fn without_copies(map: &LinearLayout) -> (LinearLayout, Vec<u32>) {
    let free = map.free_mask(Axis::Register);
    let kept = map.with_bases_kept(Axis::Register, |bit, _| free >> bit & 1 == 0);
    let numbers = (0..map.num_registers())
        .filter(|register| register & free == 0)
        .collect();
    (kept, numbers)
}

/// For each register of `whole`, the register of `kept` with the same element.
fn registers_of(whole: &LinearLayout, kept: &LinearLayout) -> Vec<u32> {
    let span = Span::of(kept.bases(Axis::Register).iter().copied());
    let bits: SmallVec<[u64; 8]> = whole
        .bases(Axis::Register)
        .iter()
        .map(|&basis| {
            span.solve(basis)
                .expect("a redundant register bit is the XOR of earlier ones")
        })
        .collect();
    let number = |register: u32| {
        let set = bits
            .iter()
            .enumerate()
            .filter(|&(bit, _)| register >> bit & 1 == 1);
        set.fold(0, |kept, (_, &bits)| kept ^ bits as u32)
    };
    (0..whole.num_registers()).map(number).collect()
}

/// For each place of `dst` the nearest place of `src`: first the place of the same thread is tried, and what is
/// missing to the element is made up by registers, else lanes, else warps, else blocks.
fn nearest(src: &LinearLayout, dst: &LinearLayout) -> LinearLayout {
    let span = Span::of(src.columns().iter().copied());
    let registers = dst.in_bits(Axis::Register);
    let src_registers = src.in_bits(Axis::Register);
    let columns = dst.columns().iter().zip(0_u32..).map(|(&element, at)| {
        let same_thread = at
            .checked_sub(registers)
            .map_or(0, |bit| 1_u64 << (src_registers + bit));
        let missing = element ^ src.apply_packed(same_thread);
        same_thread
            ^ span
                .solve(missing)
                .expect("a layout reaches every element of its tensor")
    });
    LinearLayout::from_columns(dst.ins(), src.ins(), columns)
}
