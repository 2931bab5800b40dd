//! An access, as the shadow of a memory keeps it.

use super::actor::ActorId;

/// Bytes of shared memory: where they begin and how many.
pub(crate) type Range = (usize, usize);

/// What an access does, as far as conflicts depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Kind(u8);

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
    /// Of an access of a warp.
    pub(crate) lane: Lane,
}

/// Which lane of a warp accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Lane(u8);

impl Default for Lane {
    fn default() -> Self {
        Self::UNKNOWN
    }
}

impl Lane {
    /// More than one.
    pub(crate) const SEVERAL: Self = Self(32);
    /// Nothing is reported that holds for some lanes alone.
    pub(crate) const UNKNOWN: Self = Self(33);

    pub(crate) fn of(lane: usize) -> Self {
        Self(lane as u8)
    }

    /// The one of these lanes, if there is one.
    pub(crate) fn of_mask(lanes: u32) -> Self {
        if lanes.is_power_of_two() {
            Self(lanes.trailing_zeros() as u8)
        } else {
            Self::SEVERAL
        }
    }

    /// Is it one of these? Several may be, if these are several.
    pub(crate) fn is_within(self, lanes: u32) -> bool {
        match self {
            Self::UNKNOWN => true,
            Self::SEVERAL => !lanes.is_power_of_two(),
            Self(lane) => lanes >> lane & 1 != 0,
        }
    }

    /// Is it certain that a lane of both is another one?
    pub(super) fn differs(self, other: Self) -> bool {
        let is_open = |lane: Self| lane == Self::UNKNOWN;
        self != other && !is_open(self) && !is_open(other)
    }

    /// Of two accesses to the same place.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::UNKNOWN, _) | (_, Self::UNKNOWN) => Self::UNKNOWN,
            _ if self == other => self,
            _ => Self::SEVERAL,
        }
    }
}

/// The epoch of an access in flight that nothing but its own completion orders.
pub(crate) const IN_FLIGHT: u32 = u32::MAX;
