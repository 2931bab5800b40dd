//! The accesses of an exchange through shared memory.

use smallvec::SmallVec;

use super::per_thread::PerThread;

/// The threads that exchange data with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Each warp by itself, in its own part of the scratch: `bar.warp.sync`.
    Warp,
    /// All warps of the CTA.
    Cta,
    /// All CTAs of the cluster; loads go to distributed shared memory.
    Cluster,
}

/// One round of stores and loads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// What every storing thread writes.
    pub stores: Vec<LaneAccess>,
    /// What every thread reads.
    pub loads: Vec<LaneAccess>,
}

/// One access; the byte offset that a lane gives is `(thread part ^ xor_bytes) + add_bytes`, a multiple of the vector's
/// size or of a matrix row's 16 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneAccess {
    /// The registers, the first at the lowest address. For a store these are the source's registers, for a load the
    /// values that the results pick from.
    pub registers: SmallVec<[u32; 8]>,
    /// The part of the offset in bits that the thread part has too.
    pub xor_bytes: u32,
    /// The part of the offset in other bits: an immediate of the instruction.
    pub add_bytes: u32,
    /// The access's own part of the CTA to read from: see [`RemoteRead`].
    pub block_xor: u32,
}

/// The CTA whose scratch a load reads is `thread ^ access.block_xor`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteRead {
    /// The part that depends on the thread.
    pub thread: PerThread,
}

impl LaneAccess {
    /// The byte offset in a thread with the given part.
    pub fn offset_bytes(&self, thread_part: u32) -> u32 {
        (thread_part ^ self.xor_bytes) + self.add_bytes
    }
}

/// Bytes of a row of a matrix (PTX ISA 9.7.14.5.15).
pub(crate) const MATRIX_ROW_BYTES: u32 = 16;

/// How a warp accesses shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessKind {
    /// `ld.shared`, `st.shared`: every lane accesses its own registers at its own offset.
    Vector,
    /// `ldmatrix`, `stmatrix` without `.trans` (PTX ISA 9.7.14.5.15): an access moves one, two or four matrices of eight
    /// rows of 16 bytes. Lane `8 * m + r` gives the offset of row `r` of matrix `m`; lane `l` holds the bytes
    /// `4 * (l % 4)` to `4 * (l % 4) + 3` of row `l / 4` of every matrix. The registers of an access are listed matrix by
    /// matrix, within one from the lowest byte.
    Matrix,
    /// The same with `.trans`, for elements of 16 bits: lane `l` holds the elements `l / 4` of the rows `2 * (l % 4)` and
    /// `2 * (l % 4) + 1`, in this order.
    Transposed,
}
