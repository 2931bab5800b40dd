//! Which tiles in shared memory there can be.

use super::tensors::{check_ctas, invalid};
use crate::OpError;
use crate::{Func, SmemType};
use diag::Code;
use layout::relate;

/// Is this an allocation, or a view of one, that may exist in the kernel?
pub(crate) fn check_smem(s: &SmemType, func: &Func) -> Result<(), OpError> {
    check_element(s)?;
    check_rank(s)?;
    check_shape(s)?;
    let covered = relate::covered(&s.layout, &s.alloc_shape);
    s.layout.check(covered).map_err(|e| invalid(&e))?;
    check_ctas(s, s.layout.ctas(), func.cluster_ctas())?;
    match relate::shared_bytes(&s.layout, &s.alloc_shape, s.elem.bytes()) {
        Ok(_) => Ok(()),
        Err(e) => {
            let most = target::bytes_with_kib(func.target.cta.shared_bytes);
            Err(OpError::new(Code::SharedOverflow, e.to_string())
                .help(format!("a CTA has {most}: use smaller tiles or elements")))
        }
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
    for (&size, &whole) in s.shape.iter().zip(s.alloc_shape.iter()) {
        if size == 0 {
            let message = format!("the shape {} has a dimension without elements", s.shape);
            return Err(OpError::new(Code::ShapeMismatch, message)
                .help("a tile has at least one element along each dimension"));
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
    use crate::Stage;
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
            "smem<64x48xf32, #pad>",
            "Padded([[1, 65536]], [1, 0]) holds no block of [64, 48]: padded layouts take powers of two",
        );
        check(
            "smem<1024x1024xf64, #pad>",
            "cannot allocate Padded([[1, 65536]], [1, 0]): 1048576 elements do not fit any shared memory",
        );
    }
}
