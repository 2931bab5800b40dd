//! Names of one tile that overlap, or do not.

use emulator::FaultKind::{Race, Uninitialised};
use tilekit::prelude::*;

use crate::{line, plain};

said!("aliases.rs", [Race, Uninitialised]);

/// One partition stores into all of a tile or its first half, another one loads the second half, without a wait or behind it.
#[kernel(warps = 4, instances(<true, true>, <true, false>, <false, true>, <false, false>))]
fn half<const OVERLAPS: bool, const WAITS: bool>(x: Ptr<i32>, out: Ptr<i32>) {
    let tile = Smem::alloc_with(x.at(arange(0..256, line())).load(), plain());
    let full = Mbarrier::alloc(1);
    let last = tile.slice(0, 128..256);
    warp_specialize()
        .main(|| {
            if OVERLAPS {
                tile.store(arange(0..256, line())); // half: stores
            } else {
                tile.slice(0, 0..128).store(arange(0..128, line()));
            }
            full.arrive();
        })
        .worker(Warps(4), || {
            if WAITS {
                full.wait(0);
            }
            out.at(arange(0..128, line())).store(last.load(line())); // half: loads
        })
        .run();
}

#[test]
fn what_overlaps_needs_a_wait_and_the_rest_does_not() {
    let said = said(&["half: stores", "half: loads"]);
    said.of(1, half::<true, false>, half::<true, true>);
    said.of(1, half::<true, false>, half::<false, true>);
    said.of(1, half::<true, false>, half::<false, false>);
}

/// The same with a copy of threads in flight, which the first partition waits for before it arrives, or does not; the second one stores.
#[kernel(warps = 4, instances(<true, true>, <true, false>, <false, true>, <false, false>))]
fn half_copied<const OVERLAPS: bool, const WAITS: bool>(x: Ptr<i32>, out: Ptr<i32>) {
    let tile = Smem::<i32>::alloc([256], plain());
    let full = Mbarrier::alloc(1);
    let last = tile.slice(0, 128..256);
    warp_specialize()
        .main(|| {
            if OVERLAPS {
                x.at(arange(0..256, line())).copy_to(tile); // copied: copies
            } else {
                x.at(arange(0..128, line())).copy_to(tile.slice(0, 0..128));
            }
            async_copy_commit();
            if WAITS {
                async_copy_wait(0);
            }
            full.arrive();
            async_copy_wait(0);
        })
        .worker(Warps(4), || {
            full.wait(0);
            last.store(arange(0..128, line())); // copied: stores
            out.store(1);
        })
        .run();
}

#[test]
fn what_overlaps_a_copy_is_stored_into_after_it() {
    let said = said(&["copied: copies", "copied: stores"]);
    said.of(1, half_copied::<true, false>, half_copied::<true, true>);
    said.of(1, half_copied::<true, false>, half_copied::<false, true>);
    said.of(1, half_copied::<true, false>, half_copied::<false, false>);
}

/// All of a tile is stored, and its second half loaded over that; who waits for the load sees that and need not know of the store.
#[kernel(warps = 4, instances(<true>, <false>))]
fn half_loaded<const WRONG: bool>(x: Ptr<i32>, out: Ptr<i32>) {
    let tile = Smem::<i32>::alloc([256], plain());
    let full = Mbarrier::alloc(1);
    let last = tile.slice(0, 128..256);
    warp_specialize()
        .main(|| {
            tile.store(arange(0..256, line())); // loaded: stores
            fence_async_shared();
            let copy = x.bulk(0);
            full.expect(copy.bytes_into(last));
            copy.load(last, full); // loaded: copies
        })
        .worker(Warps(4), || {
            if !WRONG {
                full.wait(0);
            }
            out.at(arange(0..128, line())).store(last.load(line())); // loaded: reads
            if WRONG {
                full.wait(0);
            }
        })
        .run();
}

#[test]
fn a_load_over_a_store_is_what_its_readers_wait_for() {
    let said = said(&["loaded: stores", "loaded: copies", "loaded: reads"]);
    said.of(1, half_loaded::<true>, half_loaded::<false>);
}
