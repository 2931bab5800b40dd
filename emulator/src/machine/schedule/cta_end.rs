//! Checks at the exit of a CTA: remote accesses and copies to its shared memory have completed, and no transaction bytes are pending.

use crate::fault::{Fault, FaultKind, Trouble};
use crate::machine::memory::remote::ENDS_FIRST;
use crate::machine::order::Actor;
use crate::machine::schedule::report::fault;
use crate::machine::state::cluster::{Cluster, Cta, RemoteAccess};
use crate::machine::state::context::Context;
use crate::machine::state::mbarrier::Mbarrier;

const COPY_ENDS_FIRST: &str = "a thread of that CTA must wait for the phase of the mbarrier that counts the bytes; a cluster barrier does \
                               not order them";

/// Checks a cluster whose threads have all exited.
pub(crate) fn check_end(context: &Context<'_>, cluster: &Cluster) -> Result<(), Box<Fault>> {
    for (rank, cta) in cluster.ctas.iter().enumerate() {
        if context.launch.checks.races {
            check_remote_accesses(context, cluster, (rank, cta))?;
        }
        check_bytes(context, cluster, cta)?;
    }
    Ok(())
}

fn check_remote_accesses(
    context: &Context<'_>,
    cluster: &Cluster,
    (rank, cta): (usize, &Cta),
) -> Result<(), Box<Fault>> {
    let mut early = cta.remote_accesses.values();
    let is_early = |remote: &&RemoteAccess| !cta.at_end.has(&remote.stamp);
    let Some(remote) = early.find(is_early) else {
        return Ok(());
    };
    let owner = if cluster.ctas.len() > 1 {
        format!("CTA {rank} of the cluster")
    } else {
        "the CTA".to_owned()
    };
    let (what, help) = match cluster.actors.get(remote.stamp.actor) {
        Actor::Mbarrier(_) => (
            "this copy reads or writes its shared memory",
            COPY_ENDS_FIRST,
        ),
        _ => ("this accesses its shared memory", ENDS_FIRST),
    };
    let message =
        format!("{owner} may exit while {what}: none of its threads waits until that is over");
    let trouble = Trouble::new(FaultKind::Race, remote.lanes, message).help(help);
    let place = (
        cluster.ctas[remote.cta].index,
        remote.warp,
        remote.stamp.step,
    );
    Err(fault(context.program, context.code, *trouble, place))
}

/// mbarriers whose transaction count is not zero.
fn check_bytes(context: &Context<'_>, cluster: &Cluster, cta: &Cta) -> Result<(), Box<Fault>> {
    let uneven = |(_, mbarrier): &(_, &Mbarrier)| mbarrier.bytes != 0;
    let Some((&address, mbarrier)) = cta.mbarriers.iter().find(uneven) else {
        return Ok(());
    };
    let (trouble, by) = mbarrier.uneven_bytes(address, "the kernel exits");
    let place = (cluster.ctas[by.cta].index, by.warp, by.step);
    Err(fault(context.program, context.code, *trouble, place))
}
