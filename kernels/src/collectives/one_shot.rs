//! Collectives in one step for each chunk: each rank sends what the others need of its tensor.

use tilekit::prelude::*;

use super::exchange::Exchange;
use super::form::Form;

/// What a rank sends to another one, and where it lies: a piece of `len` elements for each rank, the distance between pieces being `x_step` elements in `x` and
/// `out_step` in the result. A step of 0 in `x` is the same piece for all ranks.
#[derive(Clone, Copy, Aggregate)]
struct Pieces<T> {
    x: Ptr<T>,
    out: Ptr<T>,
    len: Scalar<i64>,
    x_step: Scalar<i64>,
    out_step: Scalar<i64>,
}

/// Where a chunk of each piece begins, and which of its elements exist.
#[derive(Clone, Copy, Aggregate)]
pub(super) struct Chunk {
    pub(super) first: Scalar<i64>,
    exist: Scalar<i32>,
    pub(super) lanes: Tensor<i32>,
    pub(super) inside: Tensor<bool>,
}

impl Chunk {
    /// Of so many elements, the chunk of this index.
    #[device]
    pub(super) fn of<T: Element>(form: Form, len: Scalar<i64>, index: Scalar<i32>) -> Chunk {
        let size = form.chunk::<T>() as i64;
        let first = index.cast::<i64>() * size;
        let lanes = form.lanes::<T>();
        let exist = (len - first).min(size).max(0).cast::<i32>();
        Chunk {
            first,
            exist,
            lanes,
            inside: lanes < exist,
        }
    }

    /// The part of a smaller form that begins at an element.
    #[device]
    fn part<T: Element>(self, form: Form, begin: usize) -> Chunk {
        let lanes = form.lanes::<T>();
        let exist = self.exist - begin as i32;
        Chunk {
            first: self.first + begin as i64,
            exist,
            lanes,
            inside: lanes < exist,
        }
    }

    /// Its elements behind a pointer to the piece.
    #[track_caller]
    pub(super) fn load<T: Numeric>(self, chunk: Ptr<T>) -> Tensor<T> {
        let zero = full_like(self.lanes, 0).cast::<T>();
        chunk.at(self.lanes).mask(self.inside).other(zero).load()
    }
}

/// The sum over ranks of pieces (`SUMS`), or the pieces of all ranks in their order.
///
/// | | `x` has | `x_step` | the result has | `out_step` |
/// | --- | --- | --- | --- | --- |
/// | all-reduce | `len` | 0 | `len`, the sum | |
/// | reduce-scatter | `ranks * len` | `len` | `len`, the sum of pieces `rank` | |
/// | all-gather | `len` | 0 | `ranks * len` | `len` |
/// | all-to-all | `ranks * len` | `len` | `ranks * len`: the piece `rank` of each rank | `len` |
///
/// Sums are f32 in the order of ranks, rounded once: the same bits on all ranks and in all runs. `x` may be the result of an all-reduce. `rank` is that of the GPU;
/// `staging`, `counts` and `epochs` are described at `Exchange`.
#[kernel(warps = WARPS, cooperative, min_ctas_per_sm = 2)]
pub fn one_shot<T: Float, const WARPS: usize, const SUMS: bool>(
    #[fixed] form: Form,
    x: Ptr<T>,
    out: Ptr<T>,
    exchange: Exchange<T>,
    len: i64,
    x_step: i64,
    out_step: i64,
) {
    let pieces = Pieces {
        x,
        out,
        len,
        x_step: form.step::<T>(x_step),
        out_step: form.step::<T>(out_step),
    };
    let chunks = cdiv(len, form.chunk::<T>() as i64).cast::<i32>();
    let own = cdiv(chunks - program_id(0), num_programs(0));
    let first = exchange.begin(own);
    pieces.send(form, exchange, (first, program_id(0)));
    for turn in range(0, own) {
        let chunk = program_id(0) + turn * num_programs(0);
        if turn + 1 < own {
            pieces.send(form, exchange, (first + turn + 1, chunk + num_programs(0)));
        }
        exchange.wait(form, first + turn);
        if SUMS {
            pieces.sum(form, exchange, (first + turn, chunk));
        } else {
            pieces.collect(form, exchange, (first + turn, chunk));
        }
    }
}

impl<T: Float> Pieces<T> {
    /// Sends a chunk to all other ranks.
    #[device]
    fn send(self, form: Form, exchange: Exchange<T>, (step, index): (Scalar<i32>, Scalar<i32>)) {
        let chunk = Chunk::of::<T>(form, self.len, index);
        for distance in 1..form.ranks {
            let peer = exchange.peer(form, distance);
            let piece = self.x + (peer.cast::<i64>() * self.x_step + chunk.first);
            let elements = chunk.load(piece);
            let place = (chunk.lanes, chunk.inside);
            exchange.send(form, (step, peer), place, elements);
        }
        exchange.signal(form);
    }

    /// Sums what all ranks have sent of a chunk, in the order of ranks.
    #[device]
    fn sum(self, form: Form, exchange: Exchange<T>, (step, index): (Scalar<i32>, Scalar<i32>)) {
        let chunk = Chunk::of::<T>(form, self.len, index);
        let own = self.x + (exchange.rank.cast::<i64>() * self.x_step + chunk.first);
        let to = self.out + chunk.first;
        store_sum_of_ranks(form, exchange, (step, chunk), (own, to));
    }

    /// Stores what all ranks have sent of a chunk, a piece for each rank.
    #[device]
    fn collect(self, form: Form, exchange: Exchange<T>, (step, index): (Scalar<i32>, Scalar<i32>)) {
        let chunk = Chunk::of::<T>(form, self.len, index);
        for distance in 0..form.ranks {
            let source = exchange.peer(form, distance);
            let from = if distance == 0 {
                self.x + (source.cast::<i64>() * self.x_step + chunk.first)
            } else {
                exchange.received(form, step, source)
            };
            let to = self.out + (source.cast::<i64>() * self.out_step + chunk.first);
            let elements = chunk.load(from);
            to.at(chunk.lanes).mask(chunk.inside).store(elements);
        }
    }
}

/// Accesses of a thread, of all ranks, whose words it loads before it sums them: 32 registers of the 64 that a thread has.
const LOADED_AT_ONCE: usize = 8;

/// Stores the sum of a chunk over all ranks, in f32 and in the order of ranks, at `to`; that of this rank lies at `own`. Where the words of all ranks do not fit in
/// registers, a thread sums one access at a time.
#[device]
pub(super) fn store_sum_of_ranks<T: Float>(
    form: Form,
    exchange: Exchange<T>,
    (step, chunk): (Scalar<i32>, Chunk),
    (own, to): (Ptr<T>, Ptr<T>),
) {
    let fits = form.ranks * form.accesses <= LOADED_AT_ONCE;
    let accesses = if fits { form.accesses } else { 1 };
    let of_part = Form { accesses, ..form };
    for part in 0..form.accesses / accesses {
        let begin = part * of_part.chunk::<T>();
        let part = chunk.part::<T>(of_part, begin);
        let sum = sum_of_ranks(form, exchange, (step, part), (begin, own));
        let to = to + begin as i64;
        to.at(part.lanes).mask(part.inside).store(sum);
    }
}

/// The sum of a part that begins at an element of a chunk.
#[device]
fn sum_of_ranks<T: Float>(
    form: Form,
    exchange: Exchange<T>,
    (step, part): (Scalar<i32>, Chunk),
    (begin, own): (usize, Ptr<T>),
) -> Tensor<T> {
    let alignment = if form.is_aligned {
        16 / size_of::<T>()
    } else {
        1
    };
    let loaded: Vec<Tensor<T>> = (0..form.ranks)
        .map(|source| {
            let received = exchange.received(form, step, scalar(source as i32));
            let is_own = exchange.rank == source;
            let from = select(is_own, own.address(), received.address());
            let from = from.to_pointer::<T>().multiple_of(alignment);
            part.load(from + begin as i64)
        })
        .collect();
    let terms = loaded.into_iter().map(|term| term.cast::<f32>());
    let sum = terms.reduce(|sum, term| sum + term);
    sum.expect("a rank takes part at least").cast::<T>()
}
