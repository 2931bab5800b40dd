//! Copies into one tile or out of it, by threads and by TMA.

use emulator::FaultKind::{Race, Uninitialised};
use tilekit::prelude::*;

use crate::consan::{SIDE, fault_of_maps};
use crate::{line, plain};

said!("copies.rs", [Race, Uninitialised]);

/// Threads copy into one tile twice, and have not waited for the first copy.
#[kernel(warps = 4, instances(<true>, <false>))]
fn copied_twice<const WRONG: bool>(x: Ptr<i32>, out: Ptr<i32>) {
    let tile = Smem::<i32>::alloc([128], plain());
    let at = arange(0..128, line());
    x.at(at).copy_to(tile); // twice: first
    async_copy_commit();
    if !WRONG {
        async_copy_wait(0);
    }
    x.at(at + 128).copy_to(tile); // twice: second
    async_copy_commit();
    async_copy_wait(0);
    out.at(at).store(tile.load(line()));
}

#[test]
fn a_tile_is_copied_over_after_the_last_copy() {
    let said = said(&["twice: first", "twice: second"]);
    said.of(1, copied_twice::<true>, copied_twice::<false>);
}

/// Three groups of copies; the third goes where the first went.
#[kernel(warps = 4, instances(<2>, <1>))]
fn third_group<const IN_FLIGHT: usize>(x: Ptr<i32>, out: Ptr<i32>) {
    let tiles = Smem::<i32>::alloc([2, 128], plain());
    let at = arange(0..128, line());
    for stage in 0..2 {
        x.at(at).copy_to(tiles.index(stage)); // groups: first
        async_copy_commit();
    }
    async_copy_wait(IN_FLIGHT);
    x.at(at).copy_to(tiles.index(0)); // groups: third
    async_copy_commit();
    async_copy_wait(0);
    out.at(at).store(tiles.index(0).load(line()));
}

#[test]
fn a_wait_for_older_groups_frees_their_tiles_alone() {
    let said = said(&["groups: first", "groups: third"]);
    said.of(1, third_group::<2>, third_group::<1>);
}

/// Two stores in flight, of which one has been waited for.
#[kernel(warps = 4, instances(<true>, <false>))]
fn two_stores<const WRONG: bool>(_x: Ptr<i32>, out: Ptr<i32>) {
    let tiles = Smem::<i32>::alloc([2, 128], plain());
    let at = arange(0..128, line());
    tiles.index(0).store(at);
    tiles.index(1).store(at + 1);
    fence_async_shared();
    out.bulk(0).store(tiles.index(0));
    out.bulk(128).store(tiles.index(1)); // two stores: second
    tma_store_wait_read(1);
    if !WRONG {
        tma_store_wait_read(0);
    }
    tiles.index(1).store(at + 3); // two stores: writes
    tma_store_wait(0);
}

#[test]
fn a_wait_for_older_stores_frees_their_tiles_alone() {
    let said = said(&["two stores: second", "two stores: writes"]);
    said.of(1, two_stores::<true>, two_stores::<false>);
}

/// A block of a tensor by TMA, read before its phase has ended.
#[kernel(warps = 4, instances(<true>, <false>))]
fn block<const WRONG: bool>(
    #[block([SIDE, SIDE], Nvmma::B128)] a: TensorMap<f16>,
    #[block([SIDE, SIDE], Nvmma::B128)] b: TensorMap<f16>,
    out: Ptr<f32>,
) {
    let tile = Smem::<f16>::alloc(a.block(), a.layout());
    let other = Smem::<f16>::alloc(b.block(), b.layout());
    let full = Mbarrier::alloc(1);
    full.expect(a.block_bytes() + b.block_bytes());
    a.load([0, 0], tile, full); // block: copies
    b.load([0, 0], other, full);
    if !WRONG {
        full.wait(0);
    }
    let rows = Blocked::new([1, 16], [8, 4], [4, 1], [1, 0]);
    let total = tile.load(rows).cast::<f32>().sum(1).sum(0); // block: reads
    if WRONG {
        full.wait(0);
    }
    out.store(total.scalar());
}

#[test]
fn a_block_of_a_tensor_is_read_after_its_load() {
    said(&["block: copies", "block: reads"]).of_runs(
        |seed| fault_of_maps(seed, block::<true>),
        |seed| fault_of_maps(seed, block::<false>),
    );
}

/// Loads of two barriers; both tiles are read after the phase of one, or of both.
#[kernel(warps = 4, instances(<true>, <false>))]
fn both_tiles<const WRONG: bool>(x: Ptr<i32>, out: Ptr<i32>) {
    let tiles = Smem::<i32>::alloc([2, 128], plain());
    let full = Mbarriers::alloc(2, Arrivals(1));
    let at = arange(0..128, line());
    for stage in 0..2 {
        full.index(stage).expect(tiles.index(stage).bytes());
        x.bulk(stage * 128)
            .load(tiles.index(stage), full.index(stage)); // both: copies
    }
    full.index(0).wait(0);
    if !WRONG {
        full.index(1).wait(0);
    }
    out.at(at).store(tiles.index(0).load(line()));
    out.at(at + 128).store(tiles.index(1).load(line())); // both: reads
    if WRONG {
        full.index(1).wait(0);
    }
}

#[test]
fn each_tile_is_read_after_the_phase_of_its_barrier() {
    let said = said(&["both: copies", "both: reads"]);
    said.of(1, both_tiles::<true>, both_tiles::<false>);
}

/// Two loads into one tile. Which one is there in the end is not known before the first is waited for, whichever is waited for later.
#[kernel(warps = 4, instances(<0>, <1>, <2>))]
fn overwritten<const HOW: usize>(x: Ptr<i32>, out: Ptr<i32>) {
    let tile = Smem::<i32>::alloc([128], plain());
    let full = Mbarriers::alloc(2, Arrivals(1));
    let (first, last) = (full.index(0), full.index(1));
    first.expect(tile.bytes());
    x.bulk(0).load(tile, first); // overwritten: first
    if HOW == 2 {
        first.wait(0);
    }
    last.expect(tile.bytes());
    x.bulk(128).load(tile, last); // overwritten: second
    if HOW == 0 {
        first.wait(0);
    } else {
        last.wait(0);
    }
    out.at(arange(0..128, line())).store(tile.load(line())); // overwritten: reads
    if HOW == 0 {
        last.wait(0);
    } else {
        first.wait(0);
    }
}

#[test]
fn a_tile_is_loaded_again_after_its_first_load() {
    let said = said(&[
        "overwritten: first",
        "overwritten: second",
        "overwritten: reads",
    ]);
    said.of(1, overwritten::<0>, overwritten::<2>);
    said.of(1, overwritten::<1>, overwritten::<2>);
}
