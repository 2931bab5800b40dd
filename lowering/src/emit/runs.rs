//! The coordinate along one dimension, taken apart by who holds its bits.

use gluon_lang::elem::Elem;
use gluon_lang::layout::{Axis, LinearLayout};

/// Neighbouring bits of a coordinate that are held by registers, or by lanes, or by warps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// Who holds them.
    pub(super) holder: Axis,
    /// The number of the holder's bit, for each bit of the coordinate, the lowest first.
    pub(super) bits: Vec<u32>,
    /// Coordinate bits below the run.
    pub(super) below: u32,
}

impl Run {
    /// The holder's bits as a mask.
    pub(super) fn mask(&self) -> u32 {
        self.bits.iter().map(|bit| 1 << bit).sum()
    }

    /// How many places the run tells apart.
    pub(super) fn len(&self) -> u32 {
        1 << self.bits.len()
    }

    /// The larger block that a block belongs to; both are called by the register that they begin with.
    pub(super) fn larger(&self, block: u32) -> u32 {
        if self.holder == Axis::Register {
            block & !self.mask()
        } else {
            block
        }
    }

    /// The holder's number for a place.
    pub(super) fn spread(&self, place: u32) -> u32 {
        let set = self
            .bits
            .iter()
            .enumerate()
            .filter(|&(i, _)| place >> i & 1 == 1);
        set.map(|(_, bit)| 1 << bit).sum()
    }
}

/// The runs of the coordinate along `dim`, the lowest bits first.
pub(super) fn runs(map: &LinearLayout, dim: usize) -> Vec<Run> {
    let mut found: Vec<Run> = Vec::new();
    let shift = map.out_shift(Axis::dim(dim));
    for below in 0..map.out_bits(Axis::dim(dim)) {
        let (holder, bit) = holder_of(map, 1 << (shift + below));
        match found.last_mut() {
            Some(run) if run.holder == holder => run.bits.push(bit),
            _ => found.push(Run {
                holder,
                bits: vec![bit],
                below,
            }),
        }
    }
    found
}

/// The input bit whose basis this is. Each coordinate bit of a distributed layout has exactly one.
pub(super) fn holder_of(map: &LinearLayout, basis: u64) -> (Axis, u32) {
    let holders = map.ins().map(|(axis, _)| axis);
    let mut places = holders.filter_map(|axis| {
        let bit = map.bases(axis).iter().position(|&b| b == basis)?;
        Some((axis, bit as u32))
    });
    places
        .next()
        .expect("a distributed layout reaches every element by bits of its own")
}

/// Where the warps of one run leave what their blocks come to, for each operand and each block.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    /// The packed coordinate bits that number the slots, the lowest first: those of the run, then all that the blocks
    /// differ in besides.
    order: Vec<u32>,
    /// Where the slots of each operand begin, in bytes from the start of the scratch.
    pub(super) starts: Vec<u32>,
}

impl Slots {
    /// The number of the slot of a packed place.
    pub(super) fn number(&self, packed: u64) -> u32 {
        let bits = self.order.iter().enumerate();
        bits.map(|(to, from)| ((packed >> from & 1) as u32) << to)
            .sum()
    }
}

/// The slots of every run held by warps, one after another, and the bytes of all.
pub(super) fn slots(
    map: &LinearLayout,
    dim: usize,
    runs: &[Run],
    elems: &[Elem],
) -> (Vec<Option<Slots>>, u32) {
    let shift = map.out_shift(Axis::dim(dim));
    let mut bytes: u32 = 0;
    let mut all = Vec::new();
    for run in runs {
        if run.holder != Axis::Warp {
            all.push(None);
            continue;
        }
        let own = shift + run.below..shift + run.below + run.bits.len() as u32;
        let rest = (0..map.total_out_bits())
            .filter(|bit| !(shift..shift + run.below).contains(bit) && !own.contains(bit));
        let order: Vec<u32> = own.clone().chain(rest).collect();
        let starts = elems
            .iter()
            .map(|elem| {
                let start = bytes.next_multiple_of(16);
                bytes = start + (elem.bytes() << order.len());
                start
            })
            .collect();
        all.push(Some(Slots { order, starts }));
    }
    (all, bytes)
}
