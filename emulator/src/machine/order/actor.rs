//! The actors that access shared and global memory.

use std::collections::BTreeMap;

/// Number of an actor in its cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ActorId(u16);

impl ActorId {
    pub(crate) fn new(index: usize) -> Self {
        // A cluster has 512 warps at most, and barriers and bulk groups take turns at the same addresses and threads.
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
    /// A warp of a CTA, which accesses by the generic proxy.
    Warp { cta: u16, warp: u16 },
    /// Copies that count on an mbarrier, whichever was initialised at that address.
    Mbarrier(MbarrierId),
    /// Asynchronous products of a warpgroup.
    Products { cta: u16, warpgroup: u16 },
    /// What bulk stores of a thread read.
    BulkGroups { cta: u16, warp: u16, lane: u16 },
    /// What they write, which is over later.
    BulkWrites { cta: u16, warp: u16, lane: u16 },
}

/// The actors of a cluster: its warps, then others in the order in which they first acted.
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

    /// The number of an actor, which gets one when it first acts.
    pub(crate) fn number(&mut self, actor: Actor) -> ActorId {
        *self.numbers.entry(actor).or_insert_with(|| {
            self.list.push(actor);
            ActorId::new(self.list.len() - 1)
        })
    }

    /// The number of an actor that has acted.
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
