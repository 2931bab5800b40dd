//! Which tiles in shared memory there can be.

use crate::diag::{Code, OpError};
use crate::ir::SmemType;
use crate::layout::{LayoutError, relate};

/// Is this an allocation, or a view of one, that may exist?
pub(crate) fn check_smem(s: &SmemType) -> Result<(), OpError> {
    check_element(s)?;
    check_rank(s)?;
    check_shape(s)?;
    let invalid = |e: LayoutError| OpError::new(Code::InvalidLayout, e.to_string());
    let covered = relate::covered(&s.layout, &s.alloc_shape);
    s.layout.check(covered).map_err(invalid)?;
    match relate::shared_bytes(&s.layout, &s.alloc_shape, s.elem.bytes()) {
        Ok(_) => Ok(()),
        Err(e) => Err(OpError::new(Code::SharedOverflow, e.to_string())
            .help("a CTA has 232448 bytes (227 KiB): use smaller tiles or elements")),
    }
}

fn check_element(s: &SmemType) -> Result<(), OpError> {
    if !s.elem.is_ptr() {
        return Ok(());
    }
    let error = OpError::new(
        Code::ElementMismatch,
        format!("shared memory cannot hold pointers: {s}"),
    );
    Err(error.help("keep the offsets from one pointer there, as i32 or i64"))
}

fn check_rank(s: &SmemType) -> Result<(), OpError> {
    let (rank, layout_rank) = (s.shape.rank(), s.layout.rank());
    if rank == layout_rank || rank == layout_rank + 1 {
        return Ok(());
    }
    let error = OpError::new(
        Code::RankMismatch,
        format!("shared memory of {rank} dimensions with a layout of {layout_rank}: {s}"),
    );
    Err(error
        .help("a layout covers every dimension, or all but the first, which then counts buffers"))
}

fn check_shape(s: &SmemType) -> Result<(), OpError> {
    let has_buffers = s.shape.rank() > s.layout.rank();
    let sizes = s.shape.iter().zip(s.alloc_shape.iter()).enumerate();
    for (dim, (&size, &whole)) in sizes {
        let is_free = dim == 0 && has_buffers && size > 0;
        if !is_free && !size.is_power_of_two() {
            let error = OpError::new(
                Code::NotPowerOfTwo,
                format!(
                    "the shape {} has a dimension of {size}; all that the layout covers are powers of two",
                    s.shape
                ),
            );
            return Err(error.help(format!(
                "take the next power of two, {}",
                u64::from(size).next_power_of_two()
            )));
        }
        if size > whole {
            return Err(OpError::new(
                Code::ShapeMismatch,
                format!(
                    "a view of shape {} does not lie in its allocation of shape {}",
                    s.shape, s.alloc_shape
                ),
            ));
        }
    }
    if s.shape.rank() == s.alloc_shape.rank() {
        return Ok(());
    }
    Err(OpError::new(
        Code::ShapeMismatch,
        format!(
            "a view of shape {} in an allocation of shape {}",
            s.shape, s.alloc_shape
        ),
    ))
}
