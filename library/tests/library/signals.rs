//! Signals between ranks: 2, 4 and 8 of them, every schedule, several calls without a reset, and what a mistake is reported as.

use tilekit::diag::Code;
use tilekit::prelude::*;
use tilekit::{EmulatorOptions, Error};

/// How many ranks take part.
const RANKS: [usize; 3] = [2, 4, 8];

/// Elements that a rank hands on.
const LENGTH: usize = 200;

/// Each rank hands its numbers to the next, `rounds` times, and adds its rank to what it got. `epoch` rounds were before.
#[kernel(warps = 2, cooperative)]
fn ring(
    own: Ptr<i32>,
    all: PeerMap<i32>,
    counts: Ptr<i32>,
    counts_of: PeerMap<i32>,
    rank: i32,
    ranks: i32,
    epoch: i32,
    rounds: i32,
) {
    let signals = Signals::new(counts, counts_of);
    let at = arange(0..256, Coalesced);
    let inside = at < LENGTH;
    let next = (rank + 1) % ranks;
    let before = (rank + ranks - 1) % ranks;
    for round in range(0, rounds) {
        let numbers = own.at(at).mask(inside).load();
        // What the next rank has read of the round before may be overwritten: two halves in turns, and a count of those read.
        let half = LENGTH + LENGTH * (round % 2);
        signals.wait(scalar(1), epoch + round - 1);
        all.of(next).at(at + half).mask(inside).store(numbers);
        signals.signal(next, scalar(0), scalar(1));
        signals.wait(scalar(0), epoch + round + 1);
        let got = own.at(at + half).mask(inside).load();
        own.at(at).mask(inside).store(got + rank);
        signals.signal(before, scalar(1), scalar(1));
    }
}

fn emulators(ranks: usize, seed: u64) -> World {
    let options = EmulatorOptions {
        seed,
        ..EmulatorOptions::default()
    };
    World::emulators(ranks, options).expect("so many ranks can be")
}

#[test]
fn numbers_go_round_a_ring_in_several_calls() {
    let compiled = ring.compile(&Compiler::default()).expect("it compiles");
    for (ranks, rounds) in [(2, 3), (4, 2), (8, 2)] {
        for seed in 0..4 {
            let world = emulators(ranks, seed);
            let kernel = world.load(&compiled).expect("it loads");
            let numbers = world.symmetric::<i32>(3 * LENGTH).expect("memory");
            let counts = world.symmetric::<i32>(2).expect("memory");
            let mut expected: Vec<i32> = (0..ranks as i32).map(|rank| 100 * rank).collect();
            for (rank, start) in expected.iter().enumerate() {
                let mut content = vec![0; 3 * LENGTH];
                (0..LENGTH).for_each(|at| content[at] = start + at as i32);
                numbers.part(rank).write(&content).expect("it is written");
            }
            for call in 0..2 {
                kernel
                    .launch(&world, grid(1), |rank| {
                        let (own, all) = (numbers.part(rank), numbers.peers(rank));
                        let (count, counts) = (counts.part(rank), counts.peers(rank));
                        (
                            own,
                            all,
                            count,
                            counts,
                            rank as i32,
                            ranks as i32,
                            call * rounds,
                            rounds,
                        )
                    })
                    .unwrap_or_else(|error| panic!("{ranks} ranks, seed {seed}: {error}"));
                for _ in 0..rounds {
                    expected.rotate_right(1);
                    let ranks = expected.iter_mut().zip(0..);
                    ranks.for_each(|(number, rank)| *number += rank);
                }
            }
            for (rank, start) in expected.iter().enumerate() {
                let got = numbers.part(rank).to_vec().expect("it is read");
                let wanted: Vec<i32> = (0..LENGTH as i32).map(|at| start + at).collect();
                assert_eq!(
                    got[..LENGTH],
                    wanted,
                    "{ranks} ranks, seed {seed}, rank {rank}"
                );
            }
        }
    }
}

/// A hand-over to the next rank, of which each variant leaves something out.
#[kernel(warps = 1, cooperative)]
fn hand_over<const VARIANT: usize>(
    own: Ptr<i32>,
    all: PeerMap<i32>,
    counts: Ptr<i32>,
    counts_of: PeerMap<i32>,
    next: i32,
) {
    let signals = Signals::new(counts, counts_of);
    let at = arange(0..32, Coalesced);
    all.of(next).at(at).store(at);
    match VARIANT {
        RELAXED => {
            counts_of.of(next).at(0).relaxed().atomic_add(1);
            signals.wait(scalar(0), scalar(1));
        }
        OWN_GPU => {
            signals.signal(next, scalar(0), scalar(1));
            counts.at(0).atomic_poll(|seen| seen >= 1);
        }
        NEVER => signals.wait(scalar(0), scalar(1)),
        SMALL => {
            signals.signal(next, scalar(0), scalar(1));
            signals.wait(scalar(0), scalar(2));
        }
        RESET => {
            counts.at(0).scope(Scope::Sys).relaxed().atomic_store(0);
            signals.signal(next, scalar(0), scalar(1));
            signals.wait(scalar(0), scalar(1));
        }
        _ => {
            signals.signal(next, scalar(0), scalar(1));
            signals.wait(scalar(0), scalar(1));
        }
    }
    own.at(at + 32).store(own.at(at).load());
}

const RIGHT: usize = 0;
const RELAXED: usize = 1;
const OWN_GPU: usize = 2;
const NEVER: usize = 3;
const SMALL: usize = 4;
const RESET: usize = 5;

fn hands_over<const VARIANT: usize>(ranks: usize, seed: u64) -> Result<(), Error> {
    let compiled = hand_over::<VARIANT>.compile(&Compiler::default())?;
    let world = emulators(ranks, seed);
    let kernel = world.load(&compiled)?;
    let (numbers, counts) = (world.symmetric::<i32>(64)?, world.symmetric::<i32>(1)?);
    kernel.launch(&world, grid(1), |rank| {
        let next = ((rank + 1) % ranks) as i32;
        let (own, all) = (numbers.part(rank), numbers.peers(rank));
        (own, all, counts.part(rank), counts.peers(rank), next)
    })
}

/// Numbers of ranks, each under the first seeds.
fn runs() -> impl Iterator<Item = (usize, u64)> {
    let seeds_of = |ranks| (0..4).map(move |seed| (ranks, seed));
    RANKS.into_iter().flat_map(seeds_of)
}

/// What a variant is reported as among 2, 4 and 8 ranks, under the first seeds.
#[track_caller]
fn reports<const VARIANT: usize>(code: Code, expected: &str) {
    for (ranks, seed) in runs() {
        let Err(Error::Fault(fault)) = hands_over::<VARIANT>(ranks, seed) else {
            panic!("{ranks} ranks, seed {seed}: it is reported");
        };
        let shown = tilekit::report::fault_diagnostic(&fault);
        assert_eq!(shown.code, code, "{ranks} ranks, seed {seed}: {fault}");
        assert!(
            fault.to_string().contains(expected),
            "{ranks} ranks, seed {seed}: {fault}"
        );
    }
}

#[test]
fn a_signal_that_releases_nothing_is_a_race() {
    for (ranks, seed) in runs() {
        hands_over::<RIGHT>(ranks, seed).expect("with it, it is right");
    }
    reports::<RELAXED>(Code::Race, "nothing orders the two across GPUs");
}

#[test]
fn a_wait_at_the_scope_of_the_gpu_is_a_race() {
    reports::<OWN_GPU>(Code::Race, "leaves out other GPUs");
}

#[test]
fn a_rank_that_never_signals_is_a_deadlock_that_names_the_flag() {
    reports::<NEVER>(Code::Deadlock, "no kernel has written it");
    reports::<SMALL>(Code::Deadlock, "which is 1");
}

#[test]
fn a_count_that_is_reset_loses_a_signal_under_some_seed() {
    for ranks in RANKS {
        let is_lost = |seed| matches!(hands_over::<RESET>(ranks, seed), Err(Error::Fault(fault)) if fault.to_string().contains("deadlock across"));
        assert!((0..40).any(is_lost), "{ranks} ranks");
    }
}

#[kernel(warps = 1)]
fn gpu_scope(counts_of: PeerMap<i32>, next: i32) {
    counts_of.of(next).at(0).scope(Scope::Gpu).atomic_add(1);
}

#[test]
fn the_scope_of_the_gpu_on_a_peer_does_not_compile() {
    let Err(Error::Kernel(found)) = gpu_scope.compile(&Compiler::default()) else {
        panic!("it is refused");
    };
    let text = found.to_string();
    assert!(
        text.contains("TK0039") && text.contains("signals.rs"),
        "{text}"
    );
}

/// A tile that goes to the next rank by a bulk store, is fetched from there by a bulk load, and comes back.
#[kernel(warps = 1, cooperative)]
fn by_bulk(
    out: Ptr<i32>,
    all: PeerMap<i32>,
    counts: Ptr<i32>,
    counts_of: PeerMap<i32>,
    rank: i32,
    next: i32,
) {
    let signals = Signals::new(counts, counts_of);
    let held = Blocked::new([1], [32], [1], [0]);
    let at = arange(0..64, held.clone());
    let tile = Smem::<i32>::alloc([64], Swizzled::plain([0]));
    tile.store(at + rank * 1000);
    all.of(next).pointer().bulk(0).store(tile);
    tma_store_wait(0);
    signals.signal(next, scalar(0), scalar(1));
    signals.wait(scalar(0), scalar(1));
    fence_async_global();
    // What the next rank holds came from this one.
    let arrived = Mbarrier::alloc(1);
    let copy = all.of(next).pointer().bulk(0);
    arrived.expect(tile.bytes());
    copy.load(tile, arrived);
    arrived.wait(0);
    out.at(arange(0..64, held.clone())).store(tile.load(held));
}

#[test]
fn bulk_copies_go_to_peers_and_come_from_them() {
    let compiled = by_bulk.compile(&Compiler::default()).expect("it compiles");
    for ranks in [2, 4] {
        for seed in 0..4 {
            let world = emulators(ranks, seed);
            let kernel = world.load(&compiled).expect("it loads");
            let tiles = world.symmetric::<i32>(64).expect("memory");
            let counts = world.symmetric::<i32>(1).expect("memory");
            let devices = world.devices().iter();
            let out: Vec<Buffer<i32>> = devices
                .map(|device| Buffer::zeros(device, 64).expect("memory"))
                .collect();
            kernel
                .launch(&world, grid(1), |rank| {
                    let next = ((rank + 1) % ranks) as i32;
                    let (count, counts) = (counts.part(rank), counts.peers(rank));
                    (
                        &out[rank],
                        tiles.peers(rank),
                        count,
                        counts,
                        rank as i32,
                        next,
                    )
                })
                .unwrap_or_else(|error| panic!("{ranks} ranks, seed {seed}: {error}"));
            for (rank, out) in out.iter().enumerate() {
                let wanted: Vec<i32> = (0..64).map(|at| rank as i32 * 1000 + at).collect();
                assert_eq!(out.to_vec().expect("it is read"), wanted);
            }
        }
    }
}

/// The next rank is signalled unless `quiet` is this one; every rank waits for the one before, for `limit` ns.
#[kernel(warps = 4, cooperative)]
fn hand_over_within(
    own: Ptr<i32>,
    all: PeerMap<i32>,
    counts: Ptr<i32>,
    counts_of: PeerMap<i32>,
    next: i32,
    is_quiet: i32,
    limit: i64,
    late: Ptr<i64>,
) {
    let signals = Signals::new(counts, counts_of).within(limit, late);
    let at = arange(0..32, Coalesced);
    all.of(next).at(at).store(at + next);
    if is_quiet == 0 {
        signals.signal(next, scalar(2), scalar(3));
    }
    signals.wait(scalar(2), scalar(3));
    own.at(at + 32).store(own.at(at).load());
}

/// Ends with what the launch does, what ranks said, and what they got.
fn hands_over_within(
    ranks: usize,
    seed: u64,
    quiet: Option<usize>,
    limit: i64,
) -> (Result<(), Error>, Vec<i64>, Vec<Vec<i32>>) {
    let compiled = hand_over_within.compile(&Compiler::default());
    let world = emulators(ranks, seed);
    let kernel = world
        .load(&compiled.expect("it compiles"))
        .expect("it loads");
    let numbers = world.symmetric::<i32>(64).expect("memory");
    let counts = world.symmetric::<i32>(3).expect("memory");
    let devices = world.devices().iter();
    let late: Vec<MappedBuffer<i64>> = devices
        .map(|device| MappedBuffer::zeros(device, 1).expect("memory of the host"))
        .collect();
    let result = kernel.launch(&world, grid(1), |rank| {
        let next = ((rank + 1) % ranks) as i32;
        let (own, all) = (numbers.part(rank), numbers.peers(rank));
        let is_quiet = i32::from(quiet == Some(rank));
        let (count, counts) = (counts.part(rank), counts.peers(rank));
        (own, all, count, counts, next, is_quiet, limit, &late[rank])
    });
    let said = late
        .iter()
        .map(|word| word.read(0..1).expect("it is read")[0]);
    let got = (0..ranks).map(|rank| numbers.part(rank).to_vec().expect("it is read"));
    (result, said.collect(), got.collect())
}

#[test]
fn a_limit_changes_nothing_where_signals_come() {
    for (ranks, seed) in runs() {
        let (result, said, got) = hands_over_within(ranks, seed, None, 1_000_000_000);
        result.unwrap_or_else(|error| panic!("{ranks} ranks, seed {seed}: {error}"));
        assert_eq!(said, vec![0; ranks]);
        for (rank, got) in (0..).zip(got) {
            let wanted: Vec<i32> = (rank..rank + 32).collect();
            assert_eq!(got[32..], wanted);
        }
    }
}

#[test]
fn a_wait_past_its_limit_names_the_slot_and_ends_the_kernel() {
    for (ranks, seed) in runs() {
        let (result, said, _) = hands_over_within(ranks, seed, Some(0), 20);
        let Err(Error::Fault(fault)) = result else {
            panic!("{ranks} ranks, seed {seed}: it ends with an error");
        };
        let shown = tilekit::report::fault_diagnostic(&fault);
        assert_eq!(
            shown.code,
            Code::DeviceAssert,
            "{ranks} ranks, seed {seed}: {fault}"
        );
        // The emulator ends all ranks with the first trap. Rank 1 waits for rank 0, and others may be late, too.
        assert!(said.contains(&(2 << 32 | 3)), "{said:?}");
        assert!(
            said.iter().all(|&word| word == 0 || word == 2 << 32 | 3),
            "{said:?}"
        );
    }
}

#[test]
fn a_rank_that_never_signals_is_a_deadlock_before_a_long_limit() {
    let (result, said, _) = hands_over_within(2, 0, Some(0), i64::MAX);
    let text = result.expect_err("it is reported").to_string();
    assert!(text.contains("no kernel has written it"), "{text}");
    assert_eq!(said, [0, 0]);
}
