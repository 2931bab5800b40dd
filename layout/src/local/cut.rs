//! How offsets of shapes that are no powers of two close up.

use smallvec::SmallVec;

use crate::linear::cut::{granule, rounded_up};
use crate::{Axis, LinearLayout};

/// Neighbouring bits of an offset that count the granules of a dimension whose size is no power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CutField {
    /// The lowest bit.
    pub(crate) low: u32,
    /// The bit behind the highest.
    pub(crate) end: u32,
    /// How many granules there are; the bits can count more.
    pub(crate) count: u32,
}

/// The fields of a map from (offset, block) onto a shape, the lowest first: one for each dimension that is cut.
///
/// # Errors
/// What stands in the way of closing the offsets up.
pub(crate) fn cut_fields(map: &LinearLayout) -> Result<SmallVec<[CutField; 2]>, String> {
    let mut fields = SmallVec::new();
    if !map.is_cut() {
        return Ok(fields);
    }
    let shape = map.out_sizes();
    let back = map.clone().uncut().right_inverse();
    let back = back.ok_or("its offsets do not reach every element")?;
    let offset = |packed: u64| {
        packed >> back.out_shift(Axis::Offset) & ((1 << back.out_bits(Axis::Offset)) - 1)
    };
    let of_dim = |dim: usize| {
        back.bases(Axis::dim(dim))
            .iter()
            .map(|&basis| offset(basis))
    };
    let (mut once, mut again) = (0_u64, 0_u64);
    for moved in (0..shape.rank()).flat_map(&of_dim) {
        again |= once & moved;
        once |= moved;
    }
    let cut = (0..shape.rank()).filter(|&dim| !shape[dim].is_power_of_two());
    for dim in cut {
        let whole: SmallVec<[u64; 8]> = of_dim(dim)
            .skip(granule(shape[dim]).trailing_zeros() as usize)
            .collect();
        let low = whole[0].ilog2();
        let follow = whole
            .iter()
            .zip(low..)
            .all(|(moved, bit)| moved.ilog2() == bit);
        let end = low + whole.len() as u32;
        let own = ((1_u64 << end) - 1) & !((1 << low) - 1);
        if !follow || again >= 1 << low {
            let size = shape[dim];
            return Err(format!(
                "steps of {} along dimension {dim} of size {size} must lie one after another in memory, above what a swizzle moves",
                granule(size)
            ));
        }
        debug_assert!(own & again == 0, "a swizzle moves granules");
        let count = shape[dim] / granule(shape[dim]);
        fields.push(CutField { low, end, count });
    }
    fields.sort_by_key(|field: &CutField| field.low);
    debug_assert!(rounded_up(&shape) != shape, "the map is cut");
    Ok(fields)
}
