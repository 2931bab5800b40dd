//! Phases of an mbarrier: when one completes, and which waiting paths then continue.

use crate::fault::Stepped;
use crate::machine::order::{Actor, Clock, Clocks, Kind, Lane, MbarrierId, Stamp};
use crate::machine::state::cluster::Cluster;
use crate::machine::state::copies::Destination;
use crate::machine::state::mbarrier::{By, Mbarrier, Observer};
use crate::machine::state::warp::{PhaseName, Wait, Warp};
use crate::machine::units::mbarrier::misuse::{
    aliased, check_bytes, not_expected, not_made, overtaken,
};

/// The help of a report that only a strict launch makes.
const BY_PRODUCT: &str = "a wait for a product is complete for the executing threads (PTX ISA 9.7.15.7.3), and says nothing of the other \
                          warps of the warpgroup: each of its warps arrives, and the mbarrier counts all of them";

impl Cluster {
    /// The mbarrier at an address.
    pub(crate) fn mbarrier(&mut self, id: MbarrierId, lanes: u32) -> Stepped<&mut Mbarrier> {
        let found = self.ctas[usize::from(id.cta)]
            .mbarriers
            .get_mut(&id.address);
        found.ok_or_else(|| not_made(lanes, id))
    }

    /// An access of a copy that the current phase of an mbarrier counts.
    pub(crate) fn counted(&mut self, id: MbarrierId, step: u32, kind: Kind) -> Stepped<Stamp> {
        let mbarrier = self.mbarrier(id, 0)?;
        Ok(Stamp {
            actor: mbarrier.actor,
            epoch: mbarrier.epoch() + 1,
            step,
            kind,
            lane: Lane::UNKNOWN,
        })
    }

    /// Completes the phase when no arrivals and bytes are pending, and wakes the paths that wait for it.
    pub(crate) fn finish_phase(&mut self, id: MbarrierId, running: Option<&mut Warp>) -> Stepped {
        let mbarrier = self.mbarrier(id, 0)?;
        if mbarrier.pending != 0 || mbarrier.bytes != 0 {
            return Ok(());
        }
        let arriving = std::mem::take(&mut mbarrier.arriving.ordered);
        if let Some(wait) = self.unknown_observer(id, &arriving)? {
            let name = self.name(wait.stamp.actor);
            let by_product = self.has_gone_on(&wait, &arriving);
            let report = aliased(self.mbarrier(id, 0)?, id, (&name, wait.stamp.step));
            return Err(if by_product {
                report.help(BY_PRODUCT)
            } else {
                report
            });
        }
        let mbarrier = self.mbarrier(id, 0)?;
        mbarrier.observers.0.clear();
        mbarrier.arriving.ordered = arriving;
        mbarrier.phase += 1;
        mbarrier.completed_at = std::mem::take(&mut mbarrier.arriving_at);
        mbarrier.pending = mbarrier.count;
        mbarrier.before = std::mem::take(&mut mbarrier.current);
        let arrived = std::mem::take(&mut mbarrier.arriving);
        mbarrier.completed.join(&arrived);
        let (actor, epoch) = (mbarrier.actor, mbarrier.epoch());
        mbarrier.completed.advance(actor, epoch);
        self.timeouts = 0;
        self.check_not_expected(id, "this ends a phase of")?;
        let warps = self.ctas.iter_mut().flat_map(|cta| &mut cta.warps);
        let mut overtaken_wait = None;
        for warp in warps.chain(running) {
            if let Some(path) = wake(warp, id) {
                overtaken_wait = Some((warp.actor, path));
            }
        }
        match overtaken_wait {
            None => Ok(()),
            Some((warp, path)) => {
                let name = self.name(warp);
                Err(overtaken(self.mbarrier(id, 0)?, id, &name, path))
            }
        }
    }

    /// A wait that has observed the end of the last phase and does not happen before.
    pub(crate) fn unknown_observer(
        &mut self,
        id: MbarrierId,
        ordered: &Clock,
    ) -> Stepped<Option<Observer>> {
        let observers = self.mbarrier(id, 0)?.observers.0.clone();
        let is_unknown = |observer: &&Observer| {
            let is_ordered = ordered.has(&observer.stamp);
            !is_ordered && (observer.strict || !self.has_gone_on(observer, ordered))
        };
        Ok(observers.iter().find(is_unknown).copied())
    }

    /// The warp has issued a product since, and that is complete: the four warps of a warpgroup issue their products together.
    fn has_gone_on(&self, observer: &Observer, ordered: &Clock) -> bool {
        let Actor::Warp { cta, warp } = self.actors.get(observer.stamp.actor) else {
            return false;
        };
        let warpgroup = warp / 4;
        let of_warps =
            (warpgroup * 4..warpgroup * 4 + 4).map(|warp| Actor::ProductsOfWarp { cta, warp });
        let actors = of_warps.chain([Actor::Products { cta, warpgroup }]);
        let mut known = actors.filter_map(|actor| self.actors.find(actor));
        known.any(|actor| ordered.includes(actor, observer.product))
    }

    /// No copy in flight may count on a phase that has completed.
    pub(crate) fn check_not_expected(&mut self, id: MbarrierId, ends: &str) -> Stepped {
        let mut in_flight = self.pending.iter();
        let Some(copy) = in_flight.find(|copy| copy.counts_on(id)) else {
            return Ok(());
        };
        let step = copy.step;
        Err(not_expected(self.mbarrier(id, 0)?, id, ends, step))
    }

    /// A copy has delivered `bytes` bytes (`complete_tx`); `carried` is what happened before its issue.
    pub(crate) fn complete_bytes(
        &mut self,
        to: &Destination,
        bytes: u32,
        (by, carried, arrives_at): (By, &Clocks, u64),
    ) -> Stepped {
        let id = to.mbarrier;
        let most = self.target.mbarrier.transaction_bytes;
        let mbarrier = self.mbarrier(id, 0)?;
        mbarrier.bytes -= i64::from(bytes);
        mbarrier.counted_by = by;
        mbarrier.current.has_bytes = true;
        mbarrier.arriving_at = mbarrier.arriving_at.max(arrives_at);
        mbarrier.arriving.join(carried);
        check_bytes(mbarrier, id, most)?;
        self.finish_phase(id, None)
    }
}

/// Wakes the paths that wait for the phase that has completed. Returns the step of one that was woken by the phase before and
/// has not run since: it tests a parity, and would see it unchanged.
fn wake(warp: &mut Warp, id: MbarrierId) -> Option<u32> {
    let mut overtaken_wait = None;
    for path in &mut warp.paths {
        match path.wait {
            Wait::Mbarrier(of, name) if of == id => path.wait = Wait::PhaseOver(id, name),
            Wait::PhaseOver(of, PhaseName::Parity) if of == id => overtaken_wait = Some(path.pc),
            _ => {}
        }
    }
    overtaken_wait
}
