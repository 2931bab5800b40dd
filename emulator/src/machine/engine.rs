//! Copies that run by themselves: what is under way, and what completing it does.

use super::cta::Cluster;
use super::linear::Linear;
use super::mbarrier::{By, MbarrierId};
use super::order::{Actor, ActorId, Clock, Kind, Stamp};
use super::races::Range;
use super::run::{Halt, Scene, Stepped, Worker};
use crate::decode::SHARED_BASE;
use crate::fault::Memory;
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
    /// Into the shared memory of CTAs.
    Load {
        targets: Vec<Destination>,
        fill: Fill,
        bytes: u32,
    },
    /// To global memory.
    Store { reduction: Option<(AtomicOp, Type)> },
}

/// A CTA that gets bytes, and the mbarrier that counts them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Destination {
    pub(crate) cta: usize,
    pub(crate) mbarrier: MbarrierId,
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
    /// What had come when it was started.
    pub(crate) came: Clock,
}

impl Cluster {
    /// How messages name an actor.
    pub(crate) fn name(&self, actor: ActorId) -> String {
        let (cta, warp) = match self.actors.get(actor) {
            Actor::Warp { cta, warp } | Actor::BulkGroups { cta, warp, .. } => (cta, warp),
            Actor::Mbarrier(id) => return format!("the mbarrier at {:#x}", id.address),
            Actor::Products { cta, warpgroup } => (cta, warpgroup * 4),
        };
        if self.ctas.len() == 1 {
            format!("warp {warp}")
        } else {
            format!("warp {warp} of CTA {cta}")
        }
    }
}

impl Pending {
    /// The bytes that it reads of the shared memory of the CTA that started it.
    fn sources(&self) -> Vec<Range> {
        run(self.pieces.iter().filter_map(|piece| {
            let start = match (&self.work, piece.other) {
                (Work::Store { .. }, _) => piece.shared,
                (_, Other::Shared(start)) => start,
                _ => return None,
            };
            Some((start as usize, piece.bytes as usize))
        }))
    }

    /// The bytes of shared memory that it writes in each CTA.
    fn destinations(&self) -> Vec<Range> {
        let pieces = self.pieces.iter();
        run(pieces.map(|piece| (piece.shared as usize, piece.bytes as usize)))
    }

    /// Does it complete on an mbarrier?
    pub(crate) fn counts_on(&self, id: MbarrierId) -> bool {
        let Work::Load { targets, .. } = &self.work else {
            return false;
        };
        targets.iter().any(|target| target.mbarrier == id)
    }

    fn by(&self) -> By {
        By {
            cta: self.cta,
            warp: self.warp,
            step: self.step,
        }
    }
}

/// Pieces that fill a tile, in whatever order, as one access.
fn run(pieces: impl Iterator<Item = Range>) -> Vec<Range> {
    let pieces: Vec<Range> = pieces.collect();
    let start = pieces.iter().map(|(start, _)| *start).min().unwrap_or(0);
    let end = pieces.iter().map(|(start, bytes)| start + bytes).max();
    let length = end.unwrap_or(0) - start;
    if length > 0 && length == pieces.iter().map(|(_, bytes)| bytes).sum() {
        vec![(start, length)]
    } else {
        pieces
    }
}

impl Worker<'_> {
    /// Starts a copy into shared memory: an access at the phase of the mbarrier that counts it.
    pub(crate) fn start_load(&self, scene: &mut Scene<'_>, pending: Pending) -> Stepped {
        let Work::Load { targets, .. } = &pending.work else {
            return Ok(());
        };
        let (lane, lanes) = (pending.lane as usize, 1 << pending.lane);
        let kind = match pending.shared_reduction {
            Some(_) => Kind::ASYNC_REDUCTION,
            None => Kind::ASYNC_WRITE,
        };
        for &Destination { cta, mbarrier } in targets {
            if cta != scene.cta {
                self.visit(scene, cta, lanes, scene.stamp(kind))?;
            }
            self.use_mbarrier(scene, mbarrier, lane)?;
            self.check_turn(scene, mbarrier, lane)?;
            let stamp = scene.cluster.counted(mbarrier, pending.step, kind)?;
            scene.note_visit(cta, lanes, stamp);
            self.access_as(scene, cta, lanes, pending.destinations(), stamp)?;
            let reads = Stamp {
                kind: Kind::ASYNC_READ,
                ..stamp
            };
            self.access_to_read(scene, lanes, pending.sources().into_iter(), reads)?;
        }
        scene.cluster.pending.push_back(pending);
        Ok(())
    }

    /// Starts a copy to global memory: an access of the bulk group that the thread has open.
    pub(crate) fn start_store(
        &self,
        scene: &mut Scene<'_>,
        pending: Pending,
        group: u64,
    ) -> Stepped {
        let actor = scene.bulk_actor(pending.lane);
        let stamp = Stamp {
            epoch: group as u32 + 1,
            step: pending.step,
            actor,
            kind: Kind::ASYNC_READ,
        };
        let sources = pending.sources();
        self.access_to_read(scene, 1 << pending.lane, sources.into_iter(), stamp)?;
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
                let mut buffer = Vec::new();
                for piece in &pending.pieces {
                    self.fetch(cluster, pending.cta, piece, *fill, &mut buffer)?;
                    for target in targets {
                        let shared = &mut cluster.ctas[target.cta].shared;
                        let index = piece.shared as usize;
                        deposit(shared, index, &buffer, pending.shared_reduction);
                    }
                }
                for target in targets {
                    cluster.complete_bytes(target, *bytes, (pending.by(), &pending.came))?;
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
