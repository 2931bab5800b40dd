//! All-reduce in two steps for each chunk: each rank sums a piece, and sends the sum to the others. For more than two ranks that moves fewer bytes than one step.

use tilekit::prelude::*;

use super::exchange::Exchange;
use super::form::Form;
use super::one_shot::{Chunk, store_sum_of_ranks};

/// The tensor of a rank, and where the sums go.
#[derive(Clone, Copy, Aggregate)]
struct Whole<T> {
    x: Ptr<T>,
    out: Ptr<T>,
    len: Scalar<i64>,
}

/// The sum of `x` over all ranks, of `len` elements, on all ranks. Sums are f32 in the order of ranks, rounded once, by the one rank that a piece belongs to:
/// the same bits on all ranks and in all runs. `x` may be `out`. The rest is as for [`one_shot`](super::one_shot::one_shot).
///
/// A turn is a chunk of each rank, contiguous in memory. A CTA sends the chunks of its next turn before it waits for those of this one:
///
/// ```text
/// send x 0, send x 1, sum 0, send sum 0, sum 1, send x 2, collect 0, send sum 1, sum 2, ..
/// ```
///
/// where a sum waits for the step that sent x, and collecting for the step that sent sums: each is the second step before the one sent last.
#[kernel(warps = WARPS, cooperative, min_ctas_per_sm = 2)]
pub fn two_shot<T: Float, const WARPS: usize>(
    #[fixed] form: Form,
    x: Ptr<T>,
    out: Ptr<T>,
    exchange: Exchange<T>,
    len: i64,
) {
    let whole = Whole { x, out, len };
    let of_turn = (form.chunk::<T>() * form.ranks) as i64;
    let turns = cdiv(len, of_turn).cast::<i32>();
    let own = cdiv(turns - program_id(0), num_programs(0));
    let mut sent = exchange.begin(own * 2);
    let mut waited = sent;
    let stride = num_programs(0);
    let mut turn = program_id(0);
    whole.send(form, exchange, (sent, turn));
    sent += 1;
    if turn + stride < turns {
        whole.send(form, exchange, (sent, turn + stride));
        sent += 1;
    }
    whole.sum(form, exchange, (waited, turn));
    waited += 1;
    while turn < turns {
        whole.send_sum(form, exchange, (sent, turn));
        sent += 1;
        if turn + stride < turns {
            whole.sum(form, exchange, (waited, turn + stride));
            waited += 1;
        }
        if turn + stride * 2 < turns {
            whole.send(form, exchange, (sent, turn + stride * 2));
            sent += 1;
        }
        whole.collect(form, exchange, (waited, turn));
        waited += 1;
        turn += stride;
    }
}

impl<T: Float> Whole<T> {
    /// The chunk of a rank in a turn.
    #[device]
    fn chunk(self, form: Form, turn: Scalar<i32>, rank: Scalar<i32>) -> Chunk {
        Chunk::of::<T>(form, self.len, turn * form.ranks + rank)
    }

    /// Sends each rank its chunk.
    #[device]
    fn send(self, form: Form, exchange: Exchange<T>, (step, turn): (Scalar<i32>, Scalar<i32>)) {
        for distance in 1..form.ranks {
            let peer = exchange.peer(form, distance);
            let chunk = self.chunk(form, turn, peer);
            let elements = chunk.load(self.x + chunk.first);
            let place = (chunk.lanes, chunk.inside);
            exchange.send(form, (step, peer), place, elements);
        }
        exchange.signal(form);
    }

    /// Sums the chunk of this rank, in its result.
    #[device]
    fn sum(self, form: Form, exchange: Exchange<T>, (step, turn): (Scalar<i32>, Scalar<i32>)) {
        exchange.wait(form, step);
        let chunk = self.chunk(form, turn, exchange.rank);
        let [own, to] = [self.x, self.out].map(|tensor| tensor + chunk.first);
        store_sum_of_ranks(form, exchange, (step, chunk), (own, to));
    }

    /// Sends the sum of this rank's chunk, which its threads have stored themselves, to all.
    #[device]
    fn send_sum(self, form: Form, exchange: Exchange<T>, (step, turn): (Scalar<i32>, Scalar<i32>)) {
        let chunk = self.chunk(form, turn, exchange.rank);
        let sum = chunk.load(self.out + chunk.first);
        for distance in 1..form.ranks {
            let peer = exchange.peer(form, distance);
            exchange.send(form, (step, peer), (chunk.lanes, chunk.inside), sum);
        }
        exchange.signal(form);
    }

    /// Stores the sums of the other ranks.
    #[device]
    fn collect(self, form: Form, exchange: Exchange<T>, (step, turn): (Scalar<i32>, Scalar<i32>)) {
        exchange.wait(form, step);
        for distance in 1..form.ranks {
            let source = exchange.peer(form, distance);
            let chunk = self.chunk(form, turn, source);
            let elements = chunk.load(exchange.received(form, step, source));
            let to = self.out + chunk.first;
            to.at(chunk.lanes).mask(chunk.inside).store(elements);
        }
    }
}
