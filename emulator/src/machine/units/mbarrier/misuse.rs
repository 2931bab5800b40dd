//! Reports of misused mbarriers.

use crate::fault::{FaultKind, Stepped, Trouble};
use crate::machine::order::{MbarrierId, Stamp};
use crate::machine::state::mbarrier::{By, Mbarrier};

pub(crate) fn misuse(lanes: u32, id: MbarrierId, message: String) -> Box<Trouble> {
    Box::new(Trouble {
        kind: FaultKind::Mbarrier,
        lanes,
        address: Some(id.address.into()),
        bytes: Some(8),
        message,
        related: Vec::new(),
        elsewhere: Vec::new(),
        help: None,
    })
}

/// There is no mbarrier at this address.
pub(crate) fn not_made(lanes: u32, id: MbarrierId) -> Box<Trouble> {
    let message = format!(
        "there is no initialised mbarrier at {:#x}; it must follow mbarrier.init and precede mbarrier.inval",
        id.address
    );
    misuse(lanes, id, message).help(
        "it is used before `init` or after `invalidate`, or in a CTA that does not initialise it",
    )
}

/// A warp uses it, and its initialisation does not happen before.
pub(crate) fn unordered_use(id: MbarrierId, lane: usize, init: Stamp, maker: &str) -> Box<Trouble> {
    let message = format!(
        "the mbarrier at {:#x} is used, and nothing orders that after its initialisation by {maker}: no barrier is in between",
        id.address
    );
    misuse(1 << lane, id, message)
        .see(init.step, "the mbarrier is initialised here")
        .help("put a CTA barrier between the initialisation and the first use, or a cluster barrier where other CTAs use it")
}

/// Its initialisation happens before, and is not visible to who uses it.
pub(crate) fn unpublished(
    id: MbarrierId,
    lane: usize,
    (init, maker): (Stamp, &str),
    by_copy: bool,
) -> Box<Trouble> {
    let (used, whom) = if by_copy {
        ("a copy counts its bytes at", "the async proxy")
    } else {
        ("this uses", "this thread")
    };
    let message = format!(
        "{used} the mbarrier at {:#x}, whose initialisation by {maker} is not visible to {whom}: no fence.mbarrier_init is in between",
        id.address
    );
    misuse(1 << lane, id, message)
        .see(init.step, "the mbarrier is initialised here")
        .help(
            "the thread that initialises mbarriers executes fence.mbarrier_init.release.cluster after the last of them, and then the \
             barrier that orders their use",
        )
}

/// It is invalidated, and an arrival or a wait of another warp may come later.
pub(crate) fn still_used(
    id: MbarrierId,
    lane: usize,
    user: Stamp,
    (warp, does): (&str, &str),
) -> Box<Trouble> {
    let message = format!(
        "this ends the mbarrier at {:#x}, and nothing orders it after {warp}, which {does} it: in another order that comes later",
        id.address
    );
    misuse(1 << lane, id, message)
        .see(user.step, format!("{warp} {does} it here"))
        .help("put a barrier of all threads that use the mbarrier before `invalidate`")
}

/// It is initialised again.
pub(crate) fn twice(old: &Mbarrier, id: MbarrierId, lane: usize) -> Box<Trouble> {
    let message = format!(
        "the mbarrier at {:#x} is initialised again without mbarrier.inval",
        id.address
    );
    misuse(1 << lane, id, message)
        .see(old.init.step, "it was initialised here")
        .help("`invalidate` it first, or allocate another one")
}

/// It ends, or a phase of it does, and a copy still counts on it.
pub(crate) fn not_expected(
    mbarrier: &Mbarrier,
    id: MbarrierId,
    ends: &str,
    copy: u32,
) -> Box<Trouble> {
    let message = format!(
        "{ends} the mbarrier at {:#x} while a copy that completes on it is in flight, whose bytes it does not expect",
        id.address
    );
    misuse(0, id, message)
        .see(copy, "the copy is issued here")
        .see(mbarrier.init.step, "the mbarrier is initialised here")
        .help("expect the bytes of all copies of a phase before or with the arrival that ends it (`expect`)")
}
/// Two phases have ended while a warp waited for the first of them.
pub(crate) fn overtaken(
    mbarrier: &Mbarrier,
    id: MbarrierId,
    warp: &str,
    wait: u32,
) -> Box<Trouble> {
    let ended = mbarrier.phase - 1;
    let message = format!(
        "this ends phase {ended} of the mbarrier at {:#x} before {warp}, which waits for phase {}, has observed that: the parity is the same \
         again, and the warp may wait forever",
        id.address,
        ended - 1
    );
    misuse(0, id, message)
        .see(wait, format!("{warp} waits here"))
        .see(mbarrier.init.step, format!("the mbarrier is initialised here, with a count of {}", mbarrier.count))
        .help("no thread may arrive for the next phase before every waiter has observed this one: the waiters arrive at a second \
               mbarrier, or this one is initialised with a higher count")
}

/// A phase ends, and nothing orders that after a wait that has observed the end of the phase before.
pub(crate) fn aliased(
    mbarrier: &Mbarrier,
    id: MbarrierId,
    (warp, wait): (&str, u32),
) -> Box<Trouble> {
    let (ended, before) = (mbarrier.phase, mbarrier.phase as i64 - 1);
    let message = format!(
        "this ends phase {ended} of the mbarrier at {:#x}, and nothing orders it after {warp}, which waits for phase {before}: in another \
         order both have ended before that wait, the parity is the same again, and the warp waits forever",
        id.address
    );
    misuse(0, id, message)
        .see(wait, format!("{warp} waits here"))
        .see(mbarrier.init.step, format!("the mbarrier is initialised here, with a count of {}", mbarrier.count))
        .help("no thread may arrive for the next phase before every waiter has observed this one: the waiters arrive at a second \
               mbarrier, or this one is initialised with a higher count")
}

/// The report of more arrivals than a phase counts.
pub(crate) fn excess(
    mbarrier: &Mbarrier,
    lanes: u32,
    id: MbarrierId,
    (count, bytes): (u32, u32),
) -> Box<Trouble> {
    let (address, phase) = (id.address, mbarrier.phase);
    let awaited = mbarrier.bytes - i64::from(bytes);
    let message = if mbarrier.pending == 0 && awaited > 0 {
        format!(
            "one arrival too many at the mbarrier at {address:#x}: phase {phase} has had all {} and still waits for {awaited} bytes of copies",
            mbarrier.count
        )
    } else {
        format!(
            "{count} arrivals at the mbarrier at {address:#x}, whose phase {phase} misses {} of {}",
            mbarrier.pending, mbarrier.count
        )
    };
    misuse(lanes, id, message)
        .see(
            mbarrier.init.step,
            format!("it is initialised here, with a count of {}", mbarrier.count),
        )
        .help("initialise it with the number of arrivals of a phase; `expect` counts as one")
}

/// The report of an arrival that may count in the previous phase; `other` is an arrival of that phase, and its warp.
pub(crate) fn early(
    mbarrier: &Mbarrier,
    (id, owner): (MbarrierId, &str),
    lane: usize,
    other: Option<(Stamp, String)>,
) -> Box<Trouble> {
    let (address, phase, before) = (id.address, mbarrier.phase, mbarrier.phase - 1);
    let message = format!(
        "this arrival counts in phase {phase} of the mbarrier at {address:#x}{owner}, and nothing orders it after the completion of phase {before}: \
         in another schedule it is one arrival too many for that phase, which counts {}",
        mbarrier.count
    );
    let trouble = misuse(1 << lane, id, message);
    let trouble = match other {
        Some((other, warp)) => trouble.see(other.step, format!("{warp} arrives in phase {before}")),
        None => trouble,
    };
    let made = format!(
        "the mbarrier is initialised here, with a count of {}",
        mbarrier.count
    );
    trouble.see(mbarrier.init.step, made).help(
        "if both belong to one phase, initialise the mbarrier with a higher count; else wait for the earlier phase, or for a signal of a thread that has waited for it",
    )
}

/// The transaction count lies within `most` bytes of 0 (PTX ISA 9.7.13.15.2).
pub(crate) fn check_bytes(mbarrier: &Mbarrier, id: MbarrierId, most: u32) -> Stepped {
    if mbarrier.bytes.unsigned_abs() <= most.into() {
        return Ok(());
    }
    let message = format!(
        "the transaction count of the mbarrier at {:#x} leaves its range: {} bytes",
        id.address, mbarrier.bytes
    );
    Err(misuse(0, id, message))
}

impl Mbarrier {
    /// The report when `end` leaves an mbarrier with a transaction count that is not zero, and the warp that changed that count
    /// last.
    pub(crate) fn uneven_bytes(&self, address: u32, end: &str) -> (Box<Trouble>, By) {
        let (bytes, phase) = (self.bytes.unsigned_abs(), self.phase);
        let (message, help) = if self.bytes > 0 {
            (
                format!(
                    "{end} while phase {phase} of the mbarrier at {address:#x} expects {bytes} bytes that no copy has delivered"
                ),
                "issue the copy that delivers them, or expect the number of bytes that the copies of the phase deliver",
            )
        } else {
            (
                format!(
                    "{end} after {bytes} bytes more have been delivered to phase {phase} of the mbarrier at {address:#x} than it expects"
                ),
                "expect the bytes of all copies that complete on it, in each CTA that receives them (`expect`)",
            )
        };
        let trouble = Trouble::new(FaultKind::Mbarrier, 0, message);
        let trouble = trouble
            .see(self.init.step, "the mbarrier is initialised here")
            .help(help);
        (trouble, self.counted_by)
    }
}
