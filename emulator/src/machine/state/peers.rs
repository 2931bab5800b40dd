//! Devices that run as one: which memory of another device each may access, writes to it in flight, and who wrote flags.

use crate::global::Allocation;
use crate::machine::order::{Clocks, Fences, Place};
use crate::program::{AtomicOp, Strong};
use ptx::Type;
use rustc_hash::FxHashSet;
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a device may do with memory of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Right {
    /// Loads.
    Read,
    /// Loads, stores and atomics.
    ReadWrite,
}

/// The ranges of memory that devices may access though another one owns them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Windows {
    /// By the rank that may access and the first address: the end and the right.
    each: BTreeMap<(u16, u64), (u64, Right)>,
}

impl Windows {
    /// Lets a device access a range. A window that began there is no more.
    pub(crate) fn open(&mut self, rank: u16, (address, bytes): (u64, u64), right: Right) {
        self.each.insert((rank, address), (address + bytes, right));
    }

    /// Takes away the window of a device that begins at an address.
    pub(crate) fn close(&mut self, rank: u16, address: u64) {
        self.each.remove(&(rank, address));
    }

    /// What a device may do with bytes of another one, all of which one window must hold.
    pub(crate) fn right(&self, rank: u16, address: u64, bytes: u64) -> Option<Right> {
        let mut below = self.each.range((rank, 0)..=(rank, address));
        let (_, &(end, right)) = below.next_back()?;
        (address + bytes <= end).then_some(right)
    }
}

/// The device of a launch among those that run as one; alone, it is rank 0.
#[derive(Clone, Debug, Default)]
pub(crate) struct Member {
    pub(crate) rank: u16,
    /// Clusters of the devices before it.
    pub(crate) first_cluster: u32,
    pub(crate) peers: Option<Arc<Peers>>,
}

impl Member {
    /// Changes of global memory of any device so far; none are counted for one device.
    pub(crate) fn changes(&self) -> u64 {
        self.peers.as_ref().map_or(0, |peers| peers.changes())
    }
}

/// What the launches of devices that run as one share. They run on one thread of the host.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    pub(crate) windows: Windows,
    shared: Mutex<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// By the rank of the writer: its writes to others that have not arrived, in order.
    in_flight: BTreeMap<u16, VecDeque<RemoteWrite>>,
    /// By address, who last wrote it by strong operations.
    writers: BTreeMap<u64, SmallVec<[Writer; 2]>>,
    /// Changes of global memory of any device so far.
    changes: u64,
}

/// A write of an element to memory of another device that has not arrived there.
#[derive(Debug)]
pub(crate) struct RemoteWrite {
    pub(crate) allocation: Arc<Allocation>,
    pub(crate) offset: usize,
    pub(crate) ty: Type,
    pub(crate) effect: Effect,
    /// Of a strong write.
    pub(crate) strong: Option<StrongWrite>,
}

/// What a write does when it arrives.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Effect {
    Store(u64),
    Update(AtomicOp, u64),
}

/// What a strong write releases when it arrives.
#[derive(Debug)]
pub(crate) struct StrongWrite {
    pub(crate) strong: Strong,
    pub(crate) reads: bool,
    pub(crate) known: Clocks,
    pub(crate) fences: Fences,
    pub(crate) writer: Writer,
}

/// Who wrote an address by a strong operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Writer {
    pub(crate) from: Place,
    pub(crate) warp: u32,
    pub(crate) step: u32,
}

/// Writers of an address that are remembered.
const MOST_WRITERS: usize = 4;

impl Peers {
    pub(crate) fn new(windows: Windows) -> Self {
        Self {
            windows,
            ..Self::default()
        }
    }

    /// What it keeps is whole before anything can panic.
    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Global memory has changed.
    pub(crate) fn changed(&self) {
        self.shared().changes += 1;
    }

    pub(crate) fn changes(&self) -> u64 {
        self.shared().changes
    }

    /// A strong write of an address.
    pub(crate) fn note_writer(&self, address: u64, writer: Writer) {
        let mut shared = self.shared();
        let writers = shared.writers.entry(address).or_default();
        writers.retain(|known| *known != writer);
        if writers.len() == MOST_WRITERS {
            writers.remove(0);
        }
        writers.push(writer);
    }

    /// Who last wrote an address by strong operations, the last one last.
    pub(crate) fn writers(&self, address: u64) -> SmallVec<[Writer; 2]> {
        self.shared()
            .writers
            .get(&address)
            .cloned()
            .unwrap_or_default()
    }

    /// A write of a device sets out.
    pub(crate) fn send(&self, rank: u16, write: RemoteWrite) {
        let mut shared = self.shared();
        shared.in_flight.entry(rank).or_default().push_back(write);
    }

    /// The next write of a device to arrive.
    pub(crate) fn next_arrival(&self, rank: u16) -> Option<RemoteWrite> {
        self.shared().in_flight.get_mut(&rank)?.pop_front()
    }
}

/// Strong reads of a warp since global memory last changed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Polls {
    pub(crate) each: FxHashSet<Poll>,
    /// How often they were repeated.
    count: u32,
    changes: u64,
    /// The steps that the warp had executed at the last one.
    clock: u64,
}

/// An element that is polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Poll {
    pub(crate) step: u32,
    pub(crate) address: u64,
    pub(crate) bytes: u32,
}

/// Elements that one warp polls in turns: some of each lane.
const MOST_POLLED: usize = 4096;
/// Reads of unchanged memory after which a warp counts as waiting.
const PATIENCE: u32 = 256;
/// Steps without a read after which it does not.
const LONGEST_ROUND: u64 = 1024;

impl Polls {
    /// A strong read that changed nothing.
    pub(crate) fn note(&mut self, poll: Poll, changes: u64, clock: u64) {
        if self.changes != changes {
            (self.changes, self.count) = (changes, 0);
            self.each.clear();
        }
        self.clock = clock;
        if self.each.contains(&poll) {
            self.count += 1;
            return;
        }
        self.count = 0;
        if self.each.len() == MOST_POLLED {
            self.each.clear();
        }
        self.each.insert(poll);
    }

    /// Does the warp do nothing but read the same memory, which nobody changes?
    pub(crate) fn are_in_vain(&self, changes: u64, clock: u64) -> bool {
        let is_recent = clock - self.clock <= LONGEST_ROUND;
        self.changes == changes && is_recent && self.count >= PATIENCE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_gives_one_rank_a_right_to_its_bytes_and_no_others() {
        let mut windows = Windows::default();
        windows.open(1, (0x1000, 64), Right::Read);
        windows.open(2, (0x1000, 64), Right::ReadWrite);
        assert_eq!(windows.right(1, 0x1000, 64), Some(Right::Read));
        assert_eq!(windows.right(1, 0x103c, 4), Some(Right::Read));
        assert_eq!(windows.right(1, 0x103c, 8), None);
        assert_eq!(windows.right(1, 0xffc, 4), None);
        assert_eq!(windows.right(2, 0x1020, 4), Some(Right::ReadWrite));
        assert_eq!(windows.right(0, 0x1020, 4), None);
        windows.open(1, (0x1000, 32), Right::ReadWrite);
        assert_eq!(windows.right(1, 0x1020, 4), None);
        windows.close(2, 0x1000);
        assert_eq!(windows.right(2, 0x1020, 4), None);
    }

    #[test]
    fn polls_are_in_vain_when_the_same_reads_repeat_and_nothing_changes() {
        let poll = |address| Poll {
            step: 3,
            address,
            bytes: 4,
        };
        let mut polls = Polls::default();
        for round in 0..=u64::from(PATIENCE) {
            assert!(!polls.are_in_vain(7, round));
            polls.note(poll(0), 7, round);
        }
        assert!(polls.are_in_vain(7, 300));
        assert!(!polls.are_in_vain(8, 300) && !polls.are_in_vain(7, 5000));
        polls.note(poll(4), 7, 300);
        assert!(!polls.are_in_vain(7, 300));
        // Sixteen elements of each lane, read in turns.
        for round in 0..2 {
            (0..512).for_each(|at| polls.note(poll(8 * at), 7, 400 + round));
        }
        assert!(polls.are_in_vain(7, 500));
    }

    #[test]
    fn the_last_writers_of_an_address_are_remembered() {
        let peers = Peers::default();
        for step in [0, 1, 2, 3, 1, 4] {
            let writer = Writer {
                from: Place::default(),
                warp: 0,
                step,
            };
            peers.note_writer(8, writer);
        }
        let steps: Vec<u32> = peers.writers(8).iter().map(|writer| writer.step).collect();
        assert_eq!(steps, [2, 3, 1, 4]);
        assert!(peers.writers(16).is_empty());
    }
}
