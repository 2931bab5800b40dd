//! Products of f32 on tensor cores that have no f32: sums of products of narrower parts, as Triton's `input_precision` has them.

use super::dot::{mma_v2, mma_v2_tf32};
use super::inline_ptx::inline_ptx;
use super::math::select;
use super::{Tensor, zeros_like};
use half::bf16;

impl Tensor<f32> {
    /// Two tf32 whose sum is this to 22 bits or more: the nearest tf32 and, of what is left, the nearest again. The rest of
    /// infinities and NaN is 0. Numbers beyond the largest tf32, from 3.402e38 on, round to infinity. For products of three by hand, as of
    /// tiles in shared memory: `big * big + (big * small + small * big)`.
    #[track_caller]
    pub fn tf32_parts(self) -> (Tensor<f32>, Tensor<f32>) {
        let big = nearest_tf32(self);
        (big, nearest_tf32(finite(self - big)))
    }

    /// Two bf16 whose sum is this to 16 bits: the nearest and, of what is left, the nearest again. The rest of infinities and
    /// NaN is 0.
    #[track_caller]
    pub fn bf16_parts(self) -> (Tensor<bf16>, Tensor<bf16>) {
        let big = self.cast::<bf16>();
        let rest = finite(self - big.cast::<f32>());
        (big, rest.cast::<bf16>())
    }
}

/// PTX ISA, `cvt.rna.tf32.f32`: to nearest, ties away from 0.
#[track_caller]
fn nearest_tf32(x: Tensor<f32>) -> Tensor<f32> {
    let bits: Tensor<u32> = inline_ptx("cvt.rna.tf32.f32 $0, $1;", x);
    bits.bitcast::<f32>()
}

/// Infinities and NaN as 0.
#[track_caller]
fn finite(x: Tensor<f32>) -> Tensor<f32> {
    select(x.is_finite(), x, 0.0)
}

/// `acc + a · b` of f32 by three products of tf32 on the tensor cores (`tf32x3`): each operand is its nearest tf32 and what is
/// left, and the product of the two rests is left out. The error is near that of f32: about 2^-21 of the sum of the
/// products' magnitudes, where [`mma_v2_tf32`] has 2^-10. Infinities and NaN propagate as in f32. Layouts are those of
/// [`mma_v2_tf32`].
#[track_caller]
pub fn mma_v2_tf32x3(a: Tensor<f32>, b: Tensor<f32>, acc: Tensor<f32>) -> Tensor<f32> {
    let ((a_big, a_small), (b_big, b_small)) = (a.tf32_parts(), b.tf32_parts());
    // An infinity goes through the large product alone: times a rest of the other sign it would become NaN.
    let small = mma_v2_tf32(a_small, finite(b_big), zeros_like(acc));
    let small = mma_v2_tf32(finite(a_big), b_small, small);
    acc + mma_v2_tf32(a_big, b_big, small)
}

/// `acc + a · b` of f32 by three products of bf16 on the tensor cores (`bf16x3`): as [`mma_v2_tf32x3`], at twice its rate and
/// with an error of about 2^-15. The operands' layouts have a k width of at least 2, as bf16 requires.
#[track_caller]
pub fn mma_v2_bf16x3(a: Tensor<f32>, b: Tensor<f32>, acc: Tensor<f32>) -> Tensor<f32> {
    let ((a_big, a_small), (b_big, b_small)) = (a.bf16_parts(), b.bf16_parts());
    let only_finite = |x: Tensor<bf16>| finite(x.cast::<f32>()).cast::<bf16>();
    let small = mma_v2(a_small, only_finite(b_big), zeros_like(acc));
    let small = mma_v2(only_finite(a_big), b_small, small);
    acc + mma_v2(a_big, b_big, small)
}
