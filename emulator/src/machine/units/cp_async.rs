//! `cp.async`: copies of single threads, in groups (PTX ISA 9.7.9.25.3).

use crate::fault::{Memory, Stepped};
use crate::lanes::{LANES, PerLane, lanes_of};
use crate::machine::memory::address::{Target, addresses, shared_index, shared_owner};
use crate::machine::memory::misuse::check_aligned;
use crate::machine::memory::peers::Reach;
use crate::machine::order::{IN_FLIGHT, Kind, Lane, MbarrierId, Stamp};
use crate::machine::state::copies::CopyInFlight;
use crate::machine::state::scene::{Scene, Worker};
use crate::machine::state::transactions::sectors;
use crate::machine::units::in_flight::deposit;
use crate::program::copy::{GroupOp, Spot, ThreadCopy};
use ptx::Scope;
use target::WIDEST_ACCESS_BYTES;

impl Worker<'_> {
    pub(crate) fn thread_copy(&mut self, scene: &mut Scene<'_>, copy: &ThreadCopy) -> Stepped {
        let to = addresses(&scene.warp.regs, &copy.dst.base);
        let from = addresses(&scene.warp.regs, &copy.src.base);
        check_aligned(Memory::Shared, "cp.async", &to, scene.mask, copy.bytes)?;
        check_aligned(Memory::Global, "cp.async", &from, scene.mask, copy.bytes)?;
        let mut moves = [(0, 0, 0, 0); LANES];
        for lane in lanes_of(scene.mask) {
            let mut one = 1 << lane;
            let within = Target::next(copy.dst.space, &to, &mut one)
                .map_or(0, |(_, _, within)| within[lane]);
            let (cta, address) = shared_owner(scene, lane, within)?;
            let shared = &scene.cluster.ctas[cta].shared;
            let index = shared.index(address, copy.bytes);
            let index = index.ok_or_else(|| {
                shared.outside(Memory::Shared, "cp.async", lane, address, copy.bytes)
            })?;
            let read = copy.src_bytes.map_or(copy.bytes, |slot| {
                scene.warp.regs.words[slot as usize].0[lane].min(copy.bytes)
            });
            if read > 0 {
                let reads = Stamp {
                    epoch: IN_FLIGHT,
                    lane: Lane::of(lane),
                    ..scene.stamp(Kind::READ)
                };
                self.access_source(scene, lane, (from[lane], read), reads)?;
            }
            let stamp = Stamp {
                epoch: IN_FLIGHT,
                lane: Lane::of(lane),
                ..scene.stamp(Kind::WRITE)
            };
            let range = (index, copy.bytes as usize);
            self.access_as(scene, cta, 1 << lane, [range], stamp)?;
            moves[lane] = (cta, shared_index(address), from[lane], read);
        }
        let started = CopyInFlight {
            step: scene.path.pc,
            lanes: scene.mask,
            groups: scene.warp.copies.current,
            moves,
            bytes: copy.bytes,
        };
        self.counts.load(Memory::Global, scene.mask, copy.bytes);
        self.counts.store(Memory::Shared, scene.mask, copy.bytes);
        scene.warp.copies.started.push(started);
        let arrives_at = self.arrival(scene, &from, copy.bytes);
        let time = &mut scene.warp.time;
        match time.copies.last_mut() {
            Some(open) => *open = arrives_at,
            None => time.copies.push(arrives_at),
        }
        Ok(())
    }

    /// When bytes from these addresses are there, where time is modelled.
    fn arrival(&self, scene: &mut Scene<'_>, from: &PerLane, bytes: u32) -> u64 {
        let now = scene.warp.time.issued;
        if self.context.timing.is_none() {
            return now;
        }
        let units = &mut scene.cluster.ctas[scene.cta].units;
        units.load(
            now,
            &sectors(from, scene.mask, bytes),
            bytes < WIDEST_ACCESS_BYTES,
        )
    }

    pub(crate) fn thread_group(&mut self, scene: &mut Scene<'_>, op: GroupOp) -> Stepped {
        match op {
            GroupOp::Commit => {
                lanes_of(scene.mask).for_each(|lane| scene.warp.copies.current[lane] += 1);
                if self.context.launch.is_timed {
                    scene.warp.time.copies.push(0);
                }
                Ok(())
            }
            GroupOp::Wait(open) | GroupOp::WaitRead(open) => {
                scene.warp.time.wait_for_copies(open);
                self.complete_copies(scene, Some(open))
            }
            GroupOp::WaitAll => {
                scene.warp.time.wait_for_copies(0);
                self.complete_copies(scene, None)
            }
        }
    }

    /// Completes the copies of the executing lanes, all of them or those of groups before the last `open`.
    pub(crate) fn complete_copies(&mut self, scene: &mut Scene<'_>, open: Option<u32>) -> Stepped {
        scene.warp.has_accessed = true;
        let current = scene.warp.copies.current;
        let mut started = std::mem::take(&mut scene.warp.copies.started);
        for copy in &mut started {
            let is_due =
                |lane: &usize| open.is_none_or(|open| copy.groups[*lane] + open < current[*lane]);
            let due = lanes_of(copy.lanes & scene.mask)
                .filter(is_due)
                .fold(0u32, |lanes, lane| lanes | 1 << lane);
            for lane in lanes_of(due) {
                self.complete_copy(scene, copy, lane)?;
            }
            copy.lanes &= !due;
        }
        started.retain(|copy| copy.lanes != 0);
        scene.warp.copies.started = started;
        Ok(())
    }

    /// An access of a copy to the global memory that it reads.
    fn access_source(
        &self,
        scene: &Scene<'_>,
        lane: usize,
        (address, bytes): (u64, u32),
        stamp: Stamp,
    ) -> Stepped {
        let number = self.context.map.find(address, bytes.into());
        let number = number.ok_or_else(|| self.out_of_bounds("cp.async", lane, address, bytes))?;
        let allocation = &self.context.map.list()[number];
        self.reach(
            allocation,
            ("cp.async", Reach::Read),
            lane,
            (address, bytes),
        )?;
        let offset = (address - allocation.base) as usize;
        let range = std::iter::once((offset, bytes as usize));
        self.access_global(scene, number, 1 << lane, range, (stamp, Scope::Gpu))
    }

    fn complete_copy(
        &mut self,
        scene: &mut Scene<'_>,
        copy: &CopyInFlight,
        lane: usize,
    ) -> Stepped {
        let (cta, index, address, read) = copy.moves[lane];
        let mut data = [0; WIDEST_ACCESS_BYTES as usize];
        if read > 0 {
            let reads = Stamp {
                step: copy.step,
                lane: Lane::of(lane),
                ..scene.stamp(Kind::READ)
            };
            self.access_source(scene, lane, (address, read), reads)?;
            self.read_global(address, &mut data[..read as usize])?;
        }
        let stamp = Stamp {
            step: copy.step,
            lane: Lane::of(lane),
            ..scene.stamp(Kind::WRITE)
        };
        let (index, bytes) = (index as usize, copy.bytes as usize);
        let shared = &mut scene.cluster.ctas[cta].shared;
        deposit(shared, index, &data[..bytes], None);
        if self.context.launch.checks.races {
            shared.shadow.complete((index, bytes), stamp);
        }
        Ok(())
    }

    /// `cp.async.mbarrier.arrive`: an arrival when the copies of the thread are complete.
    pub(crate) fn copies_arrive(
        &mut self,
        scene: &mut Scene<'_>,
        spot: &Spot,
        noinc: bool,
    ) -> Stepped {
        self.complete_copies(scene, None)?;
        let all = addresses(&scene.warp.regs, &spot.base);
        for lane in lanes_of(scene.mask) {
            let id: MbarrierId = self.mbarrier_id(scene, spot.space, lane, all[lane])?;
            if !noinc {
                // The arrival that it makes is one more than the phase waited for.
                scene.cluster.mbarrier(id, 1 << lane)?.pending += 1;
            }
            self.arrive(scene, id, lane, (1, 0), (false, true, true))?;
        }
        Ok(())
    }
}
