//! Numbers that every thread computes from its own.

use smallvec::SmallVec;

use crate::{Axis, LinearLayout};

/// A number that every thread computes from its bits: the XOR of the entries of all bits set in its lane, warp and
/// block number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PerThread {
    /// One entry per bit of the lane.
    pub lane: SmallVec<[u32; 5]>,
    /// One entry per bit of the warp.
    pub warp: SmallVec<[u32; 5]>,
    /// One entry per bit of the CTA's rank in the cluster.
    pub block: SmallVec<[u32; 4]>,
}

impl PerThread {
    /// The number of one thread.
    pub fn of(&self, lane: u32, warp: u32, block: u32) -> u32 {
        let part = |entries: &[u32], bits: u32| {
            let set = entries
                .iter()
                .enumerate()
                .filter(|&(bit, _)| bits >> bit & 1 == 1);
            set.fold(0, |sum, (_, &entry)| sum ^ entry)
        };
        part(&self.lane, lane) ^ part(&self.warp, warp) ^ part(&self.block, block)
    }

    /// Every bit that is set for some thread.
    pub fn reach(&self) -> u32 {
        self.lane
            .iter()
            .chain(&self.warp)
            .chain(&self.block)
            .fold(0, |all, entry| all | entry)
    }

    /// Whether the number is the lane itself.
    pub fn is_lane(&self) -> bool {
        self.lane
            .iter()
            .enumerate()
            .all(|(bit, &entry)| entry == 1 << bit)
            && self.warp.iter().chain(&self.block).all(|&entry| entry == 0)
    }

    /// One entry per thread bit of `map`, computed from its axis and its packed position.
    pub(super) fn collect(map: &LinearLayout, entry: impl Fn(u64) -> u32) -> Self {
        let axis = |axis: Axis| {
            let start = map.in_shift(axis);
            (start..start + map.in_bits(axis))
                .map(|at| entry(1 << at))
                .collect::<SmallVec<[u32; 8]>>()
        };
        Self {
            lane: axis(Axis::Lane).into_iter().collect(),
            warp: axis(Axis::Warp).into_iter().collect(),
            block: axis(Axis::Block).into_iter().collect(),
        }
    }
}
