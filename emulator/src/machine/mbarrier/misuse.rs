//! What is said of mbarriers that are misused.

use super::{By, MAX_COUNT, Mbarrier, MbarrierId};
use crate::fault::{FaultKind, Trouble};
use crate::machine::order::Stamp;
use crate::machine::run::Stepped;

pub(super) fn misuse(lanes: u32, id: MbarrierId, message: String) -> Box<Trouble> {
    Box::new(Trouble {
        kind: FaultKind::Mbarrier,
        lanes,
        address: Some(id.address.into()),
        bytes: Some(8),
        message,
        related: Vec::new(),
        help: None,
    })
}

/// There is nothing at this address.
pub(super) fn not_made(lanes: u32, id: MbarrierId) -> Box<Trouble> {
    let message = format!(
        "there is no initialised mbarrier at {:#x}; mbarrier.init comes first, and ends at mbarrier.inval",
        id.address
    );
    misuse(lanes, id, message)
        .help("it is used before `init` or behind `invalidate`, or in a CTA that does not make it")
}

/// It is used by a warp to which it has not come that it is made.
pub(super) fn unseen(id: MbarrierId, lane: usize, init: Stamp, maker: &str) -> Box<Trouble> {
    let message = format!(
        "the mbarrier at {:#x} is used, and nothing says that it is made by then: {maker} makes it, with no barrier in between",
        id.address
    );
    misuse(1 << lane, id, message)
        .see(init.step, "the mbarrier is made here")
        .help("let all who use it meet after it is made: a barrier of the CTA, or of the cluster where other CTAs use it")
}

/// It is made where there is one already.
pub(super) fn twice(old: &Mbarrier, id: MbarrierId, lane: usize) -> Box<Trouble> {
    let message = format!(
        "the mbarrier at {:#x} is initialised again without mbarrier.inval",
        id.address
    );
    misuse(1 << lane, id, message)
        .see(old.init.step, "it was initialised here")
        .help("`invalidate` it first, or allocate another one")
}

/// It ends, or a phase of it does, and a copy still counts on it.
pub(super) fn not_expected(
    mbarrier: &Mbarrier,
    id: MbarrierId,
    ends: &str,
    copy: u32,
) -> Box<Trouble> {
    let message = format!(
        "{ends} the mbarrier at {:#x} while a copy that completes on it is under way, whose bytes it does not expect",
        id.address
    );
    misuse(0, id, message)
        .see(copy, "the copy starts here")
        .see(mbarrier.init.step, "the mbarrier is made here")
        .help("expect the bytes of all copies of a phase before or with the arrival that ends it (`expect`)")
}
/// Two phases have ended while a warp waited for the first of them.
pub(super) fn overtaken(
    mbarrier: &Mbarrier,
    id: MbarrierId,
    warp: &str,
    wait: u32,
) -> Box<Trouble> {
    let ended = mbarrier.phase - 1;
    let message = format!(
        "this ends phase {ended} of the mbarrier at {:#x} before {warp}, which waits for phase {}, has gone on: it finds the same \
         parity again, and may wait for good",
        id.address,
        ended - 1
    );
    misuse(0, id, message)
        .see(wait, format!("{warp} waits here"))
        .see(mbarrier.init.step, format!("the mbarrier is made here, with a count of {}", mbarrier.count))
        .help("nobody arrives for the next phase before all have waited for this one: let those who wait arrive at another mbarrier, \
               or make this one with a higher count")
}

/// What is wrong with more arrivals than a phase counts.
pub(super) fn excess(
    mbarrier: &Mbarrier,
    lanes: u32,
    id: MbarrierId,
    (count, bytes): (u32, u32),
) -> Box<Trouble> {
    let (address, phase) = (id.address, mbarrier.phase);
    let awaited = mbarrier.bytes - i64::from(bytes);
    let message = if mbarrier.pending == 0 && awaited > 0 {
        format!(
            "an arrival too many at the mbarrier at {address:#x}: phase {phase} has had all {} and still waits for {awaited} bytes of copies",
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
            format!("it is made here, with a count of {}", mbarrier.count),
        )
        .help("make it with the number of arrivals that a phase gets; an `expect` is one too")
}

/// What is wrong with an arrival that may count in the phase before; `other` is one of that phase, and who made it.
pub(super) fn early(
    mbarrier: &Mbarrier,
    (id, owner): (MbarrierId, &str),
    lane: usize,
    other: Option<(Stamp, String)>,
) -> Box<Trouble> {
    let (address, phase, before) = (id.address, mbarrier.phase, mbarrier.phase - 1);
    let message = format!(
        "this counts in phase {phase} of the mbarrier at {address:#x}{owner}, and nothing orders it behind the end of phase {before}: \
         in another order it comes too many to that phase, which counts {} arrivals",
        mbarrier.count
    );
    let trouble = misuse(1 << lane, id, message);
    let trouble = match other {
        Some((other, who)) => trouble.see(other.step, format!("{who} arrives in phase {before}")),
        None => trouble,
    };
    let made = format!(
        "the mbarrier is made here, with a count of {}",
        mbarrier.count
    );
    trouble.see(mbarrier.init.step, made).help(
        "where both belong to one phase, make the mbarrier with a higher count; where they do not, wait for the earlier phase, \
         or for what comes from somebody who has",
    )
}

pub(super) fn check_bytes(mbarrier: &Mbarrier, id: MbarrierId) -> Stepped {
    if mbarrier.bytes.unsigned_abs() <= MAX_COUNT.into() {
        return Ok(());
    }
    let message = format!(
        "the transaction count of the mbarrier at {:#x} leaves its range: {} bytes",
        id.address, mbarrier.bytes
    );
    Err(misuse(0, id, message))
}

impl Mbarrier {
    /// What is wrong when this ends an mbarrier that expects bytes, or has got some that nobody expected; and whose
    /// bytes these are.
    pub(crate) fn uneven_bytes(&self, address: u32, end: &str) -> (Box<Trouble>, By) {
        let (bytes, phase) = (self.bytes.unsigned_abs(), self.phase);
        let (message, help) = if self.bytes > 0 {
            (
                format!(
                    "{end} while phase {phase} of the mbarrier at {address:#x} expects {bytes} bytes that no copy has brought"
                ),
                "start the copy that brings them, or expect the bytes that the copies of the phase bring in all",
            )
        } else {
            (
                format!(
                    "{end} with {bytes} bytes more on phase {phase} of the mbarrier at {address:#x} than it expects"
                ),
                "expect the bytes of all copies that complete on it, in each CTA that gets them (`expect`)",
            )
        };
        let trouble = Trouble::new(FaultKind::Mbarrier, 0, message);
        let trouble = trouble
            .see(self.init.step, "the mbarrier is made here")
            .help(help);
        (trouble, self.counted_by)
    }
}
