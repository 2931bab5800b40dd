//! mbarriers: arrivals, transaction counts, phases (PTX ISA 9.7.13.15).

mod execute;
mod misuse;

use super::cta::Cluster;
use super::engine::Destination;
use super::order::{ActorId, Clock, Kind, Knowledge, Stamp};
use super::run::{Scene, Stepped};
use super::warp::{PhaseName, Wait, Warp};
use misuse::{check_bytes, not_expected, not_made, overtaken};
use smallvec::SmallVec;

/// The largest count of arrivals, and of transaction bytes (PTX ISA 9.7.13.15.3).
const MAX_COUNT: u32 = (1 << 20) - 1;

/// An mbarrier, found by its address. Its memory only says that it is initialised.
#[derive(Clone, Debug)]
pub(crate) struct Mbarrier {
    /// Arrivals that complete a phase.
    pub(crate) count: u32,
    /// Arrivals that are missing.
    pub(crate) pending: u32,
    /// Bytes that are announced and have not come, or that came before they were announced.
    pub(crate) bytes: i64,
    /// Number of the current phase.
    pub(crate) phase: u64,
    /// Who made it.
    pub(crate) init: Stamp,
    /// As which its copies access memory, and the phases completed by those that were here before.
    actor: ActorId,
    first_epoch: u32,
    /// Who changed the number of bytes last.
    counted_by: By,
    arriving: Knowledge,
    completed: Knowledge,
    /// What the current phase has had, and the one before.
    current: Arrivals,
    before: Arrivals,
}

/// A warp at a step.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct By {
    pub(crate) cta: usize,
    pub(crate) warp: u32,
    pub(crate) step: u32,
}

/// What a phase has had.
#[derive(Clone, Debug, Default)]
struct Arrivals {
    /// The last of each warp.
    stamps: SmallVec<[Stamp; 4]>,
    has_bytes: bool,
}

impl Arrivals {
    fn add(&mut self, stamp: Stamp) {
        match self.stamps.iter_mut().find(|old| old.actor == stamp.actor) {
            Some(old) => *old = stamp,
            None => self.stamps.push(stamp),
        }
    }

    /// One of which it is not known that it has come.
    fn unknown(&self, came: &Clock) -> Option<Stamp> {
        let mut stamps = self.stamps.iter();
        stamps
            .find(|stamp| !came.knows(stamp.actor, stamp.epoch))
            .copied()
    }
}

impl Mbarrier {
    /// Phases completed here, of all mbarriers.
    fn epoch(&self) -> u32 {
        self.first_epoch + self.phase as u32
    }
}

/// An mbarrier of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MbarrierId {
    pub(crate) cta: u16,
    /// Shared address in the CTA.
    pub(crate) address: u32,
}
impl Cluster {
    /// The mbarrier at an address.
    pub(crate) fn mbarrier(&mut self, id: MbarrierId, lanes: u32) -> Stepped<&mut Mbarrier> {
        let found = self.ctas[usize::from(id.cta)]
            .mbarriers
            .get_mut(&id.address);
        found.ok_or_else(|| not_made(lanes, id))
    }

    /// Has the mbarrier, or one that was there before, completed so many phases?
    pub(crate) fn has_completed(&self, id: MbarrierId, epoch: u32) -> bool {
        let cta = &self.ctas[usize::from(id.cta)];
        let now = cta.mbarriers.get(&id.address).map(Mbarrier::epoch);
        let ended = || cta.ended_mbarriers.get(&id.address).copied();
        now.or_else(ended).unwrap_or(0) >= epoch
    }

    /// An access by what the current phase of an mbarrier counts.
    pub(crate) fn counted(&mut self, id: MbarrierId, step: u32, kind: Kind) -> Stepped<Stamp> {
        let mbarrier = self.mbarrier(id, 0)?;
        Ok(Stamp {
            actor: mbarrier.actor,
            epoch: mbarrier.epoch() + 1,
            step,
            kind,
        })
    }

    /// Ends the phase when nothing is missing, and lets those who wait for it go on.
    fn finish_phase(&mut self, id: MbarrierId, running: Option<&mut Warp>) -> Stepped {
        let mbarrier = self.mbarrier(id, 0)?;
        if mbarrier.pending != 0 || mbarrier.bytes != 0 {
            return Ok(());
        }
        mbarrier.phase += 1;
        mbarrier.pending = mbarrier.count;
        mbarrier.before = std::mem::take(&mut mbarrier.current);
        let arrived = std::mem::take(&mut mbarrier.arriving);
        mbarrier.completed.join(&arrived);
        let (actor, epoch) = (mbarrier.actor, mbarrier.epoch());
        mbarrier.completed.learn(actor, epoch);
        self.timeouts = 0;
        self.check_not_expected(id, "this ends a phase of")?;
        let warps = self.ctas.iter_mut().flat_map(|cta| &mut cta.warps);
        let mut outrun = None;
        for warp in warps.chain(running) {
            if let Some(path) = wake(warp, id) {
                outrun = Some((warp.actor, path));
            }
        }
        match outrun {
            None => Ok(()),
            Some((warp, path)) => {
                let name = self.name(warp);
                Err(overtaken(self.mbarrier(id, 0)?, id, &name, path))
            }
        }
    }

    /// A phase that has ended must not have copies under way.
    fn check_not_expected(&mut self, id: MbarrierId, ends: &str) -> Stepped {
        let mut under_way = self.pending.iter();
        let Some(copy) = under_way.find(|copy| copy.counts_on(id)) else {
            return Ok(());
        };
        let step = copy.step;
        Err(not_expected(self.mbarrier(id, 0)?, id, ends, step))
    }

    /// The asynchronous engine has brought `bytes` bytes, by a copy that was started when this had come.
    pub(crate) fn complete_bytes(
        &mut self,
        to: &Destination,
        bytes: u32,
        (by, came): (By, &Clock),
    ) -> Stepped {
        let id = to.mbarrier;
        let mbarrier = self.mbarrier(id, 0)?;
        mbarrier.bytes -= i64::from(bytes);
        mbarrier.counted_by = by;
        mbarrier.current.has_bytes = true;
        mbarrier.arriving.came.join(came);
        check_bytes(mbarrier, id)?;
        self.finish_phase(id, None)
    }
}

impl Scene<'_> {
    /// The executing warp at its step.
    pub(crate) fn by(&self) -> By {
        By {
            cta: self.cta,
            warp: self.warp.index,
            step: self.path.pc,
        }
    }
}

/// Lets paths go on that wait for the phase that has ended. Gives the step of one that has not gone on since the phase before:
/// it asks for a parity, and finds it missing again.
fn wake(warp: &mut Warp, id: MbarrierId) -> Option<u32> {
    let mut outrun = None;
    for path in &mut warp.paths {
        match path.wait {
            Wait::Mbarrier(of, name) if of == id => path.wait = Wait::PhaseOver(id, name),
            Wait::PhaseOver(of, PhaseName::Parity) if of == id => outrun = Some(path.pc),
            _ => {}
        }
    }
    outrun
}
