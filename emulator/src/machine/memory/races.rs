//! Checks accesses to shared memory against the shadow, and reports those that race.

use crate::fault::{FaultKind, Memory, Stepped, Trouble};
use crate::lanes::LANES;
use crate::machine::memory::address::shared_address;
use crate::machine::memory::misuse::unwritten;
use crate::machine::order::{Actor, Conflict, IN_FLIGHT, Kind, Lane, Missing, Range, Stamp};
use crate::machine::state::cluster::FirstUse;
use crate::machine::state::scene::{Scene, Worker};

impl Worker<'_> {
    /// An access by the generic proxy, of a lane of the executing warp.
    #[inline(always)]
    pub(crate) fn access_shared(
        &self,
        scene: &mut Scene<'_>,
        cta: usize,
        lane: usize,
        range: Range,
        kind: Kind,
    ) -> Stepped {
        self.access_repeated(scene, cta, lane, range, (kind, false))
    }

    /// The same; `repeats` says that it stores what is there already.
    pub(crate) fn access_repeated(
        &self,
        scene: &mut Scene<'_>,
        cta: usize,
        lane: usize,
        range: Range,
        (kind, repeats): (Kind, bool),
    ) -> Stepped {
        let stamp = Stamp {
            lane: Lane::of(lane),
            ..scene.stamp(kind)
        };
        if cta != scene.cta {
            self.access_remote(scene, cta, 1 << lane, stamp)?;
        }
        self.mark_ranges(scene, cta, 1 << lane, [range], (stamp, repeats))
    }

    /// An access to the shared memory of a CTA that begins now: of the executing warp, or of what it starts.
    pub(crate) fn access_as(
        &self,
        scene: &mut Scene<'_>,
        cta: usize,
        lanes: u32,
        ranges: impl IntoIterator<Item = Range>,
        stamp: Stamp,
    ) -> Stepped {
        self.mark_ranges(scene, cta, lanes, ranges, (stamp, false))
    }

    fn mark_ranges(
        &self,
        scene: &mut Scene<'_>,
        cta: usize,
        lanes: u32,
        ranges: impl IntoIterator<Item = Range>,
        (stamp, repeats): (Stamp, bool),
    ) -> Stepped {
        if !self.context.launch.checks.races {
            return Ok(());
        }
        let clocks = scene
            .warp
            .clocks
            .of(lanes.trailing_zeros() as usize % LANES);
        let shadow = &mut scene.cluster.ctas[cta].shared.shadow;
        let mut marker = shadow.begin(stamp, scene.warp.actor);
        marker.issued_by(Lane::of_mask(lanes));
        marker.repeating(repeats);
        for range in ranges {
            if let Err(conflict) = shadow.mark(&mut marker, range, clocks) {
                return Err(race(scene, (cta, range), lanes, stamp, conflict));
            }
        }
        Ok(())
    }

    /// Reads by the asynchronous proxy (a bulk store or a matrix product) of what the CTA of the executing warp has.
    pub(crate) fn access_to_read(
        &self,
        scene: &mut Scene<'_>,
        lanes: u32,
        ranges: impl Iterator<Item = Range> + Clone,
        stamp: Stamp,
    ) -> Stepped {
        // First, as what a copy in flight will write is not written yet either.
        self.access_as(scene, scene.cta, lanes, ranges.clone(), stamp)?;
        if !self.context.launch.checks.uninitialised {
            return Ok(());
        }
        let shared = &scene.cluster.ctas[scene.cta].shared;
        for (index, bytes) in ranges {
            if let Some(missing) = shared.first_unwritten(index, bytes as u32) {
                let (at, lane) = (
                    shared_address(index),
                    lanes.trailing_zeros() as usize % LANES,
                );
                let bytes = bytes as u32;
                let trouble = unwritten(Memory::Shared, lane, at, bytes, missing);
                return self.note_first_use(scene, trouble);
            }
        }
        Ok(())
    }

    /// A read of shared memory that nothing has written. Where the shadow keeps it, the cluster goes on: a write that races with the
    /// read says more than the read alone.
    pub(crate) fn note_first_use(&self, scene: &mut Scene<'_>, trouble: Box<Trouble>) -> Stepped {
        if !self.context.launch.checks.races {
            return Err(trouble);
        }
        let first = FirstUse {
            trouble,
            cta: scene.cta,
            warp: scene.warp.index,
            step: scene.path.pc,
            at_step: scene.cluster.steps,
        };
        scene.cluster.first_use.get_or_insert(first);
        Ok(())
    }
}

/// The report of two accesses that race.
fn race(
    scene: &Scene<'_>,
    (cta, (index, bytes)): (usize, Range),
    lanes: u32,
    stamp: Stamp,
    Conflict { earlier, missing }: Conflict,
) -> Box<Trouble> {
    let at = shared_address(index);
    let what = later_access(scene, stamp);
    let whose = scene.owner(cta);
    let (why, visible, help) = match missing {
        Missing::Fence => without_fence(scene, earlier),
        Missing::Order => without_order(scene, earlier, stamp),
    };
    let message = format!("{what} of {bytes} bytes in shared memory at {at:#x}{whose}, {why}");
    let trouble = Trouble {
        kind: FaultKind::Race,
        lanes,
        address: Some(at),
        bytes: Some(bytes as u32),
        message,
        related: Vec::new(),
        elsewhere: Vec::new(),
        help: None,
    };
    Box::new(trouble).see(earlier.step, visible).help(help)
}

/// The access at hand, as messages name it.
fn later_access(scene: &Scene<'_>, stamp: Stamp) -> &'static str {
    match scene.cluster.actors.get(stamp.actor) {
        Actor::Warp { .. } if stamp.kind.is_write() && stamp.kind.is_strong() => "atomic access",
        Actor::Warp { .. } if stamp.kind.is_write() => "store",
        Actor::Warp { .. } => "load",
        Actor::Products { .. } | Actor::ProductsOfWarp { .. } => "read by a matrix product",
        Actor::BulkGroups { .. } | Actor::BulkWrites { .. } => "read by a bulk store",
        Actor::Mbarrier(_) if stamp.kind.is_write() => "write by an asynchronous copy",
        Actor::Mbarrier(_) => "read by an asynchronous copy",
    }
}

/// Why the later access races, what the earlier one's line shows, and the help.
pub(crate) type Reason = (String, String, String);

fn without_fence(scene: &Scene<'_>, earlier: Stamp) -> Reason {
    let warp = scene.cluster.name(earlier.actor);
    (
        format!(
            "which {warp} wrote through the generic proxy, with no fence.proxy.async in between"
        ),
        format!("{warp} wrote it here"),
        "put `fence_async_shared()` between the store and the barrier or arrival that orders it: asynchronous copies and \
         matrix products read through the async proxy"
            .to_owned(),
    )
}

fn without_order(scene: &Scene<'_>, earlier: Stamp, later: Stamp) -> Reason {
    match scene.cluster.actors.get(earlier.actor) {
        Actor::Warp { .. } if earlier.epoch == IN_FLIGHT => (
            "while an asynchronous copy (cp.async) in flight writes them; a wait for it is missing".to_owned(),
            "the copy is issued here".to_owned(),
            "the thread that issued the copy must wait for it first (`async_copy_wait`)".to_owned(),
        ),
        Actor::Warp { .. } if earlier.actor == scene.warp.actor => of_own_warp(earlier),
        Actor::Warp { .. } => of_warp(scene, earlier, later),
        Actor::Mbarrier(id) => {
            let is_over = scene.cluster.has_completed(id, earlier.epoch);
            let does = match (earlier.kind.is_write(), is_over) {
                (true, false) => "while a copy in flight writes them; a wait for it is missing",
                (true, true) => "which a copy wrote that this warp has not waited for",
                (false, _) => "while a copy in flight may read them; a wait for it is missing",
            };
            let help = if later.kind.is_async() {
                "wait for the phase of the mbarrier that the copy completes on, and then for the threads that read its data, \
                 before the next copy is issued"
            } else {
                "wait for the phase of the mbarrier that the copy completes on"
            };
            (does.to_owned(), "the copy is issued here".to_owned(), help.to_owned())
        }
        Actor::Products { .. } | Actor::ProductsOfWarp { .. } => (
            "while a matrix product in flight may read them; a wait for it is missing".to_owned(),
            "the product is issued here".to_owned(),
            "wait for the `wgmma`, then signal the writer: by a barrier, or by an arrival at an mbarrier on which it waits"
                .to_owned(),
        ),
        Actor::BulkGroups { .. } | Actor::BulkWrites { .. } => (
            "while a bulk store in flight may read them; a wait for it is missing".to_owned(),
            "the store is issued here".to_owned(),
            "wait for its reads in the thread that issued it (`tma_store_wait_read`), then signal the other threads by a \
             barrier"
                .to_owned(),
        ),
    }
}

/// The earlier access is one of another lane of the same warp.
pub(crate) fn of_own_warp(earlier: Stamp) -> Reason {
    let did = match (earlier.kind.is_write(), earlier.kind.is_strong()) {
        (true, true) => "changed atomically",
        (true, false) => "wrote",
        (false, _) => "read",
    };
    (
        format!("which another lane of the same warp {did}, with no bar.warp.sync in between"),
        format!("another lane {did} it here"),
        "lanes do not run in lockstep: order them by `cta_barrier()` (in PTX `bar.warp.sync`), or by an mbarrier at which they arrive and on which they \
         wait"
            .to_owned(),
    )
}

/// The earlier access is one of a warp.
fn of_warp(scene: &Scene<'_>, earlier: Stamp, later: Stamp) -> Reason {
    let warp = scene.cluster.name(earlier.actor);
    let did = match (earlier.kind.is_write(), earlier.kind.is_strong()) {
        (true, true) => "updated atomically",
        (true, false) => "wrote",
        (false, _) => "read",
    };
    let help = if later.kind.is_async() {
        "order the other warp's access before the copy: wait for an mbarrier at which it arrives, \
         or for a barrier"
    } else {
        "order the two: by a barrier (`cta_barrier()`; `NamedBarrier` between partitions, `cluster_barrier()` between CTAs), or by an mbarrier at which \
         the first warp arrives and on which the second waits"
    };
    (
        format!("which {warp} {did}, with no barrier in between"),
        format!("{warp} {did} it here"),
        help.to_owned(),
    )
}
