//! TMA and bulk copies in flight: issuing them, and what completing one does.

use crate::fault::{Memory, Stepped};
use crate::machine::memory::atomic::{apply, update_global};
use crate::machine::memory::misuse::unwritten;
use crate::machine::memory::peers::Reach;
use crate::machine::order::{Kind, Lane, Stamp};
use crate::machine::state::cluster::Cluster;
use crate::machine::state::copies::{Destination, Fill, Other, Pending, Piece, Work};
use crate::machine::state::linear::Linear;
use crate::machine::state::policy::{LONGEST_STARVATION, When};
use crate::machine::state::scene::{Halt, Scene, Worker};
use crate::machine::units::mbarrier::execute::MbarrierUser;
use crate::program::AtomicOp;
use ptx::Type;

impl Worker<'_> {
    /// Starts a copy into shared memory: an access at the phase of the mbarrier that counts it.
    pub(crate) fn start_load(&self, scene: &mut Scene<'_>, pending: Pending) -> Stepped {
        let arrives_at = self.arrival_of(scene, &pending);
        let pending = Pending {
            arrives_at,
            ..pending
        };
        let Work::Load { targets, .. } = &pending.work else {
            return Ok(());
        };
        let (lane, lanes) = (pending.lane as usize, 1 << pending.lane);
        let kind = match pending.shared_reduction {
            Some(_) => Kind::ASYNC_REDUCTION,
            None => Kind::ASYNC_WRITE,
        };
        // st.async writes through the generic proxy.
        let user = match pending.pieces[..] {
            [
                Piece {
                    other: Other::Given(_),
                    ..
                },
            ] => MbarrierUser::Thread,
            _ => MbarrierUser::Copy,
        };
        for (number, &Destination { cta, mbarrier }) in targets.iter().enumerate() {
            if cta != scene.cta {
                let issue = Stamp {
                    lane: Lane::of(lane),
                    ..scene.stamp(kind)
                };
                self.access_remote(scene, cta, lanes, issue)?;
            }
            self.use_mbarrier(scene, mbarrier, lane, user)?;
            self.check_phase_order(scene, mbarrier, lane)?;
            let stamp = scene.cluster.counted(mbarrier, pending.step, kind)?;
            scene.note_remote_access(cta, lanes, stamp);
            self.access_as(scene, cta, lanes, pending.destinations(), stamp)?;
            let reads = Stamp {
                kind: Kind::ASYNC_READ,
                ..stamp
            };
            self.access_to_read(scene, lanes, pending.sources().into_iter(), reads)?;
            // A multicast reads once: the read is an access at the first of its mbarriers.
            if number == 0 {
                self.access_pieces(scene, &pending, reads)?;
                self.access_map(scene, &pending, reads)?;
            }
        }
        scene.cluster.pending.push_back(pending);
        Ok(())
    }

    /// When the bytes of a copy into shared memory are there, where time is modelled.
    fn arrival_of(&self, scene: &mut Scene<'_>, pending: &Pending) -> u64 {
        let now = scene.warp.time.issued;
        let (Some(_), Work::Load { targets, .. }) = (&self.context.timing, &pending.work) else {
            return now;
        };
        let bytes = pending.bytes();
        let ctas = &mut scene.cluster.ctas;
        match pending.pieces.first().map(|piece| piece.other) {
            Some(Other::Given(_)) => ctas[scene.cta].units.remote_store(now, bytes),
            // Who gets bytes of several CTAs gets them one after the other.
            Some(Other::Shared(_)) => {
                let sent = ctas[scene.cta].units.remote_copy(now, bytes);
                let others = targets.iter().filter(|target| target.cta != scene.cta);
                let got = others.map(|target| ctas[target.cta].units.remote_copy(now, bytes));
                got.fold(sent, u64::max)
            }
            // A multicast is read once, and comes to each SM.
            _ => {
                let sent = ctas[scene.cta].units.request(now, pending.l2_bytes());
                let got = targets
                    .iter()
                    .map(|target| ctas[target.cta].units.arrive(sent, bytes));
                got.fold(sent, u64::max)
            }
        }
    }

    /// Starts a copy to global memory: an access of the bulk group that the thread has open.
    pub(crate) fn start_store(
        &self,
        scene: &mut Scene<'_>,
        pending: Pending,
        group: u64,
    ) -> Stepped {
        if self.context.timing.is_some() {
            let units = &mut scene.cluster.ctas[scene.cta].units;
            let bytes = pending.bytes();
            units.store(&mut scene.warp.time, pending.lane, group, bytes);
        }
        let actor = scene.bulk_actor(pending.lane);
        let stamp = Stamp {
            epoch: group as u32 + 1,
            step: pending.step,
            actor,
            kind: Kind::ASYNC_READ,
            lane: Lane::UNKNOWN,
        };
        let sources = pending.sources();
        self.access_to_read(scene, 1 << pending.lane, sources.into_iter(), stamp)?;
        self.access_map(scene, &pending, stamp)?;
        let is_reduction = matches!(pending.work, Work::Store { reduction: Some(_) });
        let writes = Stamp {
            actor: scene.bulk_writes(pending.lane),
            kind: if is_reduction {
                Kind::ASYNC_REDUCTION
            } else {
                Kind::ASYNC_WRITE
            },
            ..stamp
        };
        self.access_pieces(scene, &pending, writes)?;
        scene.cluster.pending.push_back(pending);
        Ok(())
    }

    /// Completes copies in flight: all of them, some, or one when nothing else goes on, as the policy says.
    pub(crate) fn complete_copies_in_flight(
        &mut self,
        cluster: &mut Cluster,
        must_progress: bool,
    ) -> Result<bool, (usize, u32, Halt)> {
        let mut progressed = false;
        let when = self.context.policy.copies;
        let mut turns = match when {
            When::Late => usize::from(must_progress || has_been_late_long(cluster)),
            When::Soon | When::Random => cluster.pending.len(),
        };
        while turns > 0 && !cluster.pending.is_empty() {
            turns -= 1;
            let is_last_chance = must_progress && !progressed && turns == 0;
            if when == When::Random && !is_last_chance && cluster.next_random() & 1 == 0 {
                cluster.pending.rotate_left(1);
                continue;
            }
            let index = match when {
                When::Soon => 0,
                When::Random | When::Late => cluster.next_random() as usize % cluster.pending.len(),
            };
            let Some(pending) = cluster.pending.remove(index) else {
                break;
            };
            let (cta, warp, step) = (pending.cta, pending.warp, pending.step);
            self.complete(cluster, &pending)
                .map_err(|trouble| (cta, warp, Halt { trouble, step }))?;
            cluster.late_since = None;
            progressed = true;
        }
        Ok(progressed)
    }

    /// Performs a copy.
    pub(crate) fn complete(&mut self, cluster: &mut Cluster, pending: &Pending) -> Stepped {
        match &pending.work {
            Work::Load {
                targets,
                fill,
                rounds_to_tf32,
                bytes,
            } => {
                let mut buffer = Vec::new();
                for piece in &pending.pieces {
                    self.fetch(cluster, pending.cta, piece, *fill, &mut buffer)?;
                    if *rounds_to_tf32 {
                        round_to_tf32(&mut buffer);
                    }
                    for target in targets {
                        let shared = &mut cluster.ctas[target.cta].shared;
                        let index = piece.shared as usize;
                        deposit(shared, index, &buffer, pending.shared_reduction);
                    }
                }
                for target in targets {
                    let issued = (pending.by(), &pending.carried, pending.arrives_at);
                    cluster.complete_bytes(target, *bytes, issued)?;
                }
                Ok(())
            }
            Work::Store { reduction } => {
                for piece in &pending.pieces {
                    self.emit(cluster, pending.cta, piece, *reduction)?;
                }
                Ok(())
            }
        }
    }

    fn fetch(
        &mut self,
        cluster: &Cluster,
        cta: usize,
        piece: &Piece,
        fill: Fill,
        buffer: &mut Vec<u8>,
    ) -> Stepped {
        let length = piece.bytes as usize;
        buffer.clear();
        match piece.other {
            Other::Global(address) => {
                buffer.resize(length, 0);
                self.read_global(address, buffer)?;
                self.counts.load(Memory::Global, 1, piece.bytes);
            }
            Other::Shared(index) => {
                buffer.extend_from_slice(
                    &cluster.ctas[cta].shared.bytes[index as usize..index as usize + length],
                );
            }
            Other::Given(bytes) => buffer.extend_from_slice(&bytes[..length]),
            Other::Outside => match fill {
                Fill::Zero => buffer.resize(length, 0),
                Fill::Nan(ty) => buffer.extend(nan_bytes(ty).into_iter().cycle().take(length)),
            },
        }
        Ok(())
    }

    fn emit(
        &mut self,
        cluster: &Cluster,
        cta: usize,
        piece: &Piece,
        reduction: Option<(AtomicOp, Type)>,
    ) -> Stepped {
        let Other::Global(address) = piece.other else {
            return Ok(());
        };
        let (start, length) = (piece.shared as usize, piece.bytes as usize);
        let data = &cluster.ctas[cta].shared.bytes[start..start + length];
        let index = self.context.map.find(address, length as u64);
        let index = index
            .ok_or_else(|| self.out_of_bounds("asynchronous store", 0, address, piece.bytes))?;
        let allocation = &self.context.map.list()[index];
        let offset = (address - allocation.base) as usize;
        let access = ("asynchronous store", Reach::Update);
        self.reach(allocation, access, 0, (address, piece.bytes))?;
        if self.is_remote(allocation) {
            self.deliver_all();
        }
        self.note_weak_change();
        self.counts.store(Memory::Global, 1, piece.bytes);
        let Some((op, ty)) = reduction else {
            allocation.write(offset, data);
            return Ok(());
        };
        if self.context.launch.checks.uninitialised
            && let Some(missing) = allocation.written.first_missing(offset, length)
        {
            return Err(unwritten(
                Memory::Global,
                0,
                address,
                piece.bytes,
                (missing - offset) as u32,
            ));
        }
        let element = ty.bytes() as usize;
        for (part, value) in data.chunks_exact(element).enumerate() {
            let at = offset + part * element;
            let _guard = self.context.locks.lock(allocation.base + at as u64);
            update_global(allocation, at, ty, |old| {
                apply(op, ty, old, integer(value), 0)
            });
        }
        Ok(())
    }
}

/// Has the cluster run for long since a copy was in flight and none completed?
fn has_been_late_long(cluster: &mut Cluster) -> bool {
    if cluster.pending.is_empty() {
        cluster.late_since = None;
        return false;
    }
    let since = *cluster.late_since.get_or_insert(cluster.steps);
    cluster.steps - since > LONGEST_STARVATION
}

fn integer(bytes: &[u8]) -> u64 {
    let mut value = [0; 8];
    value[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(value)
}

/// Writes what a copy delivers to shared memory.
pub(crate) fn deposit(
    shared: &mut Linear,
    index: usize,
    data: &[u8],
    reduction: Option<(AtomicOp, Type)>,
) {
    if let Some((op, ty)) = reduction {
        let element = ty.bytes() as usize;
        for (part, value) in data.chunks_exact(element).enumerate() {
            let at = index + part * element;
            let old = integer(&shared.bytes[at..at + element]);
            let new = apply(op, ty, old, integer(value), 0).to_le_bytes();
            shared.bytes[at..at + element].copy_from_slice(&new[..element]);
        }
    } else {
        shared.bytes[index..index + data.len()].copy_from_slice(data);
    }
    shared.written[index..index + data.len()].fill(1);
}

/// Rounds words that are f32 to the nearest tf32, ties to even.
fn round_to_tf32(bytes: &mut [u8]) {
    for word in bytes.chunks_exact_mut(4) {
        let value = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        word.copy_from_slice(&crate::numeric::tf32_to_nearest(value).to_le_bytes());
    }
}

fn nan_bytes(ty: Type) -> Vec<u8> {
    match ty {
        Type::F16 | Type::Bf16 => 0x7fffu16.to_le_bytes().to_vec(),
        Type::F64 => 0x7fff_ffff_ffff_ffffu64.to_le_bytes().to_vec(),
        _ => 0x7fff_ffffu32.to_le_bytes().to_vec(),
    }
}
