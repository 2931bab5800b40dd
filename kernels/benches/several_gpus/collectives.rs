//! Collectives beside NCCL: µs of a single call and of calls back to back, the medians of graphs that all ranks replay, and NCCL's time over ours. Tensors take turns so that they exceed L2.
//! Each row is checked once: all ranks have the same bits, and they are those of f64 up to half a step.

use std::sync::Arc;
use std::time::Duration;

use tilekit::case::{BenchOptions, RanksContest};
use tilekit::prelude::*;
use tilekit::{Nccl, World};
use tilekit_kernels::collectives::{Collectives, Operation, Plan, Variant};

use crate::normal::normal;

/// Bytes that the copies of a row exceed together.
const BEYOND_L2: usize = 200 << 20;
/// Elements that are drawn; longer tensors repeat them.
const DRAWN: usize = 1 << 16;
/// What a call moves in all: the whole tensor of an all-reduce, of others the longer one.
const SIZES_KIB: [usize; 10] = [
    8,
    64,
    256,
    512,
    1 << 10,
    4 << 10,
    16 << 10,
    64 << 10,
    256 << 10,
    1 << 20,
];

/// The tensors of one call.
struct Copy {
    x: Vec<Buffer<bf16>>,
    out: Vec<Buffer<bf16>>,
}

impl Copy {
    fn new(world: &World, drawn: &[Vec<bf16>], [of_x, of_result]: [usize; 2]) -> Copy {
        let ranks = || world.devices().iter().zip(drawn);
        let x = ranks().map(|(device, drawn)| {
            let mut host = drawn[..of_x.min(DRAWN)].to_vec();
            while host.len() < of_x {
                let more = host.len().min(of_x - host.len());
                host.extend_from_within(..more);
            }
            Buffer::from_slice(device, &host).unwrap()
        });
        let out = ranks().map(|(device, _)| {
            let out = Buffer::new(device, of_result).unwrap();
            out.fill_bytes(0xff).unwrap();
            out
        });
        Copy {
            x: x.collect(),
            out: out.collect(),
        }
    }

    fn tensors(&self) -> [Vec<&Buffer<bf16>>; 2] {
        [&self.x, &self.out].map(|of_ranks| of_ranks.iter().collect())
    }
}

struct Bed<'n> {
    world: Arc<World>,
    collectives: Collectives,
    nccl: &'n Nccl,
    drawn: Vec<Vec<bf16>>,
}

impl Bed<'_> {
    fn run(&self, operation: Operation, copy: &Copy, plan: Option<&Plan>) {
        let [x, out] = copy.tensors();
        let done = match (plan, operation) {
            (Some(plan), _) => self.collectives.call_planned(operation, [&x, &out], plan),
            (None, Operation::AllReduce) => self.collectives.all_reduce(&x, &out),
            (None, Operation::ReduceScatter) => self.collectives.reduce_scatter(&x, &out),
            (None, Operation::AllGather) => self.collectives.all_gather(&x, &out),
            (None, Operation::AllToAll) => self.collectives.all_to_all(&x, &out),
        };
        done.unwrap();
    }

    fn run_nccl(&self, operation: Operation, copy: &Copy) -> tilekit::Result<()> {
        let [x, out] = copy.tensors();
        match operation {
            Operation::AllReduce => self.nccl.all_reduce(&self.world, &x, &out),
            Operation::ReduceScatter => self.nccl.reduce_scatter(&self.world, &x, &out),
            Operation::AllGather => self.nccl.all_gather(&self.world, &x, &out),
            Operation::AllToAll => self.nccl.all_to_all(&self.world, &x, &out),
        }
    }

    /// What `rank` must have at a place of its result.
    fn want(&self, operation: Operation, [of_x, rank, at]: [usize; 3]) -> f64 {
        let ranks = self.drawn.len();
        let piece = of_x / ranks;
        let x = |rank: usize, at: usize| self.drawn[rank][at % DRAWN].to_f64();
        let sum = |at: usize| (0..ranks).map(|rank| x(rank, at)).sum();
        match operation {
            Operation::AllReduce => sum(at),
            Operation::ReduceScatter => sum(rank * piece + at),
            Operation::AllGather => x(at / of_x, at % of_x),
            Operation::AllToAll => x(at / piece, rank * piece + at % piece),
        }
    }

    /// Every element of short results, and some of long ones.
    fn check(&self, operation: Operation, copy: &Copy, what: &str) {
        let of_x = copy.x[0].len();
        let mut first = Vec::new();
        for (rank, out) in copy.out.iter().enumerate() {
            let got = out.to_vec().unwrap();
            let step = (got.len() / 100_000).max(1) | 1;
            for at in (0..got.len()).step_by(step).chain([got.len() - 1]) {
                let (got, want) = (got[at].to_f64(), self.want(operation, [of_x, rank, at]));
                let is_close = (got - want).abs() <= 4e-3 * want.abs() + 1e-6;
                assert!(is_close, "{what}: rank {rank}, {at}: {got} and not {want}");
            }
            if rank == 0 {
                first = got;
            } else if operation == Operation::AllReduce {
                assert!(got == first, "{what}: rank {rank} has other bits");
            }
            out.fill_bytes(0xff).unwrap();
        }
    }

    fn row(&self, operation: Operation, kib: usize, tunes: bool) {
        let (ranks, whole) = (self.world.ranks(), kib << 9);
        let lengths = match operation {
            Operation::AllReduce | Operation::AllToAll => [whole, whole],
            Operation::ReduceScatter => [whole, whole / ranks],
            Operation::AllGather => [whole / ranks, whole],
        };
        let copies = (BEYOND_L2 / (kib << 11) + 1).min(12);
        let copies: Vec<Copy> = (0..copies)
            .map(|_| Copy::new(&self.world, &self.drawn, lengths))
            .collect();
        let [x, out] = copies[0].tensors();
        let plan = self.collectives.plan(operation, &x, &out).unwrap().unwrap();
        let mut plans = vec![plan];
        if tunes {
            let of_piece = match operation {
                Operation::AllReduce => kib << 10,
                _ => (kib << 10) / ranks,
            };
            plans.extend(others(&plan, of_piece));
        }
        plans.retain(|plan| {
            let done = self.collectives.call_planned(operation, [&x, &out], plan);
            if done.is_err() {
                return false;
            }
            self.world.synchronize().unwrap();
            self.check(operation, &copies[0], &plan.to_string());
            true
        });
        let options = BenchOptions {
            samples: 11,
            rounds: 7,
            slice: Duration::from_millis(4),
            rest: Duration::from_millis(1),
            ..BenchOptions::default()
        };
        let mut contest = RanksContest::new(&self.world, options, copies.len());
        let copies = &copies;
        for (at, plan) in plans.iter().enumerate() {
            let chosen = (at > 0).then_some(plan);
            contest.add(&plan.to_string(), move |copy| {
                self.run(operation, &copies[copy], chosen);
                Ok(())
            });
        }
        contest.add("NCCL", move |copy| self.run_nccl(operation, &copies[copy]));
        let timing = contest.hold().unwrap();
        let nccl = timing.entrants.last().unwrap();
        let us = |series: &tilekit::case::Series| series.median_ms() * 1e3;
        for entrant in &timing.entrants[..timing.entrants.len() - 1] {
            println!(
                "{:14} {kib:8} KiB {:8.2} {:8.2} us, NCCL {:8.2} {:8.2} us: {:5.2} {:5.2} | {}",
                operation.name(),
                us(&entrant.single),
                us(&entrant.back_to_back),
                us(&nccl.single),
                us(&nccl.back_to_back),
                nccl.single.ratio_to(&entrant.single),
                nccl.back_to_back.ratio_to(&entrant.back_to_back),
                entrant.name
            );
        }
    }
}

/// Other plans for pieces of so many bytes: what is not possible is left out later.
fn others(plan: &Plan, bytes: usize) -> Vec<Plan> {
    let of = |variant, warps, accesses| {
        let mut plan = Plan { variant, ..*plan };
        plan.form.warps = warps;
        plan.form.accesses = accesses;
        let of_cta = match variant {
            Variant::Sentinel => 8 * plan.form.packets(),
            Variant::SentinelTwoShot => 8 * plan.form.packets() * plan.form.ranks,
            Variant::Packets => 4 * plan.form.packets(),
            Variant::OneShot => plan.form.chunk_bytes(),
            Variant::TwoShot => plan.form.chunk_bytes() * plan.form.ranks,
        };
        plan.ctas = bytes.div_ceil(of_cta).max(1);
        if matches!(variant, Variant::OneShot | Variant::TwoShot) {
            plan.ctas = plan.ctas.min(264);
        }
        plan
    };
    let all = [
        of(Variant::Sentinel, 8, 1),
        of(Variant::Sentinel, 8, 2),
        of(Variant::SentinelTwoShot, 8, 1),
        of(Variant::SentinelTwoShot, 8, 2),
        of(Variant::OneShot, 8, 1),
        of(Variant::OneShot, 16, 1),
        of(Variant::OneShot, 16, 2),
        of(Variant::TwoShot, 16, 2),
    ];
    let is_other = |other: &Plan| (other.variant, other.form) != (plan.variant, plan.form);
    all.into_iter().filter(is_other).collect()
}

/// Times operations whose names contain `name`; with `tunes` other plans besides.
pub(crate) fn run(world: &Arc<World>, nccl: &Nccl, name: &str, tunes: bool) {
    let seeds = 1..=world.ranks() as u64;
    let bed = Bed {
        collectives: Collectives::new(world),
        nccl,
        drawn: seeds.map(|seed| normal(DRAWN, seed)).collect(),
        world: Arc::clone(world),
    };
    let all = [
        Operation::AllReduce,
        Operation::AllGather,
        Operation::ReduceScatter,
        Operation::AllToAll,
    ];
    for operation in all.into_iter().filter(|each| each.name().contains(name)) {
        for kib in SIZES_KIB {
            bed.row(operation, kib, tunes && kib <= 4 << 10);
        }
    }
}
