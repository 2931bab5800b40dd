//! CTAs of a cluster that copy into each other's tiles, or read them.

use emulator::FaultKind::{Deadlock, Mbarrier as Misuse, Race};
use tilekit::prelude::*;

use crate::{line, plain};

said!("clusters.rs");

/// A CTA stores into a tile while a multicast may still write it: a barrier of the cluster waits for no copy.
#[kernel(warps = 4, cluster = 2, instances(<true>, <false>))]
fn stored_under_a_multicast<const WRONG: bool>(x: Ptr<i32>, out: Ptr<i32>) {
    let tile = Smem::<i32>::alloc([128], plain());
    let full = Mbarrier::alloc(1);
    full.expect(tile.bytes());
    cluster_barrier();
    let copy = x.bulk(0).multicast(0b11).when(cluster_rank() == 0);
    copy.load(tile, full); // under: copies
    if !WRONG {
        full.wait(0);
    }
    cluster_barrier();
    tile.store(arange(0..128, line())); // under: stores
    if WRONG {
        full.wait(0);
    }
    let at = cluster_rank() * 128 + arange(0..128, line());
    out.at(at).store(tile.load(line())); // under: reads
    cluster_barrier();
}

#[test]
fn a_tile_is_stored_into_after_what_was_multicast_to_it() {
    let said = said(&[Race], &["under: copies", "under: stores", "under: reads"]);
    said.of(
        2,
        stored_under_a_multicast::<true>,
        stored_under_a_multicast::<false>,
    );
}

/// A barrier of the cluster orders the reads before it, and none of those after it.
#[kernel(warps = 4, cluster = 4, instances(<true>, <false>))]
fn read_behind_the_barrier<const WRONG: bool>(x: Ptr<i32>, out: Ptr<i32>) {
    let tile = Smem::alloc_with(arange(0..128, line()), plain());
    let full = Mbarrier::alloc(1);
    full.expect(tile.bytes());
    fence_async_shared();
    if WRONG {
        cluster_barrier();
    }
    let at = cluster_rank() * 128 + arange(0..128, line());
    out.at(at).store(tile.load(line())); // behind: reads
    if !WRONG {
        cluster_barrier();
    }
    let copy = x.bulk(0).multicast(0b1111).when(cluster_rank() == 0);
    copy.load(tile, full); // behind: copies
    full.wait(0);
    out.at(at + 512).store(tile.load(line())); // behind: reads again
    cluster_barrier();
}

#[test]
fn a_multicast_follows_the_reads_of_all_ctas() {
    let said = said(
        &[Race],
        &["behind: reads", "behind: copies", "behind: reads again"],
    );
    said.of(
        4,
        read_behind_the_barrier::<true>,
        read_behind_the_barrier::<false>,
    );
}

/// Each CTA reads what the other has in its tile. `HOW`: 0 without a barrier between the store and the read, 1 with a relaxed one, 2 without one between the
/// read and the next store, 3 right, 4 with a relaxed one there.
#[kernel(warps = 4, cluster = 2, instances(<0>, <1>, <2>, <3>, <4>))]
fn read_by_the_peer<const HOW: usize>(_x: Ptr<i32>, out: Ptr<i32>) {
    let tile = Smem::<i32>::alloc([128], plain());
    let (rank, at) = (cluster_rank(), arange(0..128, line()));
    cluster_barrier();
    tile.store(at + rank); // peer: stores
    match HOW {
        0 => {}
        1 => cluster_barrier_relaxed(),
        _ => cluster_barrier(),
    }
    let seen = tile.in_cta(rank ^ 1).load(line()); // peer: reads
    match HOW {
        2 => {}
        4 => cluster_barrier_relaxed(),
        _ => cluster_barrier(),
    }
    tile.store(seen); // peer: stores again
    cluster_barrier();
    out.at(at + rank * 128).store(tile.load(line()));
}

#[test]
fn a_tile_is_read_by_another_cta_between_barriers() {
    let marks = ["peer: stores", "peer: reads", "peer: stores again"];
    // Before anything is stored there, it is read as what is not written, and then the store races with that.
    let kinds = [Race, emulator::FaultKind::Uninitialised];
    let said = said(&kinds, &marks);
    said.of(2, read_by_the_peer::<0>, read_by_the_peer::<3>);
    said.of(2, read_by_the_peer::<1>, read_by_the_peer::<3>);
    said.of(2, read_by_the_peer::<2>, read_by_the_peer::<3>);
    said.of(2, read_by_the_peer::<4>, read_by_the_peer::<3>);
}

/// Each CTA writes into the tile of the other one, asynchronously; the tile's barrier expects so many bytes more.
#[kernel(warps = 4, cluster = 2, instances(<4>, <-4>, <0>))]
fn sent<const MORE: i32>(_x: Ptr<i32>, out: Ptr<i32>) {
    let tile = Smem::<i32>::alloc([128], plain());
    let full = Mbarrier::alloc(1); // sent: made
    full.expect(tile.bytes() as i32 + MORE); // sent: expects
    cluster_barrier();
    let (rank, at) = (cluster_rank(), arange(0..128, line()));
    tile.in_cta(rank ^ 1).store_async(at, full); // sent: stores
    full.wait(0); // sent: waits
    out.at(at + rank * 128).store(tile.load(line())); // sent: reads
    cluster_barrier();
}

#[test]
fn a_tile_expects_the_bytes_that_are_sent_to_it() {
    let marks = [
        "sent: made",
        "sent: expects",
        "sent: stores",
        "sent: waits",
        "sent: reads",
    ];
    said(&[Deadlock], &marks).of(2, sent::<4>, sent::<0>);
    let kinds = [Deadlock, Misuse, Race, emulator::FaultKind::Uninitialised];
    said(&kinds, &marks).of(2, sent::<-4>, sent::<0>);
}
