//! An access, as the shadow of a memory records it.

use super::actor::ActorId;

/// A range of bytes of shared memory.
pub(crate) type Range = (usize, usize);

/// The kind of an access, which decides its conflicts.
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

    /// A read of a tensor map by a bulk copy.
    pub(crate) fn reads_map(self) -> bool {
        self.0 & 8 != 0
    }

    /// Does the access use the async proxy, or another proxy of bulk copies?
    pub(crate) fn is_async(self) -> bool {
        self.0 & 4 != 0
    }

    /// Do the two accesses conflict? They race unless one happens before the other.
    pub(super) fn excludes(self, other: Self) -> bool {
        (self.is_write() || other.is_write()) && !(self.is_strong() && other.is_strong())
    }
}

/// An access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) epoch: u32,
    /// The step that made the access, or that issued the asynchronous operation that did.
    pub(crate) step: u32,
    pub(crate) actor: ActorId,
    pub(crate) kind: Kind,
    /// The lane, where a warp made the access.
    pub(crate) lane: Lane,
}

/// The lane of a warp that made an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Lane(u8);

impl Default for Lane {
    fn default() -> Self {
        Self::UNKNOWN
    }
}

impl Lane {
    /// Several lanes.
    pub(crate) const SEVERAL: Self = Self(32);
    /// A lane that is not recorded: nothing is reported that depends on it.
    pub(crate) const UNKNOWN: Self = Self(33);

    pub(crate) fn of(lane: usize) -> Self {
        Self(lane as u8)
    }

    /// The lane of a mask with one lane, else several.
    pub(crate) fn of_mask(lanes: u32) -> Self {
        if lanes.is_power_of_two() {
            Self(lanes.trailing_zeros() as u8)
        } else {
            Self::SEVERAL
        }
    }

    /// Can the lane be one of these? Several lanes can, if these are several.
    pub(crate) fn is_within(self, lanes: u32) -> bool {
        match self {
            Self::UNKNOWN => true,
            Self::SEVERAL => !lanes.is_power_of_two(),
            Self(lane) => lanes >> lane & 1 != 0,
        }
    }

    /// Are the two certainly different lanes?
    pub(super) fn differs(self, other: Self) -> bool {
        let is_open = |lane: Self| lane == Self::UNKNOWN;
        self != other && !is_open(self) && !is_open(other)
    }

    /// For two accesses to the same granule.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::UNKNOWN, _) | (_, Self::UNKNOWN) => Self::UNKNOWN,
            _ if self == other => self,
            _ => Self::SEVERAL,
        }
    }
}

/// A range of bytes that one access touches, and the lanes that do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) range: Range,
    pub(crate) lanes: RunLanes,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum RunLanes {
    /// All bytes by this.
    All(Lane),
    /// So many bytes by each lane, from this one on.
    Each { first: usize, bytes: usize },
}

impl Run {
    /// The lane that accesses the byte at so many bytes from the start.
    #[inline(always)]
    pub(super) fn lane_at(&self, at: usize) -> Lane {
        match self.lanes {
            RunLanes::All(lane) => lane,
            RunLanes::Each { first, bytes } => Lane::of(first + at / bytes),
        }
    }

    /// So many bytes of it, and the rest. It is cut between two lanes.
    pub(super) fn split_at(self, at: usize) -> (Self, Self) {
        let (start, length) = self.range;
        let lanes = match self.lanes {
            RunLanes::All(_) => self.lanes,
            RunLanes::Each { first, bytes } => RunLanes::Each {
                first: first + at / bytes,
                bytes,
            },
        };
        let head = Self {
            range: (start, at),
            ..self
        };
        let tail = Self {
            range: (start + at, length - at),
            lanes,
        };
        (head, tail)
    }
}

/// Bytes accessed by a lane that is not recorded.
impl From<Range> for Run {
    fn from(range: Range) -> Self {
        Self {
            range,
            lanes: RunLanes::All(Lane::UNKNOWN),
        }
    }
}

/// The epoch of an access in flight that only its own completion orders.
pub(crate) const IN_FLIGHT: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_of_one_granule_are_by_one_lane_by_several_or_not_known() {
        let (one, other) = (Lane::of(1), Lane::of(2));
        assert_eq!(one.and(one), one);
        assert_eq!(one.and(other), Lane::SEVERAL);
        assert_eq!(Lane::SEVERAL.and(one), Lane::SEVERAL);
        for lane in [one, Lane::SEVERAL, Lane::UNKNOWN] {
            assert_eq!(lane.and(Lane::UNKNOWN), Lane::UNKNOWN);
            assert_eq!(Lane::UNKNOWN.and(lane), Lane::UNKNOWN);
        }
    }

    #[test]
    fn a_run_is_cut_between_two_lanes() {
        let run = Run {
            range: (100, 32),
            lanes: RunLanes::Each { first: 3, bytes: 8 },
        };
        assert_eq!(
            [0, 7, 8, 31].map(|at| run.lane_at(at)),
            [3, 3, 4, 6].map(Lane::of)
        );
        let (head, tail) = run.split_at(16);
        assert_eq!((head.range, tail.range), ((100, 16), (116, 16)));
        assert_eq!([head.lane_at(8), tail.lane_at(0)], [4, 5].map(Lane::of));
        let (_, tail) = Run::from((100, 32)).split_at(16);
        assert_eq!((tail.range, tail.lane_at(4)), ((116, 16), Lane::UNKNOWN));
    }
}
