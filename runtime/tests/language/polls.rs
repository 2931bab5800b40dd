//! Waiting for global memory: what a poll waits for has been released, whoever released it, and only the warps concerned wait.

use tilekit::prelude::*;

/// The PTX of a kernel, which ptxas takes.
macro_rules! ptx {
    ($kernel:expr) => {{
        let compiled = $kernel.compile(&Compiler::default());
        let compiled = compiled.unwrap_or_else(|e| panic!("{e}"));
        crate::assemble(compiled.compiled().ptx());
        compiled.compiled().ptx().to_owned()
    }};
}

fn barriers(ptx: &str) -> usize {
    ptx.matches("bar.sync").count()
}

/// Each CTA adds its tile to the sum of those before it, which it waits for.
#[kernel(warps = 4)]
fn chained(x: Ptr<i32>, sums: Ptr<i32>, flags: Ptr<u32>) {
    let me = program_id(0);
    let mut sum = x
        .at(me * 384 + arange(0..384, Coalesced))
        .load()
        .sum(0)
        .scalar();
    if me > 0 {
        flags.at(me - 1).atomic_poll(|seen| (seen & 1) != 0);
        sum += sums.at(me - 1).load();
    }
    sums.at(me).store(sum);
    flags.at(me).atomic_store(3);
}

#[test]
fn ctas_wait_for_one_another() {
    let count = 7;
    let numbers: Vec<i32> = (0..count * 384).map(|i| i * i % 101 - 50).collect();
    for seed in 0..4 {
        let device = Device::emulator_with_seed(seed);
        let x = Buffer::from_slice(&device, &numbers).unwrap();
        let sums = Buffer::<i32>::zeros(&device, count as usize).unwrap();
        let flags = Buffer::<u32>::zeros(&device, count as usize).unwrap();
        let kernel = chained.compile(&Compiler::default()).unwrap();
        let kernel = kernel.load(&device).unwrap();
        let stream = Stream::new(&device).unwrap();
        kernel
            .launch(&stream, grid(count as u32), (&x, &sums, &flags))
            .unwrap();
        let mut wanted = 0;
        for (tile, found) in numbers.chunks(384).zip(sums.to_vec().unwrap()) {
            wanted += tile.iter().sum::<i32>();
            assert_eq!(found, wanted);
        }
    }
}

#[kernel(warps = 4)]
fn one_flag(flag: Ptr<u32>, x: Ptr<i32>, out: Ptr<i32>) {
    flag.atomic_poll(|seen| seen == 1);
    let at = arange(0..64, Coalesced);
    out.at(at).store(x.at(at).load());
}

#[kernel(warps = 4)]
fn one_flag_and_its_value(flag: Ptr<u32>, out: Ptr<u32>) {
    let seen = flag
        .access()
        .relaxed()
        .atomic_poll(|seen| if seen > 9 { seen < 20 } else { seen >= 1 })
        .seen();
    out.at(arange(0..64, Coalesced)).store(seen);
}

#[test]
fn a_scalar_poll_takes_no_cta_barrier() {
    let text = ptx!(one_flag);
    assert_eq!(barriers(&text), 0, "{text}");
    assert!(text.contains("bar.warp.sync"), "{text}");
    assert!(text.contains("ld.acquire.gpu.global.b32"), "{text}");
    // The warps may have seen different values, and one of them is for all.
    let text = ptx!(one_flag_and_its_value);
    assert_eq!(barriers(&text), 1, "{text}");
    assert!(text.contains("ld.relaxed.gpu.global.b32"), "{text}");
    crate::check!(
        one_flag_and_its_value,
        [[1_u32], [7], [12]],
        |flag: &[u32], out: &mut [u32]| out.fill(flag[0])
    );
}

/// The last CTA waits for all others, each of which says when its value is there.
#[kernel(warps = 4)]
fn gathered<T: Int, const COUNT: usize>(flags: Ptr<T>, values: Ptr<i32>, out: Ptr<i32>, n: i32) {
    let me = program_id(0);
    if me < n {
        values.at(me).store(me * me + 1);
        flags.at(me).atomic_store(5);
    } else {
        // Threads look at values for which others waited.
        let at = arange(0..COUNT, Blocked::new([1], [32], [4], [0]));
        let wait = flags.at(at).mask(at < n);
        let seen = wait.atomic_poll(|seen| seen == 5).seen();
        let others = Slice::new(0, Blocked::new([1, 1], [2, 16], [2, 2], [1, 0]));
        let many = arange(0..COUNT, others);
        let value = values.at(many).mask(many < n).other(0).load();
        out.at(0).store(value.sum(0).scalar());
        out.at(1).store(seen.cast::<i32>().sum(0).scalar());
    }
}

macro_rules! gathers {
    ($($dtype:ident, $count:literal, $n:literal;)*) => {$({
        let device = Device::emulator_with_seed($n);
        let flags = Buffer::<$dtype>::zeros(&device, $count).unwrap();
        let values = Buffer::<i32>::zeros(&device, $count).unwrap();
        let out = Buffer::<i32>::zeros(&device, 2).unwrap();
        let kernel = gathered::<$dtype, $count>.compile(&Compiler::default()).unwrap();
        crate::assemble(kernel.compiled().ptx());
        let kernel = kernel.load(&device).unwrap();
        let stream = Stream::new(&device).unwrap();
        kernel.launch(&stream, grid($n + 1), (&flags, &values, &out, $n)).unwrap();
        let wanted = (0..$n).map(|i: i32| i * i + 1).sum::<i32>();
        assert_eq!(out.to_vec().unwrap(), [wanted, 5 * $n]);
    })*};
}

#[test]
fn a_tile_of_flags_is_waited_for_by_the_threads_that_hold_it() {
    gathers! {
        i32, 64, 37;
        u8, 16, 9;
        i64, 256, 129;
        u16, 384, 131;
    }
}

/// One warp of a partition waits for a ticket and tells another partition, which needs no barrier but theirs.
#[kernel(warps = 4)]
fn one_warp_waits(flag: Ptr<i32>, out: Ptr<i32>) {
    let told = NamedBarrier::new(128 + 32);
    let line = Blocked::new([1], [32], [1], [0]);
    let place = Smem::<i32>::alloc([1], Swizzled::plain([0]));
    warp_specialize()
        .main(|| {
            let at = arange(0..64, Blocked::new([1], [32], [4], [0]));
            told.sync();
            let seen = place.load(Blocked::new([1], [32], [4], [0]));
            out.at(at).store(seen.sum(0).scalar());
        })
        .worker(Warps(1), || {
            let seen = flag.atomic_poll(|seen| seen > 2).seen();
            let old = flag.atomic_add(1).old();
            place.store(full([1], seen * 100 + old, line));
            told.arrive();
        })
        .run();
}

#[test]
fn a_partition_of_one_warp_needs_no_shared_memory() {
    let text = ptx!(one_warp_waits);
    let shared = text.matches("st.shared").count();
    assert_eq!(shared, 1, "{text}");
    crate::check!(
        one_warp_waits,
        [[3], [9]],
        |flag: &[i32], out: &mut [i32]| out.fill(flag[0] * 101)
    );
}

/// One thread is all that the worker needs: it waits, and copies what it waited for.
#[kernel(warps = 4)]
fn one_thread_waits(flag: Ptr<i32>, out: Ptr<i32>) {
    let ready = Mbarrier::alloc(1);
    warp_specialize()
        .main(|| {
            ready.wait(0);
            out.at(arange(0..64, Coalesced)).store(flag.load());
        })
        .worker(Warps(1), || {
            flag.atomic_poll(|seen| seen != 0);
            ready.arrive();
        })
        .run();
}

#[test]
fn a_producer_of_one_thread_waits() {
    let text = ptx!(one_thread_waits);
    assert!(!text.contains("bar.warp.sync"), "{text}");
    crate::check!(
        one_thread_waits,
        [[3], [-9]],
        |flag: &[i32], out: &mut [i32]| out.fill(flag[0])
    );
}

/// Waits for a flag that nobody sets, and for one that is set: what was read last says which.
#[kernel(warps = 4)]
fn within(flags: Ptr<i32>, out: Ptr<i32>, limit: i64) {
    let set = flags.atomic_poll_within(limit, |seen| seen > 4).seen();
    let never = flags
        .at(1)
        .atomic_poll_within(limit, |seen| seen > 4)
        .seen();
    let at = arange(0..128, Coalesced);
    out.at(at).store(select(at < 64, set, never));
}

#[test]
fn a_poll_with_a_limit_ends_with_what_it_read_last() {
    let text = ptx!(within);
    assert_eq!(text.matches("%globaltimer").count(), 2, "{text}");
    for (seed, limit) in [(0, 1000), (1, 1), (2, 0), (3, -1)] {
        let device = Device::emulator_with_seed(seed);
        let flags = Buffer::from_slice(&device, &[5, 3]).unwrap();
        let out = Buffer::<i32>::new(&device, 128).unwrap();
        let kernel = within.compile(&Compiler::default()).unwrap();
        let kernel = kernel.load(&device).unwrap();
        let stream = Stream::new(&device).unwrap();
        kernel.launch(&stream, 1, (&flags, &out, limit)).unwrap();
        stream.synchronize().unwrap();
        let wanted: Vec<i32> = (0..128).map(|at| if at < 64 { 5 } else { 3 }).collect();
        assert_eq!(out.to_vec().unwrap(), wanted, "limit {limit}");
    }
}

/// 64 flags, two of each thread, of which those in front of `n` are waited for.
#[kernel(warps = 1)]
fn tile_within(flags: Ptr<i32>, out: Ptr<i32>, limit: i64, n: i32) {
    let at = arange(0..64, Blocked::new([2], [32], [1], [0]));
    let flags = flags.at(at).mask(at < n).relaxed();
    let seen = flags.atomic_poll_within(limit, |seen| seen > 4).seen();
    out.at(at).store(seen);
}

#[test]
fn a_tile_of_flags_with_a_limit_and_a_mask_gives_what_was_read_last_of_each() {
    let text = ptx!(tile_within);
    // Both elements of a thread are polled in one loop, of which the clock is read once.
    assert_eq!(text.matches("%globaltimer").count(), 1, "{text}");
    assert_eq!(
        text.matches("ld.relaxed.gpu.global.b32").count(),
        2,
        "{text}"
    );
    for (seed, late) in [(0, None), (1, Some(3)), (2, Some(40)), (3, Some(50))] {
        let n = 41;
        let device = Device::emulator_with_seed(seed);
        let set: Vec<i32> = (0..64)
            .map(|at| if late == Some(at) { -at } else { 5 + at })
            .collect();
        let flags = Buffer::from_slice(&device, &set).unwrap();
        let out = Buffer::<i32>::new(&device, 64).unwrap();
        let kernel = tile_within.compile(&Compiler::default()).unwrap();
        let kernel = kernel.load(&device).unwrap();
        let stream = Stream::new(&device).unwrap();
        kernel
            .launch(&stream, 1, (&flags, &out, 200_i64, n))
            .unwrap();
        stream.synchronize().unwrap();
        // 0 where the mask is false.
        let wanted: Vec<i32> = set
            .iter()
            .zip(0..)
            .map(|(&flag, at)| if at < n { flag } else { 0 })
            .collect();
        assert_eq!(out.to_vec().unwrap(), wanted, "late {late:?}");
    }
}
