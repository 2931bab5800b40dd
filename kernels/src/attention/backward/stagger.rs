//! The distance of the two consumer warpgroups in a step.
//!
//! Both exchange dS in each step. From there on they would issue the same products and stores at the same time: terms of dQ are stored while products read their operands from shared memory, and exponentials of both wait for one
//! another's scores. One that sleeps for a moment keeps apart from the other for the rest of the step (`bench/results/attention.md`, "Warpgroups apart").

use tilekit::prelude::*;

use super::consumer::Consumer;
use super::lines::has_depth_of_parts;
use super::part::may_ascend;
use super::walk::Walk;
use crate::attention::modifier::Modifier;

/// Where in a step a warpgroup sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In front of the store of its terms of dQ: warpgroup 0.
    BeforeTerms,
    /// Behind the exchange of dS, in front of the products: warpgroup 1.
    BehindExchange,
}

impl Place {
    /// The place that was the fastest of six; none in a fixed order where heads may ascend, in which each lost, and where a modifier computes more between products, which was not timed.
    fn of<M: Modifier>(depth: usize, is_ordered: bool) -> Option<Place> {
        let is_slower = is_ordered && may_ascend(depth);
        if !M::SCALES_LATER || M::DROPS || is_slower {
            None
        } else if has_depth_of_parts(depth) && !is_ordered {
            Some(Place::BeforeTerms)
        } else {
            Some(Place::BehindExchange)
        }
    }

    /// The warpgroup that sleeps.
    fn group(self) -> usize {
        match self {
            Place::BeforeTerms => 0,
            Place::BehindExchange => 1,
        }
    }
}

impl<T, W: Walk> Consumer<T, W> {
    /// Sleeps if this is the place, and the warpgroup, that does: for 1 ns, which takes some 40 cycles (PTX ISA 9.7.19.4). 40 ns and more are slower than none.
    #[device]
    pub(super) fn sleep_at(self, place: Place) {
        let chosen = Place::of::<W::Modifier>(self.depths[0], self.block.is_ordered);
        if chosen == Some(place) && self.group == place.group() {
            let () = inline_ptx_with_effects("nanosleep.u32 1;", ());
        }
    }
}
