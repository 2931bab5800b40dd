//! Extents that are no powers of two, where an op does not follow them.

use layout::Dims;

use crate::OpError;
use crate::TensorType;
use crate::entity::Value;
use diag::Code;

/// The op takes tensors of powers of two alone.
pub(super) fn powers_of_two(op: &str, value: Value, t: &TensorType) -> Result<(), OpError> {
    let Some(size) = t.shape.iter().find(|size| !size.is_power_of_two()) else {
        return Ok(());
    };
    let message = format!(
        "`{op}` takes extents that are powers of two, and {} has {size}",
        t.shape
    );
    Err(OpError::new(Code::NotPowerOfTwo, message)
        .typed(value, t)
        .help(format!("{}, masked past {size}", next(*size))))
}

/// What a tile of the next power of two would be.
fn next(size: u32) -> String {
    format!("take an extent of {}", size.next_power_of_two())
}

/// The extents that are made of whole tiles of the op: the nearest ones, below and above.
pub(crate) fn nearest_multiples(size: u32, of: u32) -> String {
    let below = size / of * of;
    match below {
        0 => format!("{of}"),
        below => format!("{below} or {}", below + of),
    }
}

/// Are all sizes multiples of the steps?
pub(super) fn are_multiples(sizes: &Dims, steps: &[u32]) -> bool {
    sizes
        .iter()
        .zip(steps)
        .all(|(size, step)| size.is_multiple_of(*step))
}
