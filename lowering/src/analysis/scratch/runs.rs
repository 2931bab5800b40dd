//! The coordinate along one dimension, taken apart by who holds its bits.

use ir::elem::Elem;
use layout::{Axis, LinearLayout};
use target::WIDEST_ACCESS_BYTES;

use super::Area;
use super::numbering::{Numbering, held_by_ctas};

/// Neighbouring bits of a coordinate that are held by registers, by lanes, by warps or by the CTAs of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Who holds them.
    pub(crate) holder: Axis,
    /// The number of the holder's bit, for each bit of the coordinate, the lowest first.
    pub(crate) bits: Vec<u32>,
    /// Coordinate bits below the run.
    pub(crate) below: u32,
    /// How many places of it there are where sets of warps divide the dimension, and are no power of two: the first ones.
    sets: Option<u32>,
}

impl Run {
    /// The holder's bits as a mask.
    pub(crate) fn mask(&self) -> u32 {
        self.bits.iter().map(|bit| 1 << bit).sum()
    }

    /// How many places the run tells apart, those of registers that need not exist among them.
    pub(crate) fn len(&self) -> u32 {
        self.sets.unwrap_or(1 << self.bits.len())
    }

    /// The bits of a place in the run.
    pub(crate) fn place_bits(&self) -> u32 {
        (1 << self.bits.len()) - 1
    }

    /// The larger block that a block belongs to; both are called by the register that they begin with.
    pub(crate) fn larger(&self, block: u32) -> u32 {
        if self.holder == Axis::Register {
            block & !self.mask()
        } else {
            block
        }
    }

    /// The holder's number for a place.
    pub(crate) fn spread(&self, place: u32) -> u32 {
        let set = self
            .bits
            .iter()
            .enumerate()
            .filter(|&(i, _)| place >> i & 1 == 1);
        set.map(|(_, bit)| 1 << bit).sum()
    }
}

/// The runs of the coordinate along `dim`, the lowest bits first.
pub(crate) fn runs(map: &LinearLayout, dim: usize) -> Vec<Run> {
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
                sets: None,
            }),
        }
    }
    // The number of the set has the highest bits of the coordinate.
    if let Some((divided, sets)) = map.divided()
        && divided == dim
        && let Some(last) = found.last_mut()
    {
        last.sets = Some(last.len() / sets.next_power_of_two() * sets);
    }
    found
}

/// The input bit whose basis this is. Each coordinate bit of a distributed layout has exactly one.
pub(crate) fn holder_of(map: &LinearLayout, basis: u64) -> (Axis, u32) {
    let holders = map.ins().map(|(axis, _)| axis);
    let mut places = holders.filter_map(|axis| {
        let bit = map.bases(axis).iter().position(|&b| b == basis)?;
        Some((axis, bit as u32))
    });
    places
        .next()
        .expect("a distributed layout reaches every element by bits of its own")
}

/// Where what the blocks of one run come to goes from thread to thread, in bytes from the start of the scratch.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// Through no memory: registers and lanes do without.
    Nowhere,
    /// The warps of a run leave it for each operand and each block.
    Warps {
        /// Numbers the slots: the places of the run lowest, then all that the blocks of a CTA differ in besides.
        slots: Numbering,
        /// Where the slots of each operand begin.
        starts: Vec<u32>,
        /// Where they end.
        end: u32,
    },
    /// The CTAs of a run send it to each other.
    Ctas {
        /// Numbers what the blocks of a CTA differ in.
        tuples: Numbering,
        /// Where the exchange begins.
        start: u32,
        /// What it needs.
        area: Area,
    },
}

impl Place {
    /// Where it ends.
    pub(crate) fn end(&self) -> u32 {
        match self {
            Place::Nowhere => 0,
            Place::Warps { end, .. } => *end,
            Place::Ctas { start, area, .. } => start + area.bytes(),
        }
    }

    /// The memory of an exchange between CTAs, and where it begins.
    pub(crate) fn area(&self) -> Option<(u32, Area)> {
        match self {
            Place::Ctas { start, area, .. } => Some((*start, area.clone())),
            _ => None,
        }
    }
}

/// The places of every run, one after another.
pub(crate) fn places(
    map: &LinearLayout,
    dim: usize,
    runs: &[Run],
    elems: &[Elem],
    is_repeated: bool,
) -> Vec<Place> {
    let shift = map.out_shift(Axis::dim(dim));
    let elsewhere = held_by_ctas(map);
    let mut end: u32 = 0;
    let place = |run: &Run| {
        let own = shift + run.below..shift + run.below + run.bits.len() as u32;
        let within = shift..shift + run.below;
        let rest = (0..map.total_out_bits())
            .filter(|bit| !within.contains(bit) && !own.contains(bit) && elsewhere >> bit & 1 == 0);
        let place = match run.holder {
            Axis::Warp => in_slots(Numbering::new(own.clone().chain(rest)), elems, end),
            Axis::Block => {
                let tuples = Numbering::with_cuts_last(map, rest);
                let area = Area::new(elems, tuples.counts(), run.len(), is_repeated);
                let start = end.next_multiple_of(WIDEST_ACCESS_BYTES);
                Place::Ctas {
                    tuples,
                    start,
                    area,
                }
            }
            _ => Place::Nowhere,
        };
        end = end.max(place.end());
        place
    };
    runs.iter().map(place).collect()
}

/// Slots of one element for each operand, from `start` on.
fn in_slots(slots: Numbering, elems: &[Elem], start: u32) -> Place {
    let mut end = start;
    let starts = elems.iter().map(|elem| {
        let start = end.next_multiple_of(WIDEST_ACCESS_BYTES);
        end = start + elem.bytes() * slots.count();
        start
    });
    let starts = starts.collect();
    Place::Warps { slots, starts, end }
}
