//! What a warp knows: of its own cluster, and of the rest of the device.

use super::actor::ActorId;
use super::clock::Clock;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// The clocks of a warp, or those that a barrier carries: each at most the one before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clocks {
    /// What happens before, whatever its writes look like: reads are over, arrivals are counted. Relaxed arrivals and copies
    /// carry it too.
    pub(crate) ordered: Clock,
    /// Writes that are visible through the generic proxy.
    pub(crate) visible: Clock,
    /// Writes of the generic proxy to shared memory that are visible through the async proxy.
    pub(crate) visible_async: Clock,
    /// The same of those to global memory.
    pub(crate) visible_async_global: Clock,
    /// What lies outside of the cluster.
    pub(crate) foreign: Foreign,
}

/// Clocks of other clusters, and whether earlier launches have ended. Most kernels have none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Foreign(Option<Arc<Known>>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Known {
    /// The launches that this one overlaps have ended, and what they wrote is visible.
    launches_ended: bool,
    /// Without what each of them knows of others: that is listed here too.
    clusters: BTreeMap<u32, Clocks>,
}

impl Clocks {
    /// The least upper bound of both, component by component.
    pub(crate) fn join(&mut self, other: &Self) {
        self.join_own(other);
        self.foreign.join(&other.foreign);
    }

    /// Joins the clocks of the own cluster.
    fn join_own(&mut self, other: &Self) {
        self.ordered.join(&other.ordered);
        self.visible.join(&other.visible);
        self.visible_async.join(&other.visible_async);
        self.visible_async_global.join(&other.visible_async_global);
    }

    /// What the actor did up to an epoch happens before, and its writes are visible.
    pub(crate) fn advance(&mut self, actor: ActorId, epoch: u32) {
        self.ordered.advance(actor, epoch);
        self.visible.advance(actor, epoch);
    }

    /// `fence.proxy.async` for shared memory: what is visible through the generic proxy is visible through the async proxy.
    pub(crate) fn fence_async_shared(&mut self) {
        self.visible_async.join(&self.visible);
    }

    /// The same for global memory, which other clusters write too.
    pub(crate) fn fence_async_global(&mut self) {
        self.visible_async_global.join(&self.visible);
        if let Some(known) = &mut self.foreign.0 {
            for clocks in Arc::make_mut(known).clusters.values_mut() {
                clocks.visible_async_global.join(&clocks.visible);
            }
        }
    }

    /// What a warp of `cluster` releases to the device: all that it knows.
    pub(crate) fn released(&self, cluster: u32) -> Foreign {
        let mut known = self.foreign.0.as_deref().cloned().unwrap_or_default();
        let own = Self {
            foreign: Foreign::default(),
            ..self.clone()
        };
        known.clusters.insert(cluster, own);
        Foreign(Some(Arc::new(known)))
    }

    /// A warp of `cluster` acquires what another one has released.
    pub(crate) fn acquire(&mut self, released: &Foreign, cluster: u32) {
        let Some(known) = &released.0 else { return };
        if let Some(own) = known.clusters.get(&cluster) {
            self.join_own(own);
        }
        self.foreign.join(released);
    }

    /// `griddepcontrol.wait`
    pub(crate) fn wait_for_launches(&mut self) {
        let known = self.foreign.0.get_or_insert_default();
        if !known.launches_ended {
            Arc::make_mut(known).launches_ended = true;
        }
    }
}

impl Foreign {
    /// The clocks of a cluster that is not the own one.
    pub(crate) fn of(&self, cluster: u32) -> Option<&Clocks> {
        self.0.as_ref()?.clusters.get(&cluster)
    }

    /// The launches that this one overlaps have ended.
    pub(crate) fn launches_ended(&self) -> bool {
        self.0.as_ref().is_some_and(|known| known.launches_ended)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The least upper bound of both.
    pub(crate) fn join(&mut self, other: &Self) {
        let Some(theirs) = &other.0 else { return };
        let Some(mine) = &mut self.0 else {
            self.0 = Some(Arc::clone(theirs));
            return;
        };
        // All warps of a CTA have the same one after a barrier.
        if Arc::ptr_eq(mine, theirs) {
            return;
        }
        let known = Arc::make_mut(mine);
        known.launches_ended |= theirs.launches_ended;
        for (&cluster, clocks) in &theirs.clusters {
            match known.clusters.entry(cluster) {
                Entry::Occupied(mut entry) => entry.get_mut().join_own(clocks),
                Entry::Vacant(entry) => drop(entry.insert(clocks.clone())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITER: usize = 7;

    fn at_epoch(epoch: u32) -> Clocks {
        let mut clocks = Clocks::default();
        clocks.advance(ActorId::new(WRITER), epoch);
        clocks
    }

    #[test]
    fn fence_async_makes_visible_writes_visible_to_the_async_proxy() {
        let writer = ActorId::new(WRITER);
        let mut reader = Clocks::default();
        reader.join(&at_epoch(4));
        assert!(reader.visible.includes(writer, 4) && !reader.visible.includes(writer, 5));
        reader.fence_async_shared();
        assert!(reader.visible_async.includes(writer, 4));
        assert!(!reader.visible_async_global.includes(writer, 1));
        reader.fence_async_global();
        assert!(reader.visible_async_global.includes(writer, 4));
    }

    #[test]
    fn what_is_released_is_known_of_the_cluster_that_released_it() {
        let writer = ActorId::new(WRITER);
        let mut reader = Clocks::default();
        reader.acquire(&at_epoch(4).released(3), 5);
        assert!(!reader.visible.includes(writer, 1));
        let known = reader.foreign.of(3).unwrap();
        assert!(known.visible.includes(writer, 4) && !known.visible.includes(writer, 5));
        assert!(!known.visible_async_global.includes(writer, 1));
        reader.fence_async_global();
        let known = reader.foreign.of(3).unwrap();
        assert!(known.visible_async_global.includes(writer, 4));
    }

    #[test]
    fn what_comes_back_through_another_cluster_is_known_of_the_own_one() {
        let writer = ActorId::new(WRITER);
        let mut between = Clocks::default();
        between.acquire(&at_epoch(4).released(3), 5);
        let mut reader = Clocks::default();
        reader.acquire(&between.released(5), 3);
        assert!(reader.visible.includes(writer, 4) && !reader.visible.includes(writer, 5));
    }

    #[test]
    fn joining_keeps_the_later_epochs_and_the_end_of_launches() {
        let writer = ActorId::new(WRITER);
        let mut first = Clocks::default();
        first.acquire(&at_epoch(4).released(3), 5);
        let mut second = Clocks::default();
        second.acquire(&at_epoch(2).released(3), 5);
        second.acquire(&at_epoch(9).released(4), 5);
        second.wait_for_launches();
        first.join(&second);
        assert!(first.foreign.of(3).unwrap().ordered.includes(writer, 4));
        assert!(first.foreign.of(4).unwrap().ordered.includes(writer, 9));
        assert!(first.foreign.launches_ended());
    }
}
