//! Numbers of warps that are no powers of two.

use super::linear::cut::bits_below;
use super::{Dims, LayoutError, LinearLayout};
use crate::Axis;

/// How `q * 2^k` warps, `q` odd, hold a tensor: as `q` sets of `2^k` warps.
///
/// The number of the set is the highest bits of the warp's number, whatever the order of a layout. Either the sets divide one
/// dimension of size `q * 2^j` into equal parts, one behind the other, so that all sets hold as much; or each of them holds
/// the whole tensor. In the linear map these are `bits` of the warp's number that take the highest bits of the coordinate,
/// or add nothing. The map has a power of two of warps: those behind the last set would hold what the shape cuts off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarpSets {
    /// How many sets there are, an odd number.
    pub count: u32,
    /// The dimension that they divide where its size can be divided.
    pub dim: Option<usize>,
}

impl WarpSets {
    /// One set: a power of two of warps.
    pub const ONE: Self = Self {
        count: 1,
        dim: None,
    };

    /// The sets of a grid of warps.
    pub(super) fn of_grid(warps: &[u32]) -> Self {
        let sets = warps.iter().map(|&count| sets_of(count)).enumerate();
        let found = sets.into_iter().find(|&(_, count)| count > 1);
        found.map_or(Self::ONE, |(dim, count)| Self {
            count,
            dim: Some(dim),
        })
    }

    /// The bits of the warp's number that number the sets: its highest.
    pub fn bits(self) -> u32 {
        bits_below(self.count)
    }

    /// The dimension that they divide of a tensor of this shape.
    pub fn divided(self, shape: &[u32]) -> Option<usize> {
        let is_divided = |dim: &usize| {
            let size = shape.get(*dim).copied().unwrap_or(1);
            self.count > 1 && size.is_multiple_of(self.count) && {
                (size / self.count).is_power_of_two()
            }
        };
        self.dim.filter(is_divided)
    }

    /// The shape of what one set holds.
    pub fn share(self, shape: &[u32]) -> Dims {
        let shape = Dims::from(shape);
        match self.divided(&shape) {
            Some(dim) => shape.with(dim, shape[dim] / self.count),
            None => shape,
        }
    }

    /// The map of all sets, `within` giving the map of one set for its share.
    pub(super) fn over(
        self,
        shape: &[u32],
        within: impl FnOnce(&[u32]) -> LinearLayout,
    ) -> LinearLayout {
        if self.count == 1 {
            return within(shape);
        }
        let one = within(&self.share(shape));
        let sets = match self.divided(shape) {
            Some(dim) => LinearLayout::identity(Axis::Warp, Axis::dim(dim), self.bits()),
            None => LinearLayout::zeros(Axis::Warp, self.bits(), Axis::dim(0), 0),
        };
        one.product(&sets)
    }
}

/// Into how many sets a number of warps falls.
pub fn sets_of(warps: u32) -> u32 {
    warps.checked_shr(warps.trailing_zeros()).unwrap_or(0)
}

/// The warps of one set of a number of warps.
pub fn warps_of_set(warps: u32) -> u32 {
    1 << warps.trailing_zeros().min(31)
}

/// The grid of one set.
pub(super) fn grid_of_set(warps: &[u32]) -> Dims {
    warps.iter().map(|&count| warps_of_set(count)).collect()
}

/// A grid of warps: none is zero, and at most one entry is no power of two.
pub(super) fn check_grid(layout: &'static str, warps: &Dims) -> Result<(), LayoutError> {
    let fault = |at: usize| LayoutError::WarpGrid {
        layout,
        at,
        value: warps[at],
    };
    if let Some(at) = warps.iter().position(|&count| count == 0) {
        return Err(fault(at));
    }
    let mut odd = (0..warps.rank()).filter(|&at| sets_of(warps[at]) > 1);
    match (odd.next(), odd.next()) {
        (Some(_), Some(at)) => Err(fault(at)),
        _ => Ok(()),
    }
}
