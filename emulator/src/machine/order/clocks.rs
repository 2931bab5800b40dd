//! The clocks of a warp: for its own cluster, and for the other clusters of the device.

use super::actor::ActorId;
use super::clock::Clock;
use super::stamp::Stamp;
use super::tree::{Lattice, Tree};

/// The clocks of a warp, or those that a barrier carries. Each is at most the one before it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clocks {
    /// What has been counted and waited for: arrivals, phases, the ends of copies and products. Relaxed arrivals carry it, and nothing else.
    pub(crate) ordered: Clock,
    /// Reads of threads that are over. Copies carry it too, from their issue to who waits for them.
    pub(crate) read: Clock,
    /// Writes that are visible through the generic proxy.
    pub(crate) visible: Clock,
    /// Writes of the generic proxy to shared memory that are visible through the async proxy.
    pub(crate) visible_async: Clock,
    /// Writes of the generic proxy to global memory that are visible through the async proxy.
    pub(crate) visible_async_global: Clock,
    /// The clocks of other clusters.
    pub(crate) foreign: Foreign,
}

/// Clocks of other clusters, and whether earlier launches have ended. Most kernels have none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Foreign {
    /// The launches that this one overlaps have ended, and what they wrote is visible.
    launches_ended: bool,
    /// The clocks of each other cluster. Their `foreign` is empty: what a cluster acquired itself is joined into this tree.
    clusters: Tree<Clocks>,
    /// The value of `clusters` at the last `fence.proxy.async`: its visible writes are visible through the async proxy too, besides those
    /// that the clusters fenced themselves.
    fenced: Tree<Clocks>,
}

impl Clocks {
    /// The least upper bound of both, component by component.
    pub(crate) fn join(&mut self, other: &Self) {
        self.join_own(other);
        self.foreign.join(&other.foreign);
    }

    /// Joins the clocks for the warp's own cluster.
    fn join_own(&mut self, other: &Self) {
        self.ordered.join(&other.ordered);
        self.read.join(&other.read);
        self.visible.join(&other.visible);
        self.visible_async.join(&other.visible_async);
        self.visible_async_global.join(&other.visible_async_global);
    }

    /// Advances the actor to `epoch`: its accesses up to there happen before, and its writes are visible.
    pub(crate) fn advance(&mut self, actor: ActorId, epoch: u32) {
        self.ordered.advance(actor, epoch);
        self.read.advance(actor, epoch);
        self.visible.advance(actor, epoch);
    }

    /// The same for some lanes of a warp.
    pub(crate) fn advance_lanes(&mut self, warp: ActorId, lanes: u32, epoch: u32) {
        self.ordered.advance_lanes(warp, lanes, epoch);
        self.read.advance_lanes(warp, lanes, epoch);
        self.visible.advance_lanes(warp, lanes, epoch);
    }

    /// The clock that an earlier access must be in for a write to follow it. A relaxed arrival says nothing of what its thread has read (PTX ISA
    /// 9.7.13.3); what copies and products read is over for who has waited for them.
    pub(super) fn for_write_after(&self, earlier: &Stamp) -> &Clock {
        let kind = earlier.kind;
        match (kind.is_write(), kind.is_async()) {
            (true, _) => &self.visible,
            (false, false) => &self.read,
            (false, true) => &self.ordered,
        }
    }

    /// What a copy carries to who waits for it.
    pub(crate) fn carried(&self) -> Self {
        Self {
            ordered: self.ordered.clone(),
            read: self.read.clone(),
            ..Self::default()
        }
    }

    /// `fence.proxy.async` for shared memory: writes that are visible through the generic proxy become visible through the async proxy.
    pub(crate) fn fence_async_shared(&mut self) {
        self.visible_async.join(&self.visible);
    }

    /// `fence.proxy.async` for global memory, which other clusters write too.
    pub(crate) fn fence_async_global(&mut self) {
        self.visible_async_global.join(&self.visible);
        self.foreign.fenced = self.foreign.clusters.clone();
    }

    /// The clocks that a warp of `cluster` releases to the device: all of its own.
    pub(crate) fn released(&self, cluster: u32) -> Foreign {
        let own = Self {
            foreign: Foreign::default(),
            ..self.clone()
        };
        Foreign {
            clusters: self.foreign.clusters.with(cluster, own),
            ..self.foreign.clone()
        }
    }

    /// Joins clocks that a warp of another cluster, or of `cluster` itself, has released.
    pub(crate) fn acquire(&mut self, released: &Foreign, cluster: u32) {
        if let Some(own) = released.clusters.get(cluster) {
            self.join_own(own);
        }
        if let Some(own) = released.fenced.get(cluster) {
            self.visible_async_global.join(&own.visible);
        }
        self.foreign.join(released);
    }

    /// `griddepcontrol.wait`
    pub(crate) fn wait_for_launches(&mut self) {
        self.foreign.launches_ended = true;
    }
}

/// The clocks for the warp's own cluster, without those of other clusters.
impl Lattice for Clocks {
    fn covers(&self, other: &Self) -> bool {
        self.ordered.covers(&other.ordered)
            && self.read.covers(&other.read)
            && self.visible.covers(&other.visible)
            && self.visible_async.covers(&other.visible_async)
            && self
                .visible_async_global
                .covers(&other.visible_async_global)
    }

    fn join(&mut self, other: &Self) {
        self.join_own(other);
    }
}

impl Foreign {
    /// The clocks of another cluster.
    pub(crate) fn of(&self, cluster: u32) -> Option<&Clocks> {
        self.clusters.get(cluster)
    }

    /// Is a write of another cluster visible through the async proxy, by a fence of that cluster or of the warp that has these clocks?
    pub(crate) fn fences(&self, cluster: u32, write: &Stamp) -> bool {
        let fenced = self.fenced.get(cluster);
        fenced.is_some_and(|clocks| clocks.visible.has(write))
    }

    /// The launches that this one overlaps have ended.
    pub(crate) fn launches_ended(&self) -> bool {
        self.launches_ended
    }

    /// The least upper bound of both.
    pub(crate) fn join(&mut self, other: &Self) {
        self.launches_ended |= other.launches_ended;
        self.clusters.join(&other.clusters);
        self.fenced.join(&other.fenced);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::order::{Kind, Lane};

    const WRITER: usize = 7;

    fn write(epoch: u32) -> Stamp {
        Stamp {
            epoch,
            step: 0,
            actor: ActorId::new(WRITER),
            kind: Kind::WRITE,
            lane: Lane::UNKNOWN,
        }
    }

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

    /// Clocks of which one knows more than those of an earlier epoch, chosen by `which`.
    fn ahead_in(which: usize) -> Clocks {
        let mut clocks = at_epoch(4);
        clocks.visible_async = clocks.visible.clone();
        clocks.visible_async_global = clocks.visible.clone();
        let components = [
            &mut clocks.ordered,
            &mut clocks.read,
            &mut clocks.visible,
            &mut clocks.visible_async,
            &mut clocks.visible_async_global,
        ];
        for (at, clock) in components.into_iter().enumerate() {
            if at == which {
                clock.advance(ActorId::new(WRITER), 9);
            }
        }
        clocks
    }

    #[test]
    fn clocks_cover_others_in_every_component_and_join_in_each() {
        let epochs = |clocks: &Clocks| {
            let of = [
                &clocks.ordered,
                &clocks.read,
                &clocks.visible,
                &clocks.visible_async,
                &clocks.visible_async_global,
            ];
            of.map(|clock| clock.includes(ActorId::new(WRITER), 9))
        };
        let same = ahead_in(usize::MAX);
        for which in 0..5 {
            let ahead = ahead_in(which);
            assert!(ahead.covers(&same) && !same.covers(&ahead), "{which}");
            let other = (which + 1) % 5;
            let mut both = ahead_in(other);
            Lattice::join(&mut both, &ahead);
            let expected = [0, 1, 2, 3, 4].map(|at| at == which || at == other);
            assert_eq!(epochs(&both), expected);
        }
    }

    #[test]
    fn what_a_cluster_releases_holds_others_beside_it_and_not_within_it() {
        let mut between = Clocks::default();
        between.acquire(&at_epoch(4).released(3), 5);
        let released = between.released(5);
        assert!(released.of(3).is_some());
        let own = released.of(5).expect("its own clocks");
        assert!(
            own.foreign.of(3).is_none(),
            "or each hand-over would hold all before it"
        );
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
        assert!(reader.foreign.fences(3, &write(4)) && !reader.foreign.fences(3, &write(5)));
    }

    #[test]
    fn a_fence_of_another_cluster_is_handed_on_with_what_it_fenced() {
        let writer = ActorId::new(WRITER);
        for fenced in [true, false] {
            let mut between = Clocks::default();
            between.acquire(&at_epoch(4).released(3), 5);
            if fenced {
                between.fence_async_global();
            }
            // Writes that are acquired after the fence are not covered by it.
            between.acquire(&at_epoch(9).released(3), 5);
            let released = between.released(5);
            let mut third = Clocks::default();
            third.acquire(&released, 8);
            assert_eq!(third.foreign.fences(3, &write(4)), fenced);
            assert!(!third.foreign.fences(3, &write(5)));
            let mut first = Clocks::default();
            first.acquire(&released, 3);
            assert_eq!(first.visible_async_global.includes(writer, 4), fenced);
            assert!(!first.visible_async_global.includes(writer, 5));
        }
    }

    #[test]
    fn after_a_barrier_of_the_grid_all_clusters_share_what_they_know() {
        const CLUSTERS: u32 = 300;
        let mut each: Vec<Clocks> = (0..CLUSTERS).map(|_| Clocks::default()).collect();
        for step in 1..4 {
            let mut word = Foreign::default();
            for (cluster, clocks) in (0..).zip(&mut each) {
                clocks.advance(ActorId::new(0), step);
                word.join(&clocks.released(cluster));
            }
            for (cluster, clocks) in (0..).zip(&mut each) {
                clocks.acquire(&word, cluster);
                assert!(clocks.foreign.clusters.is_shared_with(&word.clusters));
                let other = clocks.foreign.of((cluster + 7) % CLUSTERS).unwrap();
                assert!(other.visible.includes(ActorId::new(0), step));
            }
        }
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
