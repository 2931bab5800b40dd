//! The tables of instances that calls choose from.

use tilekit::prelude::*;
use tilekit::{CompiledKernel, Result};

use super::forward::kernel::forward;
use super::mainloop::problem::ROWS;
use super::masked::kernel::forward_masked;
use super::modifier::Modifier;
use super::plan::Tile;
use crate::handles::handles;

/// The parameters of `forward`.
pub(super) type DenseHandles<T> = handles! {
    q k v out: TensorMap<T>,
    lse: Ptr<f32>,
    counter: Ptr<i32>,
    batch heads query_heads tokens section: Scalar<i32>,
    log2_scale: Scalar<f32>,
};

/// The parameters of `forward_masked`.
pub(super) type MaskedHandles<T> = handles! {
    q k v out: TensorMap<T>,
    lse: Ptr<f32>,
    counter query_offsets key_offsets: Ptr<i32>,
    sinks data: Ptr<f32>,
    batch heads query_heads queries keys is_ragged has_sinks left right chunk section: Scalar<i32>,
    log2_scale score_scale: Scalar<f32>,
    lse_stride: Scalar<i32>,
    seed: Scalar<i64>,
    dropped: Scalar<i32>,
};

/// An instance: the calls that it serves, and how it is compiled.
pub(super) struct Instance<H> {
    /// Elements of a row of Q and K, and of V.
    pub(super) depths: [usize; 2],
    pub(super) tile: Tile,
    /// For `forward`: whether it is causal.
    pub(super) is_causal: bool,
    pub(super) compile: fn(&Compiler) -> Result<CompiledKernel<H>>,
}

/// An element type that attention computes with.
pub trait Operand: Float + WgmmaOperand<Self, f32> + MmaOperand<Self, f32> + DeviceElement {
    /// The instances of `forward`, which are tuned for heads of equally many queries and keys.
    #[doc(hidden)]
    fn dense() -> Dense<Self>;
}

/// The instances of `forward` for an element type.
pub struct Dense<T>(pub(super) Vec<Instance<DenseHandles<T>>>);

macro_rules! dense {
    ($($d:literal, $groups:literal, $keys:literal, $causal:literal, $turns:literal;)*) => {
        Dense(vec![$(Instance {
            depths: [$d, $d],
            tile: Tile { rows: $groups * ROWS, keys: $keys, pack: 1 },
            is_causal: $causal,
            compile: |compiler| forward::<Self, $d, $groups, $keys, $causal, $turns>.compile(compiler),
        }),*])
    };
}

/// Both types have the same tiles.
macro_rules! operands {
    ($($ty:ty),*) => {$(
        impl Operand for $ty {
            fn dense() -> Dense<Self> {
                dense! {
                    64, 3, 128, false, true;
                    64, 3, 128, true, true;
                    128, 2, 176, false, true;
                    128, 2, 128, true, true;
                    256, 2, 80, false, false;
                    256, 2, 64, true, false;
                }
            }
        }
    )*};
}

operands!(bf16, f16);

macro_rules! masked {
    ($($d:literal, $dv:literal, $groups:literal, $keys:literal, $turns:literal, $pack:literal;)*) => {
        vec![$(Instance {
            depths: [$d, $dv],
            tile: Tile { rows: $groups * ROWS, keys: $keys, pack: $pack },
            is_causal: false,
            compile: |compiler| {
                forward_masked::<T, $d, $dv, $groups, $keys, $turns, $pack, M>.compile(compiler)
            },
        }),*]
    };
}

/// The instances of `forward_masked`. Those that pack heads come first; blocks of 96 and 192 columns are not cut
/// into heads, since reshapes of shared memory take powers of two.
pub(super) fn masked<T: Operand, M: Modifier>() -> Vec<Instance<MaskedHandles<T>>> {
    // Threads of three warpgroups have 160 registers: positions and random numbers would spill.
    let of_64 = if M::READS_PLACE || M::DROPS {
        masked! { 64, 64, 2, 128, true, 8; 64, 64, 2, 128, true, 1; }
    } else {
        masked! { 64, 64, 3, 128, true, 8; 64, 64, 3, 128, true, 1; }
    };
    let of_192 = if M::DROPS {
        masked! { 192, 128, 2, 96, true, 1; }
    } else {
        masked! { 192, 128, 2, 112, true, 1; }
    };
    let others = masked! {
        128, 128, 2, 128, true, 8;
        256, 256, 2, 64, false, 8;
        96, 96, 2, 128, true, 1;
        128, 128, 2, 128, true, 1;
        256, 256, 2, 64, false, 1;
    };
    [of_64, of_192, others].into_iter().flatten().collect()
}
