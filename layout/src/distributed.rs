//! The layouts of tensors in registers.

use std::fmt;
use std::sync::Arc;

use super::linear::cut::{is_cut, rounded_up};
use super::{
    Axis, Blocked, DistributedLinear, DotOperand, LayoutError, Mma, Slice, WarpSets, Wgmma, rules,
};

/// How a tensor is spread over the registers, lanes, warps and CTAs. Cheap to clone; compared by its parameters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// To be found from the operations around it.
    Auto,
    /// To be chosen so that global memory accesses coalesce.
    Coalesced,
    /// See [`Blocked`].
    Blocked(Arc<Blocked>),
    /// See [`Slice`].
    Slice(Arc<Slice>),
    /// See [`DistributedLinear`].
    Linear(Arc<DistributedLinear>),
    /// See [`Mma`].
    Mma(Arc<Mma>),
    /// See [`Wgmma`].
    Wgmma(Arc<Wgmma>),
    /// See [`DotOperand`].
    DotOperand(Arc<DotOperand>),
}

/// [`Layout::Auto`] as a value of its own, so that a kernel can write `zeros([64], Auto)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Auto;

/// [`Layout::Coalesced`] as a value of its own, so that a kernel can write `arange(0..B, Coalesced)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Coalesced;

impl Layout {
    /// The layout's name without its parameters.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Auto => "Auto",
            Self::Coalesced => "Coalesced",
            Self::Blocked(_) => "Blocked",
            Self::Slice(_) => "Slice",
            Self::Linear(_) => "Linear",
            Self::Mma(_) => "Mma",
            Self::Wgmma(_) => "Wgmma",
            Self::DotOperand(_) => "DotOperand",
        }
    }

    /// Whether no placeholder is left in it, neither itself nor a parent.
    pub fn is_resolved(&self) -> bool {
        match self {
            Self::Auto | Self::Coalesced => false,
            Self::Slice(slice) => slice.parent.is_resolved(),
            Self::DotOperand(operand) => operand.parent.is_resolved(),
            Self::Blocked(_) | Self::Linear(_) | Self::Mma(_) | Self::Wgmma(_) => true,
        }
    }

    /// The number of dimensions; `None` for a placeholder, which takes the rank of its tensor.
    pub fn rank(&self) -> Option<usize> {
        match self {
            Self::Auto | Self::Coalesced => None,
            Self::Blocked(blocked) => Some(blocked.rank()),
            Self::Slice(slice) => slice.parent.rank()?.checked_sub(1),
            Self::Linear(linear) => Some(linear.rank()),
            Self::Mma(mma) => Some(mma.rank()),
            Self::Wgmma(_) => Some(2),
            Self::DotOperand(operand) => operand.parent.rank(),
        }
    }

    /// The number of warps that this layout is made for; `None` for a placeholder.
    pub fn warps(&self) -> Option<u32> {
        let product = |warps: &super::Dims| u32::try_from(warps.product()).ok();
        match self {
            Self::Auto | Self::Coalesced => None,
            Self::Blocked(blocked) => product(&blocked.warps),
            Self::Slice(slice) => slice.parent.warps(),
            Self::Linear(linear) => Some(linear.warps),
            Self::Mma(mma) => product(&mma.warps),
            Self::Wgmma(wgmma) => product(&wgmma.warps),
            Self::DotOperand(operand) => operand.parent.warps(),
        }
    }

    /// The sets into which its warps fall, and the dimension that these divide where they can.
    pub fn warp_sets(&self) -> WarpSets {
        match self {
            Self::Auto | Self::Coalesced => WarpSets::ONE,
            Self::Blocked(blocked) => WarpSets::of_grid(&blocked.warps),
            Self::Slice(slice) => {
                let sets = slice.parent.warp_sets();
                let lost = slice.dim as usize;
                let kept = sets.dim.filter(|&dim| dim != lost);
                WarpSets {
                    dim: kept.map(|dim| if dim > lost { dim - 1 } else { dim }),
                    ..sets
                }
            }
            Self::Linear(linear) => linear.warp_sets(),
            Self::Mma(mma) => WarpSets::of_grid(&mma.warps),
            Self::Wgmma(wgmma) => WarpSets::of_grid(&wgmma.warps),
            Self::DotOperand(operand) => {
                let sets = operand.parent.warp_sets();
                WarpSets {
                    dim: sets.dim.filter(|&dim| dim != operand.k_dim()),
                    ..sets
                }
            }
        }
    }

    /// The number of CTAs in a cluster that this layout is made for; `None` for a placeholder.
    pub fn ctas(&self) -> Option<u32> {
        let power = |bases: &[super::Dims]| 1_u32.checked_shl(bases.len() as u32);
        match self {
            Self::Auto | Self::Coalesced => None,
            Self::Blocked(blocked) => power(&blocked.cta_bases),
            Self::Slice(slice) => slice.parent.ctas(),
            Self::Linear(linear) => power(&linear.block),
            Self::Mma(mma) => power(&mma.cta_bases),
            Self::Wgmma(wgmma) => power(&wgmma.cta_bases),
            Self::DotOperand(operand) => operand.parent.ctas(),
        }
    }

    /// Checks the layout's own parameters and that it fits the shape. A placeholder passes: it fits every shape.
    pub fn check(&self, shape: &[u32]) -> Result<(), LayoutError> {
        self.check_parameters()?;
        let rank = self.rank().unwrap_or(shape.len());
        rules::shape(self, rank, shape)?;
        if is_cut(shape) && self.splits_cut(shape) {
            let (layout, shape) = (self.to_string(), shape.into());
            return Err(LayoutError::SplitCut { layout, shape });
        }
        Ok(())
    }

    /// The first dimension whose size is no multiple of what lanes and warps cover at once, and how much that is: some of them
    /// hold copies there, and registers take their places. The same of a dimension that sets of warps cannot divide, though
    /// one set does not cover it. `None` where the layout does not fit the shape at all.
    pub fn covers_unevenly(&self, shape: &[u32]) -> Option<(usize, u32)> {
        let sets = self.warp_sets();
        let (share, divided) = (sets.share(shape), sets.divided(shape));
        let map = self.linear(&rounded_up(&share)).ok()?;
        let threads = [Axis::Lane, Axis::Warp];
        let steps = || threads.iter().flat_map(|axis| map.basis_coords(*axis));
        let covered = |dim: usize| steps().fold(1, |most, basis| most.max(2 * basis[dim]));
        let undivided = sets.dim.filter(|_| sets.count > 1 && divided.is_none());
        let is_uneven = |&(dim, covered): &(usize, u32)| {
            covered > 1 && !share[dim].is_multiple_of(covered)
                || undivided == Some(dim) && covered < shape[dim]
        };
        let mut dims = (0..shape.len()).map(|dim| (dim, covered(dim)));
        let (dim, covered) = dims.find(is_uneven)?;
        let in_sets = if sets.dim == Some(dim) { sets.count } else { 1 };
        Some((dim, covered * in_sets))
    }

    /// Checks the layout's own parameters, without a shape.
    pub fn check_parameters(&self) -> Result<(), LayoutError> {
        match self {
            Self::Auto | Self::Coalesced => Ok(()),
            Self::Blocked(blocked) => blocked.check(),
            Self::Slice(slice) => slice.check(),
            Self::Linear(linear) => linear.check(),
            Self::Mma(mma) => mma.check(),
            Self::Wgmma(wgmma) => wgmma.check(),
            Self::DotOperand(operand) => operand.check(),
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto | Self::Coalesced => f.write_str(self.kind()),
            Self::Blocked(blocked) => blocked.fmt(f),
            Self::Slice(slice) => slice.fmt(f),
            Self::Linear(linear) => linear.fmt(f),
            Self::Mma(mma) => mma.fmt(f),
            Self::Wgmma(wgmma) => wgmma.fmt(f),
            Self::DotOperand(operand) => operand.fmt(f),
        }
    }
}

impl From<Auto> for Layout {
    fn from(_: Auto) -> Self {
        Self::Auto
    }
}

impl From<Coalesced> for Layout {
    fn from(_: Coalesced) -> Self {
        Self::Coalesced
    }
}

impl From<&Self> for Layout {
    fn from(layout: &Self) -> Self {
        layout.clone()
    }
}

macro_rules! layout_from {
    ($($variant:ident($kind:ty)),* $(,)?) => {$(
        impl From<$kind> for Layout {
            fn from(layout: $kind) -> Self {
                Self::$variant(Arc::new(layout))
            }
        }

        impl From<&$kind> for Layout {
            fn from(layout: &$kind) -> Self {
                layout.clone().into()
            }
        }
    )*};
}

layout_from! {
    Blocked(Blocked),
    Slice(Slice),
    Linear(DistributedLinear),
    Mma(Mma),
    Wgmma(Wgmma),
    DotOperand(DotOperand),
}
