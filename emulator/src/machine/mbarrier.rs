//! mbarriers: arrivals, transaction counts, phases (PTX ISA 9.7.13.15).

use super::access::addresses;
use super::cta::Cluster;
use super::generic::Target;
use super::order::Knowledge;
use super::run::{Flow, Scene, Stepped, Worker};
use super::warp::{Wait, Warp};
use crate::fault::{FaultKind, Memory, Trouble};
use crate::lanes::lanes_of;
use crate::program::sync::{MbarrierKind, MbarrierOp};
use crate::program::{File, NONE};

/// The largest count of arrivals, and of transaction bytes (PTX ISA 9.7.13.15.3).
const MAX_COUNT: u32 = (1 << 20) - 1;

/// An mbarrier, found by its address. Its memory only says that it is initialised.
#[derive(Clone, Debug)]
pub(crate) struct Mbarrier {
    /// Arrivals that complete a phase.
    pub(crate) count: u32,
    /// Arrivals that are missing.
    pub(crate) pending: u32,
    /// Bytes that are announced and have not come, or that came before they were announced.
    pub(crate) bytes: i64,
    /// Number of the current phase.
    pub(crate) phase: u64,
    pub(crate) init_step: u32,
    arriving: Knowledge,
    completed: Knowledge,
}

/// An mbarrier of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MbarrierId {
    pub(crate) cta: u16,
    /// Shared address in the CTA.
    pub(crate) address: u32,
}

fn misuse(lanes: u32, id: MbarrierId, message: String) -> Box<Trouble> {
    Box::new(Trouble {
        kind: FaultKind::Mbarrier,
        lanes,
        address: Some(id.address.into()),
        bytes: Some(8),
        message,
    })
}

impl Cluster {
    /// The mbarrier at an address.
    pub(crate) fn mbarrier(&mut self, id: MbarrierId, lanes: u32) -> Stepped<&mut Mbarrier> {
        let found = self.ctas[usize::from(id.cta)]
            .mbarriers
            .get_mut(&id.address);
        found.ok_or_else(|| {
            misuse(lanes, id, format!("there is no initialised mbarrier at {:#x}; mbarrier.init comes first, and ends at mbarrier.inval", id.address))
        })
    }

    /// Ends the phase when nothing is missing, and lets those who wait for it go on.
    fn finish_phase(&mut self, id: MbarrierId, running: Option<&mut Warp>) {
        let Some(mbarrier) = self.ctas[usize::from(id.cta)]
            .mbarriers
            .get_mut(&id.address)
        else {
            return;
        };
        if mbarrier.pending != 0 || mbarrier.bytes != 0 {
            return;
        }
        mbarrier.phase += 1;
        mbarrier.pending = mbarrier.count;
        let arrived = std::mem::take(&mut mbarrier.arriving);
        mbarrier.completed.join(&arrived);
        self.timeouts = 0;
        let wake = |warp: &mut Warp| {
            for path in warp
                .paths
                .iter_mut()
                .filter(|path| path.wait == Wait::Mbarrier(id))
            {
                path.wait = Wait::Ready;
            }
        };
        self.ctas
            .iter_mut()
            .flat_map(|cta| &mut cta.warps)
            .for_each(wake);
        running.map(wake);
    }

    /// The asynchronous engine has brought `bytes` bytes.
    pub(crate) fn complete_bytes(&mut self, id: MbarrierId, bytes: u32) -> Stepped {
        let (engine, epoch) = (usize::from(self.engine()), self.engine_epoch);
        let actors = engine + 1;
        let mbarrier = self.mbarrier(id, 0)?;
        mbarrier.bytes -= i64::from(bytes);
        mbarrier.arriving.join(&Knowledge::new(actors));
        mbarrier.arriving.seen[engine] = epoch;
        check_bytes(mbarrier, id)?;
        self.finish_phase(id, None);
        Ok(())
    }
}

/// What is wrong with more arrivals than a phase counts.
fn excess(mbarrier: &Mbarrier, id: MbarrierId, count: u32, bytes: u32) -> String {
    let (address, phase) = (id.address, mbarrier.phase);
    let awaited = mbarrier.bytes - i64::from(bytes);
    if mbarrier.pending == 0 && awaited > 0 {
        return format!(
            "an arrival too many at the mbarrier at {address:#x}: phase {phase} has had all {} and still waits for {awaited} bytes of copies",
            mbarrier.count
        );
    }
    format!(
        "{count} arrivals at the mbarrier at {address:#x}, whose phase {phase} misses {} of {}",
        mbarrier.pending, mbarrier.count
    )
}

fn check_bytes(mbarrier: &Mbarrier, id: MbarrierId) -> Stepped {
    if mbarrier.bytes.unsigned_abs() <= MAX_COUNT.into() {
        return Ok(());
    }
    let message = format!(
        "the transaction count of the mbarrier at {:#x} leaves its range: {} bytes",
        id.address, mbarrier.bytes
    );
    Err(misuse(0, id, message))
}

impl Worker<'_> {
    /// The mbarrier that a lane names.
    pub(crate) fn mbarrier_id(
        &self,
        scene: &Scene<'_>,
        space: crate::program::AccessSpace,
        lane: usize,
        address: u64,
    ) -> Stepped<MbarrierId> {
        let mut rest = 1 << lane;
        let all = [address; 32];
        let Some((target, _, within)) = Target::next(space, &all, &mut rest) else {
            return Err(Trouble::new(
                FaultKind::Mbarrier,
                0,
                "no lane names an mbarrier".to_owned(),
            ));
        };
        if target != Target::Shared {
            let message =
                format!("an mbarrier lies in shared memory, and {address:#x} is no address of it");
            return Err(Trouble::access(
                FaultKind::OutOfBounds,
                lane,
                address,
                8,
                message,
            ));
        }
        let (cta, address) = super::generic::shared_owner(scene, lane, within[lane])?;
        let shared = &scene.cluster.ctas[cta].shared;
        if shared.index(address, 8).is_none() {
            return Err(shared.outside(Memory::Shared, "mbarrier access", lane, address, 8));
        }
        if !address.is_multiple_of(8) {
            let message = format!(
                "the mbarrier at {address:#x} is misaligned: the address must be a multiple of 8"
            );
            return Err(Trouble::access(
                FaultKind::Misaligned,
                lane,
                address,
                8,
                message,
            ));
        }
        Ok(MbarrierId {
            cta: cta as u16,
            address: address as u32,
        })
    }

    pub(crate) fn mbarrier(&mut self, scene: &mut Scene<'_>, op: &MbarrierOp) -> Stepped<Flow> {
        let all = addresses(&scene.warp.regs, &op.base);
        if let MbarrierKind::Wait { .. } = op.kind {
            return self.mbarrier_wait(scene, op, &all);
        }
        for lane in lanes_of(scene.mask) {
            let id = self.mbarrier_id(scene, op.space, lane, all[lane])?;
            let operand = match op.operand {
                NONE => 1,
                slot => scene.warp.regs.words[slot as usize].0[lane],
            };
            match op.kind {
                MbarrierKind::Init => self.mbarrier_init(scene, id, lane, operand)?,
                MbarrierKind::Invalidate => {
                    scene.cluster.mbarrier(id, 1 << lane)?;
                    scene.cluster.ctas[usize::from(id.cta)]
                        .mbarriers
                        .remove(&id.address);
                }
                MbarrierKind::Expect => {
                    let mbarrier = scene.cluster.mbarrier(id, 1 << lane)?;
                    mbarrier.bytes += i64::from(operand);
                    check_bytes(mbarrier, id)?;
                    finish(scene, id);
                }
                MbarrierKind::Complete => {
                    let mbarrier = scene.cluster.mbarrier(id, 1 << lane)?;
                    mbarrier.bytes -= i64::from(operand);
                    check_bytes(mbarrier, id)?;
                    finish(scene, id);
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
        if count == 0 || count > MAX_COUNT {
            let message = format!(
                "an mbarrier of {count} arrivals; the count must be between 1 and {MAX_COUNT}"
            );
            return Err(misuse(1 << lane, id, message));
        }
        let step = scene.path.pc;
        let cta = &mut scene.cluster.ctas[usize::from(id.cta)];
        if let Some(old) = cta.mbarriers.get(&id.address) {
            let place =
                super::report::name_step(self.context.program, self.context.code, old.init_step);
            let message = format!(
                "the mbarrier at {:#x} is initialised again without mbarrier.inval; it was initialised at {place}",
                id.address
            );
            return Err(misuse(1 << lane, id, message));
        }
        let mbarrier = Mbarrier {
            count,
            pending: count,
            bytes: 0,
            phase: 0,
            init_step: step,
            arriving: Knowledge::default(),
            completed: Knowledge::default(),
        };
        cta.mbarriers.insert(id.address, mbarrier);
        if let Some(index) = cta.shared.index(id.address.into(), 8) {
            cta.shared.put(index, u64::from(count).to_le_bytes());
        }
        Ok(())
    }

    /// Arrives, and gives the state before: the number of the phase.
    pub(crate) fn arrive(
        &mut self,
        scene: &mut Scene<'_>,
        id: MbarrierId,
        lane: usize,
        (count, bytes): (u32, u32),
        (drops, completes, releases): (bool, bool, bool),
    ) -> Stepped<u64> {
        let knows = scene.warp.knows.clone();
        let mbarrier = scene.cluster.mbarrier(id, 1 << lane)?;
        mbarrier.bytes += i64::from(bytes);
        check_bytes(mbarrier, id)?;
        if count == 0 || count > mbarrier.pending || !completes && count == mbarrier.pending {
            let message = excess(mbarrier, id, count, bytes);
            return Err(misuse(1 << lane, id, message));
        }
        let state = mbarrier.phase << 21 | u64::from(mbarrier.pending);
        mbarrier.pending -= count;
        if drops {
            mbarrier.count = mbarrier.count.saturating_sub(count);
        }
        if releases {
            mbarrier.arriving.join(&knows);
            scene.warp.release();
        }
        finish(scene, id);
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
        for lane in lanes_of(scene.mask) {
            let id = self.mbarrier_id(scene, op.space, lane, all[lane])?;
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
                let completed = mbarrier.completed.clone();
                scene.warp.knows.join(&completed);
            } else {
                waits_for = waits_for.or(Some(id));
            }
        }
        match waits_for {
            Some(id) if suspends && !timed_out => return Ok(Flow::Park(Wait::Mbarrier(id))),
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

fn finish(scene: &mut Scene<'_>, id: MbarrierId) {
    scene.cluster.finish_phase(id, Some(&mut *scene.warp));
}
