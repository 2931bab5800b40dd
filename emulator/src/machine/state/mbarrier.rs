//! What an mbarrier holds (PTX ISA 9.7.13.15).

use crate::machine::order::{ActorId, Clock, Clocks, Stamp};
use smallvec::SmallVec;

/// An mbarrier, found by its address. Its memory only says that it is initialised.
#[derive(Clone, Debug)]
pub(crate) struct Mbarrier {
    /// Arrivals that complete a phase.
    pub(crate) count: u32,
    /// Arrivals that are missing.
    pub(crate) pending: u32,
    /// The transaction count: bytes expected less bytes delivered, which is negative when they are delivered first.
    pub(crate) bytes: i64,
    /// Number of the current phase.
    pub(crate) phase: u64,
    /// Its initialisation.
    pub(crate) init: Stamp,
    /// The epoch of the initialising warp in which `fence.mbarrier_init` published it, if it did.
    pub(crate) published: Option<u32>,
    /// Waits that have observed the end of the last phase.
    pub(crate) observers: Observers,
    /// As which its copies access memory, and the phases completed by those that were here before.
    pub(crate) actor: ActorId,
    pub(crate) first_epoch: u32,
    /// The warp that changed the transaction count last.
    pub(crate) counted_by: By,
    pub(crate) arriving: Clocks,
    pub(crate) completed: Clocks,
    /// When the last arrival or copy of the current phase came, and when the one before completed, where a launch models time.
    pub(crate) arriving_at: u64,
    pub(crate) completed_at: u64,
    /// What the current phase has had, and the one before.
    pub(crate) current: Arrivals,
    pub(crate) before: Arrivals,
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
pub(crate) struct Arrivals {
    /// The last of each warp.
    pub(crate) stamps: SmallVec<[Stamp; 4]>,
    pub(crate) has_bytes: bool,
}

impl Arrivals {
    pub(crate) fn add(&mut self, stamp: Stamp) {
        match self.stamps.iter_mut().find(|old| old.actor == stamp.actor) {
            Some(old) => *old = both(*old, stamp),
            None => self.stamps.push(stamp),
        }
    }

    /// An arrival that does not happen before.
    pub(crate) fn unknown(&self, ordered: &Clock) -> Option<Stamp> {
        self.stamps
            .iter()
            .find(|stamp| !ordered.has(stamp))
            .copied()
    }
}

/// The later of two of a warp, which stands for both.
fn both(old: Stamp, new: Stamp) -> Stamp {
    let lane = old.lane.and(new.lane);
    Stamp { lane, ..new }
}

/// A wait that has observed the end of a phase.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observer {
    pub(crate) stamp: Stamp,
    /// The product of its warpgroup that the warp issues next: whoever has waited for that knows that the warp came so far.
    pub(crate) product: u32,
    /// The PTX ISA says that of the executing threads alone, and the launch asks for no more (`Checks::strict`).
    pub(crate) strict: bool,
}

/// The last such wait of each warp.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observers(pub(crate) SmallVec<[Observer; 4]>);

impl Observers {
    pub(crate) fn add(&mut self, new: Observer) {
        let is_same = |old: &&mut Observer| old.stamp.actor == new.stamp.actor;
        match self.0.iter_mut().find(is_same) {
            Some(old) => {
                let stamp = both(old.stamp, new.stamp);
                *old = Observer { stamp, ..new };
            }
            None => self.0.push(new),
        }
    }
}

impl Mbarrier {
    /// `fence.mbarrier_init` of the thread that initialised it, if it executed one.
    pub(crate) fn publication(&self) -> Option<Stamp> {
        let epoch = self.published?;
        Some(Stamp { epoch, ..self.init })
    }

    /// Phases completed here, of all mbarriers.
    pub(crate) fn epoch(&self) -> u32 {
        self.first_epoch + self.phase as u32
    }
}
