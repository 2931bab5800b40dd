//! Microscaling formats (OCP MX 1.0): fp4 ([`E2m1`]), two in a byte of memory, and scales that are powers of two ([`E8m0`]), one for
//! 32 elements. `sm_90` has no instructions for them: they are taken apart by integer code, exactly, and multiplied as bf16.

use super::dot::mma_v2;
use super::math::select;
use super::trace::{self, here};
use super::{CastTo, E2m1, E4m3, E5m2, E8m0, Element, Tensor};
use half::bf16;
use layout::Slice;

/// Elements that share a scale.
const GROUP: u32 = 32;

/// Element types that bf16 holds exactly, whose products [`mma_v2_scaled`] adds: bf16, [`E4m3`], [`E5m2`] and [`E2m1`].
#[diagnostic::on_unimplemented(
    message = "`mma_v2_scaled` does not multiply `{Self}`",
    note = "it multiplies what bf16 holds exactly: E2m1, E4m3, E5m2 and bf16"
)]
pub trait ScaledOperand: Element {}

impl ScaledOperand for bf16 {}
impl ScaledOperand for E4m3 {}
impl ScaledOperand for E5m2 {}
impl ScaledOperand for E2m1 {}

impl Tensor<u8> {
    /// Bytes of two [`E2m1`] each, the lower four bits first, as a `T`: the last dimension becomes twice as long. The numbers
    /// 0, 0.5, 1, 1.5, 2, 3, 4 and 6 with a sign are exact in every float type. The layout is that of
    /// [`interleave`](super::interleave), so that a thread has both halves of its bytes.
    #[track_caller]
    pub fn unpack_e2m1<T: CastTo>(self) -> Tensor<T> {
        let number = |bits: Tensor<u8>| bits.bitcast::<E2m1>().cast::<T>();
        number(self & 15).interleave(number(self >> 4))
    }
}

impl<T: CastTo> Tensor<T> {
    /// Bytes of two [`E2m1`] each, neighbours along the last dimension, the first in the lower four bits. Other floats are rounded
    /// to nearest, ties to even, and saturate at 6, as by `cvt.rn.satfinite.e2m1x2.f32` of later GPUs; NaN becomes 6.
    #[track_caller]
    pub fn pack_e2m1(self) -> Tensor<u8> {
        let shape = self.shape();
        let last = shape.rank().saturating_sub(1);
        if !trace::has_groups(self.value(), last, 2, "`pack_e2m1`", here()) {
            return Tensor::wrap(trace::poison(here()));
        }
        let pairs = shape.with(last, shape[last] / 2).with_inserted(last + 1, 2);
        let bits = self.cast::<E2m1>().bitcast::<u8>() & 15;
        let (low, high) = bits.reshape(pairs).split();
        low | high << 4
    }
}

impl Tensor<f32> {
    /// The scale of a group whose largest magnitude this is, for elements of `max_exponent` at most, 2 of e2m1, 8 of
    /// e4m3 and 15 of e5m2 (OCP MX 1.0, 6.3): the largest power of two that is no larger, divided by that of the largest element.
    /// NaN of infinities and NaN.
    #[track_caller]
    pub fn to_e8m0(self, max_exponent: i32) -> Tensor<E8m0> {
        let exponent = (self.abs().bitcast::<u32>() >> 23).cast::<i32>() - max_exponent;
        let scale = exponent.maximum(0);
        // Infinities and NaN have no scale.
        let scale = select(self.is_finite(), scale, 255);
        scale.cast::<u8>().bitcast::<E8m0>()
    }
}

/// The scaled operand: dimension `axis` is cut into groups of 32, and each is multiplied by its scale.
#[track_caller]
fn scaled<T: ScaledOperand>(operand: Tensor<T>, scales: Tensor<E8m0>, axis: usize) -> Tensor<bf16> {
    let shape = operand.shape();
    let what = "`mma_v2_scaled`";
    if !trace::has_groups(operand.value(), axis, GROUP, what, here()) {
        return Tensor::wrap(trace::poison(here()));
    }
    let of_scales = shape.with(axis, shape[axis] / GROUP);
    let what = format!("the scales of an operand of {shape} with groups along dimension {axis}");
    if !trace::has_shape(scales.value(), &of_scales, &what, here()) {
        return Tensor::wrap(trace::poison(here()));
    }
    let groups = shape
        .with(axis, shape[axis] / GROUP)
        .with_inserted(axis + 1, GROUP);
    let own = operand.layout();
    let parts = operand.reshape(&groups);
    let of_group = Slice::new(axis as u32 + 1, parts.layout());
    let scales = scales.convert_layout(of_group).cast::<f32>();
    let scales = scales.expand_dims(axis + 1).broadcast_to(&groups);
    let product = (parts.cast::<f32>() * scales).cast::<bf16>();
    product.reshape(&shape).convert_layout(own)
}

/// `acc + (a · scales of a) · (b · scales of b)` by products of bf16 on the tensor cores of each warp, as Triton's `dot_scaled` has
/// it where the hardware has none. `a` is `[M, K]` with scales `[M, K / 32]`, `b` is `[K, N]` with scales `[K / 32, N]`; the operands
/// are [`E2m1`], 8-bit floats or bf16, each a type of its own, and lie as [`mma_v2`] wants bf16. The scales are converted to the
/// layout that goes with theirs. A product of an element and its scale beyond what bf16 holds becomes infinity, or is rounded
/// below 2^-133.
#[track_caller]
pub fn mma_v2_scaled<A: ScaledOperand, B: ScaledOperand>(
    a: Tensor<A>,
    a_scales: Tensor<E8m0>,
    b: Tensor<B>,
    b_scales: Tensor<E8m0>,
    acc: Tensor<f32>,
) -> Tensor<f32> {
    let (rows, columns) = (a.rank().saturating_sub(1), b.rank().saturating_sub(2));
    mma_v2(scaled(a, a_scales, rows), scaled(b, b_scales, columns), acc)
}
