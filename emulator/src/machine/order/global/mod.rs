//! The shadow of global memory: for each granule, the last weak write and a few later accesses.
//!
//! Memory is divided into shards of 64 KiB; a shard has a shadow from its first access in a launch on. A granule is the smallest access
//! of the kernel, at most four bytes, and costs six bytes of shadow, two of them for lanes; granules with the same accesses share a state.
//! So the shadow takes one and a half to two and a half times the memory that a launch touches, and six times where it accesses single bytes. Past [`MOST_SHARDS`] shards memory
//! has no shadow: races there are missed, and there are no false reports.

mod access;
mod shard;

pub(crate) use access::{GlobalAccess, GlobalConflict, GlobalStamp};

use super::releases::Releases;
use super::stamp::{Range, Run};
use rustc_hash::FxHashMap;
use shard::{Marker, SHARD_BYTES, Shard};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The most shards of launches that overlap: 2 GiB of memory.
const MOST_SHARDS: usize = 1 << 15;

/// Number of locks for released addresses: enough that unrelated addresses rarely share a lock.
const STRIPES: usize = 64;

/// The shadow of one allocation.
#[derive(Debug)]
struct Area(Box<[OnceLock<Box<Mutex<Shard>>>]>);

/// The shadow of all memory that a launch, or several overlapping launches, can access.
#[derive(Debug)]
pub(crate) struct GlobalShadow {
    /// Indexed by the number of the allocation.
    areas: Vec<(u64, Arc<Area>)>,
    granule_bits: u32,
    /// Shards of all allocations together.
    shards: Arc<AtomicUsize>,
    /// Releases of strong writes by address, under striped locks.
    releases: Box<[Mutex<FxHashMap<u64, Releases>>; STRIPES]>,
    /// Number of the launch among those that overlap.
    pub(crate) launch: u32,
    /// Launches in front of this number have ended before it begins.
    ended: OnceLock<u32>,
}

impl GlobalShadow {
    /// The launch begins, and so many of those that it overlaps have ended.
    pub(crate) fn begin(&self, ended: u32) {
        self.ended.get_or_init(|| ended);
    }

    /// Launches in front of this number have ended before this one begins.
    pub(crate) fn ended(&self) -> u32 {
        self.ended.get().copied().unwrap_or(0)
    }

    /// The shadow for a launch that can access these allocations, each given by address and bytes. `before` are the launches that it overlaps.
    pub(crate) fn new(
        allocations: impl Iterator<Item = (u64, u64)>,
        granule_bits: u32,
        before: Option<&Self>,
    ) -> Self {
        let old: BTreeMap<u64, &Arc<Area>> = before
            .iter()
            .flat_map(|shadow| &shadow.areas)
            .map(|(base, area)| (*base, area))
            .collect();
        let area = |(base, bytes): (u64, u64)| {
            let known = old.get(&base).map(|area| Arc::clone(area));
            (base, known.unwrap_or_else(|| Arc::new(Area::new(bytes))))
        };
        let shadow = Self {
            areas: allocations.map(area).collect(),
            granule_bits: before
                .map_or(granule_bits, |before| before.granule_bits.min(granule_bits)),
            shards: before.map_or_else(Arc::default, |before| Arc::clone(&before.shards)),
            releases: Box::new(std::array::from_fn(|_| Mutex::default())),
            launch: before.map_or(0, |before| before.launch + 1),
            ended: OnceLock::new(),
        };
        if before.is_some() {
            let areas = shadow.areas.iter().flat_map(|(_, area)| &area.0);
            areas
                .filter_map(OnceLock::get)
                .for_each(|shard| locked(shard).refine(shadow.granule_bits));
        }
        shadow
    }

    /// Records accesses to runs of an allocation, in this order. Returns the first that races, with the earlier access.
    pub(crate) fn access(
        &self,
        allocation: usize,
        runs: impl Iterator<Item = Run>,
        access: &GlobalAccess<'_>,
    ) -> Result<(), (Range, GlobalConflict)> {
        let mut held: Option<(usize, MutexGuard<'_, Shard>, Marker)> = None;
        for run in runs {
            let mut rest = run;
            while rest.range.1 > 0 {
                let (at, bytes) = rest.range;
                let number = at / SHARD_BYTES;
                let (part, behind) = rest.split_at(bytes.min((number + 1) * SHARD_BYTES - at));
                if held.as_ref().is_none_or(|(of, ..)| *of != number) {
                    // One lock at a time: two workers that each hold one and wait for the other's would deadlock.
                    drop(held.take());
                    let shard = self.shard(allocation, number);
                    held = shard.map(|shard| (number, locked(shard), Marker::default()));
                }
                if let Some((_, shard, marker)) = &mut held {
                    let part = Run {
                        range: (at % SHARD_BYTES, part.range.1),
                        ..part
                    };
                    shard
                        .mark(marker, part, access)
                        .map_err(|conflict| (run.range, conflict))?;
                }
                rest = behind;
            }
        }
        Ok(())
    }

    /// Executes `work`, a strong operation on an address, on the address's releases under their lock.
    pub(crate) fn with_releases<T>(
        &self,
        address: u64,
        work: impl FnOnce(&mut Releases) -> T,
    ) -> T {
        let stripe = address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
        let releases = &self.releases[stripe as usize];
        let mut releases = releases.lock().unwrap_or_else(PoisonError::into_inner);
        work(releases.entry(address).or_default())
    }

    fn shard(&self, allocation: usize, number: usize) -> Option<&Mutex<Shard>> {
        let slot = &self.areas[allocation].1.0[number];
        if let Some(shard) = slot.get() {
            return Some(shard);
        }
        if self.shards.fetch_add(1, Relaxed) >= MOST_SHARDS {
            return None;
        }
        let made = slot.get_or_init(|| Box::new(Mutex::new(Shard::new(self.granule_bits))));
        Some(made)
    }
}

impl Area {
    fn new(bytes: u64) -> Self {
        let shards = (bytes as usize).div_ceil(SHARD_BYTES);
        Self((0..shards).map(|_| OnceLock::new()).collect())
    }
}

/// A poisoned lock is taken: nothing panics while a shard is inconsistent.
fn locked(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::order::stamp::{Kind, Lane, Stamp};
    use crate::machine::order::{ActorId, Clocks, Fences, Place};
    use ptx::Scope;

    fn access(shadow: &GlobalShadow, cluster: u32, kind: Kind, range: Range) -> bool {
        let stamp = GlobalStamp {
            launch: shadow.launch,
            from: Place {
                cluster,
                ..Place::default()
            },
            warp: 0,
            scope: Scope::Gpu,
            stamp: Stamp {
                epoch: 1,
                step: 0,
                actor: ActorId::new(0),
                kind,
                lane: Lane::UNKNOWN,
            },
        };
        let access = GlobalAccess {
            stamp,
            repeats: false,
            ended: shadow.ended(),
            clocks: &Clocks::default(),
        };
        let runs = std::iter::once(Run::from(range));
        shadow.access(0, runs, &access).is_err()
    }

    #[test]
    fn an_access_over_two_shards_is_remembered_in_both() {
        let shadow = GlobalShadow::new(std::iter::once((0, 1 << 17)), 2, None);
        assert!(!access(&shadow, 1, Kind::WRITE, (SHARD_BYTES - 8, 16)));
        assert!(access(&shadow, 2, Kind::READ, (SHARD_BYTES - 8, 4)));
        assert!(access(&shadow, 2, Kind::READ, (SHARD_BYTES + 4, 4)));
        assert!(!access(&shadow, 2, Kind::READ, (SHARD_BYTES + 8, 4)));
    }

    #[test]
    fn a_launch_that_overlaps_another_finds_what_that_one_accessed() {
        let allocations = || std::iter::once((256, 1 << 16));
        let first = GlobalShadow::new(allocations(), 2, None);
        assert!(!access(&first, 1, Kind::WRITE, (8, 4)));
        let second = GlobalShadow::new(allocations(), 0, Some(&first));
        assert!(access(&second, 1, Kind::READ, (11, 1)));
        assert!(!access(&second, 1, Kind::READ, (12, 1)));
        let alone = GlobalShadow::new(allocations(), 0, None);
        assert!(!access(&alone, 1, Kind::READ, (11, 1)));
    }

    #[test]
    fn each_address_has_releases_of_its_own() {
        let shadow = GlobalShadow::new(std::iter::empty(), 2, None);
        // There are more addresses than locks, so some share one.
        for address in (0..4 * STRIPES as u64).map(|word| word * 4) {
            let is_new = shadow.with_releases(address, |releases| {
                let strong = crate::program::Strong {
                    scope: Scope::Gpu,
                    acquires: true,
                    releases: true,
                };
                let place = Place::default();
                let mut reader = Clocks::default();
                releases.read((strong, place), &mut reader, &mut Fences::default());
                let mut writer = Clocks::default();
                writer.advance(ActorId::new(0), 1);
                let fences = Fences::default();
                releases.write((strong, place), true, (&writer, &fences));
                !reader.visible.includes(ActorId::new(0), 1)
            });
            assert!(is_new, "{address:#x}");
        }
    }
}
