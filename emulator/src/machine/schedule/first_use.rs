//! Reads of uninitialised shared memory. If a later write races with such a read, the race is reported instead of the read.

use crate::fault::{Fault, FaultKind};
use crate::machine::schedule::report::fault;
use crate::machine::state::cluster::{Cluster, FirstUse};
use crate::machine::state::context::Context;

/// Steps of a cluster in which such a write must follow; after them the read is reported.
const PATIENCE_STEPS: u64 = 1 << 18;

/// The result of a cluster's slice in which a read found uninitialised memory. The cluster continues with zeros: if a write to that
/// memory then races with the read, the race is the mistake; otherwise the read is.
pub(crate) fn judge(
    context: &Context<'_>,
    cluster: &mut Cluster,
    ended: Result<bool, Box<Fault>>,
) -> Result<bool, Box<Fault>> {
    let Some(first) = &cluster.first_use else {
        return ended;
    };
    match ended {
        Err(race) if race.kind == FaultKind::Race && overlaps(&race, first) => return Err(race),
        Ok(false) if cluster.steps < first.at_step + PATIENCE_STEPS => return Ok(false),
        _ => {}
    }
    let Some(first) = cluster.first_use.take() else {
        return ended;
    };
    let place = (cluster.ctas[first.cta].index, first.warp, first.step);
    Err(fault(context.program, context.code, *first.trouble, place))
}

/// Does the race concern bytes of the uninitialised read?
fn overlaps(race: &Fault, first: &FirstUse) -> bool {
    let bytes = |address: Option<u64>, bytes: Option<u32>| {
        let (start, length) = (address?, u64::from(bytes?));
        Some((start, start + length))
    };
    let raced = bytes(race.address, race.bytes);
    let read = bytes(first.trouble.address, first.trouble.bytes);
    raced.zip(read).is_some_and(|(a, b)| a.0 < b.1 && b.0 < a.1)
}
