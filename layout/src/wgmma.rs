//! The accumulator of `wgmma`.

use std::fmt;

use target::SM_90A;

use super::text::write_call;
use super::warp_sets::check_grid;
use super::{Dims, LayoutError, rules};

/// The accumulator of `wgmma.mma_async` (Gluon's NVMMA version 3): 64xN per warpgroup, 16 rows per warp, the warps
/// along M first (PTX ISA 9.7.15.5.1).
///
/// `instr_shape` is the instruction's own `[64, n, k]`; Gluon writes the share of one warp, `[16, n, k]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Wgmma {
    /// Warps of a CTA per dimension; along dimension 0 a multiple of 4. One entry may be no power of two: see
    /// [`WarpSets`](super::WarpSets).
    pub warps: Dims,
    /// `[64, n, k]` of the instruction.
    pub instr_shape: Dims,
    /// How the CTAs of a cluster split the tensor; see [`Blocked`](super::Blocked).
    pub cta_bases: Vec<Dims>,
}

impl Wgmma {
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

    /// The instruction's columns.
    pub fn n(&self) -> u32 {
        self.instr_shape[1]
    }

    pub(super) fn check(&self) -> Result<(), LayoutError> {
        const NAME: &str = "Wgmma";
        rules::entries(NAME, "warps", self.warps.rank(), 2)?;
        check_grid(NAME, &self.warps)?;
        if !self.warps[0].is_multiple_of(4) {
            return Err(LayoutError::Parameter {
                layout: NAME,
                field: "warps",
                found: self.warps.to_string(),
                wanted: "dimension 0 must be a multiple of 4: a warpgroup is four warps along M"
                    .to_owned(),
            });
        }
        self.check_instruction(NAME)?;
        rules::warps(NAME, self.warps.product())?;
        rules::cta_bases(NAME, 2, &self.cta_bases)
    }

    /// The tile must be one that the instruction has (PTX ISA 9.7.15.2). Where warpgroups stand side by side along N, the
    /// second one begins at a bit of the coordinate.
    fn check_instruction(&self, layout: &'static str) -> Result<(), LayoutError> {
        let fault = |wanted: &str| LayoutError::Parameter {
            layout,
            field: "instr_shape",
            found: self.instr_shape.to_string(),
            wanted: wanted.to_owned(),
        };
        // No other target has the instruction; the op compares with the kernel's.
        let wgmma = &SM_90A.wgmma;
        let (rows, least, most) = (wgmma.m, wgmma.n_unit, wgmma.most_n);
        let &[m, n, k] = &*self.instr_shape else {
            return Err(fault(&format!("it must be [{rows}, n, k]")));
        };
        if m != rows {
            return Err(fault(&format!("m of a wgmma is {rows}")));
        }
        if !n.is_multiple_of(least) || !(least..=most).contains(&n) {
            let wanted = format!("n must be a multiple of {least} from {least} to {most}");
            return Err(fault(&wanted));
        }
        if self.warps[1] > 1 && !n.is_power_of_two() {
            return Err(fault(
                "n must be a power of two where warpgroups stand side by side along N",
            ));
        }
        if !wgmma.depths().contains(&k) {
            let lines = wgmma.types.iter();
            let depths: Vec<String> = lines
                .map(|line| format!("{} ({})", line.shapes, line.name))
                .collect();
            return Err(fault(&format!("k must be {}", depths.join(", "))));
        }
        Ok(())
    }
}

impl fmt::Display for Wgmma {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_call(f, "Wgmma", |args| {
            args.value(&self.warps)?;
            args.value(&self.instr_shape)?;
            args.bases("cta", &self.cta_bases)
        })
    }
}
