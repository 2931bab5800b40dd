//! Tiles whose extents are no powers of two, as authors may want them.

use diag::Code;
use layout::linear::cut::{granule, is_cut};
use layout::{Dims, Layout};

use crate::ops::nearest_multiples;
use crate::{OpError, TensorType};

/// Threads of a warp.
const LANES: u32 = 32;

/// Does the layout spread the extents evenly over threads? One that does not is exact all the same: some lanes or warps hold
/// copies, and registers take their places. That is never what an author wants.
///
/// # Errors
/// An extent that is no multiple of what threads cover at once, with those that are.
pub fn check_even(t: &TensorType, warps: u32) -> Result<(), OpError> {
    if !is_cut(&t.shape) {
        return Ok(());
    }
    if t.layout == Layout::Coalesced {
        return check_enough(t, warps);
    }
    let Some((dim, covered)) = t.layout.covers_unevenly(&t.shape) else {
        return Ok(());
    };
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
    let threads = u64::from(LANES * warps);
    if granules.product() >= threads {
        return Ok(());
    }
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
