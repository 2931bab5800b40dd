//! Bulk groups: which bulk stores a thread has committed, and waiting for them (PTX ISA 9.7.9.27).

use crate::fault::Stepped;
use crate::lanes::lanes_of;
use crate::machine::order::{Actor, ActorId, Clocks};
use crate::machine::state::copies::Pending;
use crate::machine::state::scene::{Scene, Worker};
use crate::program::copy::GroupOp;

impl Scene<'_> {
    /// What the bulk stores of a thread write, as an actor that accesses global memory.
    pub(crate) fn bulk_writes(&mut self, lane: u32) -> ActorId {
        self.cluster.actors.number(Actor::BulkWrites {
            cta: self.cta as u16,
            warp: self.warp.index as u16,
            lane: lane as u16,
        })
    }

    /// The bulk stores of a thread as an actor that reads shared memory.
    pub(crate) fn bulk_actor(&mut self, lane: u32) -> ActorId {
        self.cluster.actors.number(Actor::BulkGroups {
            cta: self.cta as u16,
            warp: self.warp.index as u16,
            lane: lane as u16,
        })
    }
}

impl Worker<'_> {
    pub(crate) fn bulk_group(&mut self, scene: &mut Scene<'_>, op: GroupOp) -> Stepped {
        for lane in lanes_of(scene.mask) {
            let groups = scene.warp.bulk_groups.entry(lane as u32).or_default();
            match op {
                GroupOp::Commit => {
                    groups.current += 1;
                    groups.has_open = false;
                }
                GroupOp::Wait(open) | GroupOp::WaitRead(open) => {
                    let done = groups.current.saturating_sub(open.into());
                    groups.waited = groups.waited.max(done);
                    self.complete_groups_below(scene, lane as u32, done)?;
                    let only_read = op == GroupOp::WaitRead(open);
                    let time = &mut scene.warp.time;
                    time.wait_for_stores(lane as u32, done, only_read);
                    if op == GroupOp::Wait(open) {
                        let actor = scene.bulk_writes(lane as u32);
                        let learn = |clocks: &mut Clocks| clocks.advance(actor, done as u32);
                        scene.warp.acquire(1 << lane, learn);
                    }
                }
                GroupOp::WaitAll => {}
            }
        }
        Ok(())
    }

    pub(crate) fn complete_groups_below(
        &mut self,
        scene: &mut Scene<'_>,
        lane: u32,
        limit: u64,
    ) -> Stepped {
        let (cta, warp) = (scene.cta, scene.warp.index);
        let is_due = |pending: &Pending| {
            pending.cta == cta
                && pending.warp == warp
                && pending.lane == lane
                && pending.group.is_some_and(|g| g < limit)
        };
        while let Some(index) = scene.cluster.pending.iter().position(is_due) {
            if let Some(pending) = scene.cluster.pending.remove(index) {
                self.complete(scene.cluster, &pending)?;
            }
        }
        let actor = scene.bulk_actor(lane);
        let learn = |clocks: &mut Clocks| clocks.advance(actor, limit as u32);
        scene.warp.acquire(1 << lane, learn);
        Ok(())
    }
}
