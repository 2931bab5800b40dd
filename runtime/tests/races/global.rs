//! Global memory: between warps, between CTAs, with copies, and with the launch before.

use emulator::Fault;
use emulator::FaultKind::Race;
use tilekit::prelude::*;

use crate::{LEN, fault_in, line, plain};

said!("global.rs", [Race]);

#[kernel(warps = 4, instances(<true>, <false>))]
fn one_address<const WRONG: bool>(_x: Ptr<i32>, out: Ptr<i32>) {
    let at = if WRONG { scalar(0) } else { program_id(0) };
    out.at(at).store(program_id(0)); // one address
}

#[kernel(warps = 4, instances(<true>, <false>))]
fn increment<const WRONG: bool>(_x: Ptr<i32>, out: Ptr<i32>) {
    if WRONG {
        out.store(out.load() + 1); // increment
    } else {
        out.at(0).relaxed().atomic_add(1);
    }
}

#[test]
fn ctas_store_to_places_of_their_own_or_change_one_by_atomics() {
    said(&["one address"]).of(4, one_address::<true>, one_address::<false>);
    said(&["increment"]).of(4, increment::<true>, increment::<false>);
}

/// Lanes store to places that memory names, of which two are the same: a sum by atomics has an order, a store has none.
#[kernel(warps = 1, instances(<true>, <false>))]
fn scatter<const WRONG: bool>(x: Ptr<i32>, out: Ptr<i32>) {
    let layout = Blocked::new([1], [32], [1], [0]);
    let at = arange(0..32, layout);
    let places = x.at(at).load() * 7;
    if WRONG {
        out.at(places).store(at); // scatter: stores
    } else {
        out.at(places).relaxed().atomic_max(at);
    }
}

#[test]
fn lanes_scatter_to_places_of_their_own_or_take_the_largest_by_atomics() {
    said(&["scatter: stores"]).of(1, scatter::<true>, scatter::<false>);
}

/// Lanes of a warp exchange values through global memory.
#[kernel(warps = 1, instances(<true>, <false>))]
fn exchange_in_a_warp<const WRONG: bool>(_x: Ptr<i32>, out: Ptr<i32>) {
    let met = Mbarrier::alloc(1);
    let at = arange(0..32, Blocked::new([1], [32], [1], [0]));
    out.at(at).store(at); // in a warp: stores
    if !WRONG {
        met.arrive();
        met.wait(0);
    }
    let other = out.at(31 - at).load(); // in a warp: loads
    out.at(at + 32).store(other);
}

#[test]
fn lanes_exchange_through_global_memory_behind_a_barrier() {
    said(&["in a warp: stores", "in a warp: loads"]).of(
        1,
        exchange_in_a_warp::<true>,
        exchange_in_a_warp::<false>,
    );
}

/// Warps of a CTA exchange values through global memory.
#[kernel(warps = 4, instances(<true>, <false>))]
fn exchange<const WRONG: bool>(_x: Ptr<i32>, out: Ptr<i32>) {
    let met = Mbarrier::alloc(1);
    let at = arange(0..128, line());
    out.at(at).store(at); // exchange: stores
    if !WRONG {
        met.arrive();
        met.wait(0);
    }
    let other = out.at(127 - at).load(); // exchange: loads
    out.at(at + 128).store(other);
}

#[test]
fn warps_exchange_through_global_memory_behind_a_barrier() {
    said(&["exchange: stores", "exchange: loads"]).of(1, exchange::<true>, exchange::<false>);
}

/// Threads reverse a row in global memory: in each iteration all have loaded before any stores, and stored before any loads.
#[kernel(warps = 4, instances(<0>, <1>, <2>))]
fn reverse<const LACKS: u32>(x: Ptr<i32>, out: Ptr<i32>) {
    let at = arange(0..128, line());
    out.at(at).store(x.at(at).load() + at); // reverse: begins
    for _ in range(0, 3) {
        if LACKS != 1 {
            cta_barrier();
        }
        let other = out.at(127 - at).load(); // reverse: loads
        if LACKS != 2 {
            cta_barrier();
        }
        out.at(at).store(other); // reverse: stores
    }
}

#[test]
fn a_cta_barrier_orders_accesses_to_global_memory() {
    said(&["reverse: begins", "reverse: loads", "reverse: stores"]).of(
        1,
        reverse::<1>,
        reverse::<0>,
    );
    said(&["reverse: loads", "reverse: stores"]).of(1, reverse::<2>, reverse::<0>);
}

/// The same within a partition, whose threads alone synchronize: the others have long exited.
#[kernel(warps = 4, instances(<true>, <false>))]
fn exchange_in_a_partition<const WRONG: bool>(_x: Ptr<i32>, out: Ptr<i32>) {
    warp_specialize()
        .main(|| {})
        .worker(Warps(2), || {
            let at = arange(0..64, Blocked::new([1], [32], [2], [0]));
            out.at(at).store(at); // in a partition: stores
            if !WRONG {
                cta_barrier();
            }
            let other = out.at(63 - at).load(); // in a partition: loads
            out.at(at + 128).store(other);
        })
        .run();
}

#[test]
fn a_cta_barrier_in_a_partition_synchronizes_that_partition() {
    said(&["in a partition: stores", "in a partition: loads"]).of(
        1,
        exchange_in_a_partition::<true>,
        exchange_in_a_partition::<false>,
    );
}

/// The CTA that draws the last ticket adds up what all have stored.
#[kernel(warps = 1, instances(<true>, <false>))]
fn ticket<const WRONG: bool>(x: Ptr<i32>, out: Ptr<i32>) {
    let ctas = num_programs(0);
    out.at(program_id(0) + 1).store(x.load()); // ticket: stores
    let counter = out.at(LEN as i32 - 1);
    let drawn = if WRONG {
        counter.relaxed().atomic_add(1).old()
    } else {
        counter.atomic_add(1).old()
    };
    if drawn == ctas - 1 {
        let mut sum = scalar(0);
        for other in range(0, ctas) {
            sum += out.at(other + 1).load(); // ticket: adds
        }
        out.store(sum);
    }
}

#[test]
fn a_ticket_releases_what_was_stored_and_acquires_it() {
    said(&["ticket: stores", "ticket: adds"]).of(5, ticket::<true>, ticket::<false>);
}

/// What a bulk store writes is there when it is complete; that it has read its tile is not enough.
#[kernel(warps = 4, instances(<0>, <1>, <2>))]
fn read_back<const WAITS: usize>(x: Ptr<i32>, out: Ptr<i32>) {
    let tile = Smem::alloc_with(x.at(arange(0..128, line())).load(), plain());
    let done = Mbarrier::alloc(1);
    fence_async_shared();
    out.bulk(0).store(tile); // read back: stores
    match WAITS {
        0 => {}
        1 => tma_store_wait_read(0),
        _ => tma_store_wait(0),
    }
    done.arrive();
    done.wait(0);
    let back = out.at(arange(0..128, line())).load(); // read back: loads
    out.at(arange(0..128, line()) + 128).store(back);
    tma_store_wait(0);
}

#[test]
fn what_a_bulk_store_writes_is_read_after_its_end() {
    let said = said(&["read back: stores", "read back: loads"]);
    said.of(1, read_back::<0>, read_back::<2>);
    said.of(1, read_back::<1>, read_back::<2>);
}

/// Stores of threads are read by a bulk load behind a fence between the proxies.
#[kernel(warps = 4, instances(<true>, <false>))]
fn copied_again<const WRONG: bool>(_x: Ptr<i32>, out: Ptr<i32>) {
    let tile = Smem::<i32>::alloc([128], plain());
    let (met, full) = (Mbarrier::alloc(1), Mbarrier::alloc(1));
    let at = arange(0..128, line());
    out.at(at).store(at); // again: stores
    if !WRONG {
        let _: () = inline_ptx_with_effects("fence.proxy.async.global;", ());
    }
    met.arrive();
    met.wait(0);
    full.expect(tile.bytes());
    out.bulk(0).load(tile, full); // again: copies
    full.wait(0);
    out.at(at + 128).store(tile.load(line()));
}

#[test]
fn a_bulk_load_reads_what_threads_stored_behind_a_proxy_fence() {
    said(&["again: stores", "again: copies"]).of(1, copied_again::<true>, copied_again::<false>);
}

#[kernel(warps = 4)]
fn writes(out: Ptr<i32>) {
    launch_dependents();
    out.at(arange(0..128, line())).store(7); // overlap: writes
}

#[kernel(warps = 4, instances(<true>, <false>))]
fn depends<const WRONG: bool>(x: Ptr<i32>, out: Ptr<i32>) {
    if !WRONG {
        launch_wait();
    }
    let value = x.at(arange(0..128, line())).load(); // overlap: reads
    if WRONG {
        launch_wait();
    }
    out.at(arange(0..128, line())).store(value);
}

/// Runs a launch that overlaps the one before it.
fn overlapping<H>(seed: u64, kernel: impl Kernel<H>) -> Option<Box<Fault>>
where
    for<'b> (&'b Buffer<i32>, &'b Buffer<i32>): tilekit::Arguments<H>,
{
    let device = Device::emulator_with_seed(seed);
    let compiler = Compiler::default();
    let stream = Stream::new(&device).unwrap();
    let (x, out) = (
        Buffer::from_slice(&device, &[1; 128]).unwrap(),
        Buffer::<i32>::zeros(&device, 128).unwrap(),
    );
    let first = writes.compile(&compiler).unwrap().load(&device).unwrap();
    let second = kernel.compile(&compiler).unwrap().load(&device).unwrap();
    let second = second.programmatic().unwrap();
    first.launch(&stream, grid(1), (&x,)).unwrap();
    fault_in(
        second
            .launch(&stream, grid(1), (&x, &out))
            .and_then(|()| stream.synchronize()),
    )
}

#[test]
fn a_dependent_launch_waits_before_it_reads() {
    said(&["overlap: reads"]).of_runs(
        |seed| overlapping(seed, depends::<true>),
        |seed| overlapping(seed, depends::<false>),
    );
}
