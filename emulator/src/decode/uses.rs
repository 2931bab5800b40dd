//! Registers that a step reads and writes.

use crate::lanes::{IntSlot, Linear};
use ptx::Reg;
use smallvec::SmallVec;

/// Registers of all frames that a step reads and writes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Uses {
    pub(crate) reads: SmallVec<[Use; 4]>,
    pub(crate) writes: SmallVec<[u32; 2]>,
    /// The registers of integers that it writes.
    pub(crate) places: SmallVec<[IntSlot; 2]>,
    /// Slots of the 32-bit registers that it reads or writes.
    pub(crate) words: SmallVec<[u32; 4]>,
    /// The write happens in every lane that comes here.
    pub(crate) is_certain: bool,
}

impl Uses {
    /// Whether it writes the 32-bit register of this slot.
    pub(crate) fn is_written(&self, slot: u32) -> bool {
        self.places.contains(&IntSlot::Word(slot))
    }
}

/// A step that is an operation on integers, of which addresses may be made.
pub(crate) struct Noted {
    pub(crate) step: u32,
    pub(crate) linear: Linear,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Use {
    pub(crate) unique: u32,
    pub(crate) reg: Reg,
    pub(crate) only_if: Option<(u32, bool)>,
    pub(crate) is_guard: bool,
}
