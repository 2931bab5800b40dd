//! Launches that may run at the same time, and what they access.

use crate::global::AllocationMap;
use crate::machine::order::{GlobalShadow, GlobalStamp, Place};
use crate::machine::state::host::Host;
use crate::machine::state::launch::Launch;
use crate::program::{Code, Program};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// A launch and those that it overlaps (programmatic dependent launch).
#[derive(Debug)]
pub(crate) struct Overlap {
    pub(crate) shadow: GlobalShadow,
    /// The allocations that the launch sees.
    pub(crate) map: Arc<AllocationMap>,
    host: Mutex<Host>,
    /// By number, the launch itself last; or of devices that run as one, by rank.
    launches: Vec<Arc<Launched>>,
    of_devices: bool,
}

/// A launch, as reports of later ones name it.
#[derive(Debug)]
pub(crate) struct Launched {
    pub(crate) program: Program,
    pub(crate) code: Arc<Code>,
    pub(crate) launch: Launch,
    /// Clusters of the devices before its own.
    pub(crate) first_cluster: u32,
    /// A later launch may begin before those that this one overlaps have ended.
    pub(crate) begins_early: OnceLock<()>,
}

impl Launched {
    /// Grid coordinates of the CTA of an access.
    pub(crate) fn cta_of(&self, from: Place) -> [u32; 3] {
        let cluster = from.cluster - self.first_cluster;
        self.launch.cta_index(cluster.into(), from.cta.into())
    }
}

impl Overlap {
    /// For a launch that sees these allocations. `before` are those that it overlaps.
    pub(crate) fn new(launched: Launched, map: &Arc<AllocationMap>, before: Option<&Self>) -> Self {
        let allocations = map.list().iter();
        let allocations = allocations.map(|allocation| (allocation.base, allocation.bytes));
        let mut granule_bits = launched.code.global_granule_bits;
        if launched.launch.beside_host {
            // The host accesses elements of mapped memory one by one.
            let mapped = map
                .list()
                .iter()
                .filter_map(|mapped| mapped.host_granule_bits);
            granule_bits = mapped.fold(granule_bits, u32::min);
        }
        let shadow = before.map(|before| &before.shadow);
        let mut launches = before.map_or_else(Vec::new, |before| before.launches.clone());
        launches.push(Arc::new(launched));
        Self {
            shadow: GlobalShadow::new(allocations, granule_bits, shadow),
            map: Arc::clone(map),
            host: Mutex::new(Host::new()),
            launches,
            of_devices: false,
        }
    }

    /// For launches of devices that run as one and see these allocations of all of them.
    pub(crate) fn of_devices(launches: Vec<Arc<Launched>>, map: &Arc<AllocationMap>) -> Self {
        let allocations = map.list().iter();
        let allocations = allocations.map(|allocation| (allocation.base, allocation.bytes));
        let granules = launches
            .iter()
            .map(|launched| launched.code.global_granule_bits);
        let granule_bits = granules.min().unwrap_or(2);
        Self {
            shadow: GlobalShadow::new(allocations, granule_bits, None),
            map: Arc::clone(map),
            host: Mutex::new(Host::new()),
            launches,
            of_devices: true,
        }
    }

    /// The host beside it. What it keeps is whole before anything can panic.
    pub(crate) fn host(&self) -> MutexGuard<'_, Host> {
        self.host.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread lets later launches begin before the launches in front have ended for it.
    pub(crate) fn begins_early(&self) {
        if let (false, Some(own)) = (self.of_devices, self.launches.last()) {
            own.begins_early.get_or_init(|| ());
        }
    }

    /// How many launches of this chain have ended before this one begins: those that one between waited for, all of whose threads did so before they let it begin
    /// (`griddepcontrol.launch_dependents`, or their end). That one has run when this one does.
    pub(crate) fn ended(&self) -> u32 {
        let own = self.launches.len() - 1;
        let waited = |number: &usize| self.launches[*number].begins_early.get().is_none();
        (1..own).rev().find(waited).unwrap_or(0) as u32
    }

    /// The launch that made an access.
    pub(crate) fn launched(&self, access: &GlobalStamp) -> &Launched {
        let number = if self.of_devices {
            access.from.device.into()
        } else {
            access.launch as usize
        };
        &self.launches[number]
    }
}
