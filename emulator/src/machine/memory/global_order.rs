//! Accesses to global memory against its shadow: which race, and what strong operations release and acquire.

use crate::fault::Stepped;
use crate::lanes::{LANES, lanes_of};
use crate::machine::memory::element::get_elements;
use crate::machine::memory::global_races::race;
use crate::machine::memory::lane_group::Group;
use crate::machine::order::{Clocks, GlobalAccess, GlobalStamp, Kind, Place, Range, Stamp};
use crate::machine::state::copies::{Other, Pending};
use crate::machine::state::scene::{Scene, Worker};
use crate::program::{Access, Strong};
use ptx::Scope;
use std::sync::atomic::{Ordering, fence};
use target::TENSOR_MAP_BYTES;

impl Scene<'_> {
    pub(crate) fn place(&self) -> Place {
        Place {
            cluster: self.cluster.index as u32,
            cta: self.cta as u16,
        }
    }
}

/// The lanes that store what is there already.
fn repeated(scene: &Scene<'_>, access: &Access, group: &Group) -> u32 {
    let mut lanes = group.lanes;
    let keep = u64::MAX >> (64 - access.element * 8);
    for (part, &cell) in access.cells.iter().enumerate() {
        let values = get_elements(&scene.warp.regs, cell);
        for lane in lanes_of(lanes) {
            let at = group.offsets[lane] + part * access.element as usize;
            if group.allocation.element(at, access.element) != values[lane] & keep {
                lanes &= !(1 << lane);
            }
        }
    }
    lanes
}

impl Worker<'_> {
    /// An access to ranges of an allocation: of the executing warp, or of what it starts.
    pub(crate) fn access_global(
        &self,
        scene: &Scene<'_>,
        allocation: usize,
        lanes: u32,
        ranges: impl Iterator<Item = Range>,
        stamp: (Stamp, Scope),
    ) -> Stepped {
        self.access_global_as(scene, allocation, lanes, ranges, (stamp, false))
    }

    /// The same; `repeats` says that it stores what is there already.
    fn access_global_as(
        &self,
        scene: &Scene<'_>,
        allocation: usize,
        lanes: u32,
        ranges: impl Iterator<Item = Range>,
        ((stamp, scope), repeats): ((Stamp, Scope), bool),
    ) -> Stepped {
        let Some(overlap) = &self.context.overlap else {
            return Ok(());
        };
        let stamp = GlobalStamp {
            launch: overlap.shadow.launch,
            from: scene.place(),
            warp: scene.warp.index as u16,
            scope,
            stamp,
        };
        let clocks = scene
            .warp
            .clocks
            .of(lanes.trailing_zeros() as usize % LANES);
        let access = GlobalAccess {
            stamp,
            repeats,
            clocks,
        };
        let accessed = overlap.shadow.access(allocation, ranges, &access);
        accessed.map_err(|((offset, bytes), conflict)| {
            let address = self.context.map.list()[allocation].base + offset as u64;
            race(
                scene,
                (overlap, self.context.launch),
                (address, bytes),
                lanes,
                (stamp, conflict),
            )
        })
    }

    /// An access by the generic proxy of the lanes of a group, `bytes` bytes each.
    #[inline]
    pub(crate) fn access_group(
        &self,
        scene: &Scene<'_>,
        group: &Group,
        bytes: u32,
        kind: Kind,
        strong: Option<Strong>,
    ) -> Stepped {
        if self.context.overlap.is_none() {
            return Ok(());
        }
        let scope = strong.map_or(Scope::Gpu, |strong| strong.scope);
        let stamp = (scene.stamp(kind), scope);
        if scene.warp.clocks.of_all().is_some() {
            let (allocation, lanes) = (group.number, group.lanes);
            let runs = group.runs(bytes as usize);
            return self.access_global(scene, allocation, lanes, runs, stamp);
        }
        for (lanes, _) in scene.warp.clocks.each(group.lanes) {
            let part = group.part(lanes);
            let runs = part.runs(bytes as usize);
            self.access_global(scene, group.number, lanes, runs, stamp)?;
        }
        Ok(())
    }

    /// A weak store of the lanes of a group.
    pub(crate) fn access_to_store(
        &self,
        scene: &Scene<'_>,
        access: &Access,
        group: &Group,
    ) -> Stepped {
        let stamp = (scene.stamp(Kind::WRITE), Scope::Gpu);
        let repeated = if self.context.overlap.is_some() && scene.cluster.ctas.len() > 1 {
            repeated(scene, access, group)
        } else {
            0
        };
        for (lanes, repeats) in [(group.lanes & !repeated, false), (repeated, true)] {
            for (lanes, _) in scene.warp.clocks.each(lanes) {
                let part = group.part(lanes);
                let runs = part.runs(access.bytes as usize);
                self.access_global_as(scene, group.number, lanes, runs, (stamp, repeats))?;
            }
        }
        Ok(())
    }

    /// An access of a copy to global memory.
    pub(crate) fn access_pieces(
        &self,
        scene: &Scene<'_>,
        pending: &Pending,
        stamp: Stamp,
    ) -> Stepped {
        if self.context.overlap.is_none() {
            return Ok(());
        }
        let mut ranges: Vec<Range> = Vec::new();
        let mut allocation = None;
        let lanes = 1 << pending.lane;
        let flush = |ranges: &mut Vec<Range>, allocation: Option<usize>| match allocation {
            Some(number) => {
                let ranges = std::mem::take(ranges).into_iter();
                self.access_global(scene, number, lanes, ranges, (stamp, Scope::Gpu))
            }
            None => Ok(()),
        };
        for piece in &pending.pieces {
            let Other::Global(address) = piece.other else {
                continue;
            };
            let bytes = piece.bytes as usize;
            // What lies outside of all is reported when the copy gets there.
            let Some(number) = self.context.map.find(address, bytes as u64) else {
                continue;
            };
            if allocation != Some(number) {
                flush(&mut ranges, allocation)?;
                allocation = Some(number);
            }
            let offset = (address - self.context.map.list()[number].base) as usize;
            match ranges.last_mut() {
                Some((start, length)) if *start + *length == offset => *length += bytes,
                _ => ranges.push((offset, bytes)),
            }
        }
        flush(&mut ranges, allocation)
    }

    /// A copy reads its tensor map until it is over, or has read its source.
    pub(crate) fn access_map(&self, scene: &Scene<'_>, pending: &Pending, stamp: Stamp) -> Stepped {
        let bytes = TENSOR_MAP_BYTES;
        let found = pending
            .map
            .and_then(|at| Some((at, self.context.map.find(at, bytes.into())?)));
        let Some((at, number)) = found else {
            return Ok(());
        };
        let offset = (at - self.context.map.list()[number].base) as usize;
        let range = std::iter::once((offset, bytes as usize));
        let stamp = Stamp {
            kind: Kind::MAP_READ,
            ..stamp
        };
        self.access_global(scene, number, 1 << pending.lane, range, (stamp, Scope::Gpu))
    }

    /// Does a strong operation of a lane: what it reads is acquired or observed, what it writes published.
    pub(crate) fn strongly<T>(
        &self,
        scene: &mut Scene<'_>,
        address: u64,
        strong: Strong,
        (reads, writes): (bool, bool),
        work: impl FnOnce() -> T,
    ) -> T {
        let Some(overlap) = &self.context.overlap else {
            // What threads of this machine load after a flag must not be older than it.
            if strong.releases {
                fence(Ordering::Release);
            }
            let result = work();
            if strong.acquires {
                fence(Ordering::Acquire);
            }
            return result;
        };
        let (place, lanes) = (scene.place(), scene.mask);
        let warp = &mut *scene.warp;
        let mut known = Clocks::default();
        overlap.shadow.with_releases(address, |releases| {
            if reads {
                let fences = &mut warp.fences;
                fences.read_by(lanes);
                if strong.acquires {
                    let mut is_first = true;
                    warp.clocks.acquire(lanes, warp.alive, |clocks| {
                        if !std::mem::take(&mut is_first) {
                            fences.acquire_again();
                        }
                        releases.read((strong, place), clocks, fences);
                    });
                } else {
                    releases.read((strong, place), &mut known, fences);
                }
            }
            let result = work();
            if writes {
                if strong.releases {
                    // What was released ends with the epoch.
                    let epoch = warp.epoch;
                    warp.release_to(lanes, &mut known);
                    warp.epoch = epoch;
                }
                releases.write((strong, place), reads, (&known, &warp.fences));
            }
            result
        })
    }
}
