//! The fast path of shared memory: whole words in the memory of the own CTA.

use crate::lanes::{LANES, Lanes32, PerLane, lanes_of};
use crate::machine::order::Kind;
use crate::machine::state::linear::Linear;
use crate::machine::state::scene::{Scene, Worker};
use crate::program::windows::SHARED_BASE;
use crate::program::{Access, File};

/// Index of every lane's access.
type Indices = [usize; LANES];

/// Indices when every lane is inside the memory of the own CTA.
#[inline(always)]
fn indices(memory: &Linear, addresses: &PerLane, lanes: u32, bytes: u32) -> Option<Indices> {
    let limit = (memory.bytes.len() as u64).checked_sub(bytes.into())?;
    let mut result = [0; LANES];
    let mut inside = true;
    for lane in lanes_of(lanes) {
        let index = addresses[lane].wrapping_sub(SHARED_BASE.into());
        inside &= index <= limit;
        result[lane] = index as usize;
    }
    inside.then_some(result)
}

/// Accesses whose elements are words in 32-bit registers.
#[inline(always)]
fn is_words(access: &Access) -> bool {
    access.element == 4 && access.cells.iter().all(|cell| cell.file == File::Word)
}

impl Worker<'_> {
    /// Loads if every lane is on the fast path; otherwise the general path loads, and reports faults.
    pub(crate) fn load_words(
        &self,
        scene: &mut Scene<'_>,
        access: &Access,
        lanes: u32,
        addresses: &PerLane,
    ) -> bool {
        let checks = self.context.launch.checks;
        if !is_words(access) || !checks.races || access.strong.is_some() {
            return false;
        }
        let Some(clocks) = scene.warp.clocks.of_all() else {
            return false;
        };
        let stamp = scene.stamp(Kind::READ);
        let memory = &mut scene.cluster.ctas[scene.cta].shared;
        let Some(indices) = indices(memory, addresses, lanes, access.bytes) else {
            return false;
        };
        let mut marker = memory.shadow.begin(stamp, scene.warp.actor);
        let mut all_written = u32::MAX;
        for lane in lanes_of(lanes) {
            let index = indices[lane];
            marker.by_lane(lane);
            for part in 0..access.cells.len() {
                all_written &= u32::from_le_bytes(written(memory, index + part * 4));
            }
            let range = (index, access.bytes as usize);
            let marked = memory.shadow.mark(&mut marker, range, clocks);
            if marked.is_err() {
                return false;
            }
        }
        if checks.uninitialised && all_written != 0x0101_0101 && lanes != 0 {
            return false;
        }
        for (part, cell) in access.cells.iter().enumerate() {
            let mut out = Lanes32([0; LANES]);
            for lane in lanes_of(lanes) {
                out.0[lane] = u32::from_le_bytes(memory.get(indices[lane] + part * 4));
            }
            scene.warp.regs.put32(cell.slot, lanes, &out);
        }
        true
    }

    /// Stores when nothing is wrong or unusual, as [`load_words`](Self::load_words) loads.
    pub(crate) fn store_words(
        &self,
        scene: &mut Scene<'_>,
        access: &Access,
        lanes: u32,
        addresses: &PerLane,
    ) -> bool {
        if !is_words(access) || !self.context.launch.checks.races || access.strong.is_some() {
            return false;
        }
        let Some(clocks) = scene.warp.clocks.of_all() else {
            return false;
        };
        let stamp = scene.stamp(Kind::WRITE);
        let memory = &mut scene.cluster.ctas[scene.cta].shared;
        let Some(indices) = indices(memory, addresses, lanes, access.bytes) else {
            return false;
        };
        let mut marker = memory.shadow.begin(stamp, scene.warp.actor);
        for lane in lanes_of(lanes) {
            let range = (indices[lane], access.bytes as usize);
            marker.by_lane(lane);
            let marked = memory.shadow.mark(&mut marker, range, clocks);
            if marked.is_err() {
                return false;
            }
        }
        for (part, cell) in access.cells.iter().enumerate() {
            let values = &scene.warp.regs.words[cell.slot as usize].0;
            for lane in lanes_of(lanes) {
                memory.put(indices[lane] + part * 4, values[lane].to_le_bytes());
            }
        }
        true
    }
}

/// Which of four bytes have been written.
#[inline(always)]
fn written(memory: &Linear, index: usize) -> [u8; 4] {
    let mut flags = [0; 4];
    flags.copy_from_slice(&memory.written[index..index + 4]);
    flags
}
