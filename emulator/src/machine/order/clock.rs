//! Vector clocks.

use super::ActorId;

/// Of each actor, the last epoch that is known; of those that are not listed, nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clock(Vec<u32>);

impl Clock {
    /// Is what the actor did in an epoch known?
    #[inline(always)]
    pub(crate) fn knows(&self, actor: ActorId, epoch: u32) -> bool {
        self.0.get(actor.index()).copied().unwrap_or(0) >= epoch
    }

    /// From now on, what the actor did up to an epoch is known.
    pub(crate) fn learn(&mut self, actor: ActorId, epoch: u32) {
        let index = actor.index();
        if self.0.len() <= index {
            self.0.resize(index + 1, 0);
        }
        self.0[index] = self.0[index].max(epoch);
    }

    /// Adds what another knows.
    pub(crate) fn join(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        let pairs = self.0.iter_mut().zip(&other.0);
        pairs.for_each(|(mine, theirs)| *mine = (*mine).max(*theirs));
    }
}

/// What a warp knows, or what a barrier carries: three clocks, each within the one before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Knowledge {
    /// What has come: reads that are over, arrivals that are counted. Relaxed arrivals and copies carry it too.
    pub(crate) came: Clock,
    /// Writes that are visible to the generic proxy.
    pub(crate) seen: Clock,
    /// Writes of the generic proxy that are visible to the asynchronous one.
    pub(crate) fenced: Clock,
}

impl Knowledge {
    /// Adds what another knows.
    pub(crate) fn join(&mut self, other: &Self) {
        self.came.join(&other.came);
        self.seen.join(&other.seen);
        self.fenced.join(&other.fenced);
    }

    /// What the actor did up to an epoch has come, and may be read.
    pub(crate) fn learn(&mut self, actor: ActorId, epoch: u32) {
        self.came.learn(actor, epoch);
        self.seen.learn(actor, epoch);
    }

    /// `fence.proxy.async`: what may be read, the asynchronous proxy may read.
    pub(crate) fn fence_async(&mut self) {
        self.fenced.join(&self.seen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences_cover_what_has_been_seen() {
        let writer = ActorId::new(7);
        let mut knows = Knowledge::default();
        knows.learn(writer, 4);
        let mut reader = Knowledge::default();
        reader.join(&knows);
        assert!(reader.seen.knows(writer, 4) && !reader.seen.knows(writer, 5));
        assert!(!reader.fenced.knows(writer, 1));
        reader.fence_async();
        assert!(reader.fenced.knows(writer, 4));
    }

    #[test]
    fn everybody_knows_the_epoch_before_the_first() {
        assert!(Clock::default().knows(ActorId::new(3), 0));
    }
}
