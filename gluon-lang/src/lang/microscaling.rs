//! Microscaling formats (OCP MX 1.0): fp4 (e2m1), two in a byte, and scales that are powers of two (e8m0), one for 32 elements.
//! `sm_90` has no instructions for them: they are taken apart by integer code, exactly, and multiplied as bf16.

use super::compare::compared;
use super::dot::mma_v2;
use super::math::select;
use super::trace::{self, here};
use super::{CastTo, Float, Tensor};
use half::bf16;
use ir::ops::arith::CompareOp;
use layout::Slice;

/// Elements that share a scale.
const GROUP: u32 = 32;

impl Tensor<u8> {
    /// Bytes of two e2m1 each as floats, the lower four bits first: the last dimension becomes twice as long. The numbers
    /// 0, 0.5, 1, 1.5, 2, 3, 4 and 6 with a sign are exact in every float type. The layout is that of
    /// [`interleave`](super::interleave), so that a thread has both halves of its bytes.
    #[track_caller]
    pub fn unpack_e2m1<T: Float + CastTo>(self) -> Tensor<T> {
        let bits = self.cast::<u32>();
        e2m1(bits & 15).interleave(e2m1(bits >> 4)).cast::<T>()
    }

    /// Scales of 8 exponent bits (e8m0) as f32: byte `b` is 2^(b - 127), and 255 is NaN.
    #[track_caller]
    pub fn unpack_e8m0(self) -> Tensor<f32> {
        let bits = self.cast::<u32>();
        // 2^-127 is a subnormal number, and the exponent of all ones is no infinity here.
        let scale = select(compared(CompareOp::Eq, bits, 0), 0x0040_0000, bits << 23);
        select(compared(CompareOp::Eq, bits, 255), 0x7fc0_0000, scale).bitcast::<f32>()
    }
}

/// One e2m1 in the lower four bits: its exponent and mantissa stand where those of an f32 do, whose bias is 126 larger. That
/// holds of the subnormal 0.5 too.
#[track_caller]
fn e2m1(bits: Tensor<u32>) -> Tensor<f32> {
    let sign = (bits & 8) << 28;
    ((bits & 7) << 22 | sign).bitcast::<f32>() * 2f32.powi(126)
}

impl Tensor<f32> {
    /// Bytes of two e2m1 each, neighbours along the last dimension, the first in the lower four bits: rounded to nearest, ties
    /// to even, and saturating at 6, as `cvt.rn.satfinite.e2m1x2.f32` of later GPUs does. NaN becomes 6.
    #[track_caller]
    pub fn pack_e2m1(self) -> Tensor<u8> {
        let shape = self.shape();
        let last = shape.rank().saturating_sub(1);
        if !trace::has_groups(self.value(), last, 2, "`pack_e2m1`", here()) {
            return Tensor::wrap(trace::poison(here()));
        }
        let pairs = shape.with(last, shape[last] / 2).with_inserted(last + 1, 2);
        let (low, high) = to_e2m1(self).reshape(pairs).split();
        (low | high << 4).cast::<u8>()
    }

    /// The scale (e8m0) of a group whose largest magnitude this is, for elements of `max_exponent` at most, 2 of e2m1, 8 of
    /// e4m3 and 15 of e5m2 (OCP MX 1.0, 6.3): the exponent of the largest power of two that is no larger, less that.
    #[track_caller]
    pub fn to_e8m0(self, max_exponent: i32) -> Tensor<u8> {
        let exponent = (self.abs().bitcast::<u32>() >> 23).cast::<i32>() - max_exponent;
        let scale = exponent.maximum(0);
        // Infinities and NaN have no scale.
        let scale = select(self.is_finite(), scale, 255);
        scale.cast::<u8>()
    }
}

/// The four bits of the nearest e2m1.
#[track_caller]
fn to_e2m1(x: Tensor<f32>) -> Tensor<u32> {
    let sign = x.bitcast::<u32>() >> 28 & 8;
    let size = x.abs();
    // Half-way between neighbours: what is even takes the tie.
    let steps = [
        (CompareOp::Gt, 0.25),
        (CompareOp::Ge, 0.75),
        (CompareOp::Gt, 1.25),
        (CompareOp::Ge, 1.75),
        (CompareOp::Gt, 2.5),
        (CompareOp::Ge, 3.5),
        (CompareOp::Gt, 5.0),
    ];
    let [first, rest @ ..] = steps.map(|(op, bound)| compared(op, size, bound).cast::<u32>());
    let number = rest.into_iter().fold(first, |sum, step| sum + step);
    select(x.is_nan(), 7, number | sign)
}

/// The factor with its scales: dimension `axis` is cut into groups of 32, and each is multiplied by its scale.
#[track_caller]
fn scaled(factor: Tensor<bf16>, scales: Tensor<u8>, axis: usize) -> Tensor<bf16> {
    let shape = factor.shape();
    let what = "`mma_v2_scaled`";
    if !trace::has_groups(factor.value(), axis, GROUP, what, here()) {
        return Tensor::wrap(trace::poison(here()));
    }
    let of_scales = shape.with(axis, shape[axis] / GROUP);
    let what = format!("the scales of a factor of {shape} with groups along dimension {axis}");
    if !trace::has_shape(scales.value(), &of_scales, &what, here()) {
        return Tensor::wrap(trace::poison(here()));
    }
    let groups = shape
        .with(axis, shape[axis] / GROUP)
        .with_inserted(axis + 1, GROUP);
    let own = factor.layout();
    let parts = factor.reshape(&groups);
    let of_group = Slice::new(axis as u32 + 1, parts.layout());
    let scales = scales.convert_layout(of_group).unpack_e8m0();
    let scales = scales.expand_dims(axis + 1).broadcast_to(&groups);
    let product = (parts.cast::<f32>() * scales).cast::<bf16>();
    product.reshape(&shape).convert_layout(own)
}

/// `acc + (a · scales of a) · (b · scales of b)` by products of bf16 on the tensor cores of each warp. `a` is `[M, K]` with scales
/// (e8m0) `[M, K / 32]`, `b` is `[K, N]` with scales `[K / 32, N]`; the factors are [e2m1](Tensor::unpack_e2m1) or 8-bit floats
/// cast to bf16, which loses nothing, and lie as [`mma_v2`] wants them. The scales are converted to the layout that goes with
/// theirs. A product of an element and its scale beyond what bf16 holds becomes infinity, or is rounded below 2^-133.
#[track_caller]
pub fn mma_v2_scaled(
    a: Tensor<bf16>,
    a_scales: Tensor<u8>,
    b: Tensor<bf16>,
    b_scales: Tensor<u8>,
    acc: Tensor<f32>,
) -> Tensor<f32> {
    let (rows, columns) = (a.rank().saturating_sub(1), b.rank().saturating_sub(2));
    mma_v2(scaled(a, a_scales, rows), scaled(b, b_scales, columns), acc)
}
