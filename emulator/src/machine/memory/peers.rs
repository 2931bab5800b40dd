//! Accesses to memory of another device: rights, and writes that arrive later.

use crate::fault::{FaultKind, Stepped, Trouble};
use crate::global::Allocation;
use crate::lanes::lanes_of;
use crate::machine::memory::atomic::{apply, update_global};
use crate::machine::memory::lane_group::Group;
use crate::machine::order::Clocks;
use crate::machine::state::peers::{Effect, Poll, RemoteWrite, Right, StrongWrite, Writer};
use crate::machine::state::policy::When;
use crate::machine::state::scene::{Scene, Worker};
use crate::program::Strong;
use ptx::{Scope, Type};
use std::sync::Arc;

/// What an access does to the memory of another device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    Read,
    Write,
    /// It reads, and it changes what it has read.
    Update,
}

impl Reach {
    pub(crate) fn of_verb(verb: &str) -> Self {
        match verb {
            "store" => Self::Write,
            "atomic access" => Self::Update,
            _ => Self::Read,
        }
    }
}

impl Worker<'_> {
    /// Does another device own the memory?
    pub(crate) fn is_remote(&self, allocation: &Allocation) -> bool {
        allocation.device != self.context.member.rank
    }

    /// Before an access to memory: that of another device must be open to this one, and what is read there must have seen what this one wrote.
    #[inline]
    pub(crate) fn reach(
        &self,
        allocation: &Allocation,
        (verb, how): (&str, Reach),
        lane: usize,
        (address, bytes): (u64, u32),
    ) -> Stepped {
        if !self.is_remote(allocation) {
            return Ok(());
        }
        self.reach_peer(allocation, (verb, how), lane, (address, bytes))
    }

    #[cold]
    fn reach_peer(
        &self,
        allocation: &Allocation,
        (verb, how): (&str, Reach),
        lane: usize,
        (address, bytes): (u64, u32),
    ) -> Stepped {
        let member = &self.context.member;
        let peers = member.peers.as_ref();
        let right = peers.and_then(|p| p.windows.right(member.rank, address, bytes.into()));
        let wanted = if how == Reach::Read {
            Right::Read
        } else {
            Right::ReadWrite
        };
        if right.is_some_and(|right| right >= wanted) {
            if how == Reach::Read {
                self.deliver_all();
            }
            return Ok(());
        }
        let offset = address - allocation.base;
        let why = match right {
            Some(_) => "may read it only",
            None => "has no access to it",
        };
        let (rank, owner) = (member.rank, allocation.device);
        let message = format!(
            "{verb} of {bytes} bytes by rank {rank} in global memory at {address:#x}, byte {offset} of an allocation of {} bytes of rank {owner}: rank {rank} {why}",
            allocation.bytes
        );
        Err(
            Trouble::access(FaultKind::PeerAccess, lane, address, bytes, message).help(
                "pass memory that all ranks share (a symmetric buffer), and index its map of peers by rank; a pointer of another rank's own buffer is not one",
            ),
        )
    }

    /// Do writes of lanes arrive later?
    pub(crate) fn arrives_later(&self, group: &Group) -> bool {
        self.context.policy.remote != When::Soon
            && self.context.member.peers.is_some()
            && self.is_remote(&group.allocation)
    }

    /// Sends weak writes of an element for each lane.
    pub(crate) fn send_weakly(&self, group: &Group, (at, ty): (usize, Type), values: &[u64]) {
        for lane in lanes_of(group.lanes) {
            self.send(RemoteWrite {
                allocation: Arc::clone(&group.allocation),
                offset: group.offsets[lane] + at,
                ty,
                effect: Effect::Store(values[lane]),
                strong: None,
            });
        }
    }

    /// Sends a strong write of an element, behind what it releases.
    pub(crate) fn send_strongly(
        &self,
        scene: &mut Scene<'_>,
        (strong, reads): (Strong, bool),
        write: RemoteWrite,
    ) {
        self.before_release(strong);
        let (mut known, lanes) = (Clocks::default(), scene.mask);
        let warp = &mut *scene.warp;
        if strong.releases {
            // What was released ends with the epoch, which the caller begins after the last lane.
            let epoch = warp.epoch;
            warp.release_to(lanes, &mut known);
            warp.epoch = epoch;
        }
        let fences = warp.fences.clone();
        let strong = StrongWrite {
            strong,
            reads,
            known,
            fences,
            writer: writer(scene),
        };
        self.send(RemoteWrite {
            strong: Some(strong),
            ..write
        });
    }

    fn send(&self, write: RemoteWrite) {
        let member = &self.context.member;
        match &member.peers {
            Some(peers) => peers.send(member.rank, write),
            None => self.land(&write),
        }
    }

    /// A release at the scope of the device or wider: what this device wrote to others arrives before it.
    pub(crate) fn before_release(&self, strong: Strong) {
        if strong.releases && matches!(strong.scope, Scope::Gpu | Scope::Sys) {
            self.deliver_all();
        }
    }

    /// All writes of this device to others arrive.
    pub(crate) fn deliver_all(&self) {
        self.deliver(usize::MAX);
    }

    /// So many writes of this device to others arrive, in their order. Returns whether there were any.
    pub(crate) fn deliver(&self, most: usize) -> bool {
        let member = &self.context.member;
        let Some(peers) = &member.peers else {
            return false;
        };
        let arrivals = std::iter::from_fn(|| peers.next_arrival(member.rank));
        let mut any = false;
        for write in arrivals.take(most) {
            self.land(&write);
            peers.changed();
            any = true;
        }
        any
    }

    fn land(&self, write: &RemoteWrite) {
        let RemoteWrite {
            allocation,
            offset,
            ty,
            ..
        } = write;
        let bytes = ty.bytes();
        let put = || {
            match write.effect {
                Effect::Store(value) => allocation.put_element(*offset, bytes, value),
                Effect::Update(op, b) => {
                    update_global(allocation, *offset, *ty, |a| apply(op, *ty, a, b, 0));
                }
            }
            allocation.written.insert(*offset, bytes as usize);
        };
        let address = allocation.base + *offset as u64;
        let (Some(strong), Some(overlap)) = (&write.strong, &self.context.overlap) else {
            put();
            return;
        };
        overlap.shadow.with_releases(address, |releases| {
            put();
            let by = (strong.strong, strong.writer.from);
            releases.write(by, strong.reads, (&strong.known, &strong.fences));
        });
        if let Some(peers) = &self.context.member.peers {
            peers.note_writer(address, strong.writer);
        }
    }

    /// Memory has changed; who did it by a strong operation is remembered.
    #[inline]
    pub(crate) fn note_change(&self, scene: &Scene<'_>, address: u64) {
        if let Some(peers) = &self.context.member.peers {
            peers.changed();
            peers.note_writer(address, writer(scene));
        }
    }

    /// Memory has changed.
    #[inline]
    pub(crate) fn note_weak_change(&self) {
        if let Some(peers) = &self.context.member.peers {
            peers.changed();
        }
    }

    /// A strong operation has read memory and changed nothing.
    #[inline]
    pub(crate) fn note_poll(&self, scene: &mut Scene<'_>, address: u64, bytes: u32) {
        if let Some(peers) = &self.context.member.peers {
            let poll = Poll {
                step: scene.path.pc,
                address,
                bytes,
            };
            let warp = &mut *scene.warp;
            warp.polls.note(poll, peers.changes(), warp.clock);
        }
    }
}

fn writer(scene: &Scene<'_>) -> Writer {
    Writer {
        from: scene.place(),
        warp: scene.warp.index,
        step: scene.path.pc,
    }
}
