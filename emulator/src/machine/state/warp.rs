//! A warp: its registers, and the paths that its lanes are on.

use crate::lanes::Registers;
use crate::machine::order::{ActorId, Clock, Clocks, Fences, MbarrierId};
use crate::machine::state::copies::{BulkGroups, ThreadCopies};
use crate::machine::state::lane_clocks::LaneClocks;
use crate::machine::state::linear::Linear;
use crate::machine::state::peers::Polls;
use crate::machine::state::products::Products;
use crate::machine::state::warp_time::WarpTime;
use crate::program::NONE;
use std::collections::BTreeMap;

/// Why a path does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// It can run.
    Ready,
    /// At a CTA barrier.
    Barrier(u32),
    /// For the end of a phase of an mbarrier.
    Mbarrier(MbarrierId, PhaseName),
    /// That phase is complete, and the warp has not continued yet.
    PhaseOver(MbarrierId, PhaseName),
    /// At the barrier of the cluster.
    Cluster,
    /// For the other warps of the warpgroup to issue a product.
    Warpgroup,
    /// For registers that other warps have.
    Registers,
    /// At an instruction that other lanes must execute with it.
    Lanes,
}

/// How a wait identifies its phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PhaseName {
    /// By its parity, 0 or 1.
    Parity,
    /// By what an arrival returned.
    State,
}

/// Lanes that are at the same place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    pub(crate) pc: u32,
    pub(crate) mask: u32,
    /// The reconvergence point at which these lanes wait for others, or [`NONE`].
    pub(crate) reconvergence: u32,
    pub(crate) wait: Wait,
}

/// A reconvergence point: where paths that a branch separated become one again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reconvergence {
    pc: u32,
    /// Lanes that arrive here, less those that exited.
    members: u32,
    arrived: u32,
    outer: u32,
}

/// A warp.
#[derive(Clone, Debug, Default)]
pub(crate) struct Warp {
    pub(crate) index: u32,
    pub(crate) regs: Registers,
    pub(crate) paths: Vec<Path>,
    pub(crate) reconvergences: Vec<Reconvergence>,
    pub(crate) free_reconvergences: Vec<u32>,
    /// Lanes that the block has at all.
    pub(crate) exists: u32,
    /// Lanes that have not ended.
    pub(crate) alive: u32,
    /// For each watched register, the lanes that have written it.
    pub(crate) written: Vec<u32>,
    /// Private memory, lane after lane.
    pub(crate) local: Linear,
    pub(crate) local_stride: u32,
    /// Number of the allocation of the last access to global memory.
    pub(crate) last_allocation: usize,
    /// Number among the actors of the cluster.
    pub(crate) actor: ActorId,
    /// Grows when the warp releases.
    pub(crate) epoch: u32,
    pub(crate) clocks: LaneClocks,
    /// It has accessed memory since its lanes converged.
    pub(crate) has_accessed: bool,
    /// What its memory fences have prepared.
    pub(crate) fences: Fences,
    /// A wait for an mbarrier gave up.
    pub(crate) timed_out: bool,
    pub(crate) bulk_groups: BTreeMap<u32, BulkGroups>,
    pub(crate) copies: ThreadCopies,
    pub(crate) products: Products,
    /// Lanes that have arrived at the barrier of the cluster and not waited.
    pub(crate) cluster_arrivals: u32,
    /// The phase in which they arrived.
    pub(crate) cluster_phase: u64,
    /// Registers of each thread, as `setmaxnreg` counts them.
    pub(crate) registers: u32,
    /// Registers of each thread as the launch gave them.
    pub(crate) registers_at_entry: u32,
    /// What it printed last of an assertion that failed.
    pub(crate) failed_assertion: Option<String>,
    /// What it polls, where devices run as one.
    pub(crate) polls: Polls,
    /// Steps executed, which serves as a clock.
    pub(crate) clock: u64,
    /// Where a launch models time.
    pub(crate) time: WarpTime,
}

impl Warp {
    /// Begins an epoch: what the warp does from now on is not part of what it has released.
    pub(crate) fn begin_epoch(&mut self) {
        self.epoch += 1;
    }

    /// All lanes, if these are all that have not exited.
    pub(crate) fn all_of(&self, lanes: u32) -> u32 {
        if lanes & self.alive == self.alive {
            u32::MAX
        } else {
            lanes
        }
    }

    /// Lanes release: what they know, and what they did themselves.
    pub(crate) fn release_to(&mut self, lanes: u32, to: &mut Clocks) {
        self.clocks
            .each(lanes)
            .for_each(|(_, clocks)| to.join(clocks));
        to.advance_lanes(self.actor, self.all_of(lanes), self.epoch);
        self.begin_epoch();
    }

    /// The same, and no write becomes visible by it.
    pub(crate) fn release_order_to(&mut self, lanes: u32, to: &mut Clock) {
        for (_, clocks) in self.clocks.each(lanes) {
            to.join(&clocks.ordered);
        }
        to.advance_lanes(self.actor, self.all_of(lanes), self.epoch);
        self.begin_epoch();
    }

    /// What a copy carries that some lanes start, of which this is one.
    pub(crate) fn carried_by(&self, lane: usize, lanes: u32) -> Clocks {
        let mut carried = self.clocks.of(lane).carried();
        for clock in [&mut carried.ordered, &mut carried.read] {
            clock.advance_lanes(self.actor, self.all_of(lanes), self.epoch);
        }
        carried
    }

    /// What happens before what a lane does next, by an instruction of some lanes.
    pub(crate) fn order_of(&self, lane: usize, lanes: u32) -> Clock {
        let mut ordered = self.clocks.of(lane).ordered.clone();
        ordered.advance_lanes(self.actor, self.all_of(lanes), self.epoch);
        ordered
    }

    /// Lanes learn something.
    pub(crate) fn acquire(&mut self, lanes: u32, learn: impl FnMut(&mut Clocks)) {
        self.clocks.acquire(lanes, self.alive, learn);
    }

    /// Lanes meet, at `bar.warp.sync` or an instruction that they execute together: what one of them did or knew happens before what
    /// the others do next.
    pub(crate) fn converge(&mut self, lanes: u32) {
        self.clocks.merge(lanes, self.alive);
        let all = self.all_of(lanes);
        if !self.has_accessed {
            return;
        }
        let (actor, epoch) = (self.actor, self.epoch);
        let learn = |clocks: &mut Clocks| clocks.advance_lanes(actor, all, epoch);
        self.clocks.acquire(lanes, self.alive, learn);
        self.has_accessed = all != u32::MAX;
        self.begin_epoch();
    }

    /// Lanes execute a matrix instruction together: what one of them has observed happens before what the others do next. Their own accesses
    /// are not ordered by it, as they are by [`Warp::converge`].
    pub(crate) fn meet(&mut self, lanes: u32) {
        self.clocks.merge(lanes, self.alive);
    }

    /// Puts all lanes at the first step.
    pub(crate) fn start(&mut self, exists: u32) {
        (self.exists, self.alive) = (exists, exists);
        self.paths.clear();
        self.reconvergences.clear();
        self.free_reconvergences.clear();
        self.paths.push(Path {
            pc: 0,
            mask: exists,
            reconvergence: NONE,
            wait: Wait::Ready,
        });
    }

    /// The step where `path` reconverges with others.
    #[inline(always)]
    pub(crate) fn reconvergence_pc(&self, path: &Path) -> u32 {
        if path.reconvergence == NONE {
            NONE
        } else {
            self.reconvergences[path.reconvergence as usize].pc
        }
    }

    /// A path that can run; the newest, so that inner ones finish first.
    pub(crate) fn ready(&self) -> Option<usize> {
        let can_run = |path: &Path| matches!(path.wait, Wait::Ready | Wait::PhaseOver(..));
        self.paths.iter().rposition(can_run)
    }

    /// Separates the lanes of `taken` from `path`; both reconverge at `join`.
    pub(crate) fn diverge(&mut self, path: &mut Path, taken: u32, target: u32, join: u32) {
        let reconvergence = if join == NONE || join == self.reconvergence_pc(path) {
            path.reconvergence
        } else {
            self.add_reconvergence(Reconvergence {
                pc: join,
                members: path.mask,
                arrived: 0,
                outer: path.reconvergence,
            })
        };
        let rest = path.mask & !taken;
        self.paths.push(Path {
            pc: path.pc + 1,
            mask: rest,
            reconvergence,
            wait: Wait::Ready,
        });
        *path = Path {
            pc: target,
            mask: taken,
            reconvergence,
            wait: Wait::Ready,
        };
    }

    fn add_reconvergence(&mut self, reconvergence: Reconvergence) -> u32 {
        if let Some(index) = self.free_reconvergences.pop() {
            self.reconvergences[index as usize] = reconvergence;
            return index;
        }
        self.reconvergences.push(reconvergence);
        self.reconvergences.len() as u32 - 1
    }

    /// `path` has arrived at its reconvergence point. Returns the path of all members when it was the last.
    pub(crate) fn arrive(&mut self, path: &Path) -> Option<Path> {
        let reconvergence = &mut self.reconvergences[path.reconvergence as usize];
        reconvergence.arrived |= path.mask;
        self.close(path.reconvergence)
    }

    /// Ends a reconvergence point at which all members have arrived.
    fn close(&mut self, index: u32) -> Option<Path> {
        let Reconvergence {
            pc,
            members,
            arrived,
            outer,
        } = self.reconvergences[index as usize];
        if arrived != members {
            return None;
        }
        self.free_reconvergences.push(index);
        (members != 0).then_some(Path {
            pc,
            mask: members,
            reconvergence: outer,
            wait: Wait::Ready,
        })
    }

    /// Exits lanes of a path; others that waited for them may continue.
    pub(crate) fn end_lanes(&mut self, reconvergence: u32, lanes: u32) {
        self.alive &= !lanes;
        let mut at = reconvergence;
        while at != NONE {
            let entry = &mut self.reconvergences[at as usize];
            entry.members &= !lanes;
            let outer = entry.outer;
            let path = self.close(at);
            self.paths.extend(path);
            at = outer;
        }
        for path in &mut self.paths {
            if path.wait == Wait::Lanes {
                path.wait = Wait::Ready;
            }
        }
    }

    /// All lanes have exited.
    pub(crate) fn is_done(&self) -> bool {
        self.alive == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started() -> (Warp, Path) {
        let mut warp = Warp::default();
        warp.start(0xff);
        let path = warp.paths.pop().unwrap();
        (warp, path)
    }

    #[test]
    fn two_paths_reconverge() {
        let (mut warp, mut path) = started();
        warp.diverge(&mut path, 0x0f, 10, 20);
        assert_eq!((path.pc, path.mask), (10, 0x0f));
        assert_eq!(warp.reconvergence_pc(&path), 20);
        assert!(warp.arrive(&path).is_none());
        let other = warp.paths.pop().unwrap();
        assert_eq!((other.pc, other.mask), (1, 0xf0));
        let joined = warp.arrive(&other).unwrap();
        assert_eq!(
            (joined.pc, joined.mask, joined.reconvergence),
            (20, 0xff, NONE)
        );
    }

    #[test]
    fn reconvergence_does_not_wait_for_exited_lanes() {
        let (mut warp, mut path) = started();
        warp.diverge(&mut path, 0x0f, 10, 20);
        assert!(warp.arrive(&path).is_none());
        let other = warp.paths.pop().unwrap();
        warp.end_lanes(other.reconvergence, other.mask);
        let joined = warp.paths.pop().unwrap();
        assert_eq!((joined.pc, joined.mask), (20, 0x0f));
        assert_eq!(warp.alive, 0x0f);
    }

    #[test]
    fn a_loop_keeps_one_reconvergence_point() {
        let (mut warp, mut path) = started();
        for leaving in 0..7 {
            let staying = path.mask & !(1 << leaving);
            warp.diverge(&mut path, staying, 3, 8);
            let mut left = warp.paths.pop().unwrap();
            left.pc = 8;
            assert!(warp.arrive(&left).is_none());
        }
        assert_eq!(warp.reconvergences.len(), 1);
        assert_eq!(warp.arrive(&path).unwrap().mask, 0xff);
    }
}
