//! An access, as the shadow of a memory keeps it.

use super::actor::ActorId;

/// Bytes of shared memory: where they begin and how many.
pub(crate) type Range = (usize, usize);

/// What an access does, as far as conflicts depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Kind(u16);

impl Kind {
    pub(crate) const READ: Self = Self(0);
    pub(crate) const WRITE: Self = Self(1);
    /// Atomic, volatile and relaxed accesses, which do not conflict with each other.
    pub(crate) const STRONG_READ: Self = Self(2);
    pub(crate) const STRONG_WRITE: Self = Self(3);
    pub(crate) const ASYNC_READ: Self = Self(4);
    pub(crate) const ASYNC_WRITE: Self = Self(5);
    /// A bulk reduction into shared memory.
    pub(crate) const ASYNC_REDUCTION: Self = Self(7);

    /// The tensor map of a bulk copy, by the tensormap proxy.
    pub(crate) const MAP_READ: Self = Self(4 | 8);

    pub(crate) fn is_write(self) -> bool {
        self.0 & 1 != 0
    }

    pub(crate) fn is_strong(self) -> bool {
        self.0 & 2 != 0
    }

    /// Of a tensor map.
    pub(crate) fn reads_map(self) -> bool {
        self.0 & 8 != 0
    }

    /// By the asynchronous proxy, or another that copies use.
    pub(crate) fn is_async(self) -> bool {
        self.0 & 4 != 0
    }

    /// The two accesses conflict: a race unless one happens before the other.
    pub(super) fn excludes(self, other: Self) -> bool {
        (self.is_write() || other.is_write()) && !(self.is_strong() && other.is_strong())
    }
}

/// An access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) epoch: u32,
    /// The step that accessed, or that started what did.
    pub(crate) step: u32,
    pub(crate) actor: ActorId,
    pub(crate) kind: Kind,
}

/// The epoch of an access in flight that nothing but its own completion orders.
pub(crate) const IN_FLIGHT: u32 = u32::MAX;
