//! How ops access shared memory, and by which atomic steps.

use smallvec::SmallVec;

use super::define::attr_enum;
use crate::elem::DType;
use crate::entity::Value;

attr_enum! {
    /// Which read-modify-write.
    pub enum AtomicOp {
        /// Adds.
        Add = "add",
        /// The smaller stays.
        Min = "min",
        /// The larger stays.
        Max = "max",
        /// Bitwise and.
        And = "and",
        /// Bitwise or.
        Or = "or",
        /// Bitwise exclusive or.
        Xor = "xor",
        /// The new value.
        Exchange = "xchg",
    }
}

impl AtomicOp {
    /// Is it one step on elements of this type?
    pub fn accepts(self, dtype: DType) -> bool {
        let is_word = matches!(dtype, DType::I32 | DType::U32 | DType::I64 | DType::U64);
        match self {
            AtomicOp::Add => {
                is_word || matches!(dtype, DType::F16 | DType::Bf16 | DType::F32 | DType::F64)
            }
            // Floats are compared by their bits as integers, one way for each sign of the value.
            AtomicOp::Min | AtomicOp::Max => is_word || matches!(dtype, DType::F32 | DType::F64),
            AtomicOp::And | AtomicOp::Or | AtomicOp::Xor => is_word,
            AtomicOp::Exchange => is_word || matches!(dtype, DType::F32 | DType::F64),
        }
    }
}

/// How an op touches a view of shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedAccess {
    /// Reads it.
    Read,
    /// Writes it.
    Write,
    /// Changes it by atomic steps, which do not disturb each other.
    Atomic,
    /// Tests the phase of the mbarrier there; it has no release semantics.
    Poll,
    /// Combines it with values by atomic steps of one kind: their order among themselves does not matter, but for an
    /// exchange.
    Combine(AtomicOp),
    /// Initialises an mbarrier there, with its own fence: the async proxy observes it once all threads have passed a CTA barrier.
    Initialise,
    /// Reads the same place in another CTA of the cluster, and lets others read it here.
    RemoteRead,
    /// Writes the same place in another CTA of the cluster, and lets others write it here.
    RemoteWrite,
    /// Threads copy into it asynchronously (`cp.async`), until they wait for their copies.
    Copy,
    /// Issues an asynchronous read of it, by TMA or a bulk copy.
    AsyncRead,
    /// Issues an asynchronous read of it, by the tensor cores.
    OperandRead,
    /// Issues an asynchronous write of it, by TMA.
    AsyncWrite,
    /// Issues an asynchronous write of the same place in another CTA of the cluster, as others do of this one.
    AsyncRemoteWrite,
    /// Asynchronous atomic changes: the mbarrier on which a copy completes its bytes.
    AsyncAtomic,
}

impl SharedAccess {
    /// Is it done asynchronously through the async proxy, by TMA or the tensor cores?
    pub const fn is_asynchronous(self) -> bool {
        matches!(
            self,
            Self::AsyncRead
                | Self::OperandRead
                | Self::AsyncWrite
                | Self::AsyncRemoteWrite
                | Self::AsyncAtomic
        )
    }
}

/// The views of shared memory that an op touches.
pub type SharedAccesses = SmallVec<[(Value, SharedAccess); 1]>;

attr_enum! {
    /// Among whom it is atomic.
    pub enum Scope {
        /// All threads of the GPU: the default.
        Gpu = "gpu",
        /// The threads of the CTA.
        Cta = "cta",
        /// The threads of the cluster.
        Cluster = "cluster",
        /// All threads of the system, host included.
        Sys = "sys",
    }
    unsaid Gpu
}
