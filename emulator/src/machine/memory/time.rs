//! What accesses take in the model of time.

use crate::lanes::{PerLane, lanes_of};
use crate::machine::memory::address::Target;
use crate::machine::state::scene::{Scene, Worker};
use crate::machine::state::transactions::{sectors, wavefronts};
use crate::program::windows;

/// What a warp does at its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Does {
    Load {
        /// L1 may have it.
        asks_l1: bool,
    },
    /// A store, or an update that gives nothing back.
    Store,
}

impl Worker<'_> {
    /// A warp accesses `bytes` at each of these addresses; what it loads is there when memory has sent it.
    pub(crate) fn time_access(
        &self,
        scene: &mut Scene<'_>,
        target: Target,
        (lanes, addresses): (u32, &PerLane),
        (bytes, does): (u32, Does),
    ) {
        let Some(timing) = &self.context.timing else {
            return;
        };
        let own = scene.cta;
        let units = &mut scene.cluster.ctas[own].units;
        let now = scene.warp.time.issued;
        let ready = match (target, does) {
            (Target::Global, Does::Load { asks_l1 }) => {
                units.load(now, &sectors(addresses, lanes, bytes), asks_l1)
            }
            (Target::Global, Does::Store) => {
                units.store_sectors(now, &sectors(addresses, lanes, bytes));
                now
            }
            (Target::Shared, _) => {
                let is_remote = |lane: &usize| {
                    let owner = (addresses[*lane] >> windows::CTA_SHIFT) as usize;
                    owner != 0 && owner - 1 != own
                };
                let far = lanes_of(lanes).filter(is_remote).count() as u64;
                match does {
                    _ if far > 0 => units.remote_access(now, far * u64::from(bytes)),
                    Does::Load { .. } => {
                        units.load_shared(now, wavefronts(addresses, lanes, bytes))
                    }
                    Does::Store => {
                        units.store_shared(now, wavefronts(addresses, lanes, bytes));
                        now
                    }
                }
            }
            _ => return,
        };
        if does != Does::Store {
            timing.delay(scene.path.pc, &mut scene.warp.time, ready);
        }
    }
}
