//! The table of instances of `forward_fp8`.

use tilekit::prelude::*;

use super::fp8::forward_fp8;
use crate::attention::mainloop::problem::ROWS;
use crate::attention::plan::Tile;
use crate::attention::table::Instance;
use crate::handles::handles;

/// The parameters of `forward_fp8`.
pub(super) type NarrowHandles = handles! {
    q k v: TensorMap<E4m3>,
    out: TensorMap<bf16>,
    lse: Ptr<f32>,
    counter: Ptr<i32>,
    q_factors k_factors v_factors: Ptr<f32>,
    batch heads query_heads tokens section: Scalar<i32>,
    log2_scale: Scalar<f32>,
};

macro_rules! narrow {
    ($($d:literal, $groups:literal, $keys:literal, $causal:literal, $turns:literal;)*) => {
        vec![$(Instance {
            depths: [$d, $d],
            tile: Tile { rows: $groups * ROWS, keys: $keys, pack: 1 },
            is_causal: $causal,
            compile: |compiler| forward_fp8::<$d, $groups, $keys, $causal, $turns>.compile(compiler),
        }),*]
    };
}

/// The instances of `forward_fp8`.
pub(super) fn narrow() -> Vec<Instance<NarrowHandles>> {
    narrow! {
        64, 2, 128, false, false;
        64, 2, 128, true, false;
        128, 2, 192, false, false;
        128, 2, 128, true, true;
        256, 2, 96, false, false;
        256, 2, 96, true, false;
    }
}
