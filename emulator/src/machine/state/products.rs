//! Products of a warpgroup in flight (`wgmma`).

use crate::lanes::Lanes32;
use crate::machine::state::matrix_descriptor::Descriptor;
use std::collections::{HashMap, VecDeque};

/// A product that has been started.
#[derive(Clone, Debug)]
pub(crate) struct ProductInFlight {
    pub(crate) step: u32,
    /// Widened rows of A when its operand is in registers.
    pub(crate) left: Option<Vec<f32>>,
    /// For each packed element of the rows of a sparse A, its place in the row.
    pub(crate) places: Option<Vec<u8>>,
    /// The slot of the metadata of a sparse A, and what it had.
    pub(crate) metadata: Option<(u32, Lanes32)>,
    pub(crate) a: Option<Descriptor>,
    pub(crate) b: Descriptor,
    pub(crate) accumulate: bool,
    /// When it is complete, where a launch models time.
    pub(crate) completes_at: u64,
}

/// The products of a warp that it has not waited for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Products {
    pub(crate) started: VecDeque<ProductInFlight>,
    /// Number of the first of them, counted from the start of the warp.
    pub(crate) first: u64,
    /// Products that are complete; the warps of a group complete together.
    pub(crate) completed: u64,
    /// Number of the first product after each group that is open.
    pub(crate) boundaries: VecDeque<u64>,
    /// A first `wgmma.fence` has been executed.
    pub(crate) has_fenced: bool,
    /// Registers of fragments that other instructions have touched since the last fence, and where.
    pub(crate) touched: HashMap<u32, u32>,
    /// Where those of metadata, among others, were written last.
    pub(crate) written: HashMap<u32, u32>,
}

impl Products {
    pub(crate) fn in_flight(&self) -> impl Iterator<Item = &ProductInFlight> {
        self.started.iter()
    }

    pub(crate) fn issued(&self) -> u64 {
        self.first + self.started.len() as u64
    }
}
