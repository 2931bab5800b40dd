//! Vector clocks.

use super::actor::ActorId;
use super::stamp::Stamp;
use smallvec::SmallVec;

/// For each actor, its last epoch that happens before; actors that are not listed have epoch zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clock {
    epochs: Vec<u32>,
    /// Later epochs of single lanes of a warp: releases by lanes that had diverged from the rest of the warp.
    partial: SmallVec<[PartialEpoch; 2]>,
}

/// The accesses that some lanes of a warp made up to an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PartialEpoch {
    actor: ActorId,
    lanes: u32,
    epoch: u32,
}

impl Clock {
    /// Does an epoch of the actor happen before, in all lanes of a warp?
    #[inline(always)]
    pub(crate) fn includes(&self, actor: ActorId, epoch: u32) -> bool {
        self.epochs.get(actor.index()).copied().unwrap_or(0) >= epoch
    }

    /// Does an access happen before?
    #[inline(always)]
    pub(crate) fn has(&self, stamp: &Stamp) -> bool {
        self.includes(stamp.actor, stamp.epoch) || self.has_of_lanes(stamp)
    }

    fn has_of_lanes(&self, stamp: &Stamp) -> bool {
        self.partial.iter().any(|of| {
            of.actor == stamp.actor && of.epoch >= stamp.epoch && stamp.lane.is_within(of.lanes)
        })
    }

    /// Is this clock at least the other one, component by component?
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let known = self.epochs.iter().copied().chain(std::iter::repeat(0));
        let mut pairs = other.epochs.iter().zip(known);
        let knows = |of: &PartialEpoch| {
            let of_lanes = |mine: &PartialEpoch| {
                mine.actor == of.actor && mine.epoch >= of.epoch && of.lanes & !mine.lanes == 0
            };
            self.includes(of.actor, of.epoch) || self.partial.iter().any(of_lanes)
        };
        pairs.all(|(theirs, mine)| *theirs <= mine) && other.partial.iter().all(knows)
    }

    /// Advances the actor's component to `epoch`.
    pub(crate) fn advance(&mut self, actor: ActorId, epoch: u32) {
        let index = actor.index();
        if self.epochs.len() <= index {
            self.epochs.resize(index + 1, 0);
        }
        self.epochs[index] = self.epochs[index].max(epoch);
        self.drop_covered();
    }

    /// The same for some lanes of a warp.
    pub(crate) fn advance_lanes(&mut self, actor: ActorId, lanes: u32, epoch: u32) {
        if lanes == u32::MAX {
            return self.advance(actor, epoch);
        }
        if self.includes(actor, epoch) {
            return;
        }
        let is_same = |of: &&mut PartialEpoch| of.actor == actor && of.lanes == lanes;
        match self.partial.iter_mut().find(is_same) {
            Some(of) => of.epoch = of.epoch.max(epoch),
            None => self.partial.push(PartialEpoch {
                actor,
                lanes,
                epoch,
            }),
        }
    }

    /// The least upper bound of both, component by component.
    pub(crate) fn join(&mut self, other: &Self) {
        let length = self.epochs.len().max(other.epochs.len());
        self.epochs.resize(length, 0);
        let pairs = self.epochs.iter_mut().zip(&other.epochs);
        pairs.for_each(|(mine, theirs)| *mine = (*mine).max(*theirs));
        self.drop_covered();
        for of in &other.partial {
            self.advance_lanes(of.actor, of.lanes, of.epoch);
        }
    }

    fn drop_covered(&mut self) {
        if !self.partial.is_empty() {
            let epochs = &self.epochs;
            let known = |actor: ActorId| epochs.get(actor.index()).copied().unwrap_or(0);
            self.partial.retain(|of| known(of.actor) < of.epoch);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::order::{Kind, Lane};

    #[test]
    fn a_clock_never_goes_back() {
        let actor = ActorId::new(2);
        let mut clock = Clock::default();
        clock.advance(actor, 5);
        clock.advance(actor, 3);
        assert!(clock.includes(actor, 5) && !clock.includes(actor, 6));
    }

    #[test]
    fn one_clock_covers_another_when_it_includes_all_of_it() {
        let at = |epochs: &[u32]| Clock {
            epochs: epochs.to_vec(),
            ..Clock::default()
        };
        assert!(at(&[3, 2]).covers(&at(&[3, 1])) && at(&[3, 2]).covers(&at(&[3])));
        assert!(at(&[3]).covers(&at(&[3, 0])) && !at(&[3]).covers(&at(&[3, 1])));
        assert!(!at(&[3, 2]).covers(&at(&[4, 1])));
        let mut partial = at(&[3]);
        partial.advance_lanes(ActorId::new(0), 0b11, 5);
        assert!(partial.covers(&at(&[3])) && !at(&[3]).covers(&partial));
        assert!(at(&[5]).covers(&partial) && !at(&[4]).covers(&partial));
        let mut one = at(&[3]);
        one.advance_lanes(ActorId::new(0), 0b01, 5);
        assert!(partial.covers(&one) && !one.covers(&partial));
        // The lanes of another warp, and a later epoch of the same ones.
        for (warp, epoch) in [(1, 5), (0, 6)] {
            let mut other = at(&[3]);
            other.advance_lanes(ActorId::new(warp), 0b01, epoch);
            assert!(!partial.covers(&other), "{warp} {epoch}");
        }
    }

    #[test]
    fn lanes_that_advance_again_take_no_more_room() {
        let mut clock = Clock::default();
        for epoch in 1..10 {
            clock.advance_lanes(ActorId::new(3), 0b01, epoch);
            clock.advance_lanes(ActorId::new(3), 0b10, epoch);
            clock.advance_lanes(ActorId::new(4), 0b01, epoch);
        }
        assert_eq!(clock.partial.len(), 3, "one for each warp and its lanes");
        assert!(clock.partial.iter().all(|of| of.epoch == 9));
    }

    #[test]
    fn an_empty_clock_includes_epoch_zero_of_every_actor() {
        assert!(Clock::default().includes(ActorId::new(3), 0));
    }

    #[test]
    fn some_lanes_of_a_warp_happen_before_and_others_do_not() {
        let warp = ActorId::new(3);
        let stamp = |lane, epoch| Stamp {
            epoch,
            step: 0,
            actor: warp,
            kind: Kind::WRITE,
            lane,
        };
        let mut released = Clock::default();
        released.advance(warp, 4);
        released.advance_lanes(warp, 0b101, 6);
        let mut clock = Clock::default();
        clock.join(&released);
        for (lane, epoch, expected) in [
            (Lane::of(1), 4, true),
            (Lane::of(1), 5, false),
            (Lane::of(2), 6, true),
            (Lane::of(2), 7, false),
            (Lane::UNKNOWN, 6, true),
            (Lane::SEVERAL, 5, true),
        ] {
            assert_eq!(clock.has(&stamp(lane, epoch)), expected, "{lane:?} {epoch}");
        }
        // The epoch of one lane does not order the accesses of several.
        let mut one = Clock::default();
        one.advance_lanes(warp, 1, 6);
        assert!(!one.has(&stamp(Lane::SEVERAL, 6)));
        assert!(one.has(&stamp(Lane::of(0), 6)));
        clock.advance(warp, 6);
        assert!(clock.partial.is_empty());
    }
}
