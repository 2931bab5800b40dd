//! Vector clocks.

use super::actor::ActorId;

/// For each actor, the last epoch that happens before; zero for those that are not listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clock(Vec<u32>);

impl Clock {
    /// An epoch of the actor happens before.
    #[inline(always)]
    pub(crate) fn includes(&self, actor: ActorId, epoch: u32) -> bool {
        self.0.get(actor.index()).copied().unwrap_or(0) >= epoch
    }

    /// Does all that happens before by the other one happen before by this one?
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let known = self.0.iter().copied().chain(std::iter::repeat(0));
        other
            .0
            .iter()
            .zip(known)
            .all(|(theirs, mine)| *theirs <= mine)
    }

    /// From now on, the epochs of the actor up to this one happen before.
    pub(crate) fn advance(&mut self, actor: ActorId, epoch: u32) {
        let index = actor.index();
        if self.0.len() <= index {
            self.0.resize(index + 1, 0);
        }
        self.0[index] = self.0[index].max(epoch);
    }

    /// The least upper bound of both, component by component.
    pub(crate) fn join(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        let pairs = self.0.iter_mut().zip(&other.0);
        pairs.for_each(|(mine, theirs)| *mine = (*mine).max(*theirs));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let at = |epochs: &[u32]| Clock(epochs.to_vec());
        assert!(at(&[3, 2]).covers(&at(&[3, 1])) && at(&[3, 2]).covers(&at(&[3])));
        assert!(at(&[3]).covers(&at(&[3, 0])) && !at(&[3]).covers(&at(&[3, 1])));
        assert!(!at(&[3, 2]).covers(&at(&[4, 1])));
    }

    #[test]
    fn an_empty_clock_includes_epoch_zero_of_every_actor() {
        assert!(Clock::default().includes(ActorId::new(3), 0));
    }
}
