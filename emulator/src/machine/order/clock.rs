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
    fn an_empty_clock_includes_epoch_zero_of_every_actor() {
        assert!(Clock::default().includes(ActorId::new(3), 0));
    }
}
