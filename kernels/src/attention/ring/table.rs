//! The table of instances that calls choose from.

use tilekit::prelude::*;

use super::kernel::ring_attention;
use crate::attention::mainloop::problem::ROWS;
use crate::attention::plan::Tile;
use crate::attention::table::{Instance, Operand};
use crate::handles::handles;

/// The parameters of `ring_attention`.
pub(super) type RingHandles<T> = handles! {
    q k v all_k all_v k_pieces v_pieces out: TensorMap<T>,
    lse: Ptr<f32>,
    counter: Ptr<i32>,
    received_of: PeerMap<T>,
    flags: Ptr<i64>,
    flags_of: PeerMap<i64>,
    launches: Ptr<u64>,
    limit: Scalar<i64>,
    late: Ptr<i64>,
    rank ranks batch heads kv_heads chunks tokens section segment together pause: Scalar<i32>,
    of_chunk own_blocks own_rest all_blocks all_rest before_blocks before_rest behind_blocks behind_rest: Scalar<i32>,
    log2_scale: Scalar<f32>,
};

macro_rules! instances {
    ($($d:literal, $dv:literal, $groups:literal, $keys:literal, $causal:literal, $turns:literal;)*) => {
        vec![$(Instance {
            depths: [$d, $dv],
            tile: Tile { rows: $groups * ROWS, keys: $keys, pack: 1 },
            is_causal: $causal,
            compile: |compiler| {
                ring_attention::<T, $d, $dv, $groups, $keys, $causal, $turns>.compile(compiler)
            },
        }),*]
    };
}

/// The instances. Blocks are as those of attention on one device, or smaller where what is sent takes their room in shared memory.
pub(super) fn instances<T: Operand>() -> Vec<Instance<RingHandles<T>>> {
    instances! {
        64, 64, 3, 128, false, true;
        64, 64, 3, 128, true, true;
        128, 128, 2, 176, false, true;
        128, 128, 2, 128, true, true;
        192, 128, 2, 96, false, true;
        192, 128, 2, 96, true, true;
        256, 256, 2, 64, false, false;
        256, 256, 2, 64, true, false;
    }
}
