//! The end of rows of a tile whose steps along K warpgroups of a CTA take in turn: they add their sums through shared memory.

use tilekit::prelude::*;

use super::factor::INSTRUCTION_ROWS;

/// What the warpgroups of a CTA that share the steps along K of 64 rows add up.
#[derive(Clone, Copy)]
pub(super) struct WarpgroupSums<S> {
    /// Of each warpgroup that is not the first of its strip.
    sums: Option<Smem<S>>,
    there: Option<Mbarriers>,
    parts: usize,
}

impl<S: Numeric> WarpgroupSums<S> {
    /// In front of `warp_specialize`: it initializes mbarriers.
    #[track_caller]
    pub(super) fn new(groups: usize, parts: usize, columns: usize) -> Self {
        let count = groups * (parts - 1);
        let shape = [count, INSTRUCTION_ROWS, columns];
        WarpgroupSums {
            sums: (count > 0).then(|| Smem::alloc(shape, Swizzled::plain([2, 1, 0]))),
            there: (count > 0).then(|| Mbarriers::alloc(count, Arrivals(4))),
            parts,
        }
    }

    /// Adds up the sums of the warpgroups of a strip, in their order, and has the first of them finish.
    #[track_caller]
    pub(super) fn add(self, worker: usize, sums: Tensor<S>, finish: impl FnOnce(Tensor<S>)) {
        let (Some(others), Some(there)) = (self.sums, self.there) else {
            return finish(sums);
        };
        let (group, part) = (worker / self.parts, worker % self.parts);
        let number = |part: usize| group * (self.parts - 1) + part - 1;
        if part > 0 {
            others.index(number(part)).store(sums);
            let there = there.index(number(part));
            return there.arrival().by(Arrivers::Warp).arrive();
        }
        let sums = (1..self.parts).fold(sums, |sums, part| {
            there.index(number(part)).wait(0);
            sums + others.index(number(part)).load(sums.layout())
        });
        finish(sums);
    }
}
