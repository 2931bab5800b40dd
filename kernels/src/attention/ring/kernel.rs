//! The kernel of ring attention.

use tilekit::prelude::*;

use super::send::{PIECE_ROWS, Sender, Sent, plain, row_of};
use super::shards::{Seen, Shards};
use crate::attention::mainloop::attend::attend;
use crate::attention::mainloop::problem::ROWS;
use crate::attention::mainloop::shape::{Rescaling, Shape, swizzle};
use crate::attention::mainloop::softmax::Exponentials;
use crate::attention::mainloop::tiles::Tiles;
use crate::parallel::mail::{Mail, Mailbox};

/// Registers of a consumer thread, and of a thread that loads or sends, for so many consumer warpgroups and columns of V.
///
/// The warp that loads waits and sends besides: with 24 registers it keeps more in local memory than what consumers need of the other 8. Where values have at most 128 columns, two warpgroups leave it all that it needs.
fn registers(groups: usize, values: usize) -> [u32; 2] {
    match (groups, values) {
        (3, _) => [160, 32],
        (_, ..=128) => [224, 56],
        _ => [232, 40],
    }
}

/// `out = softmax(scale · Q · Kᵀ) · V` and its LSE over the keys of all `ranks`, of which each has `chunks` of `tokens` contiguous tokens; `log2_scale` is `scale · log2(e)`.
///
/// `q` is `[batch, heads, chunks, tokens, D]`, `k` and `v` are `[batch, kv_heads, chunks, tokens, D or DV]`, `out` is `[batch, heads, chunks, tokens, DV]` and `lse` `[batch, heads, chunks, tokens]`.
/// `k_pieces` and `v_pieces` are the same tensors as `k` and `v`, as `[batch, kv_heads, chunks · tokens]` rows whose columns are `[D / run, run]` for the largest power of two that divides them. `all_k` and `all_v` are `[batch · kv_heads, chunks, (ranks - 1) · tokens, D or DV]`, for what other ranks send, one after the other
/// in `received_of` of each rank.
///
/// With `CAUSAL` a query sees the keys up to its own position: `chunks` is 1 where rank r has the tokens from `r · tokens` on, and 2 where it has chunks r and `2 · ranks - 1 - r`. Without, it is 1. With `TURNS`
/// named barriers order the warpgroups' products (ping-pong).
///
/// Heads of a `section` are computed together; `counter` is 0 before and after. `flags` has a number for each rank at most, and behind them one for each `segment` of tokens of each chunk
/// of other ranks and head of K and V. `launches` is one number of this rank. A wait for other ranks ends the kernel behind `limit` nanoseconds and says in `late`, a word of the host, what it waited for.
/// Without `CAUSAL`, `before` of `seen` is `all`. A chunk of queries has `tiles_of_chunk` tiles, a head
/// `tiles_of_head`, and all heads `tiles`.
///
/// `together` heads of K and V are sent together; a warp that sends rests for `pause` nanoseconds behind each piece of those that come later.
#[kernel(warps = 4, min_ctas_per_sm = 1, cooperative)]
pub fn ring_attention<
    T: Float + WgmmaOperand<T, f32>,
    const D: usize,
    const DV: usize,
    const GROUPS: usize,
    const KEYS: usize,
    const CAUSAL: bool,
    const TURNS: bool,
>(
    #[block([1, 1, 1, ROWS, D], swizzle::<T>(D, 5))] q: TensorMap<T>,
    #[block([1, 1, 1, KEYS, D], swizzle::<T>(D, 5))] k: TensorMap<T>,
    #[block([1, 1, 1, KEYS, DV], swizzle::<T>(DV, 5))] v: TensorMap<T>,
    #[block([1, 1, KEYS, D], swizzle::<T>(D, 4))] all_k: TensorMap<T>,
    #[block([1, 1, KEYS, DV], swizzle::<T>(DV, 4))] all_v: TensorMap<T>,
    #[block([1, 1, PIECE_ROWS, row_of(D)[0], row_of(D)[1]], plain::<T>(5))] k_pieces: TensorMap<T>,
    #[block([1, 1, PIECE_ROWS, row_of(DV)[0], row_of(DV)[1]], plain::<T>(5))] v_pieces: TensorMap<
        T,
    >,
    #[block([1, 1, 1, ROWS, DV], swizzle::<T>(DV, 5))] out: TensorMap<T>,
    lse: Ptr<f32>,
    counter: Ptr<i32>,
    received_of: PeerMap<T>,
    mail: Mailbox,
    batch: i32,
    heads: i32,
    kv_heads: i32,
    chunks: i32,
    tokens: i32,
    section: i32,
    segment: i32,
    together: i32,
    pause: i32,
    seen: Seen,
    tiles_of_chunk: i32,
    tiles_of_head: i32,
    tiles: i32,
    log2_scale: f32,
) {
    assume((batch > 0) & (heads > 0) & (kv_heads > 0) & (chunks > 0) & (tokens > 0));
    assume((segment > 0) & (together > 0) & (tiles_of_chunk > 0));
    let mail = Mail::open(mail);
    let queries = GROUPS * ROWS;
    let sent = Sent {
        lines: batch * kv_heads,
        chunks,
        tokens,
        segment,
    };
    let problem = Shards {
        maps: [q, k, v, all_k, all_v],
        out,
        lse,
        tiles: Tiles::new(tiles_of_head, heads * batch, section),
        of_tiles: [tiles_of_chunk, tiles],
        heads,
        kv_heads,
        log2_scale,
        is_causal: CAUSAL,
        tile: [queries, KEYS],
        seen,
        sent,
        mail,
        sender: Sender::alloc(
            [k_pieces, v_pieces],
            [D, DV],
            received_of,
            [together, pause],
        ),
    };
    let shape = Shape {
        depth: D,
        values: DV,
        keys: KEYS,
        turns: TURNS,
        rescaling: if CAUSAL && D == 64 {
            Rescaling::Lazily
        } else {
            Rescaling::Always
        },
        is_triple: false,
        exponentials: Exponentials::Special,
        registers: registers(GROUPS, DV),
    };
    attend::<T, Shards<T>, GROUPS>(problem, shape, counter);
}
