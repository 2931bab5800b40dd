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
use crate::products::epilogue::{Data, Epilogue};
use crate::products::factor::{Operand, ResultOf, depth};
use crate::products::finished::Finished;
use crate::products::form::{Form, Source, block_of, swizzle_of_results};
use crate::products::output_handles::NoOutputs;
use crate::products::registers::registers_of;
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
pub fn gather_product<T: Operand + ResultOf<T, Addend = T>, E: Epilogue<T, Outputs = NoOutputs>>(
    #[fixed] form: Form<ManyTile, E>,
    #[block([form.tile.shape()[0], depth::<T>()], Nvmma::B128)] a: TensorMap<T>,
    #[block([PIECE_ROWS, depth::<T>()], Nvmma::B128)] a_pieces: TensorMap<T>,
    #[block(form.sides[1].block::<T>(form.tile.columns), form.sides[1].swizzle::<T>(form.tile.columns))]
    b: TensorMap<T>,
    #[block(block_of([form.tile.rows, form.tile.columns], true), swizzle_of_results::<T>(form.tile.columns))]
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
    let data = added.data(m.cast::<i64>());
    let tile = form.tile;
    let [rows_of_tile, columns] = tile.shape();
    let of_a = Source::new(a, form.sides[0], rows_of_tile);
    let of_b = Source::new(b, form.sides[1], columns);
    let ring = Ring::new(of_a, of_b, tile.stages, tile.groups);
    let turns = Turns::of_warpgroups(tile.groups).with_buffers(1);
    let epilogue = EpilogueStore::alloc(c, turns);
    let sent = Smem::<T>::alloc([RING, PIECE_ROWS, depth::<T>()], a_pieces.layout());
    let pieces = Pieces::alloc(RING, LAG);
    let (there, noted) = (
        Mbarrier::alloc(1).labelled("there"),
        Mbarrier::alloc(1).labelled("noted"),
    );
    let steps = steps_along(k, depth::<T>());
    let rows = Rows {
        tile,
        tiles: Tiles {
            of_product: GroupedRows::new([m, n], tile.shape(), rows_of_group(tile.shape())),
            batches: mail.ranks,
            is_batched: true,
            ctas: 1,
        },
        mail,
        steps,
        blocks: cdiv(m, rows_of_tile),
        segments: cdiv(steps, SEGMENT),
        there,
        noted,
    };
    let sender = Sender {
        rows,
        a: a_pieces,
        m,
        sent,
        pieces,
        gathered_of,
        pause,
    };
    let multiply = |part: usize| rows.multiply(part, ring, epilogue, (form.epilogue, [m, n], data));
    let [of_consumers, of_others] = registers_of(tile.groups);
    warp_specialize()
        .registers(of_consumers)
        .main(|| multiply(0))
        .workers(1..tile.groups, Warps(4).registers(of_consumers), multiply)
        .worker(Warps(1).registers(of_others), || {
            rows.load(ring, a, gathered);
        })
        .worker(Warps(1).registers(of_others), || rows.store(epilogue, c))
        .worker(Warps(1).registers(of_others), || rows.watch())
        .worker(Warps(1).registers(of_others), || sender.send())
        .run();
}

/// What all warps of a CTA know of the rows of all ranks.
#[derive(Clone, Copy)]
struct Rows {
    tile: ManyTile,
    tiles: Tiles,
    mail: Mail,
    steps: Scalar<i32>,
    /// Tiles of rows of a rank.
    blocks: Scalar<i32>,
    /// Flags of one of them.
    segments: Scalar<i32>,
    /// A phase completes when the rows of a tile are there.
    there: Mbarrier,
    /// A phase completes when that has been noted.
    noted: Mbarrier,
}

impl Rows {
    /// Loads the operands of all tiles: rows of this rank from `a`, those of others from what they have sent.
    #[device]
    fn load<T: Operand>(self, ring: Ring<T>, a: TensorMap<T>, gathered: Ptr<T>) {
        let [rows_of_tile, columns] = self.tile.shape();
        let (mut at, mut parity) = (ring.pipeline.start(), scalar(0));
        for number in self.tiles.of_program() {
            let [place, row, column] = self.tiles.place(number);
            // The number of the tile of rows among those of other ranks.
            let block = (place - 1) * self.blocks + row;
            if place > 0 {
                self.there.wait(parity);
                self.noted.arrive();
                parity ^= 1;
            }
            for step in range(0, self.steps) {
                let stage = ring.pipeline.producer_acquire(at);
                let (of_a, of_b) = stage.tiles;
                if place > 0 {
                    let step = (block * self.steps + step).cast::<i64>();
                    let first = step * (rows_of_tile * depth::<T>()) as i64;
                    gathered.bulk(first).load(flat(of_a), stage.full);
                } else {
                    let first = [row * rows_of_tile, step * depth::<T>()];
                    a.load(first, of_a, stage.full);
                }
                let of_columns = [scalar(0), column * columns, step];
                ring.b.load(of_columns, of_b, stage.full);
                at = ring.pipeline.commit(stage).advance();
            }
        }
    }

    /// Waits for the rows of other ranks: a wait for flags takes some microseconds, and this warp is ahead of the one that loads by a tile.
    #[device]
    fn watch(self) {
        let mut parity = scalar(0);
        for number in self.tiles.of_program() {
            let [place, row, _] = self.tiles.place(number);
            if place > 0 {
                let block = (place - 1) * self.blocks + row;
                self.mail.wait_all(block * self.segments, self.segments);
                self.noted.wait(parity ^ 1);
                self.there.arrive();
                parity ^= 1;
            }
        }
    }

    /// Multiplies the rows of warpgroup `part` of all tiles.
    #[device]
    fn multiply<T: Operand + ResultOf<T, Addend = T>, E: Epilogue<T, Outputs = NoOutputs>>(
        self,
        part: usize,
        ring: Ring<T>,
        store: EpilogueStore<T>,
        (epilogue, size, data): (E, [Scalar<i32>; 2], Data<T>),
    ) {
        let Rows { tile, tiles, .. } = self;
        let [rows_of_tile, columns] = tile.shape();
        let (mut at, mut turn) = (ring.pipeline.start(), store.start());
        for number in tiles.of_program() {
            let steps = || range(0, self.steps);
            let (sums, next) = ring.sums(tile.rows_of(part), columns, steps, at);
            at = next;
            turn = store.fill_by(part, turn, |buffer| {
                let [place, row, column] = tiles.place(number);
                let finished = Finished {
                    first: [row * rows_of_tile + part * tile.rows, column * columns],
                    batch: self.mail.behind(place),
                    size,
                    rows_apart: 1,
                    turned: false,
                    data,
                };
                finished.store(epilogue, sums, buffer);
            });
        }
    }

    /// Stores the results of all warpgroups, which take turns with their buffer.
    #[device]
    fn store<T: Element>(self, store: EpilogueStore<T>, c: TensorMap<T>) {
        let Rows { tile, tiles, .. } = self;
        let [rows_of_tile, columns] = tile.shape();
        let mut parity = scalar(0);
        for number in tiles.of_program() {
            let [place, row, column] = tiles.place(number);
            for part in 0..tile.groups {
                let turn = store.turn(parity);
                let row = row * rows_of_tile + part * tile.rows;
                let at = [self.mail.behind(place), row, column * columns];
                let _ = store.store(part, turn, c, at);
            }
            parity ^= 1;
        }
    }
}

/// What the warp that sends the rows of this rank knows beside that.
#[derive(Clone, Copy)]
struct Sender<T> {
    rows: Rows,
    /// A in pieces.
    a: TensorMap<T>,
    m: Scalar<i32>,
    sent: Smem<T>,
    pieces: Pieces,
    gathered_of: PeerMap<T>,
    pause: Scalar<i32>,
}

impl<T: Operand> Sender<T> {
    /// Sends all rows to all other ranks.
    #[device]
    fn send(self) {
        let Rows {
            mail,
            blocks,
            segments,
            ..
        } = self.rows;
        let rows_of_tile = self.rows.tile.shape()[0];
        mail.announce();
        let mut sent = scalar(0);
        let items = (mail.ranks - 1) * blocks * segments;
        for item in range(program_id(0), items).step(num_programs(0)) {
            let (block, segment) = (item / segments, item % segments);
            let (place, row) = (block / blocks, block % blocks * rows_of_tile);
            let to = mail.before(place + 1);
            mail.wait_begun(to);
            sent += self.send_segment(to, [block, segment, row], sent);
            mail.raise(to, item);
        }
    }

    /// Sends what one flag stands for, and gives the number of its pieces; `sent` pieces went before.
    #[device]
    fn send_segment(
        self,
        to: Scalar<i32>,
        [block, segment, row]: [Scalar<i32>; 3],
        sent: Scalar<i32>,
    ) -> Scalar<i32> {
        let Rows { mail, steps, .. } = self.rows;
        let rows_of_tile = self.rows.tile.shape()[0];
        let parts = cdiv(minimum(self.m - row, rows_of_tile), PIECE_ROWS);
        let first = segment * SEGMENT;
        let count = minimum(steps - first, SEGMENT) * parts;
        let load = |number: Scalar<i32>, place: Scalar<i32>, full: Mbarrier| {
            let (step, part) = (first + number / parts, number % parts);
            let at = [row + part * PIECE_ROWS, step * depth::<T>()];
            full.expect(self.a.block_bytes());
            self.a.load(at, self.sent.index(place), full);
        };
        let store = |number: Scalar<i32>, place: Scalar<i32>| {
            let (step, part) = (first + number / parts, number % parts);
            let tile = (block * steps + step) * (rows_of_tile / PIECE_ROWS) + part;
            let at = tile.cast::<i64>() * (PIECE_ROWS * depth::<T>()) as i64;
            let piece = flat(self.sent.index(place));
            self.gathered_of.of(to).pointer().bulk(at).store(piece);
        };
        self.pieces
            .send(mail, (sent, count), self.pause, load, store);
        count
    }
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
