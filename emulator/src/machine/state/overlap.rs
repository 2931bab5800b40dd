//! Launches that may run at the same time, and what they access.

use crate::global::AllocationMap;
use crate::machine::order::GlobalShadow;
use crate::program::{Code, Program};
use std::sync::Arc;

/// A launch and those that it overlaps (programmatic dependent launch).
#[derive(Debug)]
pub(crate) struct Overlap {
    pub(crate) shadow: GlobalShadow,
    /// By number. The last is the launch itself.
    launches: Vec<Arc<Launched>>,
}

/// A launch, as reports of later ones name it.
#[derive(Debug)]
pub(crate) struct Launched {
    pub(crate) program: Program,
    pub(crate) code: Arc<Code>,
}

impl Overlap {
    /// For a launch that sees these allocations. `before` are those that it overlaps.
    pub(crate) fn new(launched: Launched, map: &AllocationMap, before: Option<&Self>) -> Self {
        let allocations = map.list().iter();
        let allocations = allocations.map(|allocation| (allocation.base, allocation.bytes));
        let granule_bits = launched.code.global_granule_bits;
        let shadow = before.map(|before| &before.shadow);
        let mut launches = before.map_or_else(Vec::new, |before| before.launches.clone());
        launches.push(Arc::new(launched));
        Self {
            shadow: GlobalShadow::new(allocations, granule_bits, shadow),
            launches,
        }
    }

    /// The launch with a number.
    pub(crate) fn launched(&self, number: u32) -> &Launched {
        &self.launches[number as usize]
    }
}
