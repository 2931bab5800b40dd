//! Products of tiles in registers.

use half::{bf16, f16};

use super::trace::{self, here};
use super::{E4m3, E5m2, Element, Tensor, WgmmaOperand};
use ir::ops::wgmma::InputPrecision;

/// Element types whose products the tensor cores of one warp add into `Sum` (PTX `mma.sync`): f16 into f16 or f32, bf16
/// into f32, f64 into f64, 8-bit floats into f16 or f32, 8-bit integers into i32.
#[diagnostic::on_unimplemented(
    message = "`mma_v2` does not multiply `{Self}` by `{Rhs}` into `{Sum}`",
    note = "it multiplies f16 into f16 or f32, bf16 into f32, f64 into f64, 8-bit floats into f16 or f32, and 8-bit integers into i32; f32 is multiplied as tf32 by `mma_v2_tf32`"
)]
pub trait MmaOperand<Rhs, Sum>: Element {}

/// Element types whose products threads add into `Sum`: numbers of one type, f16 and bf16 also into f32, integers of 8 and
/// 16 bits also into i32.
#[diagnostic::on_unimplemented(
    message = "`dot_fma` does not multiply `{Self}` by `{Rhs}` into `{Sum}`",
    note = "it multiplies numbers of one type, f16 and bf16 also into f32, and integers of 8 and 16 bits also into i32"
)]
pub trait FmaOperand<Rhs, Sum>: Element {}

macro_rules! operands {
    ($kind:ident: $($left:ty, $right:ty => $($sum:ty)*;)*) => {$($(impl $kind<$right, $sum> for $left {})*)*};
}

/// What the tensor cores multiply for a warpgroup (`wgmma`) and for a warp (`mma.sync`) alike.
macro_rules! tensor_core_operands {
    ($($kind:ident)*) => {$(operands! { $kind:
        f16, f16 => f16 f32;
        bf16, bf16 => f32;
        E4m3, E4m3 => f16 f32;
        E4m3, E5m2 => f16 f32;
        E5m2, E4m3 => f16 f32;
        E5m2, E5m2 => f16 f32;
        i8, i8 => i32;
        i8, u8 => i32;
        u8, i8 => i32;
        u8, u8 => i32;
    })*};
}

tensor_core_operands! { WgmmaOperand MmaOperand }

operands! { WgmmaOperand:
    f32, f32 => f32;
}

operands! { MmaOperand:
    f64, f64 => f64;
}

operands! { FmaOperand:
    f16, f16 => f16 f32;
    bf16, bf16 => bf16 f32;
    f32, f32 => f32;
    f64, f64 => f64;
    i8, i8 => i8 i32;
    i8, u8 => i32;
    u8, i8 => i32;
    u8, u8 => u8 i32;
    i16, i16 => i16 i32;
    i16, u16 => i32;
    u16, i16 => i32;
    u16, u16 => u16 i32;
    i32, i32 => i32;
    u32, u32 => u32;
    i64, i64 => i64;
    u64, u64 => u64;
}

/// `acc + a · b` on the tensor cores, each warp for itself (PTX `mma.sync`): for types without `wgmma`, and for CTAs without whole
/// warpgroups. `a` is `[M, K]`, `b` is `[K, N]`, `acc` is `[M, N]`; all may have a batch dimension before. The layout
/// of `acc` is a [`Mma`](layout::Mma), those of the operands are its
/// [`DotOperand`](layout::DotOperand)s, of one k width: at least the elements that fill 32 bits.
///
/// ```text
/// let layout = Mma::new([2, 2], [16, 8]);
/// let x = a_tile.load(DotOperand::new(0, layout.clone(), 2));
/// let y = b_tile.load(DotOperand::new(1, layout, 2));
/// acc = mma_v2(x, y, acc);
/// ```
///
/// Loads of 16-bit operands become `ldmatrix`, and so do those of other K-major operands.
#[inline]
#[track_caller]
pub fn mma_v2<A, B, S>(a: Tensor<A>, b: Tensor<B>, acc: Tensor<S>) -> Tensor<S>
where
    A: MmaOperand<B, S>,
    B: Element,
    S: Element,
{
    let operands = [a.value(), b.value(), acc.value()];
    Tensor::wrap(trace::mma_v2(operands, InputPrecision::Own, here()))
}

/// The same of f32, which counts as tf32: its upper 19 bits.
#[inline]
#[track_caller]
pub fn mma_v2_tf32(a: Tensor<f32>, b: Tensor<f32>, acc: Tensor<f32>) -> Tensor<f32> {
    let operands = [a.value(), b.value(), acc.value()];
    Tensor::wrap(trace::mma_v2(operands, InputPrecision::Tf32, here()))
}

/// `acc + a · b` by multiplications of single elements, each sum in the order of K and, of floats, with one rounding for each
/// element of K. `a` is `[M, K]`, `b` is `[K, N]`, `acc` is `[M, N]`; all may have a batch dimension before. The layout of
/// `acc` is a [`Blocked`](layout::Blocked), those of the operands are its
/// [`DotOperand`](layout::DotOperand)s of k width 0: a thread holds all of K for its rows and columns. All is spelled
/// out, so a tile is small: more than 2^19 multiply-adds are warned of.
#[inline]
#[track_caller]
pub fn dot_fma<A, B, S>(a: Tensor<A>, b: Tensor<B>, acc: Tensor<S>) -> Tensor<S>
where
    A: FmaOperand<B, S>,
    B: Element,
    S: Element,
{
    let operands = [a.value(), b.value(), acc.value()];
    Tensor::wrap(trace::dot_fma(operands, here()))
}
