//! Several devices that run as one: windows, system scope, writes that arrive late, deadlocks across devices.

use crate::devices_start::{Ranks, WORDS, words};
use emulator::{Emulator, FaultKind, Launch, Right, World, WorldError};

/// Seeds that go through every policy, and once more.
const SEEDS: std::ops::Range<u64> = 0..8;

/// Each rank stores its rank and one to word 1 of the next one, and signals by word 0; then it copies what came to word 2.
const HAND_OVER: &str = "@!%p1 bra $end;
add.u32 %r1, %rank, 1;
st.global.u32 [%next+4], %r1;
red.release.sys.global.add.u32 [%next], 1;
$wait:
ld.relaxed.sys.global.u32 %r2, [%own];
setp.lt.u32 %p2, %r2, 1;
@%p2 bra $wait;
fence.acq_rel.sys;
ld.global.u32 %r3, [%own+4];
st.global.u32 [%own+8], %r3;
$end:";

#[test]
fn ranks_hand_data_on_by_a_release_and_an_acquire_of_the_system() {
    for ranks in [1, 2, 4, 8] {
        for seed in SEEDS {
            let left = Ranks::new(ranks, HAND_OVER).seed(seed).run();
            for (rank, buffer) in left.buffers.iter().enumerate() {
                let before = (rank + ranks - 1) % ranks;
                let expected = [1, before as u32 + 1, before as u32 + 1];
                assert_eq!(buffer[..3], expected, "{ranks} ranks, seed {seed}");
            }
            assert_eq!(left.stats.len(), ranks);
        }
    }
}

/// What the fault of a changed hand-over says, under each seed.
fn races(from: &str, to: &str, expected: &str) {
    let body = HAND_OVER.replace(from, to);
    assert_ne!(body, HAND_OVER);
    for seed in SEEDS {
        let fault = Ranks::new(2, &body).seed(seed).fault();
        assert_eq!(fault.kind, FaultKind::Race, "{fault}");
        let text = fault.to_string();
        assert!(text.contains(expected), "seed {seed}: {text}");
        assert!(
            text.contains("of rank ") && text.contains(", rank "),
            "{text}"
        );
    }
}

#[test]
fn a_flag_of_the_scope_of_the_gpu_races_across_devices() {
    let leaves_out = "the scope of one of the two leaves out other GPUs";
    races("red.release.sys", "red.release.gpu", leaves_out);
    races("ld.relaxed.sys", "ld.relaxed.gpu", leaves_out);
    // On one device it suffices.
    let gpu = HAND_OVER.replace("sys", "gpu");
    Ranks::new(1, &gpu).run();
}

#[test]
fn a_release_or_an_acquire_that_is_missing_is_a_race_of_the_data() {
    let unordered = "nothing orders the two across GPUs";
    races("red.release.sys", "red.relaxed.sys", unordered);
    races("fence.acq_rel.sys;", "", unordered);
    races("fence.acq_rel.sys;", "fence.acq_rel.gpu;", unordered);
}

#[test]
fn an_access_without_the_right_names_rank_address_and_owner() {
    let fault = Ranks::new(2, HAND_OVER).right(None).fault();
    assert_eq!((fault.kind, fault.rank), (FaultKind::PeerAccess, Some(0)));
    let text = fault.to_string();
    let parts = [
        "store of 4 bytes by rank 0 in global memory at 0x710000000004",
        "byte 4 of an allocation of 256 bytes of rank 1",
        "rank 0 has no access to it",
    ];
    assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    let text = Ranks::new(2, HAND_OVER).right(Some(Right::Read)).fault();
    assert!(
        text.to_string().contains("rank 0 may read it only"),
        "{text}"
    );
    let read = "@%p1 ld.global.u32 %r1, [%next];";
    Ranks::new(2, read).right(Some(Right::Read)).run();
    for access in [
        read,
        "@%p1 atom.relaxed.sys.global.add.u32 %r1, [%next], 1;",
        "mov.u32 %r1, tile; @%p1 cp.async.ca.shared.global [%r1], [%next], 4; cp.async.wait_all;",
        "@%p1 st.shared.v4.u32 [tile], {%r0,%r0,%r0,%r0}; fence.proxy.async; mov.u32 %r1, tile; @%p1 cp.async.bulk.global.shared::cta.bulk_group [%next], [%r1], 16; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;",
    ] {
        let fault = Ranks::new(2, access).right(None).fault();
        assert_eq!(fault.kind, FaultKind::PeerAccess, "{fault}");
    }
}

/// A bulk store of 16 bytes to the next rank, then the signal.
const BULK: &str = "@!%p1 bra $end;
add.u32 %r1, %rank, 1;
st.shared.v4.u32 [tile], {%r1,%r1,%r1,%r1};
fence.proxy.async;
mov.u32 %r4, tile;
add.u64 %rd1, %next, 16;
cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r4], 16;
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
red.release.sys.global.add.u32 [%next], 1;
$wait:
ld.acquire.sys.global.u32 %r2, [%own];
setp.lt.u32 %p2, %r2, 1;
@%p2 bra $wait;
ld.global.u32 %r3, [%own+20];
st.global.u32 [%own+8], %r3;
$end:";

#[test]
fn a_bulk_store_is_visible_to_a_peer_after_its_wait_and_a_release() {
    for seed in SEEDS {
        let left = Ranks::new(4, BULK).seed(seed).run();
        for (rank, buffer) in left.buffers.iter().enumerate() {
            assert_eq!(buffer[2], (rank as u32 + 3) % 4 + 1, "seed {seed}");
        }
        for (from, to) in [
            ("wait_group 0", "wait_group.read 0"),
            (
                "cp.async.bulk.wait_group 0;\nred.release.sys.global.add.u32 [%next], 1;",
                "red.release.sys.global.add.u32 [%next], 1;\ncp.async.bulk.wait_group 0;",
            ),
        ] {
            let body = BULK.replace(from, to);
            assert_ne!(body, BULK);
            let fault = Ranks::new(2, &body).seed(seed).fault();
            assert_eq!(fault.kind, FaultKind::Race, "{fault}");
            let text = fault.to_string();
            assert!(
                text.contains("bulk store") && text.contains("of rank"),
                "{text}"
            );
        }
    }
}

/// Rank 0 stores to rank 1, and then sets a flag in its own memory, which rank 1 polls.
fn by_own_flag(release: &str) -> [String; 2] {
    [
        format!("@%p1 st.global.u32 [%next+4], 7; @%p1 st.{release}.sys.global.u32 [%own], 1;"),
        "@!%p1 bra $end;
$wait:
ld.acquire.sys.global.u32 %r2, [%next];
setp.eq.u32 %p2, %r2, 0;
@%p2 bra $wait;
ld.global.u32 %r3, [%own+4];
st.global.u32 [%own+8], %r3;
$end:"
            .to_owned(),
    ]
}

#[test]
fn some_seeds_delay_writes_to_others_and_a_release_waits_for_them() {
    let came = |release: &str, seed| {
        let bodies = by_own_flag(release);
        let bodies = bodies.each_ref().map(String::as_str);
        Ranks::each(&bodies).seed(seed).unchecked().run().buffers[1][2]
    };
    let stale = SEEDS.filter(|&seed| came("relaxed", seed) == 0).count();
    assert!(stale > 0, "no seed shows what a missing release does");
    assert!(SEEDS.into_iter().all(|seed| came("release", seed) == 7));
}

#[test]
fn a_rank_that_nobody_signals_is_a_deadlock_that_names_the_flag_its_value_and_its_writers() {
    let waits_for = |count: u32| HAND_OVER.replace("%r2, 1;", &format!("%r2, {count};"));
    for seed in SEEDS {
        let fault = Ranks::new(2, &waits_for(3)).seed(seed).fault();
        assert_eq!(fault.kind, FaultKind::Deadlock, "{fault}");
        let text = fault.to_string();
        let parts = [
            "deadlock across 2 devices",
            "of rank 0 polls the flag at 0x700000000000, byte 0 of an allocation of 256 bytes of rank 0, which is 1",
            "of rank 1 polls the flag at 0x710000000000, byte 0 of an allocation of 256 bytes of rank 1, which is 1",
            "of rank 1 wrote the flag at 0x700000000000 here: red.release.sys",
            "of rank 0 wrote the flag at 0x710000000000 here: red.release.sys",
        ];
        for part in parts {
            assert!(text.contains(part), "seed {seed}: {part}\n{text}");
        }
        // Rank 0 ends at once.
        let silent = Ranks::each(&["", HAND_OVER]).seed(seed).fault();
        let text = silent.to_string();
        assert_eq!((silent.kind, silent.rank), (FaultKind::Deadlock, Some(1)));
        assert!(
            text.contains("which is 0; no kernel has written it"),
            "{text}"
        );
    }
}

#[test]
fn a_flag_that_a_rank_resets_is_reported() {
    // The signal may precede the reset.
    let body = HAND_OVER.replace(
        "@!%p1 bra $end;",
        "@!%p1 bra $end;\nst.global.u32 [%own], 0;",
    );
    for seed in SEEDS {
        let fault = Ranks::new(2, &body).seed(seed).fault();
        assert_eq!(fault.kind, FaultKind::Race, "{fault}");
    }
    // By a strong store it is no race, and the signal is lost under some seed.
    let body = body.replace(
        "st.global.u32 [%own], 0;",
        "st.relaxed.sys.global.u32 [%own], 0;",
    );
    let is_lost = |seed: &u64| {
        let result = Ranks::new(4, &body).seed(*seed).try_run();
        result.is_err_and(|fault| fault.kind == FaultKind::Deadlock)
    };
    assert!((0..40).any(|seed| is_lost(&seed)));
}

#[test]
fn counts_grow_from_launch_to_launch_and_nothing_is_reset() {
    let ranks = Ranks::new(2, "");
    let (world, buffers) = ranks.world();
    for call in 1..4 {
        let body = HAND_OVER.replace("%r2, 1;", &format!("%r2, {call};"));
        Ranks::new(2, &body).run_in(&world, &buffers).unwrap();
    }
    assert_eq!(words(&world.devices()[0], buffers[0])[0], 3);
}

#[test]
fn a_seed_determines_the_schedule() {
    let polls = |seed| {
        let left = Ranks::new(4, HAND_OVER).seed(seed).run();
        let count = |stats: &emulator::Stats| stats.warp_instructions;
        left.stats.iter().map(count).collect::<Vec<_>>()
    };
    for seed in SEEDS {
        assert_eq!(polls(seed), polls(seed), "seed {seed}");
    }
    assert!(SEEDS.into_iter().any(|seed| polls(seed) != polls(0)));
}

/// Warp 0 of each rank computes for 6000 instructions before it signals; all warps poll for the signal of the rank before it.
const LATE_SIGNAL: &str = "shr.u32 %r1, %r0, 5;
setp.ne.u32 %p2, %r1, 0;
mov.u32 %r4, 0;
@%p2 bra $wait;
$more:
add.u32 %r4, %r4, 1;
setp.lt.u32 %p3, %r4, 2000;
@%p3 bra $more;
@%p1 red.release.sys.global.add.u32 [%next], 1;
$wait:
ld.acquire.sys.global.u32 %r2, [%own];
setp.lt.u32 %p2, %r2, 1;
@%p2 bra $wait;";

#[test]
fn polls_in_vain_do_not_take_the_turns_of_warps_that_could_signal() {
    for seed in SEEDS {
        let mut ranks = Ranks::new(8, LATE_SIGNAL).seed(seed);
        ranks.launch.block = [128, 1, 1];
        let stats = ranks.run().stats;
        let executed: u64 = stats.iter().map(|rank| rank.warp_instructions).sum();
        assert!(executed < 400_000, "seed {seed}: {executed}");
    }
}

#[test]
fn atomics_of_all_ranks_add_up() {
    let body = "ld.global.u64 %rd1, [%all]; red.relaxed.sys.global.add.u32 [%rd1], 1; red.relaxed.sys.global.add.f32 [%rd1+4], 0f3f000000;";
    for seed in SEEDS {
        let left = Ranks::new(4, body).seed(seed).run();
        assert_eq!(left.buffers[0][0], 128);
        assert_eq!(f32::from_bits(left.buffers[0][1]), 64.0);
    }
    let gpu = body.replace("sys", "gpu");
    assert_eq!(Ranks::new(4, &gpu).fault().kind, FaultKind::Race);
}

#[test]
fn worlds_and_launches_that_do_not_fit_are_refused() {
    let error = World::new(0).unwrap_err().to_string();
    assert_eq!(error, "0 devices; 1 to 16 can run as one");
    assert!(World::new(17).is_err());
    let world = World::new(2).unwrap();
    let ranges = (0x7000_0000_0000, 4);
    let error = world.open(0, 1, ranges, Right::Read).unwrap_err();
    assert!(
        matches!(error, WorldError::Memory { rank: 1, .. }),
        "{error}"
    );
    let error = world.open(2, 1, ranges, Right::Read).unwrap_err();
    assert_eq!(error.to_string(), "rank 2 of a world of 2 devices");
    let fault = world.launch(&[]).unwrap_err();
    assert_eq!(fault.kind, FaultKind::Launch);
    let mut ranks = Ranks::new(2, "");
    ranks.launch = Launch {
        beside_host: true,
        ..Launch::default()
    };
    let text = ranks.fault().to_string();
    assert!(text.contains("cannot run beside the host"), "{text}");
}

#[test]
fn a_window_that_is_closed_gives_no_right() {
    let ranks = Ranks::new(2, "@%p1 ld.global.u32 %r1, [%next];");
    let (world, buffers) = ranks.world();
    ranks.run_in(&world, &buffers).unwrap();
    world.close(0, buffers[1]);
    let fault = ranks.run_in(&world, &buffers).unwrap_err();
    assert_eq!((fault.kind, fault.rank), (FaultKind::PeerAccess, Some(0)));
    let memory = Emulator::memory(&world.devices()[1]);
    assert_eq!(memory.used_bytes(), (WORDS * 4 + 2 * 16) as u64);
}
