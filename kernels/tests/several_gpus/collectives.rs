//! Collectives as a program calls them.

use std::sync::Arc;

use tilekit::World;
use tilekit::prelude::*;
use tilekit_kernels::collectives::{Collectives, Operation, Reduced, Rows, Variant};

use crate::ranks::emulated;

fn world(ranks: usize, seed: u64) -> Arc<World> {
    Arc::new(crate::ranks::world(ranks, seed))
}

trait Element: Reduced + PartialEq + std::fmt::Debug {
    fn of(number: f32) -> Self;
    fn back(self) -> f32;
}

impl Element for bf16 {
    fn of(number: f32) -> Self {
        bf16::from_f32(number)
    }
    fn back(self) -> f32 {
        self.to_f32()
    }
}

impl Element for f16 {
    fn of(number: f32) -> Self {
        f16::from_f32(number)
    }
    fn back(self) -> f32 {
        self.to_f32()
    }
}

impl Element for f32 {
    fn of(number: f32) -> Self {
        number
    }
    fn back(self) -> f32 {
        self
    }
}

/// Tensors of all ranks.
struct Tensors<T>(Vec<Buffer<T>>);

impl<T: Element> Tensors<T> {
    /// Elements that are no whole numbers, others on each rank and in each call.
    fn new(world: &World, len: usize, call: usize) -> Self {
        let element = |rank: usize, at: usize| {
            let mixed = (at * 7919 + rank * 104_729 + call * 31) % 2003;
            T::of((mixed as f32 - 1000.0) / 37.0)
        };
        let devices = world.devices().iter().enumerate();
        let of_rank = |(rank, device)| {
            let host: Vec<T> = (0..len).map(|at| element(rank, at)).collect();
            Buffer::from_slice(device, &host).unwrap()
        };
        Tensors(devices.map(of_rank).collect())
    }

    /// Results that nothing has written.
    fn poisoned(world: &World, len: usize) -> Self {
        let devices = world.devices().iter();
        let of_rank = |device| Buffer::from_slice(device, &vec![T::NAN; len]).unwrap();
        Tensors(devices.map(of_rank).collect())
    }

    fn all(&self) -> Vec<&Buffer<T>> {
        self.0.iter().collect()
    }

    fn host(&self) -> Vec<Vec<T>> {
        self.0
            .iter()
            .map(|of_rank| of_rank.to_vec().unwrap())
            .collect()
    }
}

/// What each rank gets: sums in f32 in the order of ranks, rounded once.
fn expected<T: Element>(operation: Operation, x: &[Vec<T>]) -> Vec<Vec<T>> {
    let (ranks, len) = (x.len(), x[0].len());
    let sum = |at: usize| T::of(x.iter().map(|x| x[at].back()).reduce(|a, b| a + b).unwrap());
    let piece = len / ranks;
    let of_rank = |rank: usize| match operation {
        Operation::AllReduce => (0..len).map(sum).collect(),
        Operation::ReduceScatter => (0..piece).map(|at| sum(rank * piece + at)).collect(),
        Operation::AllGather => x.concat(),
        Operation::AllToAll => {
            let pieces = x.iter().map(|x| &x[rank * piece..(rank + 1) * piece]);
            pieces.collect::<Vec<_>>().concat()
        }
    };
    (0..ranks).map(of_rank).collect()
}

fn run<T: Element>(
    collectives: &Collectives,
    operation: Operation,
    x: &Tensors<T>,
    out: &Tensors<T>,
) {
    let (x, out) = (x.all(), out.all());
    let done = match operation {
        Operation::AllReduce => collectives.all_reduce(&x, &out),
        Operation::ReduceScatter => collectives.reduce_scatter(&x, &out),
        Operation::AllGather => collectives.all_gather(&x, &out),
        Operation::AllToAll => collectives.all_to_all(&x, &out),
    };
    done.unwrap();
    collectives.world().synchronize().unwrap();
}

/// One call, of pieces of `len` elements.
fn check<T: Element>(collectives: &Collectives, operation: Operation, len: usize, call: usize) {
    let world = collectives.world();
    let ranks = world.ranks();
    let [of_x, of_result] = match operation {
        Operation::AllReduce => [1, 1],
        Operation::ReduceScatter => [ranks, 1],
        Operation::AllGather => [1, ranks],
        Operation::AllToAll => [ranks, ranks],
    };
    let x = Tensors::<T>::new(world, of_x * len, call);
    let out = Tensors::poisoned(world, of_result * len);
    let before = x.host();
    run(collectives, operation, &x, &out);
    assert!(
        out.host() == expected(operation, &before),
        "{operation:?} of {ranks} ranks and {len} elements, call {call}"
    );
    assert_eq!(x.host(), before, "only results are written");
}

const OPERATIONS: [Operation; 4] = [
    Operation::AllReduce,
    Operation::ReduceScatter,
    Operation::AllGather,
    Operation::AllToAll,
];

#[test]
fn every_collective_of_every_length_follows_every_other() {
    for (ranks, seed) in [(1, 0), (3, 2)] {
        let collectives = Collectives::new(&world(ranks, seed));
        for (call, len) in [0, 2, 1001, 64].into_iter().enumerate() {
            for operation in OPERATIONS {
                check::<bf16>(&collectives, operation, len, call);
            }
        }
    }
}

#[test]
fn other_types_and_eight_ranks() {
    let collectives = Collectives::new(&world(8, 5));
    for operation in OPERATIONS {
        check::<f16>(&collectives, operation, 515, 0);
    }
}

#[test]
fn many_calls_take_slots_in_turns_under_every_schedule() {
    for seed in 0..3 {
        let collectives = Collectives::new(&world(2, seed));
        for call in 0..6 {
            check::<f32>(&collectives, Operation::AllReduce, 256, call);
            check::<bf16>(&collectives, Operation::ReduceScatter, 255, call);
        }
    }
}

/// Rows that depend on the pair of ranks, in tensors with room for more of them.
fn check_rows<T: Element>(collectives: &Collectives, width: usize, call: usize) {
    let world = collectives.world();
    let ranks = world.ranks();
    let of_pair = |from: usize, to: usize| (5 * from + 3 * to + call) % 8;
    let counts = (0..ranks * ranks).map(|pair| of_pair(pair / ranks, pair % ranks) as i32);
    let counts: Vec<i32> = counts.collect();
    let devices = world.devices().iter();
    let on_devices = devices.map(|device| Buffer::from_slice(device, &counts).unwrap());
    let on_devices: Vec<Buffer<i32>> = on_devices.collect();
    let on_devices: Vec<&Buffer<i32>> = on_devices.iter().collect();
    let x = Tensors::<T>::new(world, ranks * 8 * width, call);
    let out = Tensors::<T>::poisoned(world, ranks * 8 * width);
    let rows = Rows {
        counts: &on_devices,
        width,
        most: 8,
    };
    collectives
        .all_to_all_rows(&x.all(), &out.all(), &rows)
        .unwrap();
    world.synchronize().unwrap();
    let sent = x.host();
    for (to, got) in out.host().into_iter().enumerate() {
        let mut want = Vec::new();
        for (from, sent) in sent.iter().enumerate() {
            let first: usize = (0..to).map(|other| of_pair(from, other)).sum();
            want.extend_from_slice(&sent[first * width..(first + of_pair(from, to)) * width]);
        }
        assert!(got[..want.len()] == want, "rank {to}, call {call}");
        let behind = &got[want.len()..];
        assert!(behind.iter().all(|x| x.back().is_nan()), "rank {to}");
    }
}

#[test]
fn ranks_exchange_as_many_rows_as_counts_on_the_devices_say() {
    for (ranks, width) in [(2, 96), (3, 1001)] {
        let collectives = Collectives::new(&world(ranks, 4));
        for call in 0..2 {
            check_rows::<bf16>(&collectives, width, call);
        }
    }
}

#[test]
fn a_tensor_may_be_its_own_sum() {
    for len in [300, 301] {
        let collectives = Collectives::new(&world(3, 1));
        let x = Tensors::<bf16>::new(collectives.world(), len, 0);
        let want = expected(Operation::AllReduce, &x.host());
        run(&collectives, Operation::AllReduce, &x, &x);
        assert!(x.host() == want, "{len}");
    }
}

#[test]
fn plans_say_what_travels() {
    let world = Arc::new(emulated(3, 0));
    let collectives = Collectives::new(&world);
    let plan = |operation, len: usize, of_result: usize| {
        let (x, out) = (
            Tensors::<bf16>::new(&world, len, 0),
            Tensors::poisoned(&world, len * of_result),
        );
        collectives.plan(operation, &x.all(), &out.all()).unwrap()
    };
    assert_eq!(plan(Operation::AllReduce, 0, 1), None);
    let few = plan(Operation::AllReduce, 1000, 1).unwrap();
    assert_eq!((few.variant, few.sent_bytes), (Variant::Sentinel, 4000));
    let moved = plan(Operation::AllGather, 1000, 3).unwrap();
    assert_eq!((moved.variant, moved.sent_bytes), (Variant::Packets, 8000));
    let ragged = plan(Operation::AllGather, 1001, 3).unwrap();
    assert_eq!(
        (ragged.variant, ragged.sent_bytes),
        (Variant::OneShot, 4004)
    );
}

#[test]
fn a_plan_may_be_changed_within_the_room_that_there_is() {
    let world = world(2, 0);
    let collectives = Collectives::new(&world);
    let x = Tensors::<bf16>::new(&world, 4096, 0);
    let want = expected(Operation::AllReduce, &x.host());
    let planned = collectives.plan(Operation::AllReduce, &x.all(), &x.all());
    let mut plan = planned.unwrap().unwrap();
    plan.variant = Variant::TwoShot;
    plan.form.warps = 16;
    plan.ctas = 1;
    let tensors = [&x.all()[..], &x.all()[..]];
    collectives
        .call_planned(Operation::AllReduce, tensors, &plan)
        .unwrap();
    world.synchronize().unwrap();
    assert!(x.host() == want);
    plan.ctas = 265;
    let refused = collectives.call_planned(Operation::AllReduce, tensors, &plan);
    let text = refused.unwrap_err().to_string();
    assert!(
        text.starts_with("all_reduce: `plan`: found TwoShot 2x16x1 in 265 CTAs"),
        "{text}"
    );
}

#[track_caller]
fn refuses<T: Element>(
    operation: Operation,
    collectives: &Collectives,
    [x, out]: [&[&Buffer<T>]; 2],
    expected: &str,
) {
    let done = match operation {
        Operation::AllReduce => collectives.all_reduce(x, out),
        Operation::ReduceScatter => collectives.reduce_scatter(x, out),
        Operation::AllGather => collectives.all_gather(x, out),
        Operation::AllToAll => collectives.all_to_all(x, out),
    };
    assert_eq!(done.unwrap_err().to_string(), expected);
}

#[test]
fn what_does_not_fit_together_is_named_with_its_rank() {
    let world = world(2, 0);
    let collectives = Collectives::new(&world);
    let of = |rank: usize, len: usize| Buffer::<f32>::zeros(&world.devices()[rank], len).unwrap();
    let (a, b, c, d) = (of(0, 6), of(1, 6), of(1, 5), of(0, 3));
    let whole: [&Buffer<f32>; 2] = [&a, &b];
    refuses(
        Operation::AllReduce,
        &collectives,
        [&[&a], &whole],
        "all_reduce: `x`: found 1 buffers; expected 2: one for each rank",
    );
    refuses(
        Operation::AllReduce,
        &collectives,
        [&whole, &[&a, &c]],
        "all_reduce: `out`: found 5 elements on rank 1; expected 6, as in `x`",
    );
    refuses(
        Operation::AllReduce,
        &collectives,
        [&[&a, &c], &whole],
        "all_reduce: `x`: found 5 elements on rank 1; expected 6, as on rank 0",
    );
    refuses(
        Operation::AllReduce,
        &collectives,
        [&[&b, &a], &whole],
        "all_reduce: `x`: found for rank 0 a buffer on another device; expected one on device 0 of the world",
    );
    refuses(
        Operation::AllToAll,
        &collectives,
        [&whole, &[&a, &of(1, 6)]],
        "all_to_all: `out`: found on rank 0 the buffer that is `x`; expected another one: only `all_reduce` may overwrite what it reads",
    );
    refuses(
        Operation::ReduceScatter,
        &collectives,
        [&[&d, &of(1, 3)], &whole],
        "reduce_scatter: `x`: found 3 elements on each rank; expected a multiple of 2: a piece for each rank",
    );
    refuses(
        Operation::AllGather,
        &collectives,
        [&whole, &whole],
        "all_gather: `out`: found 6 elements on rank 0; expected 12, `x` of all ranks",
    );
}
