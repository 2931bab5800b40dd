//! A warp: its registers, and the paths that its lanes are on.

use super::bulk::BulkGroups;
use super::matrix::group::Products;
use super::mbarrier::MbarrierId;
use super::order::{ActorId, Knowledge};
use super::thread_copy::ThreadCopies;
use crate::lanes::Registers;
use crate::machine::linear::Linear;
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
    /// That phase is over, and it has not gone on yet.
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

/// How a wait names the phase that it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PhaseName {
    /// By 0 or 1, which every other phase has.
    Parity,
    /// By what an arrival returned.
    State,
}

/// Lanes that are at the same place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    pub(crate) pc: u32,
    pub(crate) mask: u32,
    /// The meeting at which these lanes wait for others, or [`NONE`].
    pub(crate) meeting: u32,
    pub(crate) wait: Wait,
}

/// A place where paths that a branch separated become one again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meeting {
    pc: u32,
    /// Lanes that will come, less those that ended.
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
    pub(crate) meetings: Vec<Meeting>,
    pub(crate) free_meetings: Vec<u32>,
    /// Lanes that the block has at all.
    pub(crate) exists: u32,
    /// Lanes that have not ended.
    pub(crate) alive: u32,
    /// For each watched register, the lanes that have written it.
    pub(crate) written: Vec<u32>,
    /// Private memory, lane after lane.
    pub(crate) local: Linear,
    pub(crate) local_stride: u32,
    /// Number of the allocation that the last access met.
    pub(crate) last_allocation: usize,
    /// Number among the actors of the cluster.
    pub(crate) actor: ActorId,
    /// Grows when the warp releases.
    pub(crate) epoch: u32,
    pub(crate) knows: Knowledge,
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
    /// Steps executed, which serves as a clock.
    pub(crate) clock: u64,
}

impl Warp {
    /// What the warp writes from now on is not part of what it has released.
    pub(crate) fn release(&mut self) {
        self.epoch += 1;
        self.knows.learn(self.actor, self.epoch);
    }

    /// Puts all lanes at the first step.
    pub(crate) fn start(&mut self, exists: u32) {
        (self.exists, self.alive) = (exists, exists);
        self.paths.clear();
        self.meetings.clear();
        self.free_meetings.clear();
        self.paths.push(Path {
            pc: 0,
            mask: exists,
            meeting: NONE,
            wait: Wait::Ready,
        });
    }

    /// The place where `path` meets others.
    #[inline(always)]
    pub(crate) fn meeting_pc(&self, path: &Path) -> u32 {
        if path.meeting == NONE {
            NONE
        } else {
            self.meetings[path.meeting as usize].pc
        }
    }

    /// A path that can run; the one made last, so that inner ones finish first.
    pub(crate) fn ready(&self) -> Option<usize> {
        let can_run = |path: &Path| matches!(path.wait, Wait::Ready | Wait::PhaseOver(..));
        self.paths.iter().rposition(can_run)
    }

    /// Separates the lanes of `taken` from `path`, which meet again at `join`.
    pub(crate) fn diverge(&mut self, path: &mut Path, taken: u32, target: u32, join: u32) {
        let meeting = if join == NONE || join == self.meeting_pc(path) {
            path.meeting
        } else {
            self.add_meeting(Meeting {
                pc: join,
                members: path.mask,
                arrived: 0,
                outer: path.meeting,
            })
        };
        let rest = path.mask & !taken;
        self.paths.push(Path {
            pc: path.pc + 1,
            mask: rest,
            meeting,
            wait: Wait::Ready,
        });
        *path = Path {
            pc: target,
            mask: taken,
            meeting,
            wait: Wait::Ready,
        };
    }

    fn add_meeting(&mut self, meeting: Meeting) -> u32 {
        if let Some(index) = self.free_meetings.pop() {
            self.meetings[index as usize] = meeting;
            return index;
        }
        self.meetings.push(meeting);
        self.meetings.len() as u32 - 1
    }

    /// `path` has come to its meeting. Gives the path of all members when it was the last.
    pub(crate) fn arrive(&mut self, path: &Path) -> Option<Path> {
        let meeting = &mut self.meetings[path.meeting as usize];
        meeting.arrived |= path.mask;
        self.close(path.meeting)
    }

    /// Ends a meeting to which all have come.
    fn close(&mut self, index: u32) -> Option<Path> {
        let Meeting {
            pc,
            members,
            arrived,
            outer,
        } = self.meetings[index as usize];
        if arrived != members {
            return None;
        }
        self.free_meetings.push(index);
        (members != 0).then_some(Path {
            pc,
            mask: members,
            meeting: outer,
            wait: Wait::Ready,
        })
    }

    /// Ends lanes of a path; others that waited for them may go on.
    pub(crate) fn end_lanes(&mut self, meeting: u32, lanes: u32) {
        self.alive &= !lanes;
        let mut at = meeting;
        while at != NONE {
            let entry = &mut self.meetings[at as usize];
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

    /// All lanes have ended.
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
    fn two_paths_meet_again() {
        let (mut warp, mut path) = started();
        warp.diverge(&mut path, 0x0f, 10, 20);
        assert_eq!((path.pc, path.mask), (10, 0x0f));
        assert_eq!(warp.meeting_pc(&path), 20);
        assert!(warp.arrive(&path).is_none());
        let other = warp.paths.pop().unwrap();
        assert_eq!((other.pc, other.mask), (1, 0xf0));
        let joined = warp.arrive(&other).unwrap();
        assert_eq!((joined.pc, joined.mask, joined.meeting), (20, 0xff, NONE));
    }

    #[test]
    fn lanes_that_end_are_not_waited_for() {
        let (mut warp, mut path) = started();
        warp.diverge(&mut path, 0x0f, 10, 20);
        assert!(warp.arrive(&path).is_none());
        let other = warp.paths.pop().unwrap();
        warp.end_lanes(other.meeting, other.mask);
        let joined = warp.paths.pop().unwrap();
        assert_eq!((joined.pc, joined.mask), (20, 0x0f));
        assert_eq!(warp.alive, 0x0f);
    }

    #[test]
    fn a_loop_keeps_one_meeting() {
        let (mut warp, mut path) = started();
        for leaving in 0..7 {
            let staying = path.mask & !(1 << leaving);
            warp.diverge(&mut path, staying, 3, 8);
            let mut left = warp.paths.pop().unwrap();
            left.pc = 8;
            assert!(warp.arrive(&left).is_none());
        }
        assert_eq!(warp.meetings.len(), 1);
        assert_eq!(warp.arrive(&path).unwrap().mask, 0xff);
    }
}
