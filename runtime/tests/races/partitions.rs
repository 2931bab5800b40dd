//! Warp-specialized partitions that exchange tiles.

use emulator::FaultKind::{Deadlock, Mbarrier as Misuse, Race, Uninitialised, Wgmma as Products};
use tilekit::prelude::*;

use crate::{line, plain};

said!(
    "partitions.rs",
    [Race, Uninitialised, Misuse, Deadlock, Products]
);

/// A store, an arrival, a wait and a load.
#[kernel(warps = 4, instances(<true>, <false>))]
fn store_wait_load<const WRONG: bool>(_x: Ptr<i32>, out: Ptr<i32>) {
    let tile = Smem::<i32>::alloc([128], plain());
    let full = Mbarrier::alloc(1);
    warp_specialize()
        .main(|| {
            tile.store(arange(0..128, line())); // swl: stores
            full.arrive();
        })
        .worker(Warps(4), || {
            if !WRONG {
                full.wait(0);
            }
            out.at(arange(0..128, line())).store(tile.load(line())); // swl: loads
        })
        .run();
}

#[test]
fn a_load_waits_for_the_store() {
    let said = said(&["swl: stores", "swl: loads"]);
    said.of(1, store_wait_load::<true>, store_wait_load::<false>);
}

/// A load, an arrival, a wait and a store.
#[kernel(warps = 4, instances(<true>, <false>))]
fn load_wait_store<const WRONG: bool>(_x: Ptr<i32>, out: Ptr<i32>) {
    let tile = Smem::alloc_with(arange(0..128, line()), plain());
    let empty = Mbarrier::alloc(1);
    warp_specialize()
        .main(|| {
            out.at(arange(0..128, line())).store(tile.load(line())); // lws: loads
            empty.arrive();
        })
        .worker(Warps(4), || {
            if !WRONG {
                empty.wait(0);
            }
            tile.store(arange(0..128, line()) + 1); // lws: stores
        })
        .run();
}

#[test]
fn a_store_waits_for_the_load() {
    let said = said(&["lws: loads", "lws: stores"]);
    said.of(1, load_wait_store::<true>, load_wait_store::<false>);
}

/// Two partitions load, and a third stores when both have arrived at one barrier.
#[kernel(warps = 4, instances(<1>, <2>))]
fn two_loads_one_barrier<const ARRIVALS: u32>(_x: Ptr<i32>, out: Ptr<i32>) {
    let tile = Smem::alloc_with(arange(0..128, line()), plain());
    let empty = Mbarrier::alloc(ARRIVALS); // one of two: made
    let read = move |place: i32| {
        out.at(arange(0..128, line()) + place * 128)
            .store(tile.load(line())); // one of two: loads
        empty.arrive(); // one of two: arrives
    };
    warp_specialize()
        .main(|| read(0))
        .worker(Warps(4), move || read(1))
        .worker(Warps(4), || {
            empty.wait(0);
            tile.store(arange(0..128, line()) + 1); // one of two: stores
        })
        .run();
}

#[test]
fn a_barrier_counts_both_readers() {
    let said = said(&[
        "one of two: made",
        "one of two: loads",
        "one of two: arrives",
        "one of two: stores",
    ]);
    said.of(1, two_loads_one_barrier::<1>, two_loads_one_barrier::<2>);
}

/// The same with a barrier for each of the two.
#[kernel(warps = 4, instances(<true>, <false>))]
fn two_loads_two_barriers<const WRONG: bool>(_x: Ptr<i32>, out: Ptr<i32>) {
    let tile = Smem::alloc_with(arange(0..128, line()), plain());
    let empty = Mbarriers::alloc(2, Arrivals(1));
    let read = move |place: i32| {
        out.at(arange(0..128, line()) + place * 128)
            .store(tile.load(line())); // of each: loads
        empty.index(place).arrive();
    };
    warp_specialize()
        .main(|| read(0))
        .worker(Warps(4), move || read(1))
        .worker(Warps(4), || {
            empty.index(0).wait(0);
            if !WRONG {
                empty.index(1).wait(0);
            }
            tile.store(arange(0..128, line()) + 1); // of each: stores
        })
        .run();
}

#[test]
fn a_store_waits_for_the_barrier_of_each_reader() {
    let said = said(&["of each: loads", "of each: stores"]);
    said.of(
        1,
        two_loads_two_barriers::<true>,
        two_loads_two_barriers::<false>,
    );
}

/// The arrival comes before the load that it should follow.
#[kernel(warps = 4, instances(<true>, <false>))]
fn load_ordering<const WRONG: bool>(_x: Ptr<i32>, out: Ptr<i32>) {
    let tile = Smem::alloc_with(arange(0..128, line()), plain());
    let empty = Mbarrier::alloc(1);
    warp_specialize()
        .main(|| {
            if WRONG {
                empty.arrive();
            }
            out.at(arange(0..128, line())).store(tile.load(line())); // order: loads
            if !WRONG {
                empty.arrive();
            }
        })
        .worker(Warps(4), || {
            empty.wait(0);
            tile.store(arange(0..128, line()) + 1); // order: stores
        })
        .run();
}

#[test]
fn an_arrival_follows_the_load() {
    let said = said(&["order: loads", "order: stores"]);
    said.of(1, load_ordering::<true>, load_ordering::<false>);
}

/// Two producers and two consumers, each with half of a tile: a consumer reads what both have made.
#[kernel(warps = 4, instances(<true>, <false>))]
fn two_producers_two_consumers<const WRONG: bool>(_x: Ptr<i32>, out: Ptr<i32>) {
    let tiles = Smem::<i32>::alloc([2, 128], plain());
    let full = Mbarriers::alloc(2, Arrivals(1));
    let produce = move |half: i32| {
        tiles.index(half).store(arange(0..128, line()) + half); // two by two: stores
        full.index(half).arrive();
    };
    let consume = move |half: i32| {
        full.index(half).wait(0);
        if !WRONG {
            full.index(1 - half).wait(0);
        }
        let sum = tiles.index(0).load(line()) + tiles.index(1).load(line()); // two by two: loads
        out.at(arange(0..128, line()) + half * 128).store(sum);
    };
    warp_specialize()
        .main(|| produce(0))
        .worker(Warps(4), move || produce(1))
        .worker(Warps(4), move || consume(0))
        .worker(Warps(4), move || consume(1))
        .run();
}

#[test]
fn each_consumer_waits_for_both_producers() {
    let said = said(&["two by two: stores", "two by two: loads"]);
    said.of(
        1,
        two_producers_two_consumers::<true>,
        two_producers_two_consumers::<false>,
    );
}

/// Partitions of four warps, of one and of two: all elements of a tile are of the barrier's phase.
#[kernel(warps = 4, instances(<true>, <false>))]
fn different_warp_sizes<const WRONG: bool>(_x: Ptr<i32>, out: Ptr<i32>) {
    let tile = Smem::<i32>::alloc([128], plain());
    let full = Mbarrier::alloc(2);
    let of = |warps: u32| Blocked::new([1], [32], [warps], [0]);
    warp_specialize()
        .main(|| {
            full.wait(0);
            out.at(arange(0..128, line())).store(tile.load(line())); // sizes: loads
        })
        .worker(Warps(1), || {
            tile.slice(0, 0..64).store(arange(0..64, of(1))); // sizes: first
            full.arrive();
        })
        .worker(Warps(2), || {
            if WRONG {
                full.arrive();
            }
            tile.slice(0, 64..128).store(arange(0..64, of(2))); // sizes: second
            if !WRONG {
                full.arrive();
            }
        })
        .run();
}

#[test]
fn partitions_of_any_size_arrive_after_their_stores() {
    let said = said(&["sizes: loads", "sizes: first", "sizes: second"]);
    said.of(
        1,
        different_warp_sizes::<true>,
        different_warp_sizes::<false>,
    );
}

/// Copies of threads are over where those threads have waited for them.
#[kernel(warps = 4, instances(<true>, <false>))]
fn async_commits<const WRONG: bool>(x: Ptr<i32>, out: Ptr<i32>) {
    let tile = Smem::<i32>::alloc([128], plain());
    let full = Mbarrier::alloc(1);
    warp_specialize()
        .main(|| {
            x.at(arange(0..128, line())).copy_to(tile); // commits: copies
            async_copy_commit();
            if !WRONG {
                async_copy_wait(0);
            }
            full.arrive();
            async_copy_wait(0);
        })
        .worker(Warps(4), || {
            full.wait(0);
            out.at(arange(0..128, line())).store(tile.load(line())); // commits: loads
        })
        .run();
}

#[test]
fn a_partition_waits_for_its_copies_before_it_arrives() {
    let said = said(&["commits: copies", "commits: loads"]);
    said.of(1, async_commits::<true>, async_commits::<false>);
}

/// One partition has waited for a load; another one knows of that by an arrival of the first alone.
#[kernel(warps = 4, instances(<true>, <false>))]
fn wait_visibility<const WRONG: bool>(x: Ptr<i32>, out: Ptr<i32>) {
    let tile = Smem::<i32>::alloc([128], plain());
    let full = Mbarrier::alloc(1);
    let seen = Mbarrier::alloc(1);
    full.expect(tile.bytes());
    x.bulk(0).load(tile, full); // visible: copies
    warp_specialize()
        .main(|| {
            full.wait(0);
            seen.arrive();
        })
        .worker(Warps(4), || {
            if !WRONG {
                seen.wait(0);
            }
            out.at(arange(0..128, line())).store(tile.load(line())); // visible: loads
        })
        .run();
}

#[test]
fn what_one_partition_has_waited_for_is_handed_on_by_its_arrival() {
    let said = said(&["visible: copies", "visible: loads"]);
    said.of(1, wait_visibility::<true>, wait_visibility::<false>);
}

/// An operand is free when the partition that multiplies has waited for the product, and arrived.
#[kernel(warps = 4, instances(<true>, <false>))]
fn wgmma_visibility<const WRONG: bool>(_x: Ptr<i32>, out: Ptr<i32>) {
    let rows = || Blocked::new([1, 16], [8, 4], [4, 1], [1, 0]);
    let a = Smem::<f16>::alloc_with(full([64, 64], 1.0, rows()), Nvmma::B128);
    let b = Smem::<f16>::alloc_with(full([64, 64], 1.0, rows()), Nvmma::B128);
    fence_async_shared();
    let empty = Mbarrier::alloc(1);
    warp_specialize()
        .main(|| {
            let mut acc = Accumulator::<f32>::zeros([64, 64], Wgmma::new([4, 1], [64, 64, 16]));
            acc = acc.mma(a, b); // products: multiplies
            if !WRONG {
                acc = acc.wait(0);
            }
            empty.arrive();
            let total = acc.wait_all().sum(1).sum(0);
            out.store(total.scalar().cast::<i32>());
        })
        .worker(Warps(4), || {
            empty.wait(0);
            a.store(full([64, 64], 2.0, rows())); // products: writes
        })
        .run();
}

#[test]
fn a_partition_waits_for_its_products_before_it_frees_their_operands() {
    let said = said(&["products: multiplies", "products: writes"]);
    said.of(1, wgmma_visibility::<true>, wgmma_visibility::<false>);
}
