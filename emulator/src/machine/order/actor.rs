//! The actors that access shared and global memory.

use std::collections::BTreeMap;

/// Number of an actor in its cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ActorId(u16);

impl ActorId {
    pub(crate) fn new(index: usize) -> Self {
        // A cluster has at most 512 warps; each shared address is one mbarrier at a time, and each thread one bulk-group actor.
        Self(u16::try_from(index).expect("a cluster has fewer than 65536 actors"))
    }

    #[inline(always)]
    pub(crate) fn index(self) -> usize {
        self.0.into()
    }
}

/// An actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Actor {
    /// A warp of a CTA, which accesses memory through the generic proxy.
    Warp { cta: u16, warp: u16 },
    /// The copies whose completion an mbarrier tracks, for every mbarrier that is initialised at that address.
    Mbarrier(MbarrierId),
    /// The `wgmma` products of a warpgroup.
    Products { cta: u16, warpgroup: u16 },
    /// The part of a warp in them: what it waits for, where a launch is strict.
    ProductsOfWarp { cta: u16, warp: u16 },
    /// The reads of shared memory by a thread's bulk stores (`cp.async.bulk.wait_group.read`).
    BulkGroups { cta: u16, warp: u16, lane: u16 },
    /// The writes of the same stores, which complete later (`cp.async.bulk.wait_group`).
    BulkWrites { cta: u16, warp: u16, lane: u16 },
}

/// The actors of a cluster: its warps, then the others in order of their first access.
#[derive(Debug)]
pub(crate) struct Actors {
    list: Vec<Actor>,
    numbers: BTreeMap<Actor, ActorId>,
}

impl Actors {
    /// The warps of a cluster.
    pub(crate) fn new(ctas: u16, warps: u16) -> Self {
        let warps = |cta| (0..warps).map(move |warp| Actor::Warp { cta, warp });
        let list: Vec<Actor> = (0..ctas).flat_map(warps).collect();
        let numbered = list.iter().enumerate();
        let numbers = numbered.map(|(index, actor)| (*actor, ActorId::new(index)));
        Self {
            numbers: numbers.collect(),
            list,
        }
    }

    /// The number of an actor; an actor without one is given the next.
    pub(crate) fn number(&mut self, actor: Actor) -> ActorId {
        *self.numbers.entry(actor).or_insert_with(|| {
            self.list.push(actor);
            ActorId::new(self.list.len() - 1)
        })
    }

    /// The number of an actor that already has one.
    pub(crate) fn find(&self, actor: Actor) -> Option<ActorId> {
        self.numbers.get(&actor).copied()
    }

    pub(crate) fn get(&self, id: ActorId) -> Actor {
        self.list[id.index()]
    }
}

/// An mbarrier of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MbarrierId {
    pub(crate) cta: u16,
    /// Shared address in the CTA.
    pub(crate) address: u32,
}
