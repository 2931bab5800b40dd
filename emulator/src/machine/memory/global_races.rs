//! Reports of races in global memory.

use crate::fault::{FaultKind, Memory, Related, Trouble};
use crate::machine::memory::host::line_of_host;
use crate::machine::memory::races::{Reason, of_own_warp};
use crate::machine::order::{Actor, GlobalConflict, GlobalStamp, IN_FLIGHT, Missing, Stamp};
use crate::machine::state::overlap::Overlap;
use crate::machine::state::scene::Scene;
use crate::program::source::{instruction_text, step_place};

/// The report of two accesses that race; the later one is `stamp`.
pub(crate) fn race(
    scene: &Scene<'_>,
    overlap: &Overlap,
    (address, bytes): (u64, usize),
    lanes: u32,
    (stamp, conflict): (GlobalStamp, GlobalConflict),
) -> Box<Trouble> {
    let earlier = conflict.earlier;
    let what = later_access(scene, stamp.stamp);
    let is_overlapped = earlier.launch != stamp.launch;
    let is_by_host = earlier.from.is_host();
    let (why, visible, help) = if is_by_host {
        of_host((earlier, stamp))
    } else if is_overlapped {
        of_launch(overlap, &earlier)
    } else {
        let who = name(scene, overlap, &earlier);
        match conflict.missing {
            Missing::Fence => without_fence(&who),
            Missing::Order => without_order(scene, &who, (earlier, stamp)),
        }
    };
    let message = format!(
        "{what} of {bytes} bytes in {} memory at {address:#x}, {why}",
        Memory::Global
    );
    let trouble = Trouble::access(FaultKind::Race, 0, address, bytes as u32, message).help(help);
    let trouble = Box::new(Trouble { lanes, ..*trouble });
    if is_by_host {
        trouble.see_elsewhere(Related {
            text: visible,
            place: Some(line_of_host(overlap.host().line(earlier.stamp))),
            ptx: String::new(),
        })
    } else if is_overlapped || earlier.from.device != stamp.from.device {
        let launched = overlap.launched(&earlier);
        let (program, code, step) = (&launched.program, &launched.code, earlier.stamp.step);
        let related = Related {
            text: visible,
            place: step_place(program, code, step),
            ptx: instruction_text(program, code, step),
        };
        trouble.see_elsewhere(related)
    } else {
        trouble.see(earlier.stamp.step, visible)
    }
}

/// The report of two lanes that store different values to one place by one instruction.
pub(crate) fn of_two_lanes(
    scene: &Scene<'_>,
    (address, bytes): (u64, u32),
    (one, other): (usize, usize),
) -> Box<Trouble> {
    let message = format!(
        "store of {bytes} bytes in {} memory at {address:#x} by lanes {one} and {other} of a warp, which store different values: which of them stays is not defined",
        Memory::Global
    );
    let trouble = Trouble::access(FaultKind::Race, other, address, bytes, message).help(
        "give each element to one thread, by a mask or by indices that differ, or use an atomic (`atomic_max`, `atomic_add`), which takes all of them",
    );
    let lanes = 1 << one | 1 << other;
    Box::new(Trouble { lanes, ..*trouble })
        .see(scene.path.pc, "both lanes store it here".to_owned())
}

/// The warp that accessed or issued, as seen by the executing one.
fn name(scene: &Scene<'_>, overlap: &Overlap, earlier: &GlobalStamp) -> String {
    if earlier.from == scene.place() {
        return format!("warp {}", earlier.warp);
    }
    let [x, y, z] = overlap.launched(earlier).cta_of(earlier.from);
    let of = if earlier.from.device == scene.cluster.device {
        String::new()
    } else {
        format!(" of rank {}", earlier.from.device)
    };
    format!("warp {} of CTA ({x},{y},{z}){of}", earlier.warp)
}

/// The access at hand, as messages name it. Actors are numbered by each cluster; the executing one knows its own.
fn later_access(scene: &Scene<'_>, stamp: Stamp) -> &'static str {
    match scene.cluster.actors.get(stamp.actor) {
        Actor::Warp { .. } if stamp.kind.is_write() && stamp.kind.is_strong() => "atomic access",
        Actor::Warp { .. } if stamp.kind.is_write() => "store",
        Actor::Warp { .. } if stamp.epoch == IN_FLIGHT => "read by an asynchronous copy",
        Actor::Warp { .. } => "load",
        _ if stamp.kind.reads_map() => "read of a tensor map",
        _ if stamp.kind.is_strong() => "reduction by a bulk copy",
        _ if stamp.kind.is_write() => "write by a bulk store",
        _ => "read by an asynchronous copy",
    }
}

/// The host did it, while the launch was in flight.
fn of_host((earlier, later): (GlobalStamp, GlobalStamp)) -> Reason {
    let did = if earlier.stamp.kind.is_write() {
        "wrote"
    } else {
        "read"
    };
    let both_strong = earlier.stamp.kind.is_strong() && later.stamp.kind.is_strong();
    let (why, help) = if both_strong {
        (
            format!("which the host {did}, and the scope of this leaves out the host"),
            "an atomic that the host takes part in names the threads of the system: `.scope(Scope::Sys)`",
        )
    } else {
        (
            format!(
                "which the host {did} while the launch was in flight, and nothing orders the two"
            ),
            "the host releases after its access (`MappedBuffer::release`), and the kernel acquires that before its own, at the scope of the system: `HostFlag::wait`, or `.scope(Scope::Sys).atomic_poll(..)`",
        )
    };
    (why, format!("the host {did} it here"), help.to_owned())
}

/// A launch before did it, and this one has not waited for its end.
fn of_launch(overlap: &Overlap, earlier: &GlobalStamp) -> Reason {
    let kernel = &overlap.launched(earlier).code.name;
    let (did, does) = if earlier.stamp.kind.is_write() {
        ("wrote", "writes")
    } else {
        ("read", "reads")
    };
    (
        format!(
            "which the previous launch, of {kernel}, {does}: it may still run, and this launch has not waited for its end"
        ),
        format!("the previous launch {did} it here"),
        "put `launch_wait()` (griddepcontrol.wait) before the access: a launch that overlaps the previous one (programmatic dependent launch) must wait before it accesses what that one writes, and before it overwrites what that one reads"
            .to_owned(),
    )
}

fn without_fence(who: &str) -> Reason {
    (
        format!("which {who} wrote through the generic proxy, with no fence.proxy.async in between"),
        format!("{who} wrote it here"),
        "put `fence.proxy.async.global` between the store and the copy, before or after what orders the two: asynchronous copies \
         access global memory through the async proxy"
            .to_owned(),
    )
}

fn without_order(
    scene: &Scene<'_>,
    who: &str,
    (earlier, later): (GlobalStamp, GlobalStamp),
) -> Reason {
    let kind = earlier.stamp.kind;
    if kind.is_async() || earlier.stamp.epoch == IN_FLIGHT {
        return in_flight(who, earlier.stamp);
    }
    let (did, did_it) = match (kind.is_write(), kind.is_strong()) {
        (true, true) => ("updated atomically", "updated it atomically"),
        (true, false) => ("wrote", "wrote it"),
        (false, _) => ("read", "read it"),
    };
    let both_strong = kind.is_strong() && later.stamp.kind.is_strong();
    if (earlier.from, earlier.warp) == (later.from, later.warp) {
        return of_own_warp(earlier.stamp);
    }
    let across = earlier.from.device != later.from.device;
    let (why, help) = match () {
        () if both_strong && across => (
            format!("which {who} {did}, and the scope of one of the two leaves out other GPUs"),
            "GPUs see each other's operations at the scope of the system: `.scope(Scope::Sys)` on both sides, or `signal` and `wait`, which have it"
                .to_owned(),
        ),
        () if across => (
            format!("which {who} {did}, and nothing orders the two across GPUs"),
            "the writer releases after its writes (and after a wait for its bulk stores) at the scope of the system, and the reader acquires that \
             before its access: `signal` and `wait`, or atomics with `.scope(Scope::Sys)`"
                .to_owned(),
        ),
        () if both_strong => (
            format!("which {who} {did}, and the scope of one of the two does not include the other"),
            "give both a scope that includes all threads that access it: the GPU (`Scope::Gpu`) where other CTAs do".to_owned(),
        ),
        () if earlier.from == scene.place() => (
            format!("which {who} {did}, with no barrier in between"),
            "order the two: by `cta_barrier()` (in PTX `bar.sync`), or by an mbarrier at which the first warp arrives and on which the second waits"
                .to_owned(),
        ),
        () => (
            format!("which {who} {did}, and nothing orders the two"),
            "CTAs run concurrently and in any order: give each its own elements, or use atomics; to pass data to another CTA, the writer releases after the access (`atomic_add`, `atomic_store`, not `.relaxed()`) and the other CTA acquires it before its access \
             (`atomic_poll`), both at a scope that includes the other"
                .to_owned(),
        ),
    };
    (why, format!("{who} {did_it} here"), help)
}

/// A copy accesses it, and no wait for it is known.
fn in_flight(who: &str, earlier: Stamp) -> Reason {
    if earlier.kind.reads_map() {
        return (
            format!("while a copy of {who} through the tensor map there may be in flight; a wait for it is missing"),
            "the copy is issued here".to_owned(),
            "wait for all copies through a tensor map before it is changed: for the phases of their mbarriers, and for stores in the \
             thread that issued them (`tma_store_wait_read(0)`)"
                .to_owned(),
        );
    }
    if earlier.kind.is_write() {
        return (
            format!("while a bulk store of {who} may still write them; a wait for it is missing"),
            "the store is issued here".to_owned(),
            "wait for its writes in the thread that issued it (`tma_store_wait(0)`; a wait for reads, `.read`, only frees shared \
             memory), then order the other threads after that one"
                .to_owned(),
        );
    }
    (
        format!("while an asynchronous copy of {who} may still read them; a wait for it is missing"),
        "the copy is issued here".to_owned(),
        "wait for the copy first (the phase of its mbarrier, or `async_copy_wait`), and order the threads that overwrite its source \
         after that"
            .to_owned(),
    )
}
