//! Partitions that hand tiles to each other once.

use emulator::FaultKind::{Race, Uninitialised, Wgmma as Products};
use tilekit::prelude::*;

use crate::{line, plain};

said!("partitions.rs", [Race, Uninitialised, Products]);

fn of(warps: u32) -> Blocked {
    Blocked::new([1], [32], [warps], [0])
}

/// Partitions of four warps, two and one load a tile, and each has a barrier; one of eight stores when all have arrived. It waits for all barriers
/// but `MISSING`.
#[kernel(warps = 4, instances(<0>, <1>, <2>, <3>))]
fn readers_of_any_size<const MISSING: usize>(_x: Ptr<i32>, out: Ptr<i32>) {
    let tile = Smem::alloc_with(arange(0..128, line()), plain());
    let empty = Mbarriers::alloc(3, Arrivals(1));
    let read = move |place: i32| {
        let layout = of(num_warps() as u32);
        let at = arange(0..128, layout.clone()) + place * 128;
        out.at(at).store(tile.load(layout)); // any size: loads
        empty.index(place).arrive();
    };
    warp_specialize()
        .main(|| read(0))
        .worker(Warps(2), move || read(1))
        .worker(Warps(1), move || read(2))
        .worker(Warps(8), || {
            for place in 0..3 {
                if place != MISSING {
                    empty.index(place as i32).wait(0);
                }
            }
            tile.store(arange(0..128, of(8)) + 1); // any size: stores
        })
        .run();
}

#[test]
fn a_store_waits_for_readers_of_any_size() {
    let said = said(&["any size: loads", "any size: stores"]);
    said.of(1, readers_of_any_size::<0>, readers_of_any_size::<3>);
    said.of(1, readers_of_any_size::<1>, readers_of_any_size::<3>);
    said.of(1, readers_of_any_size::<2>, readers_of_any_size::<3>);
}

/// Two partitions load and arrive at one barrier, for which a third waits, or does not.
#[kernel(warps = 4, instances(<true>, <false>))]
fn no_wait_for_readers<const WRONG: bool>(_x: Ptr<i32>, out: Ptr<i32>) {
    let tile = Smem::alloc_with(arange(0..128, line()), plain());
    let empty = Mbarrier::alloc(2);
    let read = move |place: i32| {
        let at = arange(0..128, line()) + place * 128;
        out.at(at).store(tile.load(line())); // no wait: loads
        empty.arrive();
    };
    warp_specialize()
        .main(|| read(0))
        .worker(Warps(4), move || read(1))
        .worker(Warps(4), || {
            if !WRONG {
                empty.wait(0);
            }
            tile.store(arange(0..128, line()) + 1); // no wait: stores
        })
        .run();
}

#[test]
fn a_store_waits_for_the_barrier_of_both_readers() {
    let said = said(&["no wait: loads", "no wait: stores"]);
    said.of(1, no_wait_for_readers::<true>, no_wait_for_readers::<false>);
}

/// Two partitions copy into rings of their own; one reads from the ring of the other.
#[kernel(warps = 4, instances(<true>, <false>))]
fn rings_of_their_own<const WRONG: bool>(x: Ptr<i32>, out: Ptr<i32>) {
    let tiles = Smem::<i32>::alloc([4, 128], plain());
    let add_up = move |base: i32, from: i32| {
        let at = arange(0..128, line());
        let fetch = |stage: Scalar<i32>| {
            x.at(at).copy_to(tiles.index(stage + base)); // own rings: copies
            async_copy_commit();
        };
        fetch(scalar(0));
        let mut sum = at;
        for step in range(1, 9) {
            fetch(step % 2);
            async_copy_wait(1);
            sum += tiles.index((step + 1) % 2 + from).load(line()); // own rings: reads
        }
        async_copy_wait(0);
        out.at(at + base * 64).store(sum);
    };
    warp_specialize()
        .main(|| add_up(0, 0))
        .worker(Warps(4), move || add_up(2, if WRONG { 0 } else { 2 }))
        .run();
}

#[test]
fn a_partition_reads_the_copies_that_it_has_waited_for() {
    let said = said(&["own rings: copies", "own rings: reads"]);
    said.of(1, rings_of_their_own::<true>, rings_of_their_own::<false>);
}

/// Of two groups of copies one is waited for and handed on; the other partition reads that one, or the other one.
#[kernel(warps = 4, instances(<1>, <0>))]
fn handed_on<const READ: i32>(x: Ptr<i32>, out: Ptr<i32>) {
    let tiles = Smem::<i32>::alloc([2, 128], plain());
    let full = Mbarrier::alloc(1);
    warp_specialize()
        .main(|| {
            for stage in 0..2 {
                x.at(arange(0..128, line())).copy_to(tiles.index(stage)); // handed on: copies
                async_copy_commit();
            }
            async_copy_wait(1);
            full.arrive();
            async_copy_wait(0);
        })
        .worker(Warps(4), || {
            full.wait(0);
            let at = arange(0..128, line());
            out.at(at).store(tiles.index(READ).load(line())); // handed on: reads
        })
        .run();
}

#[test]
fn an_arrival_hands_on_the_groups_that_were_waited_for() {
    let said = said(&["handed on: copies", "handed on: reads"]);
    said.of(1, handed_on::<1>, handed_on::<0>);
}

/// Of two products one is waited for; the other partition writes the operand of that one, or of the other.
#[kernel(warps = 4, instances(<1>, <0>))]
fn freed<const WRITTEN: i32>(_x: Ptr<i32>, out: Ptr<i32>) {
    let rows = || Blocked::new([1, 16], [8, 4], [4, 1], [1, 0]);
    let a = Smem::<f16>::alloc([2, 64, 64], Nvmma::B128);
    let b = Smem::<f16>::alloc_with(full([64, 64], 1.0, rows()), Nvmma::B128);
    a.index(0).store(full([64, 64], 1.0, rows()));
    a.index(1).store(full([64, 64], 1.0, rows()));
    fence_async_shared();
    let empty = Mbarrier::alloc(1);
    warp_specialize()
        .main(|| {
            let mut acc = Accumulator::<f32>::zeros([64, 64], Wgmma::new([4, 1], [64, 64, 16]));
            acc = acc.mma(a.index(0), b);
            acc = acc.mma(a.index(1), b); // freed: multiplies
            acc = acc.wait(1);
            empty.arrive();
            let total = acc.wait_all().sum(1).sum(0);
            out.store(total.scalar().cast::<i32>());
        })
        .worker(Warps(4), || {
            empty.wait(0);
            a.index(WRITTEN).store(full([64, 64], 2.0, rows())); // freed: writes
        })
        .run();
}

#[test]
fn an_arrival_frees_the_operands_of_products_that_were_waited_for() {
    let said = said(&["freed: multiplies", "freed: writes"]);
    said.of(1, freed::<1>, freed::<0>);
}

/// A partition fills a tile that another one stores by TMA. The fence stands nowhere, behind the arrival, before it, or with the consumer.
#[kernel(warps = 4, instances(<0>, <1>, <2>, <3>))]
fn fenced<const WHERE: usize>(_x: Ptr<i32>, out: Ptr<i32>) {
    let tile = Smem::<i32>::alloc([128], plain());
    let full = Mbarrier::alloc(1);
    warp_specialize()
        .main(|| {
            tile.store(arange(0..128, line()));
            if WHERE == 2 {
                fence_async_shared();
            }
            full.arrive(); // fenced: arrives
            if WHERE == 1 {
                fence_async_shared();
            }
        })
        .worker(Warps(4), || {
            full.wait(0);
            if WHERE == 3 {
                fence_async_shared();
            }
            out.bulk(0).store(tile);
            tma_store_wait(0);
        })
        .run();
}

/// The compiler refuses it at the arrival. With the consumer it would be right too, which the compiler does not look for.
#[test]
fn a_fence_of_the_proxies_stands_between_the_store_and_the_arrival() {
    fn refused<H>(kernel: impl Kernel<H>) {
        match kernel.compile(&Compiler::default()) {
            Err(tilekit::Error::Kernel(diagnostics)) => {
                let text = format!("{diagnostics:?}");
                assert!(text.contains("before the writes here are fenced"), "{text}");
            }
            other => panic!("no fence, and {:?}", other.map(|_| "it is compiled")),
        }
    }
    refused(fenced::<0>);
    refused(fenced::<1>);
    refused(fenced::<3>);
    for seed in 0..crate::SEEDS {
        let fault = crate::fault_of(seed, fenced::<2>, 1);
        assert!(fault.is_none(), "seed {seed}: {}", fault.unwrap());
    }
}
