//! Operands of steps: register slots, addresses, and what moves between them and memory.

use smallvec::SmallVec;

/// "No such thing" among indices.
pub(crate) const NONE: u32 = u32::MAX;

/// Register files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum File {
    Word,
    Double,
    Predicate,
}

/// State spaces as accesses see them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum AccessSpace {
    Generic,
    Global,
    Shared,
    SharedCluster,
    Local,
    Const,
    Param,
}

/// The register that an address starts from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AddressBase {
    pub(crate) file: File,
    pub(crate) slot: u32,
    pub(crate) offset: i64,
}

/// How an element of memory becomes a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extend {
    Zero,
    Sign,
}

/// A register as part of a memory access; a 128-bit one is two doubles.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub(crate) file: File,
    pub(crate) slot: u32,
    /// Bits of the register that an extended value fills.
    pub(crate) bits: u32,
}

/// The order of an operation that is not weak: relaxed, volatile or stronger (PTX ISA 8.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Strong {
    /// The threads for which it is one.
    pub(crate) scope: ptx::Scope,
    pub(crate) acquires: bool,
    pub(crate) releases: bool,
}

/// A load or a store.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub(crate) space: AccessSpace,
    pub(crate) base: AddressBase,
    /// Bytes of an element: 1, 2, 4 or 8 (16-byte elements are two of 8).
    pub(crate) element: u32,
    /// Bytes per lane.
    pub(crate) bytes: u32,
    /// How the access orders itself, unless it is weak.
    pub(crate) strong: Option<Strong>,
    pub(crate) extend: Extend,
    /// One per element.
    pub(crate) cells: SmallVec<[Cell; 4]>,
}

/// What an atomic does to its element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtomicOp {
    Add,
    Min,
    Max,
    Inc,
    Dec,
    And,
    Or,
    Xor,
    Exchange,
    CompareSwap,
}

/// An atomic read-modify-write, with or without a result.
#[derive(Clone, Debug)]
pub(crate) struct Atomic {
    pub(crate) space: AccessSpace,
    pub(crate) base: AddressBase,
    pub(crate) op: AtomicOp,
    pub(crate) ty: ptx::Type,
    pub(crate) strong: Strong,
    pub(crate) dsts: SmallVec<[Option<Cell>; 4]>,
    pub(crate) sources: SmallVec<[Cell; 4]>,
    /// The new value of `cas`.
    pub(crate) swap: Option<Cell>,
}
