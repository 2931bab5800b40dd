//! Waiting for launches on ranks, where one that does not end is the end of the process.

use crate::cuda::leave_saying;
use crate::error::{Error, Result};
use crate::world::World;

/// Waits for all ranks. A launch that does not end ends the process, as on one device: what follows would wait for it.
pub(super) fn synchronize(world: &World) -> Result<()> {
    let ended = world.synchronize();
    if let Err(error @ Error::RanksLate { .. }) = &ended {
        leave_saying(&error.to_string());
    }
    ended
}
