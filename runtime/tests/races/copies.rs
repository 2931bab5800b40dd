//! TMA, bulk copies and copies by threads.

use emulator::FaultKind::{Deadlock, Mbarrier as Misuse, Race, Uninitialised};
use tilekit::prelude::*;

use crate::{fault_of, fault_on, line, plain};
use tilekit::{Checks, EmulatorOptions};

said!("copies.rs");

#[kernel(warps = 4, instances(<true>, <false>))]
fn load<const WRONG: bool>(x: Ptr<i32>, out: Ptr<i32>) {
    let tile = Smem::<i32>::alloc([128], plain());
    let full = Mbarrier::alloc(1);
    full.expect(tile.bytes());
    x.bulk(0).load(tile, full); // load: copies
    if !WRONG {
        full.wait(0);
    }
    out.at(arange(0..128, line())).store(tile.load(line())); // load: reads
    if WRONG {
        full.wait(0);
    }
}

#[test]
fn a_tile_is_read_after_its_load() {
    let said = said(&[Race, Uninitialised], &["load: copies", "load: reads"]);
    said.of(1, load::<true>, load::<false>);
}

/// Both copies complete the phase.
#[kernel(warps = 4, instances(<true>, <false>))]
fn two_buffers_one_barrier<const WRONG: bool>(x: Ptr<i32>, out: Ptr<i32>) {
    let tiles = Smem::<i32>::alloc([2, 128], plain());
    let full = Mbarrier::alloc(1);
    full.expect(tiles.bytes());
    x.bulk(0).load(tiles.index(0), full);
    x.bulk(128).load(tiles.index(1), full); // one barrier: copies
    let at = arange(0..128, line());
    if WRONG {
        out.at(at + 128).store(tiles.index(1).load(line())); // one barrier: reads
    }
    full.wait(0);
    out.at(at)
        .store(tiles.index(0).load(line()) + tiles.index(1).load(line()));
}

#[test]
fn two_tiles_of_one_barrier_are_read_after_its_phase() {
    let said = said(
        &[Race, Uninitialised],
        &["one barrier: copies", "one barrier: reads"],
    );
    said.of(
        1,
        two_buffers_one_barrier::<true>,
        two_buffers_one_barrier::<false>,
    );
}

#[kernel(warps = 4, instances(<16>, <-16>, <0>))]
fn expects<const MORE: i32>(x: Ptr<i32>, out: Ptr<i32>) {
    let tile = Smem::<i32>::alloc([128], plain());
    let full = Mbarrier::alloc(1); // expects: made
    full.expect(tile.bytes() as i32 + MORE); // expects
    x.bulk(0).load(tile, full); // expects: copies
    full.wait(0); // expects: waits
    out.at(arange(0..128, line())).store(tile.load(line())); // expects: reads
}

#[test]
fn the_bytes_expected_are_those_that_come() {
    let marks = [
        "expects: made",
        "expects",
        "expects: copies",
        "expects: waits",
        "expects: reads",
    ];
    said(&[Deadlock, Misuse], &marks).of(1, expects::<16>, expects::<0>);
    said(&[Deadlock, Misuse, Race, Uninitialised], &marks).of(1, expects::<-16>, expects::<0>);
}

/// Loads of two barriers in turns; each tile is read after the phase of its own.
#[kernel(warps = 4, instances(<true>, <false>))]
fn interleaved<const WRONG: bool>(x: Ptr<i32>, out: Ptr<i32>) {
    let tiles = Smem::<i32>::alloc([2, 128], plain());
    let full = Mbarriers::alloc(2, Arrivals(1));
    let at = arange(0..128, line());
    for stage in 0..2 {
        full.index(stage).expect(tiles.index(stage).bytes());
        x.bulk(stage * 128)
            .load(tiles.index(stage), full.index(stage)); // interleaved: copies
    }
    full.index(if WRONG { 1 } else { 0 }).wait(0);
    out.at(at).store(tiles.index(0).load(line())); // interleaved: reads
    full.index(if WRONG { 0 } else { 1 }).wait(0);
    out.at(at + 128).store(tiles.index(1).load(line()));
}

#[test]
fn a_wait_is_for_the_copies_of_its_barrier_alone() {
    let said = said(
        &[Race, Uninitialised],
        &["interleaved: copies", "interleaved: reads"],
    );
    said.of(1, interleaved::<true>, interleaved::<false>);
}

#[kernel(warps = 4, instances(<true>, <false>))]
fn stored<const WRONG: bool>(x: Ptr<i32>, out: Ptr<i32>) {
    let tile = Smem::alloc_with(x.at(arange(0..128, line())).load(), plain());
    fence_async_shared();
    out.bulk(0).store(tile); // stored: stores
    if !WRONG {
        tma_store_wait_read(0);
    }
    tile.store(arange(0..128, line())); // stored: writes
    tma_store_wait(0);
}

#[test]
fn a_tile_is_written_after_its_store_has_read_it() {
    said(&[Race], &["stored: stores", "stored: writes"]).of(1, stored::<true>, stored::<false>);
}

/// A tile is loaded again while the last store may still read it.
#[kernel(warps = 4, instances(<true>, <false>))]
fn loaded_over_a_store<const WRONG: bool>(x: Ptr<i32>, out: Ptr<i32>) {
    let tile = Smem::<i32>::alloc([128], plain());
    let full = Mbarrier::alloc(1);
    for round in 0..2 {
        full.expect(tile.bytes());
        x.bulk(round * 128).load(tile, full); // over a store: loads
        full.wait(round);
        out.bulk(round * 128).store(tile); // over a store: stores
        if !WRONG {
            tma_store_wait_read(0);
        }
    }
    tma_store_wait(0);
}

#[test]
fn a_tile_is_loaded_after_its_store_has_read_it() {
    let said = said(&[Race], &["over a store: loads", "over a store: stores"]);
    said.of(1, loaded_over_a_store::<true>, loaded_over_a_store::<false>);
}

#[kernel(warps = 4, cluster = 2, instances(<true>, <false>))]
fn multicast<const WRONG: bool>(x: Ptr<i32>, out: Ptr<i32>) {
    let tile = Smem::<i32>::alloc([128], plain());
    let full = Mbarrier::alloc(1);
    full.expect(tile.bytes());
    cluster_barrier();
    let copy = x.bulk(0).multicast(0b11).when(cluster_rank() == 0);
    copy.load(tile, full); // multicast: copies
    let at = cluster_rank() * 128 + arange(0..128, line());
    if WRONG {
        full.wait_when(cluster_rank() == 0, 0);
    } else {
        full.wait(0);
    }
    out.at(at).store(tile.load(line())); // multicast: reads
    full.wait(0);
    cluster_barrier();
}

#[test]
fn each_cta_waits_for_what_is_multicast_to_it() {
    let said = said(
        &[Race, Uninitialised],
        &["multicast: copies", "multicast: reads"],
    );
    said.of(2, multicast::<true>, multicast::<false>);
}

/// The next copy waits until both CTAs have read the last.
#[kernel(warps = 4, cluster = 2, instances(<true>, <false>))]
fn multicast_again<const WRONG: bool>(x: Ptr<i32>, out: Ptr<i32>) {
    let tile = Smem::<i32>::alloc([128], plain());
    let full = Mbarrier::alloc(1); // again: made
    let at = cluster_rank() * 256 + arange(0..128, line());
    for round in 0..2 {
        full.expect(tile.bytes()); // again: expects
        if round == 0 || !WRONG {
            cluster_barrier();
        }
        let copy = x
            .bulk(round * 128)
            .multicast(0b11)
            .when(cluster_rank() == 0);
        copy.load(tile, full); // again: copies
        full.wait(round); // again: waits
        out.at(at + round * 128).store(tile.load(line())); // again: reads
    }
    cluster_barrier();
}

#[test]
fn a_multicast_waits_for_the_readers_of_all_ctas() {
    let marks = [
        "again: made",
        "again: expects",
        "again: copies",
        "again: waits",
        "again: reads",
    ];
    let said = said(&[Race, Misuse, Deadlock, Uninitialised], &marks);
    said.of(2, multicast_again::<true>, multicast_again::<false>);
}

/// A CTA does not end while another one copies into it.
#[kernel(warps = 4, cluster = 2, instances(<true>, <false>))]
fn multicast_to_the_end<const WRONG: bool>(x: Ptr<i32>, out: Ptr<i32>) {
    let tile = Smem::<i32>::alloc([128], plain());
    let full = Mbarrier::alloc(1); // to the end: made
    full.expect(tile.bytes());
    cluster_barrier();
    let copy = x.bulk(0).multicast(0b11).when(cluster_rank() == 0);
    copy.load(tile, full); // to the end: copies
    if WRONG {
        full.wait_when(cluster_rank() == 0, 0);
    } else {
        full.wait(0);
    }
    out.at(arange(0..128, line()))
        .mask(cluster_rank() == 0)
        .store(1); // to the end: stores
}

#[test]
fn a_cta_waits_for_what_is_multicast_to_it_before_it_ends() {
    let marks = [
        "to the end: made",
        "to the end: copies",
        "to the end: stores",
    ];
    let said = said(&[Race, Misuse], &marks);
    said.of(
        2,
        multicast_to_the_end::<true>,
        multicast_to_the_end::<false>,
    );
}

#[kernel(warps = 4, instances(<true>, <false>))]
fn copied_by_threads<const WRONG: bool>(x: Ptr<i32>, out: Ptr<i32>) {
    let tile = Smem::<i32>::alloc([128], plain());
    let at = arange(0..128, line());
    x.at(at).copy_to(tile); // by threads: copies
    async_copy_commit();
    if !WRONG {
        async_copy_wait(0);
    }
    out.at(at).store(tile.load(line())); // by threads: reads
    async_copy_wait(0);
}

#[test]
fn a_tile_is_read_after_the_copies_of_its_threads() {
    let said = said(
        &[Race, Uninitialised],
        &["by threads: copies", "by threads: reads"],
    );
    said.of(1, copied_by_threads::<true>, copied_by_threads::<false>);
}

/// A ring of two stages: the copy that is issued ahead must not go into the stage that is read.
#[kernel(warps = 4, instances(<true>, <false>))]
fn ring_of_copies<const WRONG: bool>(x: Ptr<i32>, out: Ptr<i32>) {
    let tiles = Smem::<i32>::alloc([2, 128], plain());
    let at = arange(0..128, line());
    let fetch = |step: Scalar<i32>, stage: Scalar<i32>| {
        x.at(at + step * 128).copy_to(tiles.index(stage)); // ring: copies
        async_copy_commit();
    };
    fetch(scalar(0), scalar(0));
    for step in range(0, 6) {
        let ahead = if WRONG { step } else { step + 1 };
        fetch(step + 1, ahead % 2);
        async_copy_wait(1);
        out.at(at + step * 128)
            .store(tiles.index(step % 2).load(line())); // ring: reads
    }
    async_copy_wait(0);
}

#[test]
fn a_ring_of_copies_reads_behind_what_is_in_flight() {
    let said = said(&[Race, Uninitialised], &["ring: copies", "ring: reads"]);
    said.of(1, ring_of_copies::<true>, ring_of_copies::<false>);
}

/// The search for races can be switched off, and then says nothing.
#[test]
fn without_the_check_nothing_is_said() {
    let options = EmulatorOptions {
        checks: Checks {
            races: false,
            uninitialised: false,
            ..EmulatorOptions::default().checks
        },
        ..EmulatorOptions::default()
    };
    let device = Device::emulator_with(options);
    assert!(fault_on(&device, stored::<true>, 1).is_none());
    assert!(fault_of(0, stored::<true>, 1).is_some());
}
