//! Sets of accesses that do not exclude each other, shared by all words that were accessed alike.

use super::actor::ActorId;
use super::clocks::Clocks;
use super::stamp::{Kind, Stamp};
use smallvec::SmallVec;
use std::collections::HashMap;

/// Number of a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct SetId(u32);

/// The set without accesses.
pub(super) const EMPTY: SetId = SetId(0);

impl SetId {
    /// No set.
    pub(super) const NONE: Self = Self(u32::MAX);
}

/// Sets below which none are thrown away.
const FEWEST_KEPT: usize = 1 << 12;

type Set = SmallVec<[Stamp; 3]>;

/// All sets of a memory. They never change; an access leads from one to another.
#[derive(Clone, Debug)]
pub(super) struct Sets {
    all: Vec<Set>,
    successors: HashMap<(SetId, ActorId, u32, Kind), SetId>,
    /// Sets with which it is time to look which are still in use.
    limit: usize,
}

impl Default for Sets {
    fn default() -> Self {
        Self {
            all: vec![Set::new()],
            successors: HashMap::new(),
            limit: FEWEST_KEPT,
        }
    }
}

impl Sets {
    /// An access of a set that excludes a new one and that nothing orders before it.
    pub(super) fn conflict(&self, id: SetId, kind: Kind, clocks: &Clocks) -> Option<Stamp> {
        let earlier = self.all[id.0 as usize].iter();
        let mut unordered = earlier.filter(|stamp| {
            let clock = if stamp.kind.is_write() {
                &clocks.visible
            } else {
                &clocks.ordered
            };
            kind.excludes(stamp.kind) && !clock.includes(stamp.actor, stamp.epoch)
        });
        unordered.next().copied()
    }

    /// The set with one more access.
    pub(super) fn with(&mut self, id: SetId, new: Stamp, clocks: &Clocks) -> SetId {
        let is_same =
            |old: &Stamp| (old.actor, old.epoch, old.kind) == (new.actor, new.epoch, new.kind);
        if self.all[id.0 as usize].iter().any(is_same) {
            return id;
        }
        let key = (id, new.actor, new.epoch, new.kind);
        if let Some(known) = self.successors.get(&key) {
            return *known;
        }
        let old = self.all[id.0 as usize].iter();
        let mut set: Set = old
            .filter(|old| !covers(&new, old, clocks))
            .copied()
            .collect();
        set.push(new);
        let next = SetId(self.all.len() as u32);
        self.all.push(set);
        self.successors.insert(key, next);
        next
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Is it time to [keep](Self::keep) only what is in use?
    pub(super) fn are_many(&self) -> bool {
        self.all.len() > self.limit
    }

    /// Throws away all sets but those in use, whose numbers change.
    pub(super) fn keep<'a>(&mut self, used: impl Iterator<Item = &'a mut SetId>) {
        let mut moved = HashMap::from([(EMPTY, EMPTY)]);
        let mut kept = vec![Set::new()];
        for id in used {
            *id = *moved.entry(*id).or_insert_with(|| {
                kept.push(std::mem::take(&mut self.all[id.0 as usize]));
                SetId(kept.len() as u32 - 1)
            });
        }
        self.limit = FEWEST_KEPT.max(kept.len() * 2);
        self.all = kept;
        self.successors.clear();
    }
}

/// Is an access that is ordered after the new one ordered after the old one too, and does the new one conflict with all that
/// the old one conflicts with?
/// Asynchronous work does not carry what happened before its issue.
fn covers(new: &Stamp, old: &Stamp, clocks: &Clocks) -> bool {
    let follows = old.actor == new.actor
        || !new.kind.is_async()
            && clocks.ordered.includes(old.actor, old.epoch)
            && (!old.kind.is_write() || clocks.visible.includes(old.actor, old.epoch));
    old.kind == new.kind && follows
}
