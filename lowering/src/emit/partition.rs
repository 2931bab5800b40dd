//! The warps that run the code being emitted: all of the CTA, or those of one partition of `warp_specialize`.
//!
//! Thread numbers, barriers and one-thread guards go through here, so that an op need not know where it stands.

use ir::Func;
use ptx::{BinaryOp, Compare, Predicate, Reg, Special, Type};

use super::code::{Code, Kind, key};

/// A run of warps of the CTA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Partition {
    /// The first warp, counted in the CTA.
    pub(super) first_warp: u32,
    /// Its warps. Before `warp_specialize` these are those of `main`, and the workers' run along.
    pub(super) warps: u32,
    /// The named barrier that synchronizes these warps; barrier 0 belongs to the whole CTA.
    pub(super) barrier: u32,
    /// Warps of the CTA that run the same code without any tile of their own.
    pub(super) followers: u32,
    /// One thread runs the code, and the others have exited: nothing is predicated on the thread.
    pub(super) is_one_thread: bool,
}

impl Partition {
    /// The whole CTA.
    pub(super) fn whole(func: &Func) -> Partition {
        Partition {
            first_warp: 0,
            warps: func.warps,
            barrier: 0,
            followers: func.launch_warps() - func.warps,
            is_one_thread: false,
        }
    }

    /// Threads that hold tiles.
    pub(super) fn threads(self) -> u32 {
        self.warps * 32
    }

    /// All bits that the number of a thread with tiles may have.
    pub(super) fn thread_bits(self) -> u32 {
        self.threads().next_power_of_two() - 1
    }

    /// The bits of a thread's number in the CTA that all threads without a tile have, and no others; none where they are not told
    /// apart by bits.
    fn follower_bits(self) -> Option<u32> {
        let all = ((self.warps + self.followers) * 32).next_power_of_two() - 1;
        (self.warps.is_power_of_two()).then(|| all & !self.thread_bits())
    }
}

impl Code {
    /// The number of the thread among those of the partition. Threads without a tile count from 0 again, so that they
    /// compute what some other thread computes.
    pub(super) fn thread(&mut self) -> Reg {
        let partition = self.partition;
        self.in_prologue(|code| {
            let thread = code.mov(Type::U32, Special::TidX);
            let threads = partition.threads();
            if partition.first_warp == 0 && partition.followers == 0 {
                thread
            } else if threads.is_power_of_two()
                && partition.first_warp.is_multiple_of(partition.warps)
            {
                code.binary(BinaryOp::And, Type::B32, thread, threads - 1)
            } else if partition.followers != 0 {
                // The first warp is 0: those of the whole CTA stand before others.
                code.binary(BinaryOp::Rem, Type::U32, thread, threads)
            } else {
                code.binary(BinaryOp::Sub, Type::U32, thread, partition.first_warp * 32)
            }
        })
    }

    /// A predicate: the thread holds tiles, and none of these bits of its number is set.
    pub(super) fn thread_bits_clear(&mut self, mask: u32) -> Reg {
        let partition = self.partition;
        self.in_prologue(|code| {
            if mask == partition.thread_bits() {
                // From this comparison ptxas sees that one thread remains, and emits no loop over lanes around asynchronous
                // instructions.
                let thread = code.mov(Type::U32, Special::TidX);
                return code.setp(Compare::Eq, Type::U32, thread, partition.first_warp * 32);
            }
            if partition.followers == 0 {
                let thread = code.thread();
                return code.bits_clear(thread, mask);
            }
            let in_cta = code.mov(Type::U32, Special::TidX);
            if let Some(followers) = partition.follower_bits() {
                return code.bits_clear(in_cta, mask | followers);
            }
            let has_tile = code.setp(Compare::Lt, Type::U32, in_cta, partition.threads());
            if mask == 0 {
                return has_tile;
            }
            let is_clear = code.bits_clear(in_cta, mask);
            code.both(has_tile, is_clear)
        })
    }

    /// A predicate: none of these bits of a number is set.
    fn bits_clear(&mut self, number: Reg, mask: u32) -> Reg {
        let bits = self.binary(BinaryOp::And, Type::B32, number, mask);
        self.setp(Compare::Eq, Type::U32, bits, 0_u32)
    }

    /// A predicate: of these bits of the thread's number, those of `wanted` are set and no others. Threads without a tile
    /// answer as the thread does that they follow.
    pub(super) fn thread_bits_are(&mut self, mask: u32, wanted: u32) -> Reg {
        self.in_prologue(|code| {
            let thread = code.thread();
            let bits = code.binary(BinaryOp::And, Type::B32, thread, mask);
            code.setp(Compare::Eq, Type::U32, bits, wanted)
        })
    }

    /// The guard of the threads that hold tiles and have none of these bits of their number set; none where all do.
    pub(super) fn holders(&mut self, mask: u32) -> Option<Predicate> {
        let some_do_not = mask != 0 || self.partition.followers != 0;
        some_do_not.then(|| Predicate::is(self.thread_bits_clear(mask)))
    }

    /// The number of the warp in its CTA, in a form that ptxas knows to be the same in all lanes.
    pub(super) fn warp_of_cta(&mut self) -> Reg {
        self.in_prologue(|code| {
            let thread = code.mov(Type::U32, Special::TidX);
            let warp = code.binary(BinaryOp::Shr, Type::U32, thread, 5_u32);
            code.from_first_lane(warp)
        })
    }

    /// The value of lane 0 in all lanes.
    pub(super) fn from_first_lane(&mut self, value: Reg) -> Reg {
        let key = key(Kind::FirstLane, 0, Type::B32, 0, &[value.into()]);
        self.pure(key, ptx::RegClass::B32, |reg| {
            let dst = ptx::PairDest::from(reg);
            ptx::Shfl::new(ptx::ShflMode::Idx, dst, value, 0_u32, 31_u32, u32::MAX).into()
        })
    }
}
