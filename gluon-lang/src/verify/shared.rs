//! Which tiles in shared memory there can be.

use super::types::check_ctas;
use crate::diag::{Code, OpError};
use crate::ir::SmemType;
use crate::layout::{LayoutError, relate};

/// Is this an allocation, or a view of one, that may exist in clusters of so many CTAs?
pub(crate) fn check_smem(s: &SmemType, ctas: u32) -> Result<(), OpError> {
    check_element(s)?;
    check_rank(s)?;
    check_shape(s)?;
    let invalid = |e: LayoutError| OpError::new(Code::InvalidLayout, e.to_string());
    let covered = relate::covered(&s.layout, &s.alloc_shape);
    s.layout.check(covered).map_err(invalid)?;
    check_ctas(s, s.layout.ctas(), ctas)?;
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
        if size == 0 {
            let message = format!("the shape {} has a dimension without elements", s.shape);
            return Err(OpError::new(Code::ShapeMismatch, message));
        }
        let is_free = dim == 0 && has_buffers;
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

#[cfg(test)]
mod tests {
    use crate::ir::Stage;
    use crate::text::parse;

    /// What the verifier says of an allocation.
    #[track_caller]
    fn check(ty: &str, wanted: &str) {
        let text = format!(
            "#rows = Swizzled(1, 1, 1, [0])\n#pad = Padded([[1, 65536]], [1, 0])\n#two = Swizzled(1, 1, 1, [1, 0])\nkernel @k() warps(4) {{\n  %s = smem_alloc : {ty}\n  smem_keep %s\n  return\n}}\n"
        );
        let func = parse("test.tile", &text).expect("the text follows the grammar");
        let found = super::super::verify(&func, Stage::Built);
        let messages: Vec<&str> = found.0.iter().map(|d| &*d.message).collect();
        assert_eq!(messages, [wanted], "{ty}");
    }

    #[test]
    fn tiles_that_cannot_be() {
        check(
            "smem<64xptr<f32>, #rows>",
            "shared memory cannot hold pointers: smem<64xptr<f32>, Swizzled(1, 1, 1, [0])>",
        );
        check(
            "smem<0x64xf32, #rows>",
            "the shape [0, 64] has a dimension without elements",
        );
        check(
            "smem<3x64xf32, #two>",
            "the shape [3, 64] has a dimension of 3; all that the layout covers are powers of two",
        );
        check(
            "smem<1024x1024xf64, #pad>",
            "cannot allocate Padded([[1, 65536]], [1, 0]): 1048576 elements do not fit any shared memory",
        );
    }
}
