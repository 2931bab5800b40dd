//! Instructions on mbarriers.

use crate::fault::{FaultKind, Memory, Stepped, Trouble};
use crate::lanes::lanes_of;
use crate::machine::memory::address::{Target, addresses, shared_owner};
use crate::machine::order::{Actor, Clocks, Kind, Lane, MbarrierId, Stamp};
use crate::machine::state::costs::{MBARRIER_WAKE, REMOTE_ARRIVAL};
use crate::machine::state::mbarrier::{Arrivals, By, Mbarrier, Observer, Observers};
use crate::machine::state::scene::{Flow, Scene, Worker};
use crate::machine::state::warp::{PhaseName, Wait};
use crate::machine::units::mbarrier::misuse::{
    check_bytes, early, excess, misuse, still_used, twice, unordered_use, unpublished,
};
use crate::program::sync::{MbarrierKind, MbarrierOp};
use crate::program::{AccessSpace, File, NONE};
use smallvec::SmallVec;
use target::MBARRIER_BYTES;

/// Who uses an mbarrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MbarrierUser {
    /// A thread, through the generic proxy.
    Thread,
    /// A copy that counts its bytes there, through the async proxy.
    Copy,
}

impl Scene<'_> {
    /// `fence.mbarrier_init`: what the executing threads have initialised is visible to whoever comes to know of it.
    pub(crate) fn publish_mbarriers(&mut self) {
        let (actor, epoch, mask) = (self.warp.actor, self.warp.epoch, self.mask);
        let ctas = self.cluster.ctas.iter_mut();
        let mbarriers = ctas.flat_map(|cta| cta.mbarriers.values_mut());
        for mbarrier in mbarriers {
            if mbarrier.init.actor == actor && mbarrier.init.lane.is_within(mask) {
                mbarrier.published = mbarrier.published.or(Some(epoch));
            }
        }
        self.warp.begin_epoch();
    }
}

impl Worker<'_> {
    /// The mbarrier at the address of a lane.
    pub(crate) fn mbarrier_id(
        &self,
        scene: &Scene<'_>,
        space: AccessSpace,
        lane: usize,
        address: u64,
    ) -> Stepped<MbarrierId> {
        let mut rest = 1 << lane;
        let all = [address; 32];
        let Some((target, _, within)) = Target::next(space, &all, &mut rest) else {
            return Err(Trouble::new(
                FaultKind::Mbarrier,
                0,
                "no active lane has the address of an mbarrier".to_owned(),
            ));
        };
        if target != Target::Shared {
            let message =
                format!("an mbarrier lies in shared memory, and {address:#x} is no address of it");
            return Err(Trouble::access(
                FaultKind::OutOfBounds,
                lane,
                address,
                MBARRIER_BYTES,
                message,
            ));
        }
        let (cta, address) = shared_owner(scene, lane, within[lane])?;
        let shared = &scene.cluster.ctas[cta].shared;
        if shared.index(address, MBARRIER_BYTES).is_none() {
            return Err(shared.outside(
                Memory::Shared,
                "mbarrier access",
                lane,
                address,
                MBARRIER_BYTES,
            ));
        }
        if !address.is_multiple_of(MBARRIER_BYTES.into()) {
            let message = format!(
                "the mbarrier at {address:#x} is misaligned: the address must be a multiple of {MBARRIER_BYTES}"
            );
            return Err(Trouble::access(
                FaultKind::Misaligned,
                lane,
                address,
                MBARRIER_BYTES,
                message,
            ));
        }
        Ok(MbarrierId {
            cta: cta as u16,
            address: address as u32,
        })
    }

    /// The executing warp uses an mbarrier, or a copy does that it issues. The initialisation must happen before, and be visible to
    /// who uses it: to other CTAs and to the async proxy by `fence.mbarrier_init` (PTX ISA 9.7.13.4), or as other writes are.
    pub(crate) fn use_mbarrier(
        &self,
        scene: &mut Scene<'_>,
        id: MbarrierId,
        lane: usize,
        user: MbarrierUser,
    ) -> Stepped {
        let cta = usize::from(id.cta);
        if cta != scene.cta {
            let stamp = Stamp {
                lane: Lane::of(lane),
                ..scene.stamp(Kind::STRONG_WRITE)
            };
            self.access_remote(scene, cta, 1 << lane, stamp)?;
        }
        let mbarrier = scene.cluster.mbarrier(id, 1 << lane)?;
        if !self.context.launch.checks.races {
            return Ok(());
        }
        let (init, publication) = (mbarrier.init, mbarrier.publication());
        let clocks = scene.warp.clocks.of(lane);
        let is_own = init.actor == scene.warp.actor && init.lane == Lane::of(lane);
        let is_ordered = scene.is_before(lane, &init);
        let is_visible = match user {
            MbarrierUser::Thread => is_own || clocks.visible.has(&init),
            MbarrierUser::Copy => clocks.visible_async.has(&init),
        };
        let is_visible =
            is_visible || publication.is_some_and(|fence| scene.is_before(lane, &fence));
        if is_ordered && is_visible {
            return Ok(());
        }
        let maker = scene.cluster.name(init.actor);
        Err(if is_ordered {
            unpublished(id, lane, (init, &maker), user == MbarrierUser::Copy)
        } else {
            unordered_use(id, lane, init, &maker)
        })
    }

    /// An arrival of a phase must happen after the completion of the previous phase, under any schedule.
    pub(crate) fn check_phase_order(
        &self,
        scene: &mut Scene<'_>,
        id: MbarrierId,
        lane: usize,
    ) -> Stepped {
        if !self.context.launch.checks.races {
            return Ok(());
        }
        let ordered = &scene.warp.clocks.of(lane).ordered;
        let mbarrier = scene.cluster.mbarrier(id, 1 << lane)?;
        if mbarrier.phase == 0 || ordered.includes(mbarrier.actor, mbarrier.epoch()) {
            return Ok(());
        }
        let ordered = &scene.warp.order_of(lane, 1 << lane);
        let mbarrier = scene.cluster.mbarrier(id, 1 << lane)?;
        let other = mbarrier.before.unknown(ordered);
        if other.is_none() && !mbarrier.before.has_bytes {
            return Ok(());
        }
        let other = other.map(|stamp| (stamp, scene.cluster.name(stamp.actor)));
        let owner = scene.owner(id.cta.into());
        let mbarrier = scene.cluster.mbarrier(id, 1 << lane)?;
        Err(early(mbarrier, (id, &owner), lane, other))
    }

    pub(crate) fn mbarrier(&mut self, scene: &mut Scene<'_>, op: &MbarrierOp) -> Stepped<Flow> {
        let all = addresses(&scene.warp.regs, &op.base);
        if let MbarrierKind::Wait { .. } = op.kind {
            return self.mbarrier_wait(scene, op, &all);
        }
        for lane in lanes_of(scene.mask) {
            let id = self.mbarrier_id(scene, op.space, lane, all[lane])?;
            if op.kind != MbarrierKind::Init {
                self.use_mbarrier(scene, id, lane, MbarrierUser::Thread)?;
            }
            let operand = match op.operand {
                NONE => 1,
                slot => scene.warp.regs.words[slot as usize].0[lane],
            };
            match op.kind {
                MbarrierKind::Init => self.mbarrier_init(scene, id, lane, operand)?,
                MbarrierKind::Invalidate => self.mbarrier_inval(scene, id, lane)?,
                MbarrierKind::Expect => self.count_bytes(scene, id, lane, operand.into())?,
                MbarrierKind::Complete => {
                    self.count_bytes(scene, id, lane, -i64::from(operand))?;
                }
                MbarrierKind::Arrive {
                    expects,
                    drops,
                    completes,
                    releases,
                } => {
                    let (count, bytes) = if expects { (1, operand) } else { (operand, 0) };
                    let state = self.arrive(
                        scene,
                        id,
                        lane,
                        (count, bytes),
                        (drops, completes, releases),
                    )?;
                    if op.result != NONE {
                        scene.warp.regs.doubles[op.result as usize].0[lane] = state;
                    }
                }
                MbarrierKind::Wait { .. } => {}
            }
        }
        Ok(Flow::Next)
    }

    fn mbarrier_init(
        &mut self,
        scene: &mut Scene<'_>,
        id: MbarrierId,
        lane: usize,
        count: u32,
    ) -> Stepped {
        let most = self.context.target.mbarrier.arrivals;
        if count == 0 || count > most {
            let message =
                format!("an mbarrier of {count} arrivals; the count must be between 1 and {most}");
            return Err(misuse(1 << lane, id, message));
        }
        let init = Stamp {
            lane: Lane::of(lane),
            ..scene.stamp(Kind::STRONG_WRITE)
        };
        scene.warp.has_accessed = true;
        let actor = scene.cluster.actors.number(Actor::Mbarrier(id));
        let cta = &mut scene.cluster.ctas[usize::from(id.cta)];
        if let Some(old) = cta.mbarriers.get(&id.address) {
            return Err(twice(old, id, lane));
        }
        let mbarrier = Mbarrier {
            count,
            pending: count,
            bytes: 0,
            phase: 0,
            init,
            published: None,
            observers: Observers::default(),
            actor,
            first_epoch: cta.ended_mbarriers.remove(&id.address).unwrap_or(0),
            counted_by: By::default(),
            arriving: Clocks::default(),
            completed: Clocks::default(),
            arriving_at: 0,
            completed_at: 0,
            current: Arrivals::default(),
            before: Arrivals::default(),
        };
        cta.mbarriers.insert(id.address, mbarrier);
        if let Some(index) = cta.shared.index(id.address.into(), 8) {
            cta.shared.put(index, u64::from(count).to_le_bytes());
        }
        Ok(())
    }

    /// `expect_tx` and `complete_tx`.
    fn count_bytes(
        &self,
        scene: &mut Scene<'_>,
        id: MbarrierId,
        lane: usize,
        bytes: i64,
    ) -> Stepped {
        self.check_phase_order(scene, id, lane)?;
        let by = scene.by();
        let mbarrier = scene.cluster.mbarrier(id, 1 << lane)?;
        mbarrier.bytes += bytes;
        mbarrier.counted_by = by;
        check_bytes(mbarrier, id, self.context.target.mbarrier.transaction_bytes)?;
        finish(scene, id)
    }

    /// Arrives, and returns the state before: the number of the phase.
    pub(crate) fn arrive(
        &mut self,
        scene: &mut Scene<'_>,
        id: MbarrierId,
        lane: usize,
        (count, bytes): (u32, u32),
        (drops, completes, releases): (bool, bool, bool),
    ) -> Stepped<u64> {
        let stamp = Stamp {
            lane: Lane::of(lane),
            ..scene.stamp(Kind::STRONG_WRITE)
        };
        let by = scene.by();
        let lanes = match scene.warp.all_of(scene.mask) {
            u32::MAX => u32::MAX,
            _ => 1 << lane,
        };
        scene.warp.has_accessed = true;
        let mbarrier = scene.cluster.mbarrier(id, 1 << lane)?;
        mbarrier.bytes += i64::from(bytes);
        if bytes > 0 {
            mbarrier.counted_by = by;
        }
        check_bytes(mbarrier, id, self.context.target.mbarrier.transaction_bytes)?;
        if count == 0 || count > mbarrier.pending || !completes && count == mbarrier.pending {
            return Err(excess(mbarrier, 1 << lane, id, (count, bytes)));
        }
        self.check_phase_order(scene, id, lane)?;
        let mbarrier = scene.cluster.mbarrier(id, 1 << lane)?;
        let state = mbarrier.phase << 21 | u64::from(mbarrier.pending);
        mbarrier.pending -= count;
        if drops {
            mbarrier.count = mbarrier.count.saturating_sub(count);
        }
        mbarrier.current.add(stamp);
        let is_own = usize::from(id.cta) == scene.cta;
        let arrives_at = scene.warp.time.now + if is_own { 0 } else { REMOTE_ARRIVAL };
        mbarrier.arriving_at = mbarrier.arriving_at.max(arrives_at);
        if releases {
            scene.warp.release_to(lanes, &mut mbarrier.arriving);
        } else {
            let ordered = &mut mbarrier.arriving.ordered;
            scene.warp.release_order_to(lanes, ordered);
        }
        finish(scene, id)?;
        Ok(state)
    }

    fn mbarrier_wait(
        &mut self,
        scene: &mut Scene<'_>,
        op: &MbarrierOp,
        all: &[u64; 32],
    ) -> Stepped<Flow> {
        let MbarrierKind::Wait { parity, suspends } = op.kind else {
            return Ok(Flow::Next);
        };
        let timed_out = std::mem::take(&mut scene.warp.timed_out);
        let mut done = 0u32;
        let mut waits_for = None;
        let mut over: SmallVec<[(MbarrierId, u32); 1]> = SmallVec::new();
        for lane in lanes_of(scene.mask) {
            let id = self.mbarrier_id(scene, op.space, lane, all[lane])?;
            self.use_mbarrier(scene, id, lane, MbarrierUser::Thread)?;
            let phase = match op.phase.file {
                File::Double => scene.warp.regs.doubles[op.phase.slot as usize].0[lane],
                _ => scene.warp.regs.words[op.phase.slot as usize].0[lane].into(),
            };
            let mbarrier = scene.cluster.mbarrier(id, 1 << lane)?;
            let is_over = if parity {
                mbarrier.phase & 1 != phase & 1
            } else {
                mbarrier.phase != phase >> 21
            };
            if is_over {
                done |= 1 << lane;
                match over.iter_mut().find(|(of, _)| *of == id) {
                    Some((_, lanes)) => *lanes |= 1 << lane,
                    None => over.push((id, 1 << lane)),
                }
            } else {
                waits_for = waits_for.or(Some(id));
            }
        }
        for (id, lanes) in over {
            self.observe(scene, id, lanes, parity)?;
        }
        match waits_for {
            Some(id) if suspends && !timed_out => {
                let name = if parity {
                    PhaseName::Parity
                } else {
                    PhaseName::State
                };
                return Ok(Flow::Park(Wait::Mbarrier(id, name)));
            }
            _ => {}
        }
        scene.warp.regs.put_predicate(op.result, scene.mask, done);
        Ok(if waits_for.is_some() {
            Flow::Yield
        } else {
            Flow::Next
        })
    }
}

impl Worker<'_> {
    /// Lanes have observed the end of a phase.
    fn observe(&self, scene: &mut Scene<'_>, id: MbarrierId, lanes: u32, parity: bool) -> Stepped {
        let checks = self.context.launch.checks;
        // Lanes that wait by one instruction poll together: what one observes, all do.
        let lane = match Lane::of_mask(lanes) {
            Lane::SEVERAL => Lane::UNKNOWN,
            one => one,
        };
        let stamp = Stamp {
            lane,
            ..scene.stamp(Kind::STRONG_READ)
        };
        let issued = scene.warp.products.issued() as u32;
        let mbarrier = scene.cluster.mbarrier(id, lanes)?;
        let completed = &mbarrier.completed;
        scene.warp.acquire(lanes, |clocks| clocks.join(completed));
        scene
            .warp
            .time
            .wait_until(mbarrier.completed_at + MBARRIER_WAKE);
        // A state, other than a parity, names one phase.
        if parity && checks.races {
            scene.warp.has_accessed = true;
            mbarrier.observers.add(Observer {
                stamp,
                product: issued + 1,
                strict: checks.strict,
            });
        }
        Ok(())
    }
}

fn finish(scene: &mut Scene<'_>, id: MbarrierId) -> Stepped {
    scene.cluster.finish_phase(id, Some(&mut *scene.warp))
}

impl Worker<'_> {
    /// Invalidates an mbarrier, which nobody may still use: no copy in flight counts on it, and arrivals and waits happen before.
    fn mbarrier_inval(&self, scene: &mut Scene<'_>, id: MbarrierId, lane: usize) -> Stepped {
        scene.cluster.check_not_expected(id, "this ends")?;
        let mbarrier = scene.cluster.mbarrier(id, 1 << lane)?;
        if mbarrier.bytes != 0 {
            return Err(mbarrier.uneven_bytes(id.address, "this ends an mbarrier").0);
        }
        if self.context.launch.checks.races {
            check_unused(scene, id, lane)?;
        }
        let epoch = scene.cluster.mbarrier(id, 1 << lane)?.epoch();
        let cta = &mut scene.cluster.ctas[usize::from(id.cta)];
        cta.mbarriers.remove(&id.address);
        cta.ended_mbarriers.insert(id.address, epoch);
        Ok(())
    }
}

/// Every arrival at an mbarrier and every wait for it so far happens before what the executing warp does next.
fn check_unused(scene: &mut Scene<'_>, id: MbarrierId, lane: usize) -> Stepped {
    let ordered = &scene.warp.order_of(lane, 1 << lane);
    let waiting = scene.cluster.unknown_observer(id, ordered)?;
    let mbarrier = scene.cluster.mbarrier(id, 1 << lane)?;
    let arrived = [&mbarrier.current, &mbarrier.before];
    let arrived = || arrived.iter().find_map(|phase| phase.unknown(ordered));
    let Some(user) = waiting.map(|wait| wait.stamp).or_else(arrived) else {
        return Ok(());
    };
    let does = if user.kind.is_write() {
        "arrives at"
    } else {
        "waits for"
    };
    let warp = scene.cluster.name(user.actor);
    Err(still_used(id, lane, user, (&warp, does)))
}
