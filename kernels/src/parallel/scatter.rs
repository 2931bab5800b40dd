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
use crate::products::epilogue::Epilogue;
use crate::products::factor::{Operand, ResultOf, depth};
use crate::products::finished::{Finished, store_by_columns};
use crate::products::form::{Form, Source, block_of, swizzle_of};
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
pub fn product_scatter<T: Operand + ResultOf<T>, E: Epilogue<T>, const TO_ALL: bool>(
    #[fixed] form: Form<ManyTile, E>,
    #[block(form.sides[0].block::<T>(form.tile.shape()[0]), form.sides[0].swizzle::<T>(form.tile.shape()[0]))]
    a: TensorMap<T>,
    #[block(form.sides[1].block::<T>(form.tile.columns), form.sides[1].swizzle::<T>(form.tile.columns))]
    b: TensorMap<T>,
    #[block(block_of([form.tile.rows, form.tile.columns], true), swizzle_of::<T>(form.tile.columns))]
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
    let ranks = mail.ranks;
    // Of the rows of all ranks those of this one, which it finishes.
    let own = if TO_ALL { mail.rank } else { scalar(0) };
    let data = added.data(m.cast::<i64>());
    let tile = form.tile;
    let [rows_of_tile, columns] = tile.shape();
    let of_a = Source::new(a, form.sides[0], rows_of_tile);
    let of_b = Source::new(b, form.sides[1], columns);
    let multiplied = Ring::new(of_a, of_b, tile.stages, tile.groups);
    let pipeline = multiplied.pipeline;
    let buffers = Smem::<T>::alloc(c.block().with_inserted(0, tile.groups as u32), c.layout());
    // A phase completes when a buffer may be filled, with what the rank before has of the tile in it, if it has something; when it is filled.
    let ready = Mbarriers::alloc(tile.groups, Arrivals(1)).labelled("ready");
    let filled = Mbarriers::alloc(tile.groups, Arrivals(4)).labelled("filled");
    let steps = steps_along(k, depth::<T>());
    let tiles = Tiles {
        of_product: GroupedRows::new([m, n], tile.shape(), rows_of_group(tile.shape())),
        batches: ranks,
        is_batched: true,
        ctas: 1,
    };
    let of_rank = tiles.of_product.count();
    let bytes = tile.rows * columns;
    let send = |to: Scalar<i32>, sent: Scalar<i32>, buffer: Smem<T>, pause: Scalar<i32>| {
        mail.wait_begun(to);
        let place = staged_of.of(to).pointer() + sent.cast::<i64>() * bytes as i64;
        let each = bytes / PIECES;
        for piece in 0..PIECES {
            let from = flat(buffer).slice(1, piece * each..(piece + 1) * each);
            place.bulk(piece * each).store(from);
            if pause < 0 {
                tma_store_wait(0);
            } else {
                mail.rest(pause);
            }
        }
    };
    let buffer = |part: usize| buffers.index(part).reshape([tile.rows, columns]);

    let multiply = |part: usize| {
        let (mut at, mut parity) = (pipeline.start(), scalar(0));
        for number in tiles.of_program() {
            let (sums, next) = multiplied.sums(tile.rows_of(part), columns, || range(0, steps), at);
            at = next;
            ready.index(part).wait(parity);
            let buffer = buffer(part);
            let [place, row, column] = tiles.place(number);
            let finished = Finished {
                first: [row * rows_of_tile + part * tile.rows, column * columns],
                batch: own,
                size: [m, n],
                turned: false,
                data,
            };
            if form.epilogue.is_plain() {
                let sums = sums.cast::<f32>();
                if number < of_rank {
                    buffer.store(sums.cast::<T>());
                } else {
                    let sums = sums + buffer.load(sums.layout()).cast::<f32>();
                    buffer.store(sums.cast::<T>());
                }
            } else {
                // By columns: what is added and what an epilogue reads for all of a tile do not fit the registers beside its sums.
                store_by_columns(sums, buffer, |part, range| {
                    let (mut part, first) = (part, range.start);
                    if number >= of_rank {
                        let panel = buffer.slice(1, range);
                        part += panel.load(part.layout()).cast::<f32>();
                    }
                    if place + 1 == ranks {
                        part = finished.columns(form.epilogue, part, first);
                    }
                    part
                });
            }
            fence_async_shared();
            filled.index(part).arrival().by(Arrivers::Warp).arrive();
            parity ^= 1;
        }
    };
    let store = |part: usize| {
        if part == 0 {
            mail.announce();
        }
        let to = mail.before(scalar(1));
        // Where the tile of a warpgroup is among all that a rank is sent.
        let place_of = |number: Scalar<i32>| number * tile.groups + part;
        let mut parity = scalar(0);
        for number in tiles.of_program() {
            let [place, row, column] = tiles.place(number);
            let buffer = buffers.index(part);
            if place == 0 {
                ready.index(part).arrive();
            } else {
                let sent = place_of(number - of_rank);
                mail.wait(sent);
                ready.index(part).expect(c.block_bytes());
                let at = sent.cast::<i64>() * bytes as i64;
                staged.bulk(at).load(flat(buffer), ready.index(part));
            }
            filled.index(part).wait(parity);
            if place + 1 < ranks {
                let sent = place_of(number);
                send(to, sent, buffer, pause);
                tma_store_wait(0);
                mail.raise(to, sent);
            } else {
                let row = row * rows_of_tile + part * tile.rows;
                c.store([own, row, column * columns], buffer);
                if TO_ALL {
                    // Nothing is multiplied beside the last of them.
                    let is_last = number + num_programs(0) >= ranks * of_rank;
                    let pause_of_results = select(is_last, 0, pause);
                    // Results lie behind what is sent to be added, by how many places the rank that gets them is before this one.
                    for places in range(1, ranks) {
                        let sent = place_of(number + (places - 1) * of_rank);
                        send(mail.before(places), sent, buffer, pause_of_results);
                    }
                    tma_store_wait(0);
                    for places in range(1, ranks) {
                        mail.raise(
                            mail.before(places),
                            place_of(number + (places - 1) * of_rank),
                        );
                    }
                } else {
                    tma_store_wait_read(0);
                }
            }
            parity ^= 1;
        }
        if TO_ALL {
            for places in range(1, ranks) {
                for tile_of_rank in range(program_id(0), of_rank).step(num_programs(0)) {
                    let [_, row, column] = tiles.place(tile_of_rank);
                    let sent = place_of((ranks + places - 2) * of_rank + tile_of_rank);
                    let (buffer, full) = (buffers.index(part), ready.index(part));
                    mail.wait(sent);
                    full.expect(c.block_bytes());
                    staged
                        .bulk(sent.cast::<i64>() * bytes as i64)
                        .load(flat(buffer), full);
                    full.wait(parity);
                    parity ^= 1;
                    let row = row * rows_of_tile + part * tile.rows;
                    c.store([mail.behind(places), row, column * columns], buffer);
                    tma_store_wait_read(0);
                }
            }
        }
    };
    let load = || {
        let mut at = pipeline.start();
        for number in tiles.of_program() {
            let [place, row, column] = tiles.place(number);
            let of_rows = mail.behind(place + 1);
            for step in range(0, steps) {
                let of_a = || [of_rows, row * rows_of_tile, step];
                at = multiplied.load(at, || [of_a(), [scalar(0), column * columns, step]]);
            }
        }
    };
    let [of_consumers, of_others] = tile.registers();
    warp_specialize()
        .registers(of_consumers)
        .main(|| multiply(0))
        .workers(1..tile.groups, Warps(4).registers(of_consumers), multiply)
        .worker(Warps(1).registers(of_others), load)
        .workers(0..tile.groups, Warps(1).registers(of_others), store)
        .run();
}
