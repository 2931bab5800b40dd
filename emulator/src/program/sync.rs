//! Steps of mbarriers.

use super::operand::{AccessSpace, AddressBase, File};

/// What is done to an mbarrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MbarrierKind {
    Init,
    Invalidate,
    /// Announces bytes.
    Expect,
    /// `complete_tx`: bytes have been delivered.
    Complete,
    Arrive {
        /// The operand is a number of bytes.
        expects: bool,
        /// The thread does not take part in later phases.
        drops: bool,
        /// The arrival may complete the phase.
        completes: bool,
        /// Later waiters see what the thread wrote before.
        releases: bool,
    },
    Wait {
        /// The operand is a parity rather than a state.
        parity: bool,
        /// The thread may sleep until the phase is over.
        suspends: bool,
    },
}

/// An instruction on an mbarrier.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MbarrierOp {
    pub(crate) kind: MbarrierKind,
    pub(crate) space: AccessSpace,
    pub(crate) base: AddressBase,
    /// Slot of a count or a number of bytes, or [`NONE`](super::NONE).
    pub(crate) operand: u32,
    /// Slot of the result, a state or a predicate, or [`NONE`](super::NONE).
    pub(crate) result: u32,
    /// The phase that is waited for.
    pub(crate) phase: Phase,
}

/// Register with a state or a parity.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Phase {
    pub(crate) file: File,
    pub(crate) slot: u32,
}
