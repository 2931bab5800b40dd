//! Faults of single accesses: misaligned, uninitialised.

use crate::fault::{FaultKind, Memory, Stepped, Trouble};
use crate::lanes::{LANES, PerLane, lanes_of};

/// Refuses addresses that are not multiples of the size of the access.
pub(crate) fn check_aligned(
    memory: Memory,
    verb: &str,
    addresses: &PerLane,
    mask: u32,
    bytes: u32,
) -> Stepped {
    let mut low = 0;
    for lane in 0..LANES {
        low |= if mask & (1 << lane) != 0 {
            addresses[lane]
        } else {
            0
        };
    }
    if low & u64::from(bytes - 1) == 0 {
        return Ok(());
    }
    let is_crooked = |lane: &usize| !addresses[*lane].is_multiple_of(bytes.into());
    let lane = lanes_of(mask).find(is_crooked).unwrap_or(0);
    let address = addresses[lane];
    let message = format!(
        "{verb} of {bytes} bytes in {memory} memory at {address:#x} is misaligned: the address must be a multiple of {bytes}"
    );
    Err(
        Trouble::access(FaultKind::Misaligned, lane, address, bytes, message)
            .help("pad rows to this multiple, and promise no more than is true (`#[multiple_of]`)"),
    )
}

/// The fault of a read of uninitialised bytes.
pub(crate) fn unwritten(
    memory: Memory,
    lane: usize,
    address: u64,
    bytes: u32,
    missing: u32,
) -> Box<Trouble> {
    let message = format!(
        "load of {bytes} bytes from {memory} memory at {address:#x} reads uninitialised memory: nothing has written byte {missing} of it"
    );
    let help = match memory {
        Memory::Shared => {
            "store to it first; where a copy fills it, wait for the phase that the copy completes (an mbarrier starts in phase 0, and a \
             wait for parity 1 then returns at once)"
        }
        _ => "write the buffer first, or mask what has not been written",
    };
    Trouble::access(FaultKind::Uninitialised, lane, address, bytes, message).help(help)
}
