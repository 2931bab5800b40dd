//! Accesses at places that were computed from integers that had wrapped.

use crate::fault::{FaultKind, LaneSet, Trouble};
use crate::lanes::Origin;
use crate::machine::state::scene::{Halt, Worker};
use crate::machine::state::warp::Warp;
use crate::program::Watch;

impl Worker<'_> {
    /// No address of the lanes of `mask` comes from an integer that wrapped. The report is at the operation that did.
    #[cold]
    pub(super) fn check_addresses(
        &self,
        warp: &Warp,
        watch: &Watch,
        mask: u32,
        access: u32,
    ) -> Result<(), Halt> {
        if !self.context.launch.checks.wraps {
            return Ok(());
        }
        let mut slots = watch.addresses.iter();
        let found = slots.find_map(|slot| warp.regs.wraps.of(*slot, mask));
        match found {
            None => Ok(()),
            Some((lanes, origin)) => Err(Halt {
                trouble: wrapped(lanes, origin, access),
                step: origin.step,
            }),
        }
    }
}

fn wrapped(lanes: u32, origin: Origin, access: u32) -> Box<Trouble> {
    let Origin { lane, exact, .. } = origin;
    let message = format!(
        "an integer of 32 bits wraps around here, and lanes {} access memory at an address that is computed from it: in lane {lane} the \
         result is {exact}, of which {} is left",
        LaneSet(lanes),
        exact as i32
    );
    Trouble::new(FaultKind::IntegerOverflow, lanes, message)
        .see(access, "the access is here")
        .help(
            "compute in 64 bits (`cast::<i64>()` before the product or the sum); or cast to `u32` first, whose arithmetic may wrap, where \
             that is meant",
        )
}
