//! The table of instances that calls choose from.

use tilekit::prelude::*;

use super::kernel::ring_attention;
use super::shards::Seen;
use crate::attention::mainloop::problem::ROWS;
use crate::attention::plan::Tile;
use crate::attention::table::{Instance, Operand};
use crate::handles::handles;
use crate::parallel::mail::Mailbox;

/// The parameters of `ring_attention`.
pub(super) type RingHandles<T> = handles! {
    q k v all_k all_v k_pieces v_pieces out: TensorMap<T>,
    lse: Ptr<f32>,
    counter: Ptr<i32>,
    received_of: PeerMap<T>,
    mail: Mailbox,
    batch heads kv_heads chunks tokens section segment together pause: Scalar<i32>,
    seen: Seen,
    tiles_of_chunk tiles_of_head tiles: Scalar<i32>,
    log2_scale: Scalar<f32>,
};

/// The arguments of `ring_attention` on a rank: tensors, memory and the limit of waits, then [`Need`](super::plan::Need), [`Numbers`](super::plan::Numbers) and tile, and the scale.
macro_rules! arguments {
    ([$($first:expr),+ $(,)?], $rank:expr, ($need:expr, $numbers:expr, $tile:expr), $scale:expr) => {{
        let (rank, numbers) = ($rank, $numbers);
        let (chunks, sizes) = ($need.chunks, $need.sizes);
        let tiles = $need.tiles($tile);
        (
            $($first,)+
            sizes.batch as i32,
            sizes.heads as i32,
            sizes.kv_heads as i32,
            chunks as i32,
            numbers.tokens as i32,
            numbers.section as i32,
            numbers.segment as i32,
            numbers.together as i32,
            numbers.pause,
            $need.seen($tile, rank),
            tiles[0],
            tiles[1],
            tiles[2],
            $scale,
        )
    }};
}

pub(super) use arguments;

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
