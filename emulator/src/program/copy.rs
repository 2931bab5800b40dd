//! Steps that start asynchronous copies.

use super::operand::{AccessSpace, AddressBase, AtomicOp, Cell};
use ptx::Type;
use smallvec::SmallVec;

/// An address in a state space.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    pub(crate) space: AccessSpace,
    pub(crate) base: AddressBase,
}

/// `cp.async`: each thread copies 4, 8 or 16 bytes.
#[derive(Clone, Debug)]
pub(crate) struct ThreadCopy {
    pub(crate) dst: Spot,
    pub(crate) src: Spot,
    pub(crate) bytes: u32,
    /// Slot of the number of bytes that are read; the rest becomes zero.
    pub(crate) src_bytes: Option<u32>,
}

/// What a bulk copy or a TMA copy moves.
#[derive(Clone, Debug)]
pub(crate) struct BulkCopy {
    pub(crate) kind: BulkKind,
    /// The side in shared memory of this CTA or of the cluster.
    pub(crate) shared: Spot,
    /// Where the arrival of bytes is counted; copies without are in bulk groups.
    pub(crate) mbarrier: Option<Spot>,
    /// Slot of the mask of CTAs that get the bytes.
    pub(crate) multicast: Option<u32>,
    /// Operation and type of a reduction.
    pub(crate) reduction: Option<(AtomicOp, Option<Type>)>,
}

/// The other side of a bulk copy.
#[derive(Clone, Debug)]
pub(crate) enum BulkKind {
    /// From global memory: address and slot of the number of bytes.
    FromGlobal {
        src: Spot,
        bytes: u32,
    },
    ToGlobal {
        dst: Spot,
        bytes: u32,
    },
    /// From shared memory of this CTA to that of another one.
    ToCluster {
        src: Spot,
        bytes: u32,
    },
    /// A box of the tensor of a map.
    FromTensor(TensorBox),
    ToTensor(TensorBox),
}

/// A place in a tensor.
#[derive(Clone, Debug)]
pub(crate) struct TensorBox {
    /// Address of the tensor map.
    pub(crate) map: Spot,
    /// Slots of the coordinates, the innermost first.
    pub(crate) coords: SmallVec<[u32; 5]>,
    /// The instruction names pixels rather than a box.
    pub(crate) im2col: bool,
    /// Slots of the im2col offsets.
    pub(crate) offsets: SmallVec<[u32; 3]>,
}

/// `tensormap.replace`
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplaceField {
    pub(crate) map: Spot,
    pub(crate) field: ptx::TensormapField,
    pub(crate) index: u32,
    pub(crate) value: Cell,
}

/// Waiting for copies of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupOp {
    Commit,
    /// Until at most so many groups are open.
    Wait(u32),
    /// Until at most so many groups have not read their sources.
    WaitRead(u32),
    /// Until all copies are complete, those of no group included.
    WaitAll,
}

/// `st.async` and `red.async`
#[derive(Clone, Debug)]
pub(crate) struct RemoteStore {
    pub(crate) dst: Spot,
    pub(crate) mbarrier: Spot,
    pub(crate) element: u32,
    pub(crate) sources: SmallVec<[Cell; 4]>,
    pub(crate) reduction: Option<(AtomicOp, Type)>,
}
