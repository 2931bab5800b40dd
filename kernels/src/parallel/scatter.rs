//! Product and reduce-scatter or all-reduce in one kernel: each rank has some of K, and gets some rows of the sum of all products, or all.
//!
//! # Who adds
//!
//! The rows of a result pass through all ranks, and each adds its own product in its epilogue: rank r first multiplies the rows of r + 1, then those of r + 2, .., and its own last. What it has of the rows
//! of rank d goes to rank r - 1, which multiplies those rows next; so at any time each rank sends to one rank, and has as long as the products of one rank's rows take until
//! they are needed. The sum is in a fixed order, and bit-identical in every run. It is rounded to the type of the result at each rank, as in the ring of a library's reduce-scatter.
//!
//! A tile is sent as it lies in shared memory, by a bulk store, and loaded by a bulk copy into the buffer of the epilogue that adds it. The rank that adds last finishes the sum.
//!
//! # All rows
//!
//! For an all-reduce each rank sends its results to the others as soon as a tile is done; these store what they got when their own tiles are. So all ranks have the same bits.

use tilekit::prelude::*;

use crate::products::dense::{ManyTile, Tiles, rows_of_group};
use crate::products::epilogue::{Data, Epilogue};
use crate::products::factor::{Operand, ResultOf, depth};
use crate::products::finished::{Finished, store_by_columns};
use crate::products::form::{Form, Source, block_of, swizzle_of_results};
use crate::products::output_handles::NoOutputs;
use crate::products::registers::registers_of;
use crate::products::ring::Ring;

use super::added::Added;
use super::gather::flat;
use super::mail::{Mail, Mailbox};

/// Parts in which a tile is sent.
pub(super) const PIECES: usize = 8;

/// `C[M, N] = Σ A[M, K] · B[N, K]ᵀ` over the ranks, of which `a` has this rank's `[ranks, M, K]`, `b` its `[N, K]`, and `c` is `[1, M, N]`: the rows of this rank. With `TO_ALL`
/// `c` is `[ranks, M, N]`, the rows of all. An epilogue may add a bias of N and a source of the shape of `c`, whose rows are `source_pitch` elements apart.
///
/// `staged` has `groups * rows` by `columns` elements for each tile of `[M, N]` and each rank but one, with `TO_ALL` twice as many. `flags` has a number for each rank at most, and
/// behind them one for each warpgroup of each of these tiles. `launches` is one number of this rank. A wait for other ranks
/// ends the kernel behind `limit` nanoseconds and says in `late`, a word of the host, what it waited for. A warp that sends rests for `pause` nanoseconds behind each part of a tile, or waits until it is stored if `pause` is below 0.
#[kernel(warps = 4, min_ctas_per_sm = 1, cooperative)]
pub fn product_scatter<
    T: Operand + ResultOf<T, Addend = T>,
    E: Epilogue<T, Outputs = NoOutputs>,
    const TO_ALL: bool,
>(
    #[fixed] form: Form<ManyTile, E>,
    #[block(form.sides[0].block::<T>(form.tile.shape()[0]), form.sides[0].swizzle::<T>(form.tile.shape()[0]))]
    a: TensorMap<T>,
    #[block(form.sides[1].block::<T>(form.tile.columns), form.sides[1].swizzle::<T>(form.tile.columns))]
    b: TensorMap<T>,
    #[block(block_of([form.tile.rows, form.tile.columns], true), swizzle_of_results::<T>(form.tile.columns))]
    c: TensorMap<T>,
    added: Added<T>,
    staged: Ptr<T>,
    staged_of: PeerMap<T>,
    mail: Mailbox,
    m: i32,
    n: i32,
    k: i32,
    pause: i32,
) {
    let mail = Mail::open(mail);
    // Of the rows of all ranks those of this one, which it finishes.
    let own = if TO_ALL { mail.rank } else { scalar(0) };
    let data = added.data(m.cast::<i64>());
    let tile = form.tile;
    let [rows_of_tile, columns] = tile.shape();
    let of_a = Source::new(a, form.sides[0], rows_of_tile);
    let of_b = Source::new(b, form.sides[1], columns);
    let ring = Ring::new(of_a, of_b, tile.stages, tile.groups);
    let buffers = Buffers::alloc(c, tile.groups);
    let steps = steps_along(k, depth::<T>());
    let of_product = GroupedRows::new([m, n], tile.shape(), rows_of_group(tile.shape()));
    let rows = Rows {
        tile,
        tiles: Tiles {
            of_product,
            batches: mail.ranks,
            is_batched: true,
            ctas: 1,
        },
        of_rank: of_product.count(),
        mail,
        own,
        buffers,
    };
    let sender = Sender {
        rows,
        c,
        staged,
        staged_of,
        pause,
    };
    let multiply = |part: usize| rows.multiply(part, ring, steps, (form.epilogue, [m, n], data));
    let store = |part: usize| {
        let parity = sender.store_own(part, TO_ALL);
        if TO_ALL {
            sender.store_others(part, parity);
        }
    };
    let [of_consumers, of_others] = registers_of(tile.groups);
    warp_specialize()
        .registers(of_consumers)
        .main(|| multiply(0))
        .workers(1..tile.groups, Warps(4).registers(of_consumers), multiply)
        .worker(Warps(1).registers(of_others), || rows.load(ring, steps))
        .workers(0..tile.groups, Warps(1).registers(of_others), store)
        .run();
}

/// A buffer of the epilogue for each warpgroup.
#[derive(Clone, Copy)]
struct Buffers<T> {
    tiles: Smem<T>,
    /// A phase completes when a buffer may be filled, with what the rank before has of the tile in it, if it has something.
    ready: Mbarriers,
    /// A phase completes when a buffer is filled.
    filled: Mbarriers,
}

impl<T: Element> Buffers<T> {
    #[track_caller]
    fn alloc(c: TensorMap<T>, groups: usize) -> Self {
        let shape = c.block().with_inserted(0, groups as u32);
        Buffers {
            tiles: Smem::<T>::alloc(shape, c.layout()),
            ready: Mbarriers::alloc(groups, Arrivals(1)).labelled("ready"),
            filled: Mbarriers::alloc(groups, Arrivals(4)).labelled("filled"),
        }
    }
}

/// What all warps of a CTA know of the rows, which pass through the ranks.
#[derive(Clone, Copy)]
struct Rows<T> {
    tile: ManyTile,
    tiles: Tiles,
    /// Tiles of the rows of one rank.
    of_rank: Scalar<i32>,
    mail: Mail,
    own: Scalar<i32>,
    buffers: Buffers<T>,
}

impl<T: Operand + ResultOf<T, Addend = T>> Rows<T> {
    /// Loads the operands of all tiles.
    #[device]
    fn load(self, ring: Ring<T>, steps: Scalar<i32>) {
        let [rows_of_tile, columns] = self.tile.shape();
        let mut at = ring.pipeline.start();
        for number in self.tiles.of_program() {
            let [place, row, column] = self.tiles.place(number);
            let of_rows = self.mail.behind(place + 1);
            for step in range(0, steps) {
                let of_a = || [of_rows, row * rows_of_tile, step];
                at = ring.load(at, || [of_a(), [scalar(0), column * columns, step]]);
            }
        }
    }

    /// Multiplies the rows of warpgroup `part` of all tiles, and adds what the rank before has of them.
    #[device]
    fn multiply<E: Epilogue<T, Outputs = NoOutputs>>(
        self,
        part: usize,
        ring: Ring<T>,
        steps: Scalar<i32>,
        (epilogue, size, data): (E, [Scalar<i32>; 2], Data<T>),
    ) {
        let Rows { tile, tiles, .. } = self;
        let Buffers { ready, filled, .. } = self.buffers;
        let [rows_of_tile, columns] = tile.shape();
        let (mut at, mut parity) = (ring.pipeline.start(), scalar(0));
        for number in tiles.of_program() {
            let (sums, next) = ring.sums(tile.rows_of(part), columns, || range(0, steps), at);
            at = next;
            ready.index(part).wait(parity);
            let buffer = self.buffers.tiles.index(part).reshape([tile.rows, columns]);
            let [place, row, column] = tiles.place(number);
            let finished = Finished {
                first: [row * rows_of_tile + part * tile.rows, column * columns],
                batch: self.own,
                size,
                rows_apart: 1,
                turned: false,
                data,
            };
            if epilogue.is_plain() {
                let sums = sums.cast::<f32>();
                if number < self.of_rank {
                    buffer.store(sums.cast::<T>());
                } else {
                    let sums = sums + buffer.load(sums.layout()).cast::<f32>();
                    buffer.store(sums.cast::<T>());
                }
            } else {
                // By columns: what is added and what an epilogue reads for all of a tile do not fit the registers beside its sums.
                store_by_columns(sums, buffer, |part, range| {
                    let (mut part, first) = (part, range.start);
                    if number >= self.of_rank {
                        let panel = buffer.slice(1, range);
                        part += panel.load(part.layout()).cast::<f32>();
                    }
                    if place + 1 == self.mail.ranks {
                        part = finished.columns(epilogue, part, first);
                    }
                    part
                });
            }
            fence_async_shared();
            filled.index(part).arrival().by(Arrivers::Warp).arrive();
            parity ^= 1;
        }
    }
}

/// What a warp that sends and stores knows beside that.
#[derive(Clone, Copy)]
struct Sender<T> {
    rows: Rows<T>,
    c: TensorMap<T>,
    staged: Ptr<T>,
    staged_of: PeerMap<T>,
    pause: Scalar<i32>,
}

impl<T: Operand + ResultOf<T, Addend = T>> Sender<T> {
    /// Elements of what a warpgroup has of a tile.
    fn elements(self) -> usize {
        self.rows.tile.rows * self.rows.tile.columns
    }

    /// Where the tile of a warpgroup is among all that a rank is sent.
    #[track_caller]
    fn sent(self, number: Scalar<i32>, part: usize) -> Scalar<i32> {
        number * self.rows.tile.groups + part
    }

    /// Sends a buffer to rank `to`, in parts.
    #[device]
    fn send(self, to: Scalar<i32>, sent: Scalar<i32>, buffer: Smem<T>, pause: Scalar<i32>) {
        let mail = self.rows.mail;
        mail.wait_begun(to);
        let elements = self.elements();
        let place = self.staged_of.of(to).pointer() + sent.cast::<i64>() * elements as i64;
        let each = elements / PIECES;
        for piece in 0..PIECES {
            let from = flat(buffer).slice(1, piece * each..(piece + 1) * each);
            place.bulk(piece * each).store(from);
            if pause < 0 {
                tma_store_wait(0);
            } else {
                mail.rest(pause);
            }
        }
    }

    /// Sends what warpgroup `part` has multiplied to the rank that adds next, and stores what this one has finished; `to_all` sends that to all. Gives the parity of the next phase of `ready`.
    #[device]
    fn store_own(self, part: usize, to_all: bool) -> Scalar<i32> {
        let Rows {
            tile,
            tiles,
            of_rank,
            mail,
            own,
            buffers,
        } = self.rows;
        let [rows_of_tile, columns] = tile.shape();
        if part == 0 {
            mail.announce();
        }
        let to = mail.before(scalar(1));
        let mut parity = scalar(0);
        for number in tiles.of_program() {
            let [place, row, column] = tiles.place(number);
            let buffer = buffers.tiles.index(part);
            if place == 0 {
                buffers.ready.index(part).arrive();
            } else {
                self.fill(self.sent(number - of_rank, part), part);
            }
            buffers.filled.index(part).wait(parity);
            if place + 1 < mail.ranks {
                let sent = self.sent(number, part);
                self.send(to, sent, buffer, self.pause);
                tma_store_wait(0);
                mail.raise(to, sent);
            } else {
                let row = row * rows_of_tile + part * tile.rows;
                self.c.store([own, row, column * columns], buffer);
                if to_all {
                    self.send_to_all(number, part, buffer);
                } else {
                    tma_store_wait_read(0);
                }
            }
            parity ^= 1;
        }
        parity
    }

    /// Waits for what was sent, and loads it to the buffer of warpgroup `part`.
    #[device]
    fn fill(self, sent: Scalar<i32>, part: usize) {
        let Buffers { tiles, ready, .. } = self.rows.buffers;
        self.rows.mail.wait(sent);
        ready.index(part).expect(self.c.block_bytes());
        let at = sent.cast::<i64>() * self.elements() as i64;
        self.staged
            .bulk(at)
            .load(flat(tiles.index(part)), ready.index(part));
    }

    /// Sends a finished tile to all other ranks.
    #[device]
    fn send_to_all(self, number: Scalar<i32>, part: usize, buffer: Smem<T>) {
        let Rows { of_rank, mail, .. } = self.rows;
        // Nothing is multiplied beside the last of them.
        let is_last = number + num_programs(0) >= mail.ranks * of_rank;
        let pause = select(is_last, 0, self.pause);
        // Results lie behind what is sent to be added, by how many places the rank that gets them is before this one.
        for places in range(1, mail.ranks) {
            let sent = self.sent(number + (places - 1) * of_rank, part);
            self.send(mail.before(places), sent, buffer, pause);
        }
        tma_store_wait(0);
        for places in range(1, mail.ranks) {
            mail.raise(
                mail.before(places),
                self.sent(number + (places - 1) * of_rank, part),
            );
        }
    }

    /// Stores what the other ranks have finished.
    #[device]
    fn store_others(self, part: usize, mut parity: Scalar<i32>) {
        let Rows {
            tile,
            tiles,
            of_rank,
            mail,
            buffers,
            ..
        } = self.rows;
        let [rows_of_tile, columns] = tile.shape();
        for places in range(1, mail.ranks) {
            for tile_of_rank in range(program_id(0), of_rank).step(num_programs(0)) {
                let [_, row, column] = tiles.place(tile_of_rank);
                let number = (mail.ranks + places - 2) * of_rank + tile_of_rank;
                self.fill(self.sent(number, part), part);
                buffers.ready.index(part).wait(parity);
                parity ^= 1;
                let row = row * rows_of_tile + part * tile.rows;
                let at = [mail.behind(places), row, column * columns];
                self.c.store(at, buffers.tiles.index(part));
                tma_store_wait_read(0);
            }
        }
    }
}
