//! The recorded accesses of each granule of a memory.

use super::actor::ActorId;
use super::clocks::Clocks;
use super::sets::{EMPTY, SetId, Sets, Successor};
use super::stamp::{IN_FLIGHT, Lane, Range, Stamp};

/// The recorded accesses of a granule. Epoch zero happens before everything: there was no access.
#[derive(Clone, Copy, Debug)]
struct Cell {
    /// The last access that conflicts with all others.
    write: Stamp,
    /// Later accesses, which do not conflict with each other.
    others: SetId,
    /// The lane that made the last of them.
    lane: Lane,
}

impl Default for Cell {
    fn default() -> Self {
        Self {
            write: Stamp::default(),
            others: EMPTY,
            lane: Lane::UNKNOWN,
        }
    }
}

/// Two accesses that race.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conflict {
    pub(crate) earlier: Stamp,
    pub(crate) missing: Missing,
}

/// What two racing accesses lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    Order,
    /// `fence.proxy.async`
    Fence,
}

/// The accesses to a memory, granule by granule.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shadow {
    cells: Vec<Cell>,
    /// Log2 of the bytes of a granule, the smallest access of the kernel.
    granule_bits: u32,
    sets: Sets,
}

/// An access to many granules, with the result of the last one cached: adjacent granules are likely to be in the same state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Marker {
    stamp: Stamp,
    /// The warp that makes or issues the access, and its lane.
    issuer: (ActorId, Lane),
    /// The stored value equals the one in memory.
    repeats: bool,
    /// A write that the access is ordered after in every lane.
    write: (ActorId, u32),
    /// A set that the access is ordered after in every lane.
    others: SetId,
    /// The set with the access added.
    successor: Successor,
}

impl Shadow {
    pub(crate) fn new(bytes: usize, granule_bits: u32) -> Self {
        Self {
            cells: vec![Cell::default(); bytes.div_ceil(1 << granule_bits)],
            granule_bits,
            sets: Sets::default(),
        }
    }

    /// Begins an access to any number of granules; `issuer` is the warp that makes or issues it.
    pub(crate) fn begin(&mut self, stamp: Stamp, issuer: ActorId) -> Marker {
        if self.sets.are_many() {
            let used = self.cells.iter_mut().map(|cell| &mut cell.others);
            self.sets.keep(used);
        }
        Marker {
            stamp,
            issuer: (issuer, stamp.lane),
            repeats: false,
            write: (ActorId::default(), 0),
            others: SetId::NONE,
            successor: Successor::NONE,
        }
    }

    /// Records an access to `bytes` bytes from `index` by an actor with these clocks. Returns an earlier access that races with it.
    #[inline(always)]
    pub(crate) fn mark(
        &mut self,
        marker: &mut Marker,
        (index, bytes): Range,
        clocks: &Clocks,
    ) -> Result<(), Conflict> {
        let (stamp, first) = (marker.stamp, index >> self.granule_bits);
        let last = (index + bytes - 1) >> self.granule_bits;
        let replaces = stamp.kind.is_write() && !stamp.kind.is_strong();
        for cell in &mut self.cells[first..=last] {
            let write = (cell.write.actor, cell.write.epoch);
            if write != marker.write {
                marker.check_write(&cell.write, clocks)?;
            }
            if cell.others != marker.others {
                marker.follow(&mut self.sets, (cell.others, cell.lane), clocks)?;
            }
            if replaces {
                *cell = Cell {
                    write: stamp,
                    others: EMPTY,
                    lane: Lane::UNKNOWN,
                };
            } else {
                let successor = marker.successor;
                cell.lane = match () {
                    () if successor.was_last => cell.lane.and(stamp.lane),
                    () if successor.was_earlier => Lane::UNKNOWN,
                    () => stamp.lane,
                };
                cell.others = successor.id;
            }
        }
        Ok(())
    }

    /// Marks a copy in flight as completed: it is then ordered like any other access.
    pub(crate) fn complete(&mut self, (index, bytes): Range, stamp: Stamp) {
        let (first, last) = (
            index >> self.granule_bits,
            (index + bytes - 1) >> self.granule_bits,
        );
        for cell in &mut self.cells[first..=last] {
            cell.write = stamp;
        }
    }
}

impl Marker {
    /// Sets the lane that makes the accesses that follow.
    #[inline(always)]
    pub(crate) fn by_lane(&mut self, lane: usize) {
        self.stamp.lane = Lane::of(lane);
        self.issuer.1 = self.stamp.lane;
    }

    /// Sets the lane that issues the accesses that follow.
    pub(crate) fn issued_by(&mut self, lane: Lane) {
        self.issuer.1 = lane;
    }

    /// Says that the stored value equals the one in memory: lanes that hold replicas may store them without order.
    pub(crate) fn repeating(&mut self, repeats: bool) {
        self.repeats = repeats;
    }

    /// Is the access ordered after a write, or not in conflict with it?
    fn check_write(&mut self, write: &Stamp, clocks: &Clocks) -> Result<(), Conflict> {
        // A write after a completed copy needs no visibility of the copy's data, only its completion.
        let kind = self.stamp.kind;
        let clock = if write.kind.is_async() && kind.is_write() {
            &clocks.ordered
        } else {
            &clocks.visible
        };
        let crosses_proxies = kind.is_async() && !write.kind.is_async();
        let known = &clocks.visible_async;
        if clock.includes(write.actor, write.epoch)
            && (!crosses_proxies || known.includes(write.actor, write.epoch))
        {
            self.write = (write.actor, write.epoch);
            return Ok(());
        }
        // Clocks can differ between lanes, so the result is not cached for others.
        let is_alike =
            (write.actor, write.kind, write.step) == (self.issuer.0, kind, self.stamp.step);
        let is_copy = self.repeats && is_alike;
        let missing = if !clock.has(write) && !self.is_own(write) && !is_copy {
            Missing::Order
        } else if crosses_proxies && !known.has(write) {
            Missing::Fence
        } else {
            return Ok(());
        };
        Err(Conflict {
            earlier: *write,
            missing,
        })
    }

    /// Did the same lane of the same warp make the earlier access, and has it completed?
    fn is_own(&self, earlier: &Stamp) -> bool {
        let (warp, lane) = self.issuer;
        warp == earlier.actor && earlier.epoch != IN_FLIGHT && !lane.differs(earlier.lane)
    }

    /// The set after the access, unless the access races with a member. The last member was made by `lane`.
    fn follow(
        &mut self,
        sets: &mut Sets,
        (others, lane): (SetId, Lane),
        clocks: &Clocks,
    ) -> Result<(), Conflict> {
        let mut depends_on_lanes = false;
        let races = |earlier: &Stamp| {
            depends_on_lanes = true;
            !clocks.for_write_after(earlier).has(earlier) && !self.is_own(earlier)
        };
        if let Some(earlier) = sets.conflict((others, lane), self.stamp.kind, clocks, races) {
            return Err(Conflict {
                earlier,
                missing: Missing::Order,
            });
        }
        self.successor = sets.with(others, self.stamp, clocks);
        self.others = if depends_on_lanes {
            SetId::NONE
        } else {
            others
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::order::Kind;

    const FIRST: usize = 0;
    const SECOND: usize = 1;

    fn stamp(actor: usize, epoch: u32, kind: Kind) -> Stamp {
        Stamp {
            epoch,
            step: 0,
            actor: ActorId::new(actor),
            kind,
            lane: Lane::UNKNOWN,
        }
    }

    /// Two actors whose clocks include only their own epochs, and memory of 64 bytes.
    struct Bench {
        shadow: Shadow,
        clocks: [Clocks; 2],
    }

    impl Bench {
        fn new() -> Self {
            let mut clocks = [Clocks::default(), Clocks::default()];
            for (actor, clocks) in clocks.iter_mut().enumerate() {
                clocks.advance(ActorId::new(actor), 1);
            }
            Self {
                shadow: Shadow::new(64, 2),
                clocks,
            }
        }

        fn access(&mut self, actor: usize, at: (usize, usize), kind: Kind) -> Option<Stamp> {
            let mut marker = self
                .shadow
                .begin(stamp(actor, 1, kind), ActorId::new(actor));
            let marked = self.shadow.mark(&mut marker, at, &self.clocks[actor]);
            marked.err().map(|conflict| conflict.earlier)
        }

        /// An access by a lane since the last synchronization of its warp.
        fn access_of_lane(&mut self, warp: usize, lane: usize, kind: Kind) -> Option<Stamp> {
            let mut marker = self.shadow.begin(stamp(warp, 2, kind), ActorId::new(warp));
            marker.by_lane(lane);
            let marked = self.shadow.mark(&mut marker, (8, 4), &self.clocks[warp]);
            marked.err().map(|conflict| conflict.earlier)
        }

        /// The second actor joins the clocks of the first.
        fn meet(&mut self) {
            let known = self.clocks[FIRST].clone();
            self.clocks[SECOND].join(&known);
        }
    }

    #[test]
    fn accesses_conflict_unless_both_read_or_both_are_strong() {
        let check = |earlier, later, races: bool| {
            let mut bench = Bench::new();
            assert_eq!(bench.access(FIRST, (8, 4), earlier), None);
            let found = bench.access(SECOND, (8, 4), later);
            assert_eq!(
                found,
                races.then(|| stamp(FIRST, 1, earlier)),
                "{earlier:?}, {later:?}"
            );
            let mut bench = Bench::new();
            bench.access(FIRST, (8, 4), earlier);
            bench.meet();
            assert_eq!(bench.access(SECOND, (8, 4), later), None);
        };
        check(Kind::READ, Kind::READ, false);
        check(Kind::READ, Kind::WRITE, true);
        check(Kind::WRITE, Kind::READ, true);
        check(Kind::WRITE, Kind::WRITE, true);
        check(Kind::STRONG_WRITE, Kind::STRONG_WRITE, false);
        check(Kind::STRONG_WRITE, Kind::STRONG_READ, false);
        check(Kind::STRONG_WRITE, Kind::READ, true);
        check(Kind::READ, Kind::STRONG_WRITE, true);
        check(Kind::STRONG_READ, Kind::WRITE, true);
    }

    #[test]
    fn a_read_by_two_lanes_races_with_a_write_by_one_of_them() {
        for (readers, races) in [(&[1][..], false), (&[0, 1], true), (&[1, 0], true)] {
            let mut bench = Bench::new();
            for &lane in readers {
                assert_eq!(bench.access_of_lane(FIRST, lane, Kind::READ), None);
            }
            let found = bench.access_of_lane(FIRST, 1, Kind::WRITE);
            assert_eq!(found.is_some(), races, "{readers:?}");
        }
    }

    #[test]
    fn a_read_that_is_repeated_says_nothing_of_the_lane_of_a_later_one() {
        let mut bench = Bench::new();
        for (warp, lane) in [(FIRST, 0), (SECOND, 0), (FIRST, 1)] {
            assert_eq!(bench.access_of_lane(warp, lane, Kind::READ), None);
        }
        bench.clocks[SECOND].advance(ActorId::new(FIRST), 2);
        assert_eq!(bench.access_of_lane(SECOND, 0, Kind::WRITE), None);
    }

    #[test]
    fn reads_and_writes_of_other_places_do_not_race() {
        let mut bench = Bench::new();
        assert_eq!(bench.access(FIRST, (0, 16), Kind::WRITE), None);
        assert_eq!(bench.access(SECOND, (16, 16), Kind::WRITE), None);
        assert!(bench.access(SECOND, (12, 8), Kind::READ).is_some());
    }

    #[test]
    fn all_readers_are_remembered() {
        let mut bench = Bench::new();
        for actor in 2..40 {
            bench.clocks[FIRST] = Clocks::default();
            let mut marker = bench
                .shadow
                .begin(stamp(actor, 1, Kind::READ), ActorId::new(actor));
            let clocks = Clocks::default();
            assert!(bench.shadow.mark(&mut marker, (4, 4), &clocks).is_ok());
        }
        for actor in 2..39 {
            bench.clocks[FIRST].advance(ActorId::new(actor), 1);
        }
        let last = bench.access(FIRST, (4, 4), Kind::WRITE);
        assert_eq!(last, Some(stamp(39, 1, Kind::READ)));
    }

    #[test]
    fn unused_sets_are_dropped() {
        let mut shadow = Shadow::new(64, 2);
        let reader = ActorId::new(5);
        for epoch in 1..20_000 {
            let mut clocks = Clocks::default();
            clocks.advance(reader, epoch);
            let mut marker = shadow.begin(stamp(5, epoch, Kind::READ), ActorId::new(5));
            let at = (epoch as usize % 16 * 4, 4);
            assert!(shadow.mark(&mut marker, at, &clocks).is_ok());
        }
        assert!(shadow.sets.len() < 5_000, "{}", shadow.sets.len());
        let mut writer = Clocks::default();
        writer.advance(reader, 19_999);
        let mut marker = shadow.begin(stamp(6, 1, Kind::WRITE), ActorId::new(6));
        assert!(shadow.mark(&mut marker, (0, 64), &writer).is_ok());
        let mut shadow_of_one = Shadow::new(64, 2);
        let mut marker = shadow_of_one.begin(stamp(5, 20_000, Kind::READ), ActorId::new(5));
        assert!(shadow_of_one.mark(&mut marker, (60, 4), &writer).is_ok());
        let mut marker = shadow_of_one.begin(stamp(6, 1, Kind::WRITE), ActorId::new(6));
        assert!(shadow_of_one.mark(&mut marker, (0, 64), &writer).is_err());
    }

    #[test]
    fn a_copy_that_is_over_may_be_overwritten_and_not_read_before_it_is_visible() {
        let mut shadow = Shadow::new(64, 2);
        shadow.complete((0, 16), stamp(5, 3, Kind::ASYNC_WRITE));
        let mut clocks = Clocks::default();
        clocks.ordered.advance(ActorId::new(5), 3);
        let access = |shadow: &mut Shadow, at: usize, kind, clocks: &Clocks| {
            let mut marker = shadow.begin(stamp(1, 1, kind), ActorId::new(1));
            let marked = shadow.mark(&mut marker, (at, 4), clocks);
            marked.err().map(|conflict| conflict.missing)
        };
        assert_eq!(
            access(&mut shadow, 0, Kind::READ, &clocks),
            Some(Missing::Order)
        );
        assert_eq!(access(&mut shadow, 4, Kind::ASYNC_WRITE, &clocks), None);
        assert_eq!(access(&mut shadow, 8, Kind::WRITE, &clocks), None);
        assert_eq!(
            access(&mut shadow, 12, Kind::WRITE, &Clocks::default()),
            Some(Missing::Order)
        );
        clocks.visible.advance(ActorId::new(5), 3);
        let mut again = Shadow::new(64, 2);
        again.complete((0, 16), stamp(5, 3, Kind::ASYNC_WRITE));
        assert_eq!(access(&mut again, 12, Kind::READ, &clocks), None);
    }

    #[test]
    fn a_write_is_remembered_behind_reads_that_are_ordered_after_it() {
        let mut bench = Bench::new();
        assert_eq!(bench.access(FIRST, (0, 8), Kind::WRITE), None);
        assert_eq!(bench.access(FIRST, (0, 8), Kind::READ), None);
        let found = bench.access(SECOND, (4, 4), Kind::READ);
        assert_eq!(found, Some(stamp(FIRST, 1, Kind::WRITE)));
    }

    #[test]
    fn generic_writes_need_a_fence_before_async_reads() {
        let mut bench = Bench::new();
        bench.access(FIRST, (0, 4), Kind::WRITE);
        let read = |bench: &mut Bench| {
            let mut marker = bench
                .shadow
                .begin(stamp(9, 1, Kind::ASYNC_READ), ActorId::new(9));
            let marked = bench.shadow.mark(&mut marker, (0, 4), &bench.clocks[FIRST]);
            marked.err().map(|conflict| conflict.missing)
        };
        assert_eq!(read(&mut bench), Some(Missing::Fence));
        bench.clocks[FIRST].fence_async_shared();
        assert_eq!(read(&mut bench), None);
    }
}
