//! What an operand of a copy names: shared memory of a CTA, an mbarrier, or other memory.

use crate::fault::{FaultKind, Memory, Stepped, Trouble};
use crate::machine::memory::address::{Target, addresses, shared_owner};
use crate::machine::order::MbarrierId;
use crate::machine::state::scene::{Scene, Worker};
use crate::program::copy::Spot;

impl Worker<'_> {
    /// The address of a spot in a lane, in the memory that it means.
    pub(crate) fn place(
        &self,
        scene: &Scene<'_>,
        spot: &Spot,
        lane: usize,
    ) -> Option<(Target, u64)> {
        let all = addresses(&scene.warp.regs, &spot.base);
        let mut rest = 1 << lane;
        Target::next(spot.space, &all, &mut rest).map(|(target, _, within)| (target, within[lane]))
    }

    /// A spot that must be in shared memory: its CTA and its address there.
    pub(crate) fn shared_place(
        &self,
        scene: &Scene<'_>,
        spot: &Spot,
        lane: usize,
        what: &str,
    ) -> Stepped<(usize, u64)> {
        match self.place(scene, spot, lane) {
            Some((Target::Shared, address)) => shared_owner(scene, lane, address),
            other => {
                let address = other.map_or(0, |(_, address)| address);
                let message = format!("{what} at {address:#x} must be in shared memory");
                Err(Trouble::access(
                    FaultKind::OutOfBounds,
                    lane,
                    address,
                    0,
                    message,
                ))
            }
        }
    }

    pub(crate) fn lane_mbarrier(
        &self,
        scene: &mut Scene<'_>,
        spot: &Spot,
        lane: usize,
    ) -> Stepped<MbarrierId> {
        let all = addresses(&scene.warp.regs, &spot.base);
        let id = self.mbarrier_id(scene, spot.space, lane, all[lane])?;
        scene.cluster.mbarrier(id, 1 << lane)?;
        Ok(id)
    }

    pub(crate) fn inside(
        &self,
        scene: &Scene<'_>,
        cta: usize,
        address: u64,
        bytes: u32,
        lane: usize,
    ) -> Stepped<usize> {
        let memory = &scene.cluster.ctas[cta].shared;
        memory
            .index(address, bytes)
            .ok_or_else(|| memory.outside(Memory::Shared, "bulk copy", lane, address, bytes))
    }
}
