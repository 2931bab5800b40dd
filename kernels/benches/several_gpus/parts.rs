//! What a single launch of few bytes takes apart: launches of kernels that do a part of an all-reduce, and the way of a word between two ranks by the clock of the GPU.

use std::sync::Arc;
use std::time::Duration;

use tilekit::case::{BenchOptions, RanksContest, Series};
use tilekit::prelude::*;
use tilekit::{Compiler, World, WorldKernel};

#[kernel(warps = 8, min_ctas_per_sm = 4, cooperative)]
fn nothing_cooperative(_out: Ptr<i32>) {}

#[kernel(warps = 8, min_ctas_per_sm = 4)]
fn nothing(_out: Ptr<i32>) {}

/// Each thread moves 8 bytes from `x` to `out`.
#[kernel(warps = 8, min_ctas_per_sm = 4)]
fn copies(x: Ptr<u64>, out: Ptr<u64>) {
    let at = program_id(0) * 256 + arange(0..256, Coalesced);
    out.at(at).store(x.at(at).load());
}

/// The same into memory of the next rank, relaxed at the scope of the system: nobody waits for it.
#[kernel(warps = 8, min_ctas_per_sm = 4)]
fn sends(x: Ptr<u64>, out_of: PeerMap<u64>, next: i32) {
    let at = program_id(0) * 256 + arange(0..256, Coalesced);
    let to = out_of.of(next).at(at);
    to.volatile().store(x.at(at).load());
}

/// A word goes to rank 1 and back, `turns` times; `time` gets what that takes in ns. `said` only grows.
#[kernel(warps = 1, cooperative)]
fn to_and_fro(
    said: Ptr<u64>,
    said_of: PeerMap<u64>,
    time: Ptr<i64>,
    limit: i64,
    rank: i32,
    first: i32,
    turns: i32,
) {
    let clock = || inline_ptx_with_effects::<Scalar<i64>>("mov.u64 $0, %globaltimer;", ());
    let started = clock();
    if rank < 2 {
        let to = said_of.of(1 - rank).at(0);
        let from = said.at(0).scope(Scope::Sys).relaxed();
        for turn in range(first, first + turns) {
            let number = turn.cast::<u64>();
            if rank == 0 {
                to.volatile().store(number);
            }
            from.atomic_poll_within(limit, |seen| seen >= number);
            if rank == 1 {
                to.volatile().store(number);
            }
        }
    }
    time.at(0).store(clock() - started);
}

fn load<H>(world: &World, kernel: tilekit::Result<tilekit::CompiledKernel<H>>) -> WorldKernel<H> {
    world.load(&kernel.unwrap()).unwrap()
}

pub(crate) fn run(world: &Arc<World>) {
    let compiler = Compiler::default();
    let next = |rank: usize| ((rank + 1) % world.ranks()) as i32;
    let word = world.symmetric::<i32>(1).unwrap();
    // 200 MB in turns, so that x comes from memory.
    let most = 1 << 17;
    let copies_of_x = 200;
    let x = world.symmetric::<u64>(most * copies_of_x).unwrap();
    let out = world.symmetric::<u64>(most).unwrap();
    let empty = load(world, nothing.compile(&compiler));
    let cooperative = load(world, nothing_cooperative.compile(&compiler));
    let copying = load(world, copies.compile(&compiler));
    let sending = load(world, sends.compile(&compiler));
    let options = BenchOptions {
        samples: 11,
        rounds: 7,
        slice: Duration::from_millis(4),
        rest: Duration::from_millis(1),
        ..BenchOptions::default()
    };
    let views: Vec<Vec<_>> = (0..copies_of_x)
        .map(|copy| {
            let ranks = 0..world.ranks();
            let of_rank = |rank| x.part(rank).view([most]).with_offset(copy * most);
            ranks.map(of_rank).collect()
        })
        .collect();
    let mut contest = RanksContest::new(world, options, copies_of_x);
    for ctas in [1_u32, 64, 512] {
        let (empty, cooperative, word) = (&empty, &cooperative, &word);
        contest.add(&format!("nothing, {ctas} CTAs"), move |_| {
            empty.enqueue(world, grid(ctas), |rank| (word.part(rank),))
        });
        contest.add(&format!("nothing, cooperative, {ctas} CTAs"), move |_| {
            cooperative.enqueue(world, grid(ctas), |rank| (word.part(rank),))
        });
        let (copying, sending, x, out) = (&copying, &sending, &views, &out);
        contest.add(&format!("copies, {ctas} CTAs"), move |copy| {
            copying.enqueue(world, grid(ctas), |rank| (&x[copy][rank], out.part(rank)))
        });
        contest.add(&format!("sends, {ctas} CTAs"), move |copy| {
            sending.enqueue(world, grid(ctas), |rank| {
                (&x[copy][rank], out.peers(rank), next(rank))
            })
        });
    }
    let timing = contest.hold().unwrap();
    let us = |series: &Series| series.median_ms() * 1e3;
    for entrant in &timing.entrants {
        let (single, in_graphs) = (us(&entrant.single), us(&entrant.back_to_back));
        println!(
            "{single:7.2} us single {in_graphs:7.2} us back to back | {}",
            entrant.name
        );
    }
    if world.ranks() > 1 {
        ways(world, &compiler);
    }
}

/// How long a word takes from one rank to another.
fn ways(world: &Arc<World>, compiler: &Compiler) {
    const TURNS: i32 = 1000;
    let said = world.symmetric::<u64>(1).unwrap();
    let times = world.symmetric::<i64>(1).unwrap();
    let kernel = load(world, to_and_fro.compile(compiler));
    for call in 0..4 {
        let launched = kernel.launch(world, grid(1), |rank| {
            (
                said.part(rank),
                said.peers(rank),
                times.part(rank),
                5_000_000_000_i64,
                rank as i32,
                1 + call * TURNS,
                TURNS,
            )
        });
        launched.unwrap();
        let ns = times.part(0).to_vec().unwrap()[0];
        let one = ns as f64 / f64::from(2 * TURNS);
        println!("a word takes {one:.0} ns from one rank to another, read and sent on");
    }
}
