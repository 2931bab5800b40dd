//! Tiles whose extents are no powers of two, and tiles of so many warps, as authors may want them.

use diag::Code;
use layout::linear::cut::{granule, is_cut};
use layout::{Dims, Layout, WarpSets, sets_of, warps_of_set};

use crate::ops::nearest_multiples;
use crate::{OpError, TensorType};

/// Threads of a warp.
const LANES: u32 = 32;

/// Does the layout spread the extents evenly over threads? One that does not is exact all the same: some lanes or warps hold
/// copies, and registers take their places. That is never what an author wants.
///
/// # Errors
/// An extent that is no multiple of what threads cover at once, with those that are; one that sets of warps cannot divide.
pub fn check_even(t: &TensorType, warps: u32) -> Result<(), OpError> {
    if !is_cut(&t.shape) && warps.is_power_of_two() {
        return Ok(());
    }
    if t.layout == Layout::Coalesced {
        return check_enough(t, warps);
    }
    let Some((dim, covered)) = t.layout.covers_unevenly(&t.shape) else {
        return Ok(());
    };
    let sets = t.layout.warp_sets();
    if sets.count > 1 && sets.dim == Some(dim) {
        return Err(undivided(t, dim, warps));
    }
    let size = t.shape[dim];
    let message = format!(
        "the threads of {} cover {covered} elements of dimension {dim} at once, and the {size} of {} are no multiple of that",
        t.layout, t.shape
    );
    let step = granule(size);
    let narrower = if step > 1 {
        format!(
            ", or a layout whose threads cover {step} elements or fewer of that dimension, so that registers repeat"
        )
    } else {
        ", or a layout with one thread along it".to_owned()
    };
    let multiples = nearest_multiples(size, covered);
    Err(OpError::new(Code::NotPowerOfTwo, message)
        .help(format!("use extents of {multiples}{narrower}")))
}

/// Are there elements for all threads before registers repeat?
fn check_enough(t: &TensorType, warps: u32) -> Result<(), OpError> {
    let granules: Dims = t.shape.iter().map(|&size| granule(size)).collect();
    let of_set = u64::from(LANES * warps_of_set(warps));
    if sets_of(warps) > 1 {
        match divided_share(&t.shape, warps) {
            None if t.shape.product() > of_set => return Err(indivisible(t, warps)),
            Some(share) if is_cut(&share) => {}
            _ => return Ok(()),
        }
    }
    if granules.product() >= of_set {
        return Ok(());
    }
    let threads = LANES * warps;
    let message = format!(
        "`Coalesced` cannot spread {} evenly over {threads} threads: the largest powers of two that divide its extents multiply to {}",
        t.shape,
        granules.product()
    );
    let help = match t.shape[..] {
        [size] => format!(
            "use extents of {} and mask the elements past {size}",
            nearest_multiples(size, LANES * warps)
        ),
        _ => "use extents divisible by larger powers of two, and mask the elements past the end"
            .to_owned(),
    };
    Err(OpError::new(Code::NotPowerOfTwo, message).help(help))
}

/// What one of the sets of so many warps holds, if there is a dimension that they divide.
fn divided_share(shape: &[u32], warps: u32) -> Option<Dims> {
    let mut along = (0..shape.len()).map(|dim| WarpSets {
        count: sets_of(warps),
        dim: Some(dim),
    });
    let sets = along.find(|sets| sets.divided(shape).is_some())?;
    Some(sets.share(shape))
}

/// `3 sets of 4 warps`.
fn sets(warps: u32) -> String {
    let (count, each) = (sets_of(warps), warps_of_set(warps));
    let s = if each == 1 { "" } else { "s" };
    format!("{count} sets of {each} warp{s}")
}

/// What else there is for warps that are no power of two.
fn instead(warps: u32) -> String {
    let (count, each) = (sets_of(warps), warps_of_set(warps));
    let s = if each == 1 { "" } else { "s" };
    format!(
        "partitions of {each} warp{s} by `warp_specialize`; for {count} copies, take a `Slice` that loses the dimension along which the sets lie"
    )
}

/// A layout whose sets lie along a dimension that they cannot divide.
fn undivided(t: &TensorType, dim: usize, warps: u32) -> OpError {
    let (size, count) = (t.shape[dim], sets_of(warps));
    let message = format!(
        "the {} of {} divide dimension {dim}, and the {size} of {} are not {count} times a power of two",
        sets(warps),
        t.layout,
        t.shape
    );
    let help = format!(
        "use extents of {}, or {}",
        nearest_divided(size, count),
        instead(warps)
    );
    OpError::new(Code::NotPowerOfTwo, message).help(help)
}

/// A shape without a dimension for the sets.
fn indivisible(t: &TensorType, warps: u32) -> OpError {
    let count = sets_of(warps);
    let message = format!(
        "`Coalesced` cannot share {} among {warps} warps: {} divide one dimension, and none of the extents is {count} times a power of two",
        t.shape,
        sets(warps)
    );
    let largest = t.shape.iter().copied().max().unwrap_or(1);
    let help = format!(
        "use an extent of {}, or {}",
        nearest_divided(largest, count),
        instead(warps)
    );
    OpError::new(Code::NotPowerOfTwo, message).help(help)
}

/// The sizes nearest to one that so many sets can divide.
fn nearest_divided(size: u32, count: u32) -> String {
    let above = count * size.div_ceil(count).next_power_of_two();
    if above <= count {
        return above.to_string();
    }
    format!("{} or {above}", above / 2)
}
