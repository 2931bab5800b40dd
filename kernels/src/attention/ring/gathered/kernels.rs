//! The kernels between ranks: shards of K and V into the memory of those that see them, and sums of gradients out of it.

use tilekit::prelude::*;

use crate::parallel::mail::{Mail, Mailbox};

/// Warps of a CTA, and rows and columns that it moves at a time: 16 bytes for each thread.
const WARPS: usize = 8;
const ROWS: usize = 64;
pub(super) const COLUMNS: usize = 32;

/// CTAs of a multiprocessor.
pub(super) const CTAS: usize = 2;

/// The tokens of all ranks, each of which has `chunks` of `tokens` contiguous ones: one, or two of which the second ones are in the reverse order of ranks; and how many keys before and behind its own position a query sees.
#[derive(Clone, Copy, Aggregate)]
struct Sequence {
    ranks: Scalar<i32>,
    chunks: Scalar<i32>,
    tokens: Scalar<i32>,
    left: Scalar<i32>,
    right: Scalar<i32>,
}

impl Sequence {
    /// The position of the first token of a chunk.
    #[device]
    fn first(self, rank: Scalar<i32>, chunk: Scalar<i32>) -> Scalar<i32> {
        select(chunk == 0, rank, 2 * self.ranks - 1 - rank) * self.tokens
    }

    #[device]
    fn all(self) -> Scalar<i32> {
        self.ranks * self.chunks * self.tokens
    }

    /// Whether queries of a chunk see keys at these positions.
    #[device]
    fn is_seen(self, rank: Scalar<i32>, chunk: Scalar<i32>, key: Tensor<i32>) -> Tensor<bool> {
        let first = self.first(rank, chunk);
        (key >= first - self.left) & (key < first + self.tokens + self.right)
    }
}

/// A tile of a tensor of a rank: some tokens of a chunk, and some columns of them.
#[derive(Clone, Copy, Aggregate)]
struct Tile {
    /// The head of K and V, counted over all batches.
    line: Scalar<i32>,
    chunk: Scalar<i32>,
    row: Tensor<i32>,
    column: Tensor<i32>,
}

impl Tile {
    fn count(sequence: Sequence, lines: Scalar<i32>, columns: usize) -> Scalar<i32> {
        lines * sequence.chunks * cdiv(sequence.tokens, ROWS) * (columns / COLUMNS)
    }

    #[device]
    fn of(sequence: Sequence, columns: usize, number: Scalar<i32>) -> Tile {
        let across = (columns / COLUMNS) as i32;
        let (block, part) = (number / across, number % across);
        let blocks = cdiv(sequence.tokens, ROWS);
        let (of_line, block) = (block / blocks, block % blocks);
        let layout = || Blocked::new([1, 8], [8, 4], [WARPS, 1], [1, 0]);
        Tile {
            line: of_line / sequence.chunks,
            chunk: of_line % sequence.chunks,
            row: rows_of(layout(), block * ROWS, ROWS),
            column: columns_of(layout(), part * COLUMNS, COLUMNS),
        }
    }

    /// Where it lies in a tensor of a rank, and which of its elements exist.
    #[device]
    fn own(
        self,
        sequence: Sequence,
        kv_heads: Scalar<i32>,
        strides: [Scalar<i64>; 3],
    ) -> (Tensor<i64>, Tensor<bool>) {
        let [batch, head, token] = strides;
        let base = (self.line / kv_heads).cast::<i64>() * batch
            + (self.line % kv_heads).cast::<i64>() * head
            + (self.chunk * sequence.tokens).cast::<i64>() * token;
        let at = self.row.cast::<i64>() * token + self.column.cast::<i64>();
        let shape = [ROWS, COLUMNS];
        (at + base, (self.row < sequence.tokens).broadcast_to(shape))
    }

    /// The positions of its rows in the sequence.
    #[device]
    fn position(self, sequence: Sequence, rank: Scalar<i32>) -> Tensor<i32> {
        self.row + sequence.first(rank, self.chunk)
    }

    /// Where it lies in a tensor of the whole sequence, of the lines so many before its own.
    #[device]
    fn whole(
        self,
        sequence: Sequence,
        rank: Scalar<i32>,
        lines: Scalar<i32>,
        columns: usize,
    ) -> Tensor<i64> {
        let line = (self.line + lines).cast::<i64>() * sequence.all().cast::<i64>();
        let row = self.position(sequence, rank).cast::<i64>() + line;
        row * columns as i64 + self.column.cast::<i64>()
    }
}

/// Stores K and V of this rank to all ranks whose queries see them.
///
/// `k` and `v` are `[batch, kv_heads, chunks · tokens, D or DV]` with these strides of batches, heads and tokens, rows without gaps, and `lines` is `batch · kv_heads`. Each rank gets `[lines, ranks · chunks · tokens, D]` at `all_of`, and behind it the same of V: tokens in the order of the
/// sequence, of which rank r has chunk r and, of two, `2 · ranks - 1 - r`. Keys that no query of a rank sees, from `left` before its position to `right` behind it, are not stored there.
///
/// `flags` has a number for each rank at most, and behind them one for each CTA of each rank; `launches` is one number of this rank. A wait for other ranks ends the kernel behind `limit` nanoseconds and says in `late`, a word of the host, what it waited for.
/// When it has ended, all that this rank sees has arrived.
#[kernel(warps = WARPS, cooperative, min_ctas_per_sm = CTAS)]
pub fn gather_shards<T: Float, const D: usize, const DV: usize>(
    k: Ptr<T>,
    v: Ptr<T>,
    #[multiple_of(8)] k_strides: [i64; 3],
    #[multiple_of(8)] v_strides: [i64; 3],
    all_of: PeerMap<T>,
    mail: Mailbox,
    chunks: i32,
    tokens: i32,
    lines: i32,
    kv_heads: i32,
    left: i32,
    right: i32,
) {
    assume((chunks > 0) & (tokens > 0) & (kv_heads > 0));
    let mail = Mail::open(mail);
    let (rank, ranks) = (mail.rank, mail.ranks);
    let sequence = Sequence {
        ranks,
        chunks,
        tokens,
        left,
        right,
    };
    mail.announce();
    mail.wait_all_begun();
    let store = |from: Ptr<T>, strides: [Scalar<i64>; 3], columns: usize, base: Scalar<i64>| {
        for number in
            range(program_id(0), Tile::count(sequence, lines, columns)).step(num_programs(0))
        {
            let tile = Tile::of(sequence, columns, number);
            let (at, inside) = tile.own(sequence, kv_heads, strides);
            let elements = from.at(at).mask(inside).load();
            let position = tile.position(sequence, rank);
            let to = tile.whole(sequence, rank, scalar(0), columns) + base;
            for places in range(0, ranks) {
                let peer = mail.behind(places);
                let is_seen = sequence.is_seen(peer, scalar(0), position)
                    | ((chunks > 1) & sequence.is_seen(peer, scalar(1), position));
                let place = all_of.of(peer).at(to);
                place.mask(inside & is_seen).store(elements);
            }
        }
    };
    store(k, k_strides, D, scalar(0));
    let of_keys = lines.cast::<i64>() * sequence.all().cast::<i64>() * D as i64;
    store(v, v_strides, DV, of_keys);
    mail.meet();
}

/// `dk` and `dv`: for the tokens of this rank the sums of what all ranks have of them, in f32, in the order of ranks and of their chunks, rounded once.
///
/// At `parts` of each rank there are, for each of its chunks of queries, `[lines, ranks · chunks · tokens, D]` gradients of K, and behind those of all chunks as many of V; only those of keys that the queries see, from `left` before to `right` behind, are read. `dk` and `dv` are
/// `[batch, kv_heads, chunks · tokens, D or DV]` with these strides of batches, heads and tokens. The rest is as for [`gather_shards`]. Each rank has begun the launch when its parts are there, and no rank has ended it before all have read them.
#[kernel(warps = WARPS, cooperative, min_ctas_per_sm = CTAS)]
pub fn sum_shards<T: Float, const D: usize, const DV: usize>(
    dk: Ptr<T>,
    dv: Ptr<T>,
    #[multiple_of(8)] k_strides: [i64; 3],
    #[multiple_of(8)] v_strides: [i64; 3],
    #[multiple_of(8)] parts: i64,
    all_of: PeerMap<T>,
    mail: Mailbox,
    chunks: i32,
    tokens: i32,
    lines: i32,
    kv_heads: i32,
    left: i32,
    right: i32,
) {
    assume((chunks > 0) & (tokens > 0) & (kv_heads > 0));
    let mail = Mail::open(mail);
    let (rank, ranks) = (mail.rank, mail.ranks);
    let sequence = Sequence {
        ranks,
        chunks,
        tokens,
        left,
        right,
    };
    mail.announce();
    mail.wait_all_begun();
    let sum = |to: Ptr<T>, strides: [Scalar<i64>; 3], columns: usize, base: Scalar<i64>| {
        for number in
            range(program_id(0), Tile::count(sequence, lines, columns)).step(num_programs(0))
        {
            let tile = Tile::of(sequence, columns, number);
            let (at, inside) = tile.own(sequence, kv_heads, strides);
            let position = tile.position(sequence, rank);
            let mut total = zeros_like(inside).cast::<f32>();
            for source in range(0, ranks * chunks) {
                let (peer, chunk) = (source / chunks, source % chunks);
                let is_seen = inside & sequence.is_seen(peer, chunk, position);
                let from = tile.whole(sequence, rank, chunk * lines, columns) + base;
                let part = all_of.of(peer).at(from).mask(is_seen).other(T::ZERO).load();
                total += part.cast::<f32>();
            }
            to.at(at).mask(inside).store(total.cast::<T>());
        }
    };
    sum(dk, k_strides, D, parts);
    let of_keys = (lines * chunks).cast::<i64>() * sequence.all().cast::<i64>() * D as i64;
    sum(dv, v_strides, DV, parts + of_keys);
    mail.meet();
}

/// Rows that a program of `move_rows` moves.
pub(super) const MOVED: usize = 1024;

/// `to[line · to_pitch + row] = from[line · from_pitch + row]` for so many rows of each line: a program for each 1024 rows of a line, and one line after the other, since only the first dimension of a grid
/// has room for all lines.
#[kernel(warps = 4)]
pub fn move_rows(
    #[align(4)] from: Ptr<f32>,
    #[align(4)] to: Ptr<f32>,
    from_pitch: i32,
    to_pitch: i32,
    rows: i32,
) {
    assume(rows > 0);
    let of_line = cdiv(rows, MOVED);
    let (line, part) = (program_id(0) / of_line, program_id(0) % of_line);
    let row = part * MOVED + arange(0..MOVED, Coalesced);
    let inside = row < rows;
    let number = from.at(line * from_pitch + row).mask(inside).load();
    to.at(line * to_pitch + row).mask(inside).store(number);
}
