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
    tiles_of_chunk tiles_of_head tiles: Scalar<i32>,
    log2_scale: Scalar<f32>,
};

/// The arguments of `ring_attention` on a rank: tensors, memory and the limit of waits, then [`Need`](super::plan::Need), [`Numbers`](super::plan::Numbers) and tile, and the scale.
macro_rules! arguments {
    ([$($first:expr),+ $(,)?], $rank:expr, ($need:expr, $numbers:expr, $tile:expr), $scale:expr) => {{
        let (rank, numbers) = ($rank, $numbers);
        let (ranks, chunks, sizes) = ($need.ranks, $need.chunks, $need.sizes);
        let (seen, tiles) = ($need.seen($tile, rank), $need.tiles($tile));
        (
            $($first,)+
            rank as i32,
            ranks as i32,
            sizes.batch as i32,
            sizes.heads as i32,
            sizes.kv_heads as i32,
            chunks as i32,
            numbers.tokens as i32,
            numbers.section as i32,
            numbers.segment as i32,
            numbers.together as i32,
            numbers.pause,
            seen[0],
            seen[1],
            seen[2],
            seen[3],
            seen[4],
            seen[5],
            seen[6],
            seen[7],
            seen[8],
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
