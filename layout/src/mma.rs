//! The accumulator of `mma.sync`.

use std::fmt;

use super::text::write_call;
use super::warp_sets::check_grid;
use super::{Dims, LayoutError, rules};

/// The accumulator fragment of `mma.sync` (Gluon's NVMMA version 2): 16x8 per warp, the warps in a row-major grid
/// (PTX ISA 9.7.14.5.8).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mma {
    /// Warps of a CTA per dimension.
    pub warps: Dims,
    /// The instruction's tile: `[16, 8]`, with a batch dimension `[1, 16, 8]`.
    pub instr_shape: Dims,
    /// How the CTAs of a cluster split the tensor; see [`Blocked`](super::Blocked).
    pub cta_bases: Vec<Dims>,
}

impl Mma {
    /// A layout for kernels without clusters.
    pub fn new(warps: impl Into<Dims>, instr_shape: impl Into<Dims>) -> Self {
        Self {
            warps: warps.into(),
            instr_shape: instr_shape.into(),
            cta_bases: Vec::new(),
        }
    }

    /// The same layout in every CTA of a cluster, the tensor split by `cta_bases`.
    #[must_use]
    pub fn with_ctas(mut self, cta_bases: impl IntoIterator<Item = impl Into<Dims>>) -> Self {
        self.cta_bases = cta_bases.into_iter().map(Into::into).collect();
        self
    }

    /// The number of dimensions: 2, or 3 with a batch dimension.
    pub fn rank(&self) -> usize {
        self.warps.rank()
    }

    pub(super) fn check(&self) -> Result<(), LayoutError> {
        const NAME: &str = "Mma";
        let rank = self.rank();
        let tile_is_known = match &*self.instr_shape {
            [16, 8] => rank == 2,
            [1, 16, 8] => rank == 3,
            _ => false,
        };
        if !tile_is_known {
            return Err(LayoutError::Parameter {
                layout: NAME,
                field: "instr_shape",
                found: self.instr_shape.to_string(),
                wanted: format!(
                    "with warps {} it must be [16, 8] (rank 2) or [1, 16, 8] (rank 3)",
                    self.warps
                ),
            });
        }
        check_grid(NAME, &self.warps)?;
        rules::warps(NAME, self.warps.product())?;
        rules::cta_bases(NAME, rank, &self.cta_bases)
    }
}

impl fmt::Display for Mma {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_call(f, "Mma", |args| {
            args.value(&self.warps)?;
            args.value(&self.instr_shape)?;
            args.bases("cta", &self.cta_bases)
        })
    }
}
