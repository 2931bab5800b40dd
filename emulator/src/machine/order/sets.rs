//! Sets of accesses that do not conflict with each other, shared by all words with the same accesses.

use super::actor::ActorId;
use super::clocks::Clocks;
use super::stamp::{Kind, Lane, Stamp};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Index of a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct SetId(u32);

/// The set without accesses.
pub(super) const EMPTY: SetId = SetId(0);

impl SetId {
    /// No set.
    pub(super) const NONE: Self = Self(u32::MAX);
}

/// The set that one more access leads to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Successor {
    pub(super) id: SetId,
    /// Whether the access was in the set already, as its last member or as an earlier one.
    pub(super) was_last: bool,
    pub(super) was_earlier: bool,
}

impl Successor {
    pub(super) const NONE: Self = Self {
        id: SetId::NONE,
        was_last: false,
        was_earlier: false,
    };
}

/// A memory with fewer sets is not collected.
const FEWEST_KEPT: usize = 1 << 12;

type Set = SmallVec<[Stamp; 3]>;

/// All sets of a memory. A set is immutable; an access is a transition from one to another.
#[derive(Clone, Debug)]
pub(super) struct Sets {
    all: Vec<Set>,
    successors: FxHashMap<(SetId, ActorId, u32, Kind), SetId>,
    /// The number of sets at which unused ones are collected.
    limit: usize,
}

impl Default for Sets {
    fn default() -> Self {
        Self {
            all: vec![Set::new()],
            successors: FxHashMap::default(),
            limit: FEWEST_KEPT,
        }
    }
}

impl Sets {
    /// A member of a set that conflicts with a new access and is unordered with it by `races`, which is called only for members that do
    /// not happen before in all lanes. The last member was made by `lane`.
    pub(super) fn conflict(
        &self,
        (id, lane): (SetId, Lane),
        kind: Kind,
        clocks: &Clocks,
        mut races: impl FnMut(&Stamp) -> bool,
    ) -> Option<Stamp> {
        let set = &self.all[id.0 as usize];
        for (index, stamp) in set.iter().enumerate() {
            let clock = clocks.for_write_after(stamp);
            if !kind.excludes(stamp.kind) || clock.includes(stamp.actor, stamp.epoch) {
                continue;
            }
            let is_last = index + 1 == set.len();
            let lane = if is_last { lane } else { Lane::UNKNOWN };
            let earlier = Stamp { lane, ..*stamp };
            if races(&earlier) {
                return Some(earlier);
            }
        }
        None
    }

    /// The set with one more access.
    pub(super) fn with(&mut self, id: SetId, new: Stamp, clocks: &Clocks) -> Successor {
        let is_same =
            |old: &Stamp| (old.actor, old.epoch, old.kind) == (new.actor, new.epoch, new.kind);
        let set = &self.all[id.0 as usize];
        if let Some(place) = set.iter().position(is_same) {
            let was_last = place + 1 == set.len();
            return Successor {
                id,
                was_last,
                was_earlier: !was_last,
            };
        }
        let added = |id| Successor {
            id,
            was_last: false,
            was_earlier: false,
        };
        let key = (id, new.actor, new.epoch, new.kind);
        if let Some(known) = self.successors.get(&key) {
            return added(*known);
        }
        let old = self.all[id.0 as usize].iter();
        let mut set: Set = old
            .filter(|old| !covers(&new, old, clocks))
            .copied()
            .collect();
        set.push(Stamp {
            lane: Lane::UNKNOWN,
            ..new
        });
        let next = SetId(self.all.len() as u32);
        self.all.push(set);
        self.successors.insert(key, next);
        added(next)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Are there enough sets to [collect](Self::keep) the unused ones?
    pub(super) fn are_many(&self) -> bool {
        self.all.len() > self.limit
    }

    /// Drops all sets but those in use, and renumbers these.
    pub(super) fn keep<'a>(&mut self, used: impl Iterator<Item = &'a mut SetId>) {
        let mut moved = FxHashMap::from_iter([(EMPTY, EMPTY)]);
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

/// Can the new access replace the old one: is every access that is ordered after the new one ordered after the old one, and does the
/// new one conflict with all that the old one conflicts with? The completion of asynchronous work does not carry what happened before
/// its issue.
fn covers(new: &Stamp, old: &Stamp, clocks: &Clocks) -> bool {
    let follows = old.actor == new.actor
        || !new.kind.is_async()
            && clocks.ordered.includes(old.actor, old.epoch)
            && clocks.for_write_after(old).includes(old.actor, old.epoch);
    old.kind == new.kind && follows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(actor: usize, kind: Kind) -> Stamp {
        Stamp {
            epoch: 1,
            step: 0,
            actor: ActorId::new(actor),
            kind,
            lane: Lane::UNKNOWN,
        }
    }

    fn conflict(sets: &Sets, id: SetId, kind: Kind, clocks: &Clocks) -> Option<Stamp> {
        sets.conflict((id, Lane::UNKNOWN), kind, clocks, |_| true)
    }

    /// The clocks of a warp that is ordered after some actors; the writes of some of these are visible to it.
    fn knowing(ordered: &[usize], visible: &[usize]) -> Clocks {
        let mut clocks = Clocks::default();
        for &actor in ordered {
            clocks.ordered.advance(ActorId::new(actor), 1);
        }
        for &actor in visible {
            clocks.read.advance(ActorId::new(actor), 1);
            clocks.visible.advance(ActorId::new(actor), 1);
        }
        clocks
    }

    /// The first actor accesses, then the second, with these clocks. What does a third access find that is ordered after the second actor alone?
    #[track_caller]
    fn check(first: Kind, (second, known): (Kind, &Clocks), third: Kind, races: bool) {
        let mut sets = Sets::default();
        let one = sets.with(EMPTY, stamp(1, first), &Clocks::default()).id;
        let both = sets.with(one, stamp(2, second), known).id;
        let last = knowing(&[2], &[2]);
        let found = conflict(&sets, both, third, &last);
        let expected = races.then(|| stamp(1, first));
        assert_eq!(found, expected, "{first:?} {second:?} {third:?}");
    }

    #[test]
    fn an_access_is_forgotten_when_a_later_one_of_its_kind_is_ordered_after_it() {
        let known = knowing(&[1], &[1]);
        check(Kind::READ, (Kind::READ, &known), Kind::WRITE, false);
        let strong = Kind::STRONG_WRITE;
        check(strong, (strong, &known), Kind::WRITE, false);
    }

    #[test]
    fn an_access_that_is_not_ordered_before_the_next_is_remembered() {
        let known = knowing(&[], &[]);
        check(Kind::READ, (Kind::READ, &known), Kind::WRITE, true);
        let strong = Kind::STRONG_WRITE;
        check(strong, (strong, &known), Kind::READ, true);
    }

    #[test]
    fn a_weak_read_is_remembered_behind_a_strong_one() {
        let known = knowing(&[1], &[1]);
        check(
            Kind::READ,
            (Kind::STRONG_READ, &known),
            Kind::STRONG_WRITE,
            true,
        );
        check(
            Kind::STRONG_WRITE,
            (Kind::STRONG_READ, &known),
            Kind::READ,
            true,
        );
    }

    #[test]
    fn an_access_that_is_ordered_and_not_released_is_remembered() {
        let known = knowing(&[1], &[]);
        let strong = Kind::STRONG_WRITE;
        check(strong, (strong, &known), Kind::READ, true);
        check(Kind::READ, (Kind::READ, &known), Kind::WRITE, true);
    }

    #[test]
    fn a_write_follows_the_read_of_a_thread_by_a_release_and_that_of_a_copy_by_its_end() {
        let of = |kind, clocks: &Clocks| {
            let mut sets = Sets::default();
            let one = sets.with(EMPTY, stamp(1, kind), &Clocks::default()).id;
            conflict(&sets, one, Kind::WRITE, clocks).is_some()
        };
        let (ordered, released) = (knowing(&[1], &[]), knowing(&[1], &[1]));
        assert!(of(Kind::READ, &ordered) && of(Kind::STRONG_READ, &ordered));
        assert!(!of(Kind::READ, &released));
        let mut copied = knowing(&[1], &[]);
        copied.read.advance(ActorId::new(1), 1);
        assert!(
            !of(Kind::READ, &copied),
            "a copy carries what was read before its issue"
        );
        assert!(of(Kind::STRONG_WRITE, &copied));
        assert!(!of(Kind::ASYNC_READ, &ordered));
        assert!(of(Kind::ASYNC_READ, &knowing(&[], &[])));
    }

    #[test]
    fn asynchronous_work_does_not_carry_what_happened_before_its_issue() {
        let known = knowing(&[1], &[1]);
        let read = Kind::ASYNC_READ;
        check(read, (read, &known), Kind::WRITE, true);
        let reduction = Kind::ASYNC_REDUCTION;
        check(reduction, (reduction, &known), Kind::WRITE, true);
    }

    #[test]
    fn a_write_is_missed_until_it_is_visible() {
        let mut sets = Sets::default();
        let one = sets
            .with(EMPTY, stamp(1, Kind::STRONG_WRITE), &Clocks::default())
            .id;
        let ordered = knowing(&[1], &[]);
        assert!(conflict(&sets, one, Kind::READ, &ordered).is_some());
        let visible = knowing(&[1], &[1]);
        assert!(conflict(&sets, one, Kind::READ, &visible).is_none());
    }

    #[test]
    fn an_access_that_is_in_a_set_is_the_last_or_an_earlier_one() {
        let mut sets = Sets::default();
        let (first, second) = (stamp(1, Kind::READ), stamp(2, Kind::READ));
        let mut add = |id, new| sets.with(id, new, &Clocks::default());
        let one = add(EMPTY, first);
        assert!(!one.was_last && !one.was_earlier);
        let again = add(one.id, first);
        assert!(again.id == one.id && again.was_last && !again.was_earlier);
        let both = add(one.id, second);
        assert!(!both.was_last && !both.was_earlier);
        let again = add(both.id, first);
        assert!(again.id == both.id && !again.was_last && again.was_earlier);
    }

    #[test]
    fn sets_are_many_beyond_a_limit_that_doubles_what_is_kept() {
        let mut sets = Sets::default();
        let mut epochs = 1..;
        let mut ids: Vec<SetId> = Vec::new();
        let mut grow = |sets: &mut Sets, ids: &mut Vec<SetId>, length: usize| {
            while sets.len() < length {
                let epoch = epochs.next().expect("there are enough");
                let new = Stamp {
                    epoch,
                    ..stamp(1, Kind::WRITE)
                };
                ids.push(sets.with(EMPTY, new, &Clocks::default()).id);
            }
        };
        grow(&mut sets, &mut ids, FEWEST_KEPT);
        assert!(!sets.are_many());
        grow(&mut sets, &mut ids, FEWEST_KEPT + 1);
        assert!(sets.are_many());
        sets.keep(ids.iter_mut());
        assert_eq!(sets.len(), FEWEST_KEPT + 1);
        grow(&mut sets, &mut ids, 2 * (FEWEST_KEPT + 1));
        assert!(!sets.are_many());
        grow(&mut sets, &mut ids, 2 * (FEWEST_KEPT + 1) + 1);
        assert!(sets.are_many());
        sets.keep(ids.iter_mut().take(3));
        assert!(!sets.are_many(), "few are left");
    }

    #[test]
    fn sets_in_use_survive_when_others_are_thrown_away() {
        let mut sets = Sets::default();
        let unused = sets
            .with(EMPTY, stamp(3, Kind::READ), &Clocks::default())
            .id;
        let mut used = [
            sets.with(EMPTY, stamp(1, Kind::READ), &Clocks::default())
                .id,
            sets.with(unused, stamp(2, Kind::READ), &Clocks::default())
                .id,
            EMPTY,
        ];
        sets.keep(used.iter_mut());
        assert_eq!(sets.len(), 3);
        let nothing = Clocks::default();
        let actors = used.map(|id| {
            let found = conflict(&sets, id, Kind::WRITE, &nothing);
            found.map(|stamp| stamp.actor.index())
        });
        assert_eq!(actors, [Some(1), Some(3), None]);
        // Sets are renumbered, so cached transitions are invalid.
        let next = sets
            .with(EMPTY, stamp(3, Kind::READ), &Clocks::default())
            .id;
        let found = conflict(&sets, next, Kind::WRITE, &nothing);
        assert_eq!(found.map(|stamp| stamp.actor.index()), Some(3));
    }
}
