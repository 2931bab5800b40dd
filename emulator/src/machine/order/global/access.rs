//! An access to global memory, and the earlier accesses that it is ordered after.

use crate::machine::order::clock::Clock;
use crate::machine::order::clocks::Clocks;
use crate::machine::order::place::{Place, includes};
use crate::machine::order::shadow::Missing;
use crate::machine::order::stamp::{IN_FLIGHT, Lane, Stamp};
use ptx::Scope;

/// An access to global memory, as the shadow records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GlobalStamp {
    /// Number of the launch among those that overlap.
    pub(crate) launch: u32,
    /// The warp that made the access, or that issued the asynchronous operation that did.
    pub(crate) from: Place,
    pub(crate) warp: u16,
    /// The scope of a strong access.
    pub(crate) scope: Scope,
    pub(crate) stamp: Stamp,
}

/// Two accesses to global memory that race.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GlobalConflict {
    pub(crate) earlier: GlobalStamp,
    pub(crate) missing: Missing,
}

/// A new access, with the clocks of the warp that makes or issues it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GlobalAccess<'c> {
    pub(crate) stamp: GlobalStamp,
    /// The stored value equals the one in memory.
    pub(crate) repeats: bool,
    /// Launches in front of this number have ended before that of the access begins.
    pub(crate) ended: u32,
    pub(crate) clocks: &'c Clocks,
}

impl GlobalStamp {
    /// Weak writes exclude all other accesses.
    pub(super) fn replaces(&self) -> bool {
        self.stamp.kind.is_write() && !self.stamp.kind.is_strong()
    }

    /// The two conflict: a race unless one happens before the other. Strong operations do not if the scope of each includes the
    /// other (morally strong, PTX ISA 8.7).
    fn excludes(&self, other: &Self) -> bool {
        let (mine, theirs) = (self.stamp.kind, other.stamp.kind);
        let writes = mine.is_write() || theirs.is_write();
        mine.excludes(theirs) || writes && !(self.reaches(other) && other.reaches(self))
    }

    fn reaches(&self, other: &Self) -> bool {
        let leaves_launch = matches!(self.scope, Scope::Gpu | Scope::Sys);
        (leaves_launch || self.launch == other.launch)
            && includes(self.scope, self.from, other.from)
    }
}

impl GlobalAccess<'_> {
    /// Does the earlier access happen before the new one, by the given clock of the warp?
    fn follows(&self, earlier: &GlobalStamp, clock: impl Fn(&Clocks) -> &Clock) -> bool {
        if earlier.launch != self.stamp.launch {
            return earlier.launch < self.ended || self.clocks.foreign.launches_ended();
        }
        let cluster = earlier.from.cluster;
        let known = if cluster == self.stamp.from.cluster {
            Some(self.clocks)
        } else {
            self.clocks.foreign.of(cluster)
        };
        let stamp = &earlier.stamp;
        known.is_some_and(|clocks| clock(clocks).has(stamp))
    }

    /// Did the same warp make the earlier access, and has it completed? Lanes are compared granule by granule.
    fn is_own(&self, earlier: &GlobalStamp) -> bool {
        let (new, stamp) = (&self.stamp, &earlier.stamp);
        let is_of_warp = new.stamp.kind.is_async() || new.stamp.actor == stamp.actor;
        (new.launch, new.from, new.warp) == (earlier.launch, earlier.from, earlier.warp)
            && is_of_warp
            && !stamp.kind.is_async()
            && stamp.epoch != IN_FLIGHT
    }

    /// Is the earlier access, which does not race with one of another warp, ordered before the new one in its own lane alone?
    pub(super) fn is_of_lane(&self, earlier: &GlobalStamp) -> bool {
        let is_before = || self.follows(earlier, |clocks| clocks.for_write_after(&earlier.stamp));
        self.is_own(earlier) && self.stamp.excludes(earlier) && !is_before()
    }

    /// Did another lane of the warp make the earlier access, and does nothing order the two? Lanes are those of the earlier and of the new access.
    pub(super) fn check_lanes(
        &self,
        earlier: &GlobalStamp,
        (before, now): (Lane, Lane),
    ) -> Result<(), GlobalConflict> {
        let stamp = Stamp {
            lane: before,
            ..earlier.stamp
        };
        let earlier = GlobalStamp { stamp, ..*earlier };
        if !now.differs(before) || !self.is_of_lane(&earlier) {
            return Ok(());
        }
        Err(GlobalConflict {
            earlier,
            missing: Missing::Order,
        })
    }

    /// Does a `fence.proxy.async` of the writer, or of a warp ordered after it, stand between an earlier write and this access?
    fn is_fenced(&self, write: &GlobalStamp) -> bool {
        let cluster = write.from.cluster;
        let by_another = || self.clocks.foreign.fences(cluster, &write.stamp);
        self.follows(write, |clocks| &clocks.visible_async_global)
            || write.launch == self.stamp.launch && by_another()
    }

    /// CTAs of a cluster that hold replicas of a tile all store them: the same value, by the same instruction.
    fn stores_a_copy(&self, write: &GlobalStamp) -> bool {
        let new = &self.stamp;
        self.repeats
            && (new.launch, new.from.cluster) == (write.launch, write.from.cluster)
            && (new.stamp.step, new.stamp.kind) == (write.stamp.step, write.stamp.kind)
            && new.from.cta != write.from.cta
    }

    /// Is the new access ordered after a weak write, or not in conflict with it?
    pub(super) fn check_write(&self, write: &GlobalStamp) -> Result<(), GlobalConflict> {
        if self.stores_a_copy(write) {
            return Ok(());
        }
        let (mine, theirs) = (self.stamp.stamp.kind, write.stamp.kind);
        // A write after a completed copy needs no visibility of the copy's data, only its completion.
        let clock: fn(&Clocks) -> &Clock = if theirs.is_async() && mine.is_write() {
            |clocks| &clocks.ordered
        } else {
            |clocks| &clocks.visible
        };
        // Tensor maps need `fence.proxy.tensormap`, which is checked where a copy names a map.
        let crosses_proxies = mine.is_async() && !mine.reads_map() && !theirs.is_async();
        let missing = if !self.follows(write, clock) && !self.is_own(write) {
            Missing::Order
        } else if crosses_proxies && !self.is_fenced(write) {
            Missing::Fence
        } else {
            return Ok(());
        };
        Err(GlobalConflict {
            earlier: *write,
            missing,
        })
    }

    /// Is the new access ordered after each of these accesses that conflicts with it?
    pub(super) fn check_others(&self, others: &[GlobalStamp]) -> Result<(), GlobalConflict> {
        let races = |earlier: &&GlobalStamp| {
            let is_before = self.follows(earlier, |clocks| clocks.for_write_after(&earlier.stamp));
            self.stamp.excludes(earlier) && !is_before && !self.is_own(earlier)
        };
        match others.iter().find(races) {
            Some(earlier) => Err(GlobalConflict {
                earlier: *earlier,
                missing: Missing::Order,
            }),
            None => Ok(()),
        }
    }

    /// Can this access replace the old one: is every access that is ordered after this one ordered after the old one, and does this one
    /// conflict with all that the old one conflicts with? The completion of asynchronous work does not carry what happened before its issue.
    pub(super) fn covers(&self, old: &GlobalStamp) -> bool {
        let new = &self.stamp;
        let alike = old.stamp.kind == new.stamp.kind && old.scope == new.scope;
        if !alike || old.launch != new.launch {
            return false;
        }
        let same_actor = old.stamp.actor == new.stamp.actor && old.from.cluster == new.from.cluster;
        let happens_before = || {
            !new.stamp.kind.is_async()
                && self.follows(old, |clocks| &clocks.ordered)
                && self.follows(old, |clocks| clocks.for_write_after(&old.stamp))
        };
        // A later strong operation may be morally strong with one of the two and not with the other.
        same_actor || old.from == new.from && happens_before()
    }
}
