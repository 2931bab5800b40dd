//! Refuses accesses to shared memory that nothing orders behind the write that they meet.

use super::order::{IN_FLIGHT, NOBODY, Stamp};
use super::report::name_step;
use super::run::{Scene, Stepped, Worker};
use crate::decode::SHARED_BASE;
use crate::fault::{FaultKind, Memory, Trouble};

impl Scene<'_> {
    /// The mark of a write by this warp at this step.
    pub(crate) fn stamp(&self) -> Stamp {
        Stamp {
            actor: self.warp.actor,
            epoch: self.warp.epoch,
            step: self.path.pc,
        }
    }
}

impl Worker<'_> {
    fn step_name(&self, step: u32) -> String {
        name_step(self.context.program, self.context.code, step)
    }

    /// A load by the generic proxy.
    #[inline(always)]
    pub(crate) fn check_read(
        &self,
        scene: &Scene<'_>,
        cta: usize,
        lane: usize,
        index: usize,
        bytes: u32,
    ) -> Stepped {
        if !self.context.launch.checks.races {
            return Ok(());
        }
        for stamp in scene.cluster.ctas[cta]
            .shared
            .shadow
            .words(index, bytes as usize)
        {
            let is_ordered = stamp.actor == scene.warp.actor
                || stamp.actor == NOBODY
                || stamp.actor != IN_FLIGHT
                    && stamp.epoch <= scene.warp.knows.seen[usize::from(stamp.actor)];
            if !is_ordered {
                return Err(self.unordered(scene, *stamp, "load", 1 << lane, index, bytes));
            }
        }
        Ok(())
    }

    /// A store by the generic proxy: it must not meet a copy that is under way.
    #[inline(always)]
    pub(crate) fn check_write(
        &self,
        scene: &Scene<'_>,
        cta: usize,
        lane: usize,
        index: usize,
        bytes: u32,
    ) -> Stepped {
        if !self.context.launch.checks.races {
            return Ok(());
        }
        let owner = &scene.cluster.ctas[cta];
        let words = owner.shared.shadow.words(index, bytes as usize);
        if let Some(stamp) = words.iter().find(|stamp| stamp.actor == IN_FLIGHT) {
            return Err(self.unordered(scene, *stamp, "store", 1 << lane, index, bytes));
        }
        let end = index + bytes as usize;
        if let Some(reading) = owner
            .reads
            .iter()
            .find(|read| read.start < end && index < read.end)
        {
            let message = format!(
                "store of {bytes} bytes to shared memory at {:#x} while the operation at {} may still read them; a wait for it is missing",
                index + SHARED_BASE as usize,
                self.step_name(reading.step)
            );
            return Err(Trouble::access(
                FaultKind::Race,
                lane,
                address(index),
                bytes,
                message,
            ));
        }
        Ok(())
    }

    fn unordered(
        &self,
        scene: &Scene<'_>,
        stamp: Stamp,
        verb: &str,
        lanes: u32,
        index: usize,
        bytes: u32,
    ) -> Box<Trouble> {
        let place = self.step_name(stamp.step);
        let at = address(index);
        let why = if stamp.actor == IN_FLIGHT {
            format!("while the copy at {place} still writes them; a wait for it is missing")
        } else if stamp.actor == scene.cluster.engine() {
            format!("which the copy at {place} wrote, without waiting for it")
        } else {
            format!(
                "which warp {} wrote at {place}, with no barrier in between",
                scene.cluster.warp_name(stamp.actor)
            )
        };
        let message = format!("{verb} of {bytes} bytes in shared memory at {at:#x} {why}");
        Box::new(Trouble {
            kind: FaultKind::Race,
            lanes,
            address: Some(at),
            bytes: Some(bytes),
            message,
        })
    }

    /// A read by the asynchronous proxy (a bulk store or a matrix product) that a warp starts.
    pub(crate) fn check_async_read(
        &self,
        scene: &Scene<'_>,
        cta: usize,
        index: usize,
        bytes: usize,
    ) -> Stepped {
        // First, for what a copy under way will write is not written yet either.
        if self.context.launch.checks.races {
            self.check_async_order(scene, cta, index, bytes)?;
        }
        let shared = &scene.cluster.ctas[cta].shared;
        if self.context.launch.checks.uninitialised
            && let Some(missing) = shared.first_unwritten(index, bytes as u32)
        {
            return Err(super::access::unwritten(
                Memory::Shared,
                0,
                address(index),
                bytes as u32,
                missing,
            ));
        }
        Ok(())
    }

    fn check_async_order(
        &self,
        scene: &Scene<'_>,
        cta: usize,
        index: usize,
        bytes: usize,
    ) -> Stepped {
        let shared = &scene.cluster.ctas[cta].shared;
        let knows = &scene.warp.knows;
        for stamp in shared.shadow.words(index, bytes) {
            let actor = usize::from(stamp.actor);
            if stamp.actor == NOBODY {
                continue;
            }
            let is_seen = stamp.actor != IN_FLIGHT
                && (stamp.actor == scene.warp.actor || stamp.epoch <= knows.seen[actor]);
            if !is_seen {
                return Err(self.unordered(
                    scene,
                    *stamp,
                    "asynchronous read",
                    scene.mask,
                    index,
                    bytes as u32,
                ));
            }
            if stamp.actor != scene.cluster.engine() && stamp.epoch > knows.fenced[actor] {
                return Err(self.unfenced(scene, *stamp, index, bytes as u32));
            }
        }
        Ok(())
    }

    fn unfenced(&self, scene: &Scene<'_>, stamp: Stamp, index: usize, bytes: u32) -> Box<Trouble> {
        let at = address(index);
        let message = format!(
            "the asynchronous proxy reads shared memory at {at:#x}, which warp {} wrote through the generic proxy at {}; fence.proxy.async between the two is missing",
            scene.cluster.warp_name(stamp.actor),
            self.step_name(stamp.step)
        );
        Box::new(Trouble {
            kind: FaultKind::Race,
            lanes: scene.mask,
            address: Some(at),
            bytes: Some(bytes),
            message,
        })
    }
}

/// The shared address of an index.
pub(crate) fn address(index: usize) -> u64 {
    index as u64 + u64::from(SHARED_BASE)
}
