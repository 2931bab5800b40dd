//! What the accesses of a kernel cost a warp, for tests of its author's.

use lowering::costs::{self, Cost, Entry};

use super::instance::Instance;
use crate::error::{Error, Result};

/// An access to global memory through pointers, as one warp executes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coalescing {
    /// The op: `load`, `store`, `async_copy`, or an atomic.
    pub op: &'static str,
    /// The line of the source that it stands in; 0 where none is known.
    pub line: u32,
    /// Bytes that a thread accesses at once.
    pub thread_bytes: u32,
    /// Sectors of [`sector_bytes`](Self::sector_bytes) that the costliest request of a warp touches, each counted once however many lanes access it.
    pub sectors: u32,
    /// Bytes of these sectors that the warp's lanes use, each counted once.
    pub used_bytes: u32,
    /// Bytes of a sector, in which global memory is read and written.
    pub sector_bytes: u32,
    /// What keeps the access from being wider, and what would widen it; one line each.
    pub advice: Vec<String>,
}

impl Coalescing {
    /// Sectors beyond those that the bytes used would fill.
    pub fn wasted_sectors(&self) -> u32 {
        self.sectors
            - self
                .used_bytes
                .div_ceil(self.sector_bytes)
                .min(self.sectors)
    }
}

/// A move of a tile between registers and shared memory, as one warp executes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BankConflicts {
    /// The op: `smem_load`, `smem_store`, or `smem_alloc` with elements.
    pub op: &'static str,
    /// The line of the source that it stands in; 0 where none is known.
    pub line: u32,
    /// Bytes that a thread moves by one instruction.
    pub thread_bytes: u32,
    /// How often the warp goes through the banks.
    pub wavefronts: u32,
    /// Wavefronts of these beyond those that the bytes need.
    pub conflicts: u32,
}

/// See [`Kernel::coalescing`](super::Kernel::coalescing).
pub(super) fn coalescing(kernel: &Instance) -> Result<Vec<Coalescing>> {
    let entries = entries(kernel)?.into_iter();
    let of = |entry: Entry| match entry.cost {
        Cost::Global(_, cost) => Some(Coalescing {
            op: entry.mnemonic,
            line: line(&entry),
            thread_bytes: cost.vector_bytes,
            sectors: cost.sectors,
            used_bytes: cost.used_bytes,
            sector_bytes: cost.sector_bytes,
            advice: entry.advice,
        }),
        Cost::Shared(..) | Cost::Conversion(_) => None,
    };
    Ok(entries.filter_map(of).collect())
}

/// See [`Kernel::bank_conflicts`](super::Kernel::bank_conflicts).
pub(super) fn bank_conflicts(kernel: &Instance) -> Result<Vec<BankConflicts>> {
    let entries = entries(kernel)?.into_iter();
    let of = |entry: Entry| match entry.cost {
        Cost::Shared(_, cost) => Some(BankConflicts {
            op: entry.mnemonic,
            line: line(&entry),
            thread_bytes: cost.thread_bytes,
            wavefronts: cost.wavefronts,
            conflicts: cost.conflicts,
        }),
        Cost::Global(..) | Cost::Conversion(_) => None,
    };
    Ok(entries.filter_map(of).collect())
}

fn entries(kernel: &Instance) -> Result<Vec<Entry>> {
    let traced = kernel.trace().map_err(Error::Kernel)?;
    costs::of(&traced.func).map_err(Error::Kernel)
}

fn line(entry: &Entry) -> u32 {
    entry.place.as_ref().map_or(0, |place| place.line)
}
