//! What the accesses of a plan cost a warp.

use target::Target;

use super::{Direction, LocalAccess, LocalPlan, Storage, plan_access, xor_of};
use crate::banks::{BANK_BYTES, lanes_together, most_in_one_bank};
use crate::convert::{AccessKind, MATRIX_ROW_BYTES};
use crate::{Layout, LayoutError, SharedLayout};

/// The lanes whose rows make one matrix.
const ROWS: u32 = 8;

/// The work of one warp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LocalCost {
    /// Instructions.
    pub accesses: u32,
    /// Wavefronts: once per 128 bytes without conflicts.
    pub wavefronts: u32,
    /// Wavefronts beyond those that the bytes need.
    pub conflicts: u32,
}

impl LocalCost {
    /// The estimate by which plans are compared, in half cycles of the SM's load/store pipe, which moves 128 bytes per
    /// cycle.
    pub fn total(&self) -> u32 {
        2 * self.wavefronts + self.accesses
    }
}

/// What moving a tile of `shape` between registers of one layout and shared memory of another costs a warp: of
/// [`LocalCost::conflicts`] a test can ask that they are 0. `elem_bytes` are those of an element.
///
/// # Errors
/// A layout that does not fit the shape.
pub fn bank_conflicts(
    target: &Target,
    registers: &Layout,
    shared: &SharedLayout,
    shape: &[u32],
    elem_bytes: u32,
    direction: Direction,
) -> Result<LocalCost, LayoutError> {
    let map = registers.linear(shape)?;
    let plan = plan_access(target, &map, shared, shape, 8 * elem_bytes, direction)?;
    Ok(plan.cost(&Storage::new(shared, shape, elem_bytes)?))
}

impl LocalPlan {
    /// The cost for the first warp, in a view at the beginning of its allocation.
    pub fn cost(&self, storage: &Storage) -> LocalCost {
        let (together, bytes) = match self.kind {
            AccessKind::Vector => {
                let bytes = self.vector * storage.elem_bytes;
                (lanes_together(bytes), bytes)
            }
            AccessKind::Matrix | AccessKind::Transposed => (ROWS, MATRIX_ROW_BYTES),
        };
        let lanes = match self.kind {
            AccessKind::Vector => 32,
            AccessKind::Matrix | AccessKind::Transposed => {
                self.vector * storage.elem_bytes / 4 * ROWS
            }
        };
        let groups = lanes / together;
        let wavefronts = |access: &LocalAccess| -> u32 {
            let group = |group: u32| {
                let lanes = group * together..(group + 1) * together;
                let starts = lanes.map(|lane| {
                    let offset = xor_of(&self.thread[..5], lane) ^ access.offset;
                    storage.bytes(offset) / BANK_BYTES
                });
                most_in_one_bank(starts, bytes.div_ceil(BANK_BYTES))
            };
            (0..groups).map(group).sum()
        };
        let accesses = self.accesses.len() as u32;
        // Without padding an access only exchanges banks with another, by XOR.
        let wavefronts = if storage.is_plain() {
            accesses * wavefronts(&self.accesses[0])
        } else {
            self.accesses.iter().map(wavefronts).sum()
        };
        LocalCost {
            accesses,
            wavefronts,
            conflicts: wavefronts - accesses * groups,
        }
    }
}
