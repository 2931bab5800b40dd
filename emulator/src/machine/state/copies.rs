//! Asynchronous copies in flight: those of TMA, and `cp.async`.

use crate::lanes::LANES;
use crate::machine::order::{Clocks, MbarrierId, Range};
use crate::machine::state::costs::COPY_CHUNK;
use crate::machine::state::mbarrier::By;
use crate::program::AtomicOp;
use ptx::Type;

/// Bytes that are contiguous in source and destination.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    /// Index in the shared memory of a CTA.
    pub(crate) shared: u32,
    pub(crate) bytes: u32,
    pub(crate) other: Other,
}

/// The most that one thread stores by one instruction.
pub(crate) const MAX_GIVEN_BYTES: usize = target::WIDEST_ACCESS_BYTES as usize;

/// The other side of a piece.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Other {
    Global(u64),
    /// Index in the shared memory of the CTA that started the copy.
    Shared(u32),
    /// Bytes out of the registers of the thread that started it; those of the piece are the first.
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
        /// Each word is an f32 that is rounded to tf32.
        rounds_to_tf32: bool,
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

/// A copy in flight.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) step: u32,
    pub(crate) cta: usize,
    pub(crate) warp: u32,
    pub(crate) lane: u32,
    /// Number of the bulk group of the thread.
    pub(crate) group: Option<u64>,
    pub(crate) pieces: Vec<Piece>,
    /// Its tensor map, if that lies in global memory.
    pub(crate) map: Option<u64>,
    pub(crate) work: Work,
    /// A reduction into shared memory.
    pub(crate) shared_reduction: Option<(AtomicOp, Type)>,
    /// What happens before its issue.
    pub(crate) carried: Clocks,
    /// When its bytes arrive, where a launch models time.
    pub(crate) arrives_at: u64,
}

impl Pending {
    /// The bytes that it reads of the shared memory of the CTA that started it.
    pub(crate) fn sources(&self) -> Vec<Range> {
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
    pub(crate) fn destinations(&self) -> Vec<Range> {
        let pieces = self.pieces.iter();
        run(pieces.map(|piece| (piece.shared as usize, piece.bytes as usize)))
    }

    /// All bytes that it moves.
    pub(crate) fn bytes(&self) -> u64 {
        let pieces = self.pieces.iter();
        pieces.map(|piece| u64::from(piece.bytes)).sum()
    }

    /// The bytes that L2 is read for it, in the model of time. What follows each other in memory is one run, however it is swizzled.
    pub(crate) fn l2_bytes(&self) -> u64 {
        let chunks = |(start, end): (u64, u64)| end.div_ceil(COPY_CHUNK) - start / COPY_CHUNK;
        let (mut count, mut run) = (0, (0, 0));
        for piece in &self.pieces {
            let Other::Global(address) = piece.other else {
                continue;
            };
            if address != run.1 {
                count += chunks(run);
                run.0 = address;
            }
            run.1 = address.saturating_add(u64::from(piece.bytes));
        }
        (count + chunks(run)) * COPY_CHUNK
    }

    /// Does it complete on an mbarrier?
    pub(crate) fn counts_on(&self, id: MbarrierId) -> bool {
        let Work::Load { targets, .. } = &self.work else {
            return false;
        };
        targets.iter().any(|target| target.mbarrier == id)
    }

    pub(crate) fn by(&self) -> By {
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

/// Bulk groups of a thread.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BulkGroups {
    /// Number of the uncommitted group.
    pub(crate) current: u64,
    /// The uncommitted group has copies.
    pub(crate) has_open: bool,
    /// Groups below this number have been waited for.
    pub(crate) waited: u64,
    /// The step of the last store.
    pub(crate) last_store: u32,
}

impl BulkGroups {
    pub(crate) fn last_store(self) -> u32 {
        self.last_store
    }

    /// The thread has copies that it has not waited for.
    pub(crate) fn is_unfinished(self) -> bool {
        self.has_open || self.waited < self.current
    }
}

/// A `cp.async` of a warp that is not complete in the lanes of `lanes`.
#[derive(Clone, Debug)]
pub(crate) struct CopyInFlight {
    pub(crate) step: u32,
    pub(crate) lanes: u32,
    /// Number of the group that each lane's copy belongs to.
    pub(crate) groups: [u32; LANES],
    /// CTA, index in its shared memory, global address, bytes read, bytes written.
    pub(crate) moves: [(usize, u32, u64, u32); LANES],
    pub(crate) bytes: u32,
}

/// Copies of the threads of a warp.
#[derive(Clone, Debug, Default)]
pub(crate) struct ThreadCopies {
    pub(crate) started: Vec<CopyInFlight>,
    pub(crate) current: [u32; LANES],
}
