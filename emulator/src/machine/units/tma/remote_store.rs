//! `st.async` and `red.async`: stores whose bytes an mbarrier counts (PTX ISA 9.7.9.12).

use crate::fault::{FaultKind, Memory, Stepped, Trouble};
use crate::lanes::lanes_of;
use crate::machine::memory::misuse::check_aligned;
use crate::machine::state::copies::{
    Destination, Fill, MAX_GIVEN_BYTES, Other, Pending, Piece, Work,
};
use crate::machine::state::scene::{Scene, Worker};
use crate::program::copy::RemoteStore;
use crate::program::{Cell, File};

impl Worker<'_> {
    /// `st.async` and `red.async`: stores whose bytes an mbarrier counts.
    pub(crate) fn remote_store(&mut self, scene: &mut Scene<'_>, op: &RemoteStore) -> Stepped {
        if !self.context.is_cluster_launch() {
            return Err(outside_of_clusters(scene.mask));
        }
        for lane in lanes_of(scene.mask) {
            let (cta, address) =
                self.shared_place(scene, &op.dst, lane, "the destination of st.async")?;
            let bytes = op.element * op.sources.len() as u32;
            check_aligned(
                Memory::Shared,
                "asynchronous store",
                &[address; 32],
                1 << lane,
                bytes,
            )?;
            let index = self.inside(scene, cta, address, bytes, lane)?;
            let id = self.lane_mbarrier(scene, &op.mbarrier, lane)?;
            let mut given = [0; MAX_GIVEN_BYTES];
            let elements = given.chunks_exact_mut(op.element as usize);
            for (to, &source) in elements.zip(&op.sources) {
                let value = cell_value(scene, source, lane).to_le_bytes();
                to.copy_from_slice(&value[..to.len()]);
            }
            let piece = Piece {
                shared: index as u32,
                bytes,
                other: Other::Given(given),
            };
            let pending = Pending {
                step: scene.path.pc,
                cta: scene.cta,
                warp: scene.warp.index,
                lane: lane as u32,
                group: None,
                pieces: vec![piece],
                map: None,
                work: Work::Load {
                    targets: vec![Destination { cta, mbarrier: id }],
                    fill: Fill::Zero,
                    rounds_to_tf32: false,
                    bytes,
                },
                shared_reduction: op.reduction,
                carried: scene.warp.carried_by(lane, scene.mask),
                arrives_at: 0,
            };
            self.start_load(scene, pending)?;
        }
        Ok(())
    }
}

fn cell_value(scene: &Scene<'_>, cell: Cell, lane: usize) -> u64 {
    match cell.file {
        File::Double => scene.warp.regs.doubles[cell.slot as usize].0[lane],
        _ => scene.warp.regs.words[cell.slot as usize].0[lane].into(),
    }
}

/// The GPU's answer is `CUDA_ERROR_ILLEGAL_INSTRUCTION`, also where a CTA stores to itself.
fn outside_of_clusters(mask: u32) -> Box<Trouble> {
    let message = "st.async in a launch without clusters is an illegal instruction on the GPU; expected a cluster, which may be of one CTA: \
                   `.reqnctapercluster 1, 1, 1`, or the launch attribute";
    Trouble::new(FaultKind::IllegalOperand, mask, message.to_owned())
}
