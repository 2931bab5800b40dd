//! All-to-all of as many rows as each pair of ranks has for each other, as tokens of experts.

use tilekit::prelude::*;

use super::exchange::Exchange;
use super::form::{Form, MOST_RANKS};
use super::one_shot::Chunk;

/// The rows that this rank exchanges with another one: where they begin, and how many there are, in elements.
#[derive(Clone, Copy, Aggregate)]
struct Pair {
    first_sent: Scalar<i64>,
    sent: Scalar<i64>,
    first_received: Scalar<i64>,
    received: Scalar<i64>,
}

/// Rows of `x` go to the ranks that `rows` says: `rows[r, s]` of rank r to rank s, which lie in the order of s in `x` of r, and in the order of r in `out` of s. `rows` is the same on all ranks.
///
/// No pair has more than `most` rows of `width` elements, and all of a rank's rows fit into the `x_rows` and `out_rows` that there are: a launch for which that does not hold ends with a trap. All ranks
/// make as many steps as `most` rows take. The rest is as for [`one_shot`](super::one_shot::one_shot).
#[kernel(warps = WARPS, cooperative, min_ctas_per_sm = 2)]
pub fn all_to_all_rows<T: Float, const WARPS: usize>(
    #[fixed] form: Form,
    x: Ptr<T>,
    out: Ptr<T>,
    rows: Ptr<i32>,
    exchange: Exchange<T>,
    width: i64,
    most: i64,
    x_rows: i32,
    out_rows: i32,
) {
    let rank = exchange.rank;
    let width = form.step::<T>(width);
    let who = arange(0..MOST_RANKS, Coalesced);
    let all = |first: Scalar<i32>, step: i32| {
        let place = rows.at(first + who * step).mask(who < form.ranks);
        place.other(0).load()
    };
    let ranks = form.ranks as i32;
    let (to, from) = (all(rank * ranks, 1), all(rank, ranks));
    let is_between = |rows: Tensor<i32>| (rows >= 0) & (rows.cast::<i64>() <= most);
    device_assert(
        is_between(to) & is_between(from),
        "a pair of ranks has more rows than the call allows",
    );
    // Sums of such numbers do not fit 32 bits.
    let total = |rows: Tensor<i32>| rows.cast::<i64>().sum(0).scalar();
    device_assert(
        (total(to) <= x_rows.cast::<i64>()) & (total(from) <= out_rows.cast::<i64>()),
        "a rank has more rows than its tensors",
    );
    let pairs: Vec<Pair> = (0..form.ranks)
        .map(|distance| {
            let other = exchange.peer(form, distance);
            let before = |rows: Tensor<i32>| select(who < other, rows, 0).sum(0).scalar();
            let elements = |rows: Scalar<i32>| rows.cast::<i64>() * width;
            Pair {
                first_sent: elements(before(to)),
                sent: elements(rows.at(rank * ranks + other).load()),
                first_received: elements(before(from)),
                received: elements(rows.at(other * ranks + rank).load()),
            }
        })
        .collect();
    let chunks = cdiv(most * width, form.chunk::<T>() as i64).cast::<i32>();
    let own = cdiv(chunks - program_id(0), num_programs(0));
    let first = exchange.begin(own);
    let all = Rows { x, out };
    all.send(form, exchange, &pairs, (first, program_id(0)));
    for turn in range(0, own) {
        let chunk = program_id(0) + turn * num_programs(0);
        if turn + 1 < own {
            let next = (first + turn + 1, chunk + num_programs(0));
            all.send(form, exchange, &pairs, next);
        }
        exchange.wait(form, first + turn);
        all.collect(form, exchange, &pairs, (first + turn, chunk));
    }
}

/// The tensors of a rank.
#[derive(Clone, Copy, Aggregate)]
struct Rows<T> {
    x: Ptr<T>,
    out: Ptr<T>,
}

impl<T: Float> Rows<T> {
    /// Sends a chunk to all other ranks that have one.
    #[device]
    fn send(
        self,
        form: Form,
        exchange: Exchange<T>,
        pairs: &[Pair],
        (step, index): (Scalar<i32>, Scalar<i32>),
    ) {
        for (distance, pair) in pairs.iter().enumerate().skip(1) {
            let chunk = Chunk::of::<T>(form, pair.sent, index);
            let elements = chunk.load(self.x + (pair.first_sent + chunk.first));
            let peer = exchange.peer(form, distance);
            exchange.send(form, (step, peer), (chunk.lanes, chunk.inside), elements);
        }
        exchange.signal(form);
    }

    /// Stores the chunks of all ranks.
    #[device]
    fn collect(
        self,
        form: Form,
        exchange: Exchange<T>,
        pairs: &[Pair],
        (step, index): (Scalar<i32>, Scalar<i32>),
    ) {
        for (distance, pair) in pairs.iter().enumerate() {
            let chunk = Chunk::of::<T>(form, pair.received, index);
            let from = if distance == 0 {
                self.x + (pair.first_sent + chunk.first)
            } else {
                exchange.received(form, step, exchange.peer(form, distance))
            };
            let elements = chunk.load(from);
            let to = self.out + (pair.first_received + chunk.first);
            to.at(chunk.lanes).mask(chunk.inside).store(elements);
        }
    }
}
