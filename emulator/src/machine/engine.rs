//! Copies that run by themselves: what is under way, and what completing it does.

use super::cta::Cluster;
use super::linear::Linear;
use super::mbarrier::MbarrierId;
use super::order::{IN_FLIGHT, Stamp};
use super::run::{Halt, Scene, Stepped, Worker};
use super::visibility::address;
use crate::decode::SHARED_BASE;
use crate::fault::{FaultKind, Memory, Trouble};
use crate::program::AtomicOp;
use ptx::Type;

/// Bytes that lie together on both sides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    /// Index in the shared memory of a CTA.
    pub(crate) shared: u32,
    pub(crate) bytes: u32,
    pub(crate) other: Other,
}

/// The most that one thread stores by one instruction.
pub(crate) const MAX_GIVEN_BYTES: usize = 16;

/// The other side of a piece.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Other {
    Global(u64),
    /// Index in the shared memory of the CTA that started the copy.
    Shared(u32),
    /// Bytes out of the registers of the thread that started it; those of the piece come first.
    Given([u8; MAX_GIVEN_BYTES]),
    /// A place outside of the tensor.
    Outside,
}

/// What a copy does when it completes.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    /// Into the shared memory of CTAs, each with its mbarrier.
    Load {
        targets: Vec<(usize, Option<MbarrierId>)>,
        fill: Fill,
        bytes: u32,
    },
    /// To global memory.
    Store { reduction: Option<(AtomicOp, Type)> },
}

/// What places outside of a tensor read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fill {
    Zero,
    /// NaN of the element type.
    Nan(Type),
}

/// A copy under way.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) step: u32,
    pub(crate) cta: usize,
    pub(crate) warp: u32,
    pub(crate) lane: u32,
    /// Number of the bulk group of the thread.
    pub(crate) group: Option<u64>,
    pub(crate) pieces: Vec<Piece>,
    pub(crate) work: Work,
    /// A reduction into shared memory.
    pub(crate) shared_reduction: Option<(AtomicOp, Type)>,
}

/// Shared memory that a copy or a product still reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) step: u32,
    /// The warp whose wait ends it.
    pub(crate) actor: u16,
    /// Lane and bulk group of a store, which only a wait for the group ends: that it has been read, nobody knows before.
    pub(crate) group: Option<(u32, u64)>,
}

impl Cluster {
    /// Number of the asynchronous engine among the actors.
    pub(crate) fn engine(&self) -> u16 {
        self.ctas.iter().map(|cta| cta.warps.len()).sum::<usize>() as u16
    }

    /// How messages name a warp of the cluster.
    pub(crate) fn warp_name(&self, actor: u16) -> String {
        let per_cta = self.ctas[0].warps.len() as u16;
        let warp = actor % per_cta;
        if self.ctas.len() == 1 {
            warp.to_string()
        } else {
            format!("{warp} of CTA {}", actor / per_cta)
        }
    }
}

impl Pending {
    /// The bytes that it reads of the shared memory of the CTA that started it.
    fn source(&self) -> Option<(usize, usize)> {
        let of_piece = |piece: &Piece| {
            let start = match (&self.work, piece.other) {
                (Work::Store { .. }, _) => piece.shared,
                (_, Other::Shared(start)) => start,
                _ => return None,
            };
            Some((start as usize, (start + piece.bytes) as usize))
        };
        let pieces = self.pieces.iter().filter_map(of_piece);
        pieces.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// Does it write some of these bytes of the shared memory of a CTA?
    fn writes(&self, cta: usize, start: u32, end: u32) -> bool {
        let Work::Load { targets, .. } = &self.work else {
            return false;
        };
        let meets = |piece: &Piece| piece.shared < end && start < piece.shared + piece.bytes;
        targets.iter().any(|(target, _)| *target == cta) && self.pieces.iter().any(meets)
    }
}

impl Cluster {
    /// Do a copy and all others under way into the same bytes combine in one way? Then their order does not matter.
    fn only_combines(&self, cta: usize, new: &Pending, piece: &Piece) -> bool {
        let (start, end) = (piece.shared, piece.shared + piece.bytes);
        let others = self.pending.iter();
        let mut others = others.filter(|other| other.writes(cta, start, end));
        new.shared_reduction.is_some()
            && others.all(|other| other.shared_reduction == new.shared_reduction)
    }

    /// The source of a copy has been read.
    fn end_reading(&mut self, pending: &Pending) {
        let Some((start, _)) = pending.source() else {
            return;
        };
        let reads = &mut self.ctas[pending.cta].reads;
        let is_own = |read: &Reading| {
            read.step == pending.step && read.start == start && read.group.is_none()
        };
        if let Some(index) = reads.iter().position(is_own) {
            reads.remove(index);
        }
    }

    /// Marks bytes that other copies still write, after one has written them.
    fn mark_in_flight(&mut self, cta: usize, piece: &Piece) {
        let (start, end) = (piece.shared, piece.shared + piece.bytes);
        let still = self
            .pending
            .iter()
            .find(|other| other.writes(cta, start, end));
        let Some(step) = still.map(|other| other.step) else {
            return;
        };
        let stamp = Stamp {
            actor: IN_FLIGHT,
            epoch: 0,
            step,
        };
        let shadow = &mut self.ctas[cta].shared.shadow;
        shadow.set(start as usize, piece.bytes as usize, stamp);
    }
}

impl Worker<'_> {
    /// Starts a copy into shared memory: until it completes, nobody may touch its destination.
    pub(crate) fn start_load(&self, scene: &mut Scene<'_>, pending: Pending) -> Stepped {
        let Work::Load { targets, .. } = &pending.work else {
            return Ok(());
        };
        for &(cta, _) in targets {
            self.check_destination(scene, cta, &pending)?;
            let stamp = Stamp {
                actor: IN_FLIGHT,
                epoch: 0,
                step: pending.step,
            };
            let shadow = &mut scene.cluster.ctas[cta].shared.shadow;
            pending
                .pieces
                .iter()
                .for_each(|piece| shadow.set(piece.shared as usize, piece.bytes as usize, stamp));
        }
        begin_reading(scene, &pending);
        scene.cluster.pending.push_back(pending);
        Ok(())
    }

    fn check_destination(&self, scene: &Scene<'_>, cta: usize, pending: &Pending) -> Stepped {
        if !self.context.launch.checks.races {
            return Ok(());
        }
        let owner = &scene.cluster.ctas[cta];
        for piece in &pending.pieces {
            let (start, end) = (piece.shared as usize, (piece.shared + piece.bytes) as usize);
            let mut words = owner
                .shared
                .shadow
                .words(start, piece.bytes as usize)
                .iter();
            let busy = words
                .find(|s| s.actor == IN_FLIGHT)
                .filter(|_| !scene.cluster.only_combines(cta, pending, piece));
            let other = busy.map(|stamp| (stamp.step, "still writes")).or_else(|| {
                let reading = owner
                    .reads
                    .iter()
                    .find(|read| read.start < end && start < read.end);
                reading.map(|reading| (reading.step, "still reads"))
            });
            if let Some((step, what)) = other {
                let place = super::report::name_step(self.context.program, self.context.code, step);
                let at = address(start);
                let message = format!(
                    "a copy into shared memory at {at:#x} starts while the operation at {place} {what} it; a wait for that is missing"
                );
                return Err(Box::new(Trouble {
                    kind: FaultKind::Race,
                    lanes: scene.mask,
                    address: Some(at),
                    bytes: Some(piece.bytes),
                    message,
                }));
            }
        }
        Ok(())
    }

    /// Starts a copy to global memory: until it completes, nobody may change its source.
    pub(crate) fn start_store(&self, scene: &mut Scene<'_>, pending: Pending) -> Stepped {
        for piece in &pending.pieces {
            self.check_async_read(
                scene,
                scene.cta,
                piece.shared as usize,
                piece.bytes as usize,
            )?;
        }
        begin_reading(scene, &pending);
        scene.cluster.pending.push_back(pending);
        Ok(())
    }

    /// Completes copies that are under way: all of them in the plain order, some under other seeds.
    pub(crate) fn run_engine(
        &mut self,
        cluster: &mut Cluster,
        must_progress: bool,
    ) -> Result<bool, (usize, u32, Halt)> {
        let mut progressed = false;
        let mut turns = cluster.pending.len();
        while turns > 0 && !cluster.pending.is_empty() {
            turns -= 1;
            let seeded = self.context.launch.seed != 0;
            let is_last_chance = must_progress && !progressed && turns == 0;
            if seeded && !is_last_chance && cluster.next_random() & 1 == 0 {
                cluster.pending.rotate_left(1);
                continue;
            }
            let index = if seeded {
                cluster.next_random() as usize % cluster.pending.len()
            } else {
                0
            };
            let Some(pending) = cluster.pending.remove(index) else {
                break;
            };
            let (cta, warp, step) = (pending.cta, pending.warp, pending.step);
            self.complete(cluster, &pending)
                .map_err(|trouble| (cta, warp, Halt { trouble, step }))?;
            progressed = true;
        }
        Ok(progressed)
    }

    /// Does what a copy stands for.
    pub(crate) fn complete(&mut self, cluster: &mut Cluster, pending: &Pending) -> Stepped {
        match &pending.work {
            Work::Load {
                targets,
                fill,
                bytes,
            } => {
                cluster.engine_epoch += 1;
                let stamp = Stamp {
                    actor: cluster.engine(),
                    epoch: cluster.engine_epoch,
                    step: pending.step,
                };
                let mut buffer = Vec::new();
                for piece in &pending.pieces {
                    self.fetch(cluster, pending.cta, piece, *fill, &mut buffer)?;
                    for &(cta, _) in targets {
                        let shared = &mut cluster.ctas[cta].shared;
                        deposit(
                            shared,
                            piece.shared as usize,
                            &buffer,
                            pending.shared_reduction,
                            stamp,
                        );
                        if pending.shared_reduction.is_some() {
                            cluster.mark_in_flight(cta, piece);
                        }
                    }
                }
                cluster.end_reading(pending);
                for id in targets.iter().filter_map(|(_, id)| *id) {
                    cluster.complete_bytes(id, *bytes)?;
                }
                Ok(())
            }
            Work::Store { reduction } => {
                for piece in &pending.pieces {
                    self.emit(cluster, pending.cta, piece, *reduction)?;
                }
                cluster.end_reading(pending);
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

    /// Reads global memory for the engine; bytes must be inside an allocation and written.
    pub(crate) fn read_global(&self, address: u64, buffer: &mut [u8]) -> Stepped {
        let bytes = buffer.len();
        let index = self.context.map.find(address, bytes as u64);
        let index = index
            .ok_or_else(|| self.out_of_bounds("asynchronous load", 0, address, bytes as u32))?;
        let allocation = &self.context.map.list()[index];
        let offset = (address - allocation.base) as usize;
        if self.context.launch.checks.uninitialised
            && let Some(missing) = allocation.written.first_missing(offset, bytes)
        {
            let missing = (missing - offset) as u32;
            return Err(super::access::unwritten(
                Memory::Global,
                0,
                address,
                bytes as u32,
                missing,
            ));
        }
        allocation.read(offset, buffer);
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
        self.counts.store(Memory::Global, 1, piece.bytes);
        let Some((op, ty)) = reduction else {
            allocation.write(offset, data);
            return Ok(());
        };
        if self.context.launch.checks.uninitialised
            && let Some(missing) = allocation.written.first_missing(offset, length)
        {
            return Err(super::access::unwritten(
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
            super::atomic::update_global(allocation, at, ty, |old| {
                super::atomic::apply(op, ty, old, integer(value), 0)
            });
        }
        Ok(())
    }
}

/// The source of a copy stays as it is until the copy has read it.
fn begin_reading(scene: &mut Scene<'_>, pending: &Pending) {
    if let Some((start, end)) = pending.source() {
        let reading = Reading {
            start,
            end,
            step: pending.step,
            actor: scene.warp.actor,
            group: pending.group.map(|group| (pending.lane, group)),
        };
        scene.cluster.ctas[scene.cta].reads.push(reading);
    }
}

fn integer(bytes: &[u8]) -> u64 {
    let mut value = [0; 8];
    value[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(value)
}

/// Writes what has come to shared memory.
pub(crate) fn deposit(
    shared: &mut Linear,
    index: usize,
    data: &[u8],
    reduction: Option<(AtomicOp, Type)>,
    stamp: Stamp,
) {
    if let Some((op, ty)) = reduction {
        let element = ty.bytes() as usize;
        for (part, value) in data.chunks_exact(element).enumerate() {
            let at = index + part * element;
            let old = integer(&shared.bytes[at..at + element]);
            let new = super::atomic::apply(op, ty, old, integer(value), 0).to_le_bytes();
            shared.bytes[at..at + element].copy_from_slice(&new[..element]);
        }
    } else {
        shared.bytes[index..index + data.len()].copy_from_slice(data);
    }
    shared.written[index..index + data.len()].fill(1);
    shared.shadow.set(index, data.len(), stamp);
}

fn nan_bytes(ty: Type) -> Vec<u8> {
    match ty {
        Type::F16 | Type::Bf16 => 0x7fffu16.to_le_bytes().to_vec(),
        Type::F64 => 0x7fff_ffff_ffff_ffffu64.to_le_bytes().to_vec(),
        _ => 0x7fff_ffffu32.to_le_bytes().to_vec(),
    }
}

/// The index in shared memory of an address that has been checked.
pub(crate) fn shared_index(address: u64) -> u32 {
    address as u32 - SHARED_BASE
}
