//! Launches on ranks that are timed together: those between two comparisons.

use std::sync::Arc;

use super::bed::Bed;
use super::bench::{BenchOptions, Timing, Track};
use super::beside::{Beside, Match};
use super::outputs::Outputs;
use crate::error::Result;
use crate::peer::Peer;
use crate::world::{World, WorldLaunch};

/// Launches on all ranks that wait for being timed.
#[derive(Default)]
pub(super) struct RanksChain {
    links: Vec<RanksLink>,
}

/// One launch on all ranks, with each copy of the tensors.
pub(super) struct RanksLink {
    pub(super) name: String,
    pub(super) copies: Vec<WorldLaunch>,
}

impl RanksChain {
    pub(super) fn push(&mut self, link: RanksLink) {
        self.links.push(link);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    /// Times the chain beside its peers; nothing if it is empty.
    pub(super) fn time(
        self,
        (bed, world, options): (&Bed, &Arc<World>, BenchOptions),
        peers: Vec<Peer>,
        outputs: &Outputs,
    ) -> Result<Option<Timing>> {
        let Some(copies) = self.links.iter().map(|link| link.copies.len()).min() else {
            return Ok(None);
        };
        let names: Vec<&str> = self.links.iter().map(|link| link.name.as_str()).collect();
        let name = format!("{} on {} ranks", names.join(" + "), world.ranks());
        let beside = peers.into_iter().map(|peer| Beside::OnRanks {
            tolerance: peer.tolerance(),
            rivals: peer.rivals_on_ranks(world, copies),
        });
        let (beside, links, on) = (beside.collect(), self.links, Arc::clone(world));
        let contest = Match {
            bed,
            track: Track::All(world),
            options,
            name,
            overlapping: 0,
            launch: Box::new(move |_, copy| {
                let mut links = links.iter();
                links.try_for_each(|link| link.copies[copy].enqueue(&on))
            }),
            parts: Vec::new(),
            copies,
            beside,
            outputs,
        };
        contest.time().map(Some)
    }
}
