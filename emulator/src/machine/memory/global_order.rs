//! Accesses to global memory against its shadow: which race, and what strong operations release and acquire.

use crate::fault::Stepped;
use crate::lanes::{LANES, lanes_of};
use crate::machine::memory::element::get_elements;
use crate::machine::memory::global_races::{of_two_lanes, race};
use crate::machine::memory::lane_group::Group;
use crate::machine::order::{
    Clocks, GlobalAccess, GlobalStamp, Kind, Lane, Place, Range, Run, RunLanes, Stamp,
};
use crate::machine::state::copies::{Other, Pending};
use crate::machine::state::scene::{Scene, Worker};
use crate::program::{Access, Strong};
use ptx::Scope;
use std::sync::atomic::{Ordering, fence};
use target::TENSOR_MAP_BYTES;

impl Scene<'_> {
    pub(crate) fn place(&self) -> Place {
        Place {
            cluster: self.cluster.number,
            cta: self.cta as u16,
            device: self.cluster.device,
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

/// Do two lanes store the same?
fn store_alike(scene: &Scene<'_>, access: &Access, (one, other): (usize, usize)) -> bool {
    let keep = u64::MAX >> (64 - access.element * 8);
    access.cells.iter().all(|&cell| {
        let values = get_elements(&scene.warp.regs, cell);
        values[one] & keep == values[other] & keep
    })
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
        let by = RunLanes::All(Lane::of_mask(lanes));
        let runs = ranges.map(|range| Run { range, lanes: by });
        self.access_runs(scene, allocation, lanes, runs, (stamp, false))
    }

    /// An access of lanes; `repeats` says that it stores what is there already.
    fn access_runs(
        &self,
        scene: &Scene<'_>,
        allocation: usize,
        lanes: u32,
        runs: impl Iterator<Item = Run>,
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
            ended: overlap.shadow.ended(),
            clocks,
        };
        let accessed = overlap.shadow.access(allocation, runs, &access);
        accessed.map_err(|((offset, bytes), conflict)| {
            let address = self.context.map.list()[allocation].base + offset as u64;
            race(scene, overlap, (address, bytes), lanes, (stamp, conflict))
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
            return self.access_runs(scene, allocation, lanes, runs, (stamp, false));
        }
        for (lanes, _) in scene.warp.clocks.each(group.lanes) {
            let part = group.part(lanes);
            let runs = part.runs(bytes as usize);
            self.access_runs(scene, group.number, lanes, runs, (stamp, false))?;
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
        if self.context.overlap.is_none() {
            return Ok(());
        }
        let stamp = (scene.stamp(Kind::WRITE), Scope::Gpu);
        let repeated = if scene.cluster.ctas.len() > 1 {
            repeated(scene, access, group)
        } else {
            0
        };
        let (first, again) = self.replicas(scene, access, group)?;
        let lanes = group.lanes & !again;
        for (lanes, repeats) in [(lanes & !repeated, false), (lanes & repeated, true)] {
            for (lanes, _) in scene.warp.clocks.each(lanes & !first) {
                let part = group.part(lanes);
                let runs = part.runs(access.bytes as usize);
                self.access_runs(scene, group.number, lanes, runs, (stamp, repeats))?;
            }
            for (lanes, _) in scene.warp.clocks.each(lanes & first) {
                let part = group.part(lanes);
                // Several lanes store there, and each may read what it stored.
                let runs = part.runs(access.bytes as usize);
                let runs = runs.map(|run| Run::from(run.range));
                self.access_runs(scene, group.number, lanes, runs, (stamp, repeats))?;
            }
        }
        Ok(())
    }

    /// The lanes that store where a later one does, and these, which store the same as the first.
    fn replicas(&self, scene: &Scene<'_>, access: &Access, group: &Group) -> Stepped<(u32, u32)> {
        let (mut first, mut again) = (0, 0);
        for pair in group.pairs() {
            if !store_alike(scene, access, pair) {
                let address = group.allocation.base + group.offsets[pair.0] as u64;
                return Err(of_two_lanes(scene, (address, access.bytes), pair));
            }
            first |= 1 << pair.0;
            again |= 1 << pair.1;
        }
        Ok((first, again))
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
        if writes {
            self.before_release(strong);
        }
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
