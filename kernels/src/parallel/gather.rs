//! All-gather and product in one kernel: rows of A are divided among the ranks, and each rank multiplies all of them by its own columns of B.
//!
//! # Who moves A
//!
//! One warp of each CTA pushes the rank's own rows to the other ranks by TMA, while the others multiply: loads into a small ring in shared memory, bulk stores into the memory of the peer.
//! Every row crosses a link once, to be read there from the memory of the GPU itself as often as tiles need it, for reads of a peer are not cached in L2. Writes need no answer
//! before the next one, and the order in which they arrive is the sender's choice. Copies by the driver (`cuMemcpyPeerAsync`) would take no shared memory; but they are enqueued by the host on other streams, cannot be
//! replayed at a part of a kernel's progress without memory operations in the graph, and TMA fills the link from a tenth of the multiprocessors.
//!
//! What is sent is the tile as TMA swizzled it in shared memory, 64 rows by 64 elements of K in 8 KB without gaps. So one bulk copy stores it, and one loads the rows of a stage.
//!
//! A link that is full holds up the loads of the multiprocessors beside it: sent as fast as the link takes it, 67 MB cost the product 10 % on two H100s, and spread over 60 % of
//! the time until it is needed nothing that could be measured. So the warp rests behind each piece.
//!
//! # Order
//!
//! Rank r multiplies its own rows first, then those of r + 1, r + 2, .. Rank s sends first to s - 1, then to s - 2, ..: at any time each rank receives from one rank, and what it needs next.
//! A flag stands for the rows of a tile and 8 steps along K. A warp waits for those of the next tile while this one is loaded.

use tilekit::prelude::*;

use crate::products::dense::{ManyTile, Tiles, rows_of_group};
use crate::products::epilogue::Epilogue;
use crate::products::factor::{Operand, ResultOf, depth};
use crate::products::finished::Finished;
use crate::products::form::{Form, Source, block_of, swizzle_of};
use crate::products::ring::Ring;

use super::added::Added;
use super::mail::{Mail, Mailbox};
use super::pieces::Pieces;

/// Rows of a piece that is sent at a time.
pub(super) const PIECE_ROWS: usize = 64;

/// Pieces in shared memory that are being loaded or sent.
pub(super) const RING: usize = 4;

/// Pieces that are being loaded while others are sent.
const LAG: usize = 2;

/// Steps along K that one flag stands for.
pub(super) const SEGMENT: usize = 8;

/// `C[ranks * M, N] = A[ranks * M, K] · B[N, K]ᵀ`, where `a` is this rank's `[M, K]` of A, and `c` is `[ranks, M, N]`. `a_pieces` is the same matrix as `a`.
/// An epilogue may add a bias of N and a source of the shape of `c`, whose rows are `source_pitch` elements apart.
///
/// `gathered` is for the rows of the other ranks: for each of them, for each tile of rows and each step along K, rows of a tile by 64 elements, as they lie in shared memory. `flags` has a
/// number for each rank at most, and behind them one for each other rank, tile of rows and 8 steps. `launches` is one number of this rank. A wait for other ranks
/// ends the kernel behind `limit` nanoseconds and says in `late`, a word of the host, what it waited for. A warp that sends rests for `pause` nanoseconds behind each
/// piece.
#[kernel(warps = 4, min_ctas_per_sm = 1, cooperative)]
pub fn gather_product<T: Operand + ResultOf<T>, E: Epilogue<T>>(
    #[fixed] form: Form<ManyTile, E>,
    #[block([form.tile.shape()[0], depth::<T>()], Nvmma::B128)] a: TensorMap<T>,
    #[block([PIECE_ROWS, depth::<T>()], Nvmma::B128)] a_pieces: TensorMap<T>,
    #[block(form.sides[1].block::<T>(form.tile.columns), form.sides[1].swizzle::<T>(form.tile.columns))]
    b: TensorMap<T>,
    #[block(block_of([form.tile.rows, form.tile.columns], true), swizzle_of::<T>(form.tile.columns))]
    c: TensorMap<T>,
    added: Added<T>,
    gathered: Ptr<T>,
    gathered_of: PeerMap<T>,
    mail: Mailbox,
    m: i32,
    n: i32,
    k: i32,
    pause: i32,
) {
    let mail = Mail::open(mail);
    let ranks = mail.ranks;
    let data = added.data(m.cast::<i64>());
    let tile = form.tile;
    let [rows_of_tile, columns] = tile.shape();
    let of_a = Source::new(a, form.sides[0], rows_of_tile);
    let of_b = Source::new(b, form.sides[1], columns);
    let multiplied = Ring::new(of_a, of_b, tile.stages, tile.groups);
    let pipeline = multiplied.pipeline;
    let turns = Turns::of_warpgroups(tile.groups).with_buffers(1);
    let epilogue = EpilogueStore::alloc(c, turns);
    let ring = Smem::<T>::alloc([RING, PIECE_ROWS, depth::<T>()], a_pieces.layout());
    let pieces = Pieces::alloc(RING, LAG);
    // A phase completes when the rows of a tile are there; when that has been noted.
    let (there, noted) = (
        Mbarrier::alloc(1).labelled("there"),
        Mbarrier::alloc(1).labelled("noted"),
    );
    let steps = steps_along(k, depth::<T>());
    let tiles = Tiles {
        of_product: GroupedRows::new([m, n], tile.shape(), rows_of_group(tile.shape())),
        batches: ranks,
        is_batched: true,
        ctas: 1,
    };
    // Tiles of rows of a rank, and flags of one of them.
    let (blocks, segments) = (cdiv(m, rows_of_tile), cdiv(steps, SEGMENT));

    let multiply = |part: usize| {
        let (mut at, mut turn) = (pipeline.start(), epilogue.start());
        for number in tiles.of_program() {
            let (sums, next) = multiplied.sums(tile.rows_of(part), columns, || range(0, steps), at);
            at = next;
            turn = epilogue.fill_by(part, turn, |buffer| {
                let [place, row, column] = tiles.place(number);
                let finished = Finished {
                    first: [row * rows_of_tile + part * tile.rows, column * columns],
                    batch: mail.behind(place),
                    size: [m, n],
                    turned: false,
                    data,
                };
                finished.store(form.epilogue, sums, buffer);
            });
        }
    };
    // Groups take turns with their buffer, and one warp stores for all of them.
    let store = || {
        let mut parity = scalar(0);
        for number in tiles.of_program() {
            let [place, row, column] = tiles.place(number);
            for part in 0..tile.groups {
                let turn = epilogue.turn(parity);
                let row = row * rows_of_tile + part * tile.rows;
                let at = [mail.behind(place), row, column * columns];
                let _ = epilogue.store(part, turn, c, at);
            }
            parity ^= 1;
        }
    };
    // A wait for flags takes some microseconds, and this warp is ahead of the one that loads by a tile.
    let watch = || {
        let mut parity = scalar(0);
        for number in tiles.of_program() {
            let [place, row, _] = tiles.place(number);
            if place > 0 {
                let block = (place - 1) * blocks + row;
                mail.wait_all(block * segments, segments);
                noted.wait(parity ^ 1);
                there.arrive();
                parity ^= 1;
            }
        }
    };
    let load = || {
        let (mut at, mut parity) = (pipeline.start(), scalar(0));
        for number in tiles.of_program() {
            let [place, row, column] = tiles.place(number);
            // The number of the tile of rows among those of other ranks.
            let block = (place - 1) * blocks + row;
            if place > 0 {
                there.wait(parity);
                noted.arrive();
                parity ^= 1;
            }
            for step in range(0, steps) {
                let stage = pipeline.producer_acquire(at);
                let (of_a, of_b) = stage.tiles;
                if place > 0 {
                    let first =
                        (block * steps + step).cast::<i64>() * (rows_of_tile * depth::<T>()) as i64;
                    gathered.bulk(first).load(flat(of_a), stage.full);
                } else {
                    let first = [row * rows_of_tile, step * depth::<T>()];
                    a.load(first, of_a, stage.full);
                }
                multiplied
                    .b
                    .load([scalar(0), column * columns, step], of_b, stage.full);
                at = pipeline.commit(stage).advance();
            }
        }
    };
    let send = || {
        mail.announce();
        let mut sent = scalar(0);
        for item in range(program_id(0), (ranks - 1) * blocks * segments).step(num_programs(0)) {
            let (block, segment) = (item / segments, item % segments);
            let (place, row) = (block / blocks, block % blocks * rows_of_tile);
            let to = mail.before(place + 1);
            mail.wait_begun(to);
            let parts = cdiv(minimum(m - row, rows_of_tile), PIECE_ROWS);
            let first = segment * SEGMENT;
            let count = minimum(steps - first, SEGMENT) * parts;
            let load = |number: Scalar<i32>, place: Scalar<i32>, full: Mbarrier| {
                let (step, part) = (first + number / parts, number % parts);
                let at = [row + part * PIECE_ROWS, step * depth::<T>()];
                full.expect(a_pieces.block_bytes());
                a_pieces.load(at, ring.index(place), full);
            };
            let store = |number: Scalar<i32>, place: Scalar<i32>| {
                let (step, part) = (first + number / parts, number % parts);
                let tile = (block * steps + step) * (rows_of_tile / PIECE_ROWS) + part;
                let at = tile.cast::<i64>() * (PIECE_ROWS * depth::<T>()) as i64;
                let piece = flat(ring.index(place));
                gathered_of.of(to).pointer().bulk(at).store(piece);
            };
            pieces.send(mail, (sent, count), pause, load, store);
            sent += count;
            mail.raise(to, item);
        }
    };
    let [of_consumers, of_others] = tile.registers();
    warp_specialize()
        .registers(of_consumers)
        .main(|| multiply(0))
        .workers(1..tile.groups, Warps(4).registers(of_consumers), multiply)
        .worker(Warps(1).registers(of_others), load)
        .worker(Warps(1).registers(of_others), store)
        .worker(Warps(1).registers(of_others), watch)
        .worker(Warps(1).registers(of_others), send)
        .run();
}

/// The bytes of a buffer in their order in shared memory.
#[track_caller]
pub(super) fn flat<T: Element>(buffer: Smem<T>) -> Smem<T> {
    let elements: usize = buffer
        .shape()
        .iter()
        .map(|extent| *extent as usize)
        .product();
    // An extent that is no power of two is a dimension of its own.
    let run = 1 << elements.trailing_zeros();
    buffer.reinterpret::<T>([elements / run, run], Swizzled::plain([1, 0]))
}
