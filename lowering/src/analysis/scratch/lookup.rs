//! How a gather finds the lane and the register of what it looks up, where no warp needs what another one holds.

use ir::elem::Elem;
use layout::{Axis, LinearLayout};

use super::runs::holder_of;

/// What decides one bit of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decider {
    /// This bit of the index.
    Index(u32),
    /// This bit of the number of the thread that looks up.
    Thread(u32),
    /// This bit of the register that looks up.
    Register(u32),
}

/// Where each bit of a place in the source comes from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lookup {
    /// Bits of the lane, with what decides them; others are copies.
    pub(crate) lane: Vec<(u32, Decider)>,
    /// Bits of the register, with what decides them; others are copies.
    pub(crate) register: Vec<(u32, Decider)>,
}

impl Lookup {
    /// `None` where a warp would have to look into another one.
    pub(crate) fn new(
        source: &LinearLayout,
        indices: &LinearLayout,
        axis: usize,
    ) -> Option<Lookup> {
        let mut lookup = Lookup::default();
        let lane_bits = indices.in_bits(Axis::Lane);
        for (dim, (out, bits)) in source.outs().enumerate() {
            for bit in 0..bits {
                let decider = if dim == axis {
                    Decider::Index(bit)
                } else {
                    match holder_of(indices, 1 << (indices.out_shift(out) + bit)) {
                        (Axis::Register, r) => Decider::Register(r),
                        (Axis::Lane, l) => Decider::Thread(l),
                        (Axis::Warp, w) => Decider::Thread(lane_bits + w),
                        _ => return None,
                    }
                };
                match holder_of(source, 1 << (source.out_shift(out) + bit)) {
                    (Axis::Register, r) => lookup.register.push((r, decider)),
                    (Axis::Lane, l) => lookup.lane.push((l, decider)),
                    (Axis::Warp, w) if decider == Decider::Thread(lane_bits + w) => {}
                    _ => return None,
                }
            }
        }
        Some(lookup)
    }

    /// Bits of the register that are known only where the kernel runs.
    pub(crate) fn open(&self) -> Vec<(u32, Decider)> {
        let is_open = |(_, decider): &&(u32, Decider)| !matches!(decider, Decider::Register(_));
        self.register.iter().filter(is_open).copied().collect()
    }

    /// The source's register for a register that looks up, with zeros in the open bits.
    pub(crate) fn known_register(&self, register: u32) -> u32 {
        known(&self.register, register)
    }

    /// The lane for a register that looks up, with zeros in bits that others decide.
    pub(crate) fn known_lane(&self, register: u32) -> u32 {
        known(&self.lane, register)
    }

    /// Does every thread look into its own registers alone?
    pub(crate) fn stays_in_thread(&self) -> bool {
        self.lane
            .iter()
            .all(|(bit, decider)| *decider == Decider::Thread(*bit))
    }

    /// Are shuffles better than shared memory? Every register that may be meant is shuffled, and one of them selected;
    /// shared memory takes a store per register of the source, a load per index, and a barrier.
    pub(crate) fn is_worthwhile(
        &self,
        source: &LinearLayout,
        indices: &LinearLayout,
        elem: Elem,
    ) -> bool {
        const BARRIER: u32 = 20;
        let open = self.open().len() as u32;
        if open > 5 {
            return false;
        }
        let own =
            |map: &LinearLayout| map.num_registers() >> map.free_mask(Axis::Register).count_ones();
        let words = if self.stays_in_thread() {
            0
        } else {
            elem.bytes().div_ceil(4)
        };
        let candidates = 1 << open;
        let shuffles = own(indices) * (candidates * words + candidates - 1);
        shuffles <= own(source) + 3 * own(indices) + BARRIER
    }
}

fn known(bits: &[(u32, Decider)], register: u32) -> u32 {
    let known = bits.iter().filter_map(|&(bit, decider)| match decider {
        Decider::Register(r) => Some((register >> r & 1) << bit),
        _ => None,
    });
    known.sum()
}
