//! The scope of one body: the entry's, or that of an inlined function.

use crate::program::{AccessSpace, File};
use ptx::{Body, Param, Reg};
use std::collections::HashMap;

/// The state space and address of a symbol.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Location {
    pub(crate) space: AccessSpace,
    pub(crate) base: Base,
}

/// What the address of a symbol starts from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Base {
    Offset(u64),
    /// A `.global` variable, placed at the first launch.
    Global(u32),
    /// After the static shared memory, whose size is known at the end.
    DynamicShared,
}

impl Location {
    pub(crate) fn param(offset: u32) -> Self {
        Self {
            space: AccessSpace::Param,
            base: Base::Offset(offset.into()),
        }
    }

    pub(crate) fn local(offset: u32) -> Self {
        Self {
            space: AccessSpace::Local,
            base: Base::Offset(offset.into()),
        }
    }
}

/// Where a register of a body lies; a 128-bit one has two doubles in a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Register {
    pub(crate) file: File,
    pub(crate) slot: u32,
    /// Number among the registers of all bodies that were entered.
    pub(crate) unique: u32,
}

/// A body that is being decoded.
pub(crate) struct Frame<'m> {
    pub(crate) body: &'m Body,
    pub(crate) params: &'m [Param],
    /// The registers that its instructions use; other declared ones are not allocated.
    pub(crate) registers: HashMap<Reg, Register>,
    pub(crate) label_base: u32,
    pub(crate) param_places: Vec<Location>,
    pub(crate) return_places: Vec<Location>,
    pub(crate) variable_places: Vec<Location>,
    /// Index of the call that this body stands for, or [`NONE`].
    pub(crate) call: u32,
    /// Label of the end of a function.
    pub(crate) end_label: u32,
}
