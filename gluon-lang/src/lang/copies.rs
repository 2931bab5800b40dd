//! Settings of any TMA copy, through a tensor map or linear.

use super::mix::ScalarOperand;
use super::{BulkCopy, Element, Scalar, TmaCopy};
use ir::ops::global::L2Policy;

macro_rules! said_of_copies {
    ($($copy:ident)*) => {$(
        impl<T: Element> $copy<T> {
            /// The L2 eviction priority of the copied data.
            #[inline]
            pub fn policy(mut self, policy: L2Policy) -> Self {
                self.core.policy = policy;
                self
            }

            /// Copies only if a condition holds. A predicated-off store still commits a group.
            #[inline]
            pub fn when(mut self, condition: Scalar<bool>) -> Self {
                self.core.condition = Some(condition.value());
                self
            }

            /// Multicasts a load to all CTAs of the cluster whose rank is a bit of `mask`: to the same offset in the shared memory of
            /// each, completing on the mbarrier at the same offset there.
            #[inline]
            pub fn multicast(mut self, mask: impl ScalarOperand<i32>) -> Self {
                self.core.multicast = Some(mask.into_raw());
                self
            }

            /// One CTA issues the multicast for all whose layout gives them the same part of the tile: each gets it at the same place of its
            /// own shared memory, and there the barrier in the same place completes. Without this each loads its part
            /// itself. For loads.
            ///
            /// The issuing CTA writes the shared memory of the others, so that it must have waited until they have read what was
            /// there.
            #[inline]
            pub fn multicast_copies(mut self) -> Self {
                self.core.to_copies = true;
                self
            }
        }
    )*};
}

said_of_copies!(BulkCopy TmaCopy);
