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

/// The clocks of a warp, or those that a barrier carries: each at most the one before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clocks {
    /// What happens before, whatever its writes look like: reads are over, arrivals are counted. Relaxed arrivals and copies
    /// carry it too.
    pub(crate) ordered: Clock,
    /// Writes that are visible through the generic proxy.
    pub(crate) visible: Clock,
    /// Writes of the generic proxy that are visible through the async proxy.
    pub(crate) visible_async: Clock,
}

impl Clocks {
    /// The least upper bound of both, component by component.
    pub(crate) fn join(&mut self, other: &Self) {
        self.ordered.join(&other.ordered);
        self.visible.join(&other.visible);
        self.visible_async.join(&other.visible_async);
    }

    /// What the actor did up to an epoch happens before, and its writes are visible.
    pub(crate) fn advance(&mut self, actor: ActorId, epoch: u32) {
        self.ordered.advance(actor, epoch);
        self.visible.advance(actor, epoch);
    }

    /// `fence.proxy.async`: what is visible through the generic proxy is visible through the async proxy.
    pub(crate) fn fence_async(&mut self) {
        self.visible_async.join(&self.visible);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fence_async_makes_visible_writes_visible_to_the_async_proxy() {
        let writer = ActorId::new(7);
        let mut clocks = Clocks::default();
        clocks.advance(writer, 4);
        let mut reader = Clocks::default();
        reader.join(&clocks);
        assert!(reader.visible.includes(writer, 4) && !reader.visible.includes(writer, 5));
        assert!(!reader.visible_async.includes(writer, 1));
        reader.fence_async();
        assert!(reader.visible_async.includes(writer, 4));
    }

    #[test]
    fn an_empty_clock_includes_epoch_zero_of_every_actor() {
        assert!(Clock::default().includes(ActorId::new(3), 0));
    }
}
