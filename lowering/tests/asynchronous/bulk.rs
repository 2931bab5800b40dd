//! Linear copies: whole tiles and parts of them, through rings, combined with what is there, to several CTAs.

use gluon_lang::lang::Element;
use gluon_lang::lang::prelude::*;

use crate::machine::{Argument, Number, buffer, bytes, fault, numbers, run};

fn line() -> Blocked {
    Blocked::new([1], [32], [4], [0])
}

fn plain() -> Swizzled {
    Swizzled::plain([0])
}

fn ramp<T: Number>(count: usize, make: impl Fn(u32) -> T) -> Vec<T> {
    (0..count as u32).map(make).collect()
}

/// `N` elements from `from` on: through registers to `out`, and from another tile back to `copy`.
#[kernel(warps = 4)]
fn move_run<T: Element, const N: usize>(x: Ptr<T>, out: Ptr<T>, copy: Ptr<T>, from: i32, to: i32) {
    let tiles = Smem::<T>::alloc([2, N], plain());
    let full = Mbarrier::alloc(1);
    full.expect(tiles.index(0).bytes());
    x.bulk(from).load(tiles.index(0), full);
    full.wait(0);
    let run = tiles.index(0).load(line());
    out.at(arange(0..N, line())).store(run);
    tiles.index(1).store(run);
    copy.bulk(to).store(tiles.index(1));
    tma_store_wait(0);
}

#[track_caller]
fn check_move<T: Element + Number, const N: usize>(make: impl Fn(u32) -> T) {
    let step = 16 / T::BYTES;
    let from = ramp(N + 4 * step, &make);
    let zero = make(0);
    for (start, to) in [(0, 3 * step), (step, 0), (4 * step, step)] {
        let arguments = [
            buffer(&from),
            buffer(&vec![zero; N]),
            buffer(&vec![zero; N + 3 * step]),
            Argument::Int(start as i32),
            Argument::Int(to as i32),
        ];
        let after = run(move_run::<T, N>, [1; 3], &arguments);
        let wanted = &from[start..start + N];
        assert!(after[1] == bytes(wanted), "from {start}");
        let mut copy = vec![zero; N + 3 * step];
        copy[to..to + N].copy_from_slice(wanted);
        assert!(after[2] == bytes(&copy), "to {to}");
    }
}

#[test]
fn runs_of_every_width_move_whole() {
    check_move::<u8, 512>(|i| i as u8);
    check_move::<f16, 128>(|i| f16::from_bits(i as u16));
    check_move::<bf16, 8192>(|i| bf16::from_bits(i as u16));
    check_move::<f32, 1024>(f32::from_bits);
}

/// Extents that are no powers of two close up in shared memory, so that they are runs too.
#[test]
fn runs_of_lengths_that_are_no_powers_of_two_move_whole() {
    check_move::<f32, 7168>(f32::from_bits);
    check_move::<f16, 1536>(|i| f16::from_bits(i as u16));
    check_move::<u8, 384>(|i| i as u8);
}

/// Of three buffers of 5 rows of 96: whole ones, and 2 and 3 rows of one.
#[kernel(warps = 1)]
fn cut_rows(x: Ptr<f32>, out: Ptr<f32>) {
    let tiles = Smem::<f32>::alloc([3, 5, 96], Swizzled::plain([1, 0]));
    let full = Mbarrier::alloc(1);
    full.expect(2 * 5 * 96 * 4);
    x.bulk(0).load(tiles.slice(0, 1..3), full);
    full.wait(0);
    let rows = Blocked::new([1, 1], [1, 32], [1, 1], [1, 0]);
    tiles.index(0).store(tiles.index(2).load(rows) * 2.0);
    out.bulk(0).store(tiles.index(0));
    out.bulk(480).store(tiles.index(1).slice(0, 2..4));
    out.bulk(672).store(tiles.index(2).slice(0, 1..4));
    tma_store_wait(0);
}

#[test]
fn whole_rows_of_tiles_of_any_extents_are_runs() {
    let from = ramp(960, |i| i as f32);
    let after = run(cut_rows, [1; 3], &[buffer(&from), buffer(&[0_f32; 960])]);
    let mut wanted: Vec<f32> = from[480..].iter().map(|v| v * 2.0).collect();
    wanted.extend(&from[192..384]);
    wanted.extend(&from[576..864]);
    assert_eq!(numbers::<f32>(&after[1]), wanted);
}

/// Rows and buffers that follow one another are one run: two of three buffers of `[4, 32]`.
#[kernel(warps = 4)]
fn several_rows(x: Ptr<f32>, out: Ptr<f32>) {
    let tiles = Smem::<f32>::alloc([3, 4, 32], Swizzled::plain([1, 0]));
    let full = Mbarrier::alloc(1);
    full.expect(2 * 4 * 32 * 4);
    x.bulk(0).load(tiles.slice(0, 1..3), full);
    full.wait(0);
    let rows = Blocked::new([1, 1], [1, 32], [4, 1], [1, 0]);
    let doubled = tiles.index(2).load(rows) * 2.0;
    tiles.index(2).store(doubled);
    out.bulk(0).store(tiles.index(2).slice(0, 2..4));
    out.bulk(64)
        .policy(L2Policy::EvictFirst)
        .store(tiles.index(1).slice(0, 1..2));
    tma_store_wait(0);
}

#[test]
fn whole_rows_of_tiles_are_runs() {
    let from = ramp(256, |i| i as f32);
    let after = run(several_rows, [1; 3], &[buffer(&from), buffer(&[0_f32; 96])]);
    let doubled = from[192..].iter().map(|v| v * 2.0);
    let wanted: Vec<f32> = doubled.chain(from[32..64].iter().copied()).collect();
    assert_eq!(numbers::<f32>(&after[1]), wanted);
}

/// Doubles `n` elements by tiles of 256, of which the last has fewer.
#[kernel(warps = 4)]
fn ragged(x: Ptr<f32>, out: Ptr<f32>, n: i32) {
    // What is not copied is what was there before.
    let from = Smem::alloc_with(full::<f32>([256], 0.0, line()), plain());
    let to = Smem::<f32>::alloc([256], plain());
    let full = Mbarrier::alloc(1);
    let mut phase = scalar(0);
    for start in range(0, n + 1).step(256) {
        let count = minimum(n - start, 256);
        full.expect(count * 4);
        let run = x.bulk(start).count(count);
        run.policy(L2Policy::EvictFirst).load(from, full);
        let next = x.bulk(start + 256).count(count);
        next.when(start + 512 <= n).prefetch();
        full.wait(phase);
        tma_store_wait_read(0);
        to.store(from.load(line()) * 2.0);
        out.bulk(start).count(count).store(to);
        phase ^= 1;
    }
    tma_store_wait(0);
}

#[test]
fn the_last_tile_has_fewer_elements_or_none() {
    for n in [0, 4, 252, 256, 260, 1024] {
        let from = ramp(n as usize, |i| i as f32 + 1.0);
        let mut out = vec![-1.0_f32; n as usize + 4];
        let after = run(
            ragged,
            [1; 3],
            &[buffer(&from), buffer(&out), Argument::Int(n)],
        );
        for (to, from) in out.iter_mut().zip(&from) {
            *to = from * 2.0;
        }
        assert_eq!(numbers::<f32>(&after[1]), out, "{n} elements");
    }
}

/// Rows in chunks through a ring of `SLOTS`: one warp fills it, the others scale each chunk in its place by the sum of the
/// chunk and store it from there. The last chunk of a row has fewer elements.
#[kernel(warps = 4)]
fn ring<const CHUNK: usize, const SLOTS: usize>(x: Ptr<f32>, out: Ptr<f32>, n: i32) {
    let ring = Smem::<f32>::alloc([SLOTS, CHUNK], plain());
    let full = Mbarriers::alloc(SLOTS, Arrivals(1));
    let empty = Mbarriers::alloc(SLOTS, Arrivals(1));
    let chunks = cdiv(n, CHUNK);
    let row = program_id(0) * n;
    warp_specialize()
        .main(|| {
            let mut slot = scalar(0);
            let mut phase = scalar(0);
            for chunk in range(0, chunks) {
                let tile = ring.index(slot);
                let count = minimum(n - chunk * CHUNK, CHUNK);
                full.index(slot).wait(phase);
                let at = arange(0..CHUNK, line());
                let values = select(at < count, tile.load(line()), 0.0);
                tile.store(values * values.sum(0));
                out.bulk(row + chunk * CHUNK).count(count).store(tile);
                tma_store_wait_read(0);
                empty.index(slot).arrival().by(Arrivers::Warpgroup).arrive();
                let is_last = slot == SLOTS - 1;
                phase = select(is_last, phase ^ 1, phase);
                slot = select(is_last, 0, slot + 1);
            }
            tma_store_wait(0);
        })
        .worker(Warps(1).registers(40), || {
            let mut slot = scalar(0);
            let mut phase = scalar(0);
            for chunk in range(0, chunks) {
                let count = minimum(n - chunk * CHUNK, CHUNK);
                empty.index(slot).wait(phase ^ 1);
                full.index(slot).expect(count * 4);
                x.bulk(row + chunk * CHUNK)
                    .count(count)
                    .load(ring.index(slot), full.index(slot));
                let is_last = slot == SLOTS - 1;
                phase = select(is_last, phase ^ 1, phase);
                slot = select(is_last, 0, slot + 1);
            }
        })
        .run();
}

#[test]
fn a_ring_of_chunks_is_worked_on_in_place() {
    const CHUNK: usize = 512;
    for n in [512, 1540, 2560] {
        let from = ramp(2 * n, |i| (i % 7) as f32 - 3.0);
        let arguments = [
            buffer(&from),
            buffer(&vec![-1.0_f32; 2 * n]),
            Argument::Int(n as i32),
        ];
        let after = run(ring::<CHUNK, 3>, [2, 1, 1], &arguments);
        let of_row = |row: &[f32]| -> Vec<f32> {
            let scaled = row.chunks(CHUNK).flat_map(|chunk| {
                let sum: f32 = chunk.iter().sum();
                chunk.iter().map(move |v| v * sum)
            });
            scaled.collect()
        };
        let wanted: Vec<f32> = from.chunks(n).flat_map(of_row).collect();
        assert_eq!(numbers::<f32>(&after[1]), wanted, "rows of {n}");
    }
}

/// Combines what each CTA brings with what is there.
#[kernel(warps = 1)]
fn combine(sum: Ptr<f16>, most: Ptr<i32>, bits: Ptr<i32>) {
    let layout = Blocked::new([1], [32], [1], [0]);
    let ids = full([64], program_id(0) + 100, layout.clone());
    let halves = Smem::alloc_with(full::<f16>([64], 1.5, layout), plain());
    let words = Smem::alloc_with(ids, plain());
    sum.bulk(0).policy(L2Policy::EvictLast).store_add(halves);
    most.bulk(0).reduce(TmaReduceOp::Max, words);
    bits.bulk(0).count(32).reduce(TmaReduceOp::Xor, words);
    tma_store_wait_read(2);
    tma_store_wait(0);
}

#[test]
fn stores_combine_with_what_is_there() {
    let start: Vec<i32> = (70..134).collect();
    let halves: Vec<f16> = start.iter().map(|&i| f16::from_f32(i as f32)).collect();
    let arguments = [buffer(&halves), buffer(&start), buffer(&start)];
    let after = run(combine, [3, 1, 1], &arguments);
    let sums: Vec<f16> = start
        .iter()
        .map(|&i| f16::from_f32(i as f32 + 4.5))
        .collect();
    assert_eq!(numbers::<f16>(&after[0]), sums);
    let most: Vec<i32> = start.iter().map(|&i| i.max(102)).collect();
    assert_eq!(numbers::<i32>(&after[1]), most);
    let mut bits = start;
    bits[..32].iter_mut().for_each(|i| *i ^= 0x64 ^ 0x65 ^ 0x66);
    assert_eq!(numbers::<i32>(&after[2]), bits);
}

/// Both CTAs of a cluster get both halves of a run: each asks for one half, for both.
#[kernel(warps = 4, cluster = 2)]
fn shared_run(x: Ptr<f32>, out: Ptr<f32>) {
    let tile = Smem::<f32>::alloc([2, 128], plain());
    let full = Mbarrier::alloc(1);
    full.expect(tile.bytes());
    cluster_barrier_relaxed();
    let rank = cluster_rank();
    x.bulk(rank * 128)
        .multicast(0b11)
        .load(tile.index(rank), full);
    full.wait(0);
    let at = arange(0..128, line());
    for half in 0..2 {
        let values = tile.index(half).load(line());
        out.at(program_id(0) * 256 + half * 128 + at).store(values);
    }
    cluster_barrier_relaxed();
}

#[test]
fn one_copy_reaches_all_ctas_of_a_cluster() {
    let from = ramp(256, |i| i as f32);
    let after = run(
        shared_run,
        [2, 1, 1],
        &[buffer(&from), buffer(&[0_f32; 512])],
    );
    let wanted: Vec<f32> = from.iter().chain(&from).copied().collect();
    assert_eq!(numbers::<f32>(&after[1]), wanted);
}

/// Copies of `count` elements from `start` on.
#[kernel(warps = 1)]
fn some(x: Ptr<f32>, out: Ptr<f32>, start: i32, count: i32, expected: i32) {
    let tile = Smem::<f32>::alloc([64], plain());
    let full = Mbarrier::alloc(1);
    full.expect(expected);
    x.bulk(start).count(count).load(tile, full);
    full.wait(0);
    out.bulk(0).count(count).store(tile);
    tma_store_wait(0);
}

#[track_caller]
fn check_fault(start: i32, count: i32, expected: i32, message: &str) {
    let arguments = [
        buffer(&[1.0_f32; 64]),
        buffer(&[0.0_f32; 64]),
        Argument::Int(start),
        Argument::Int(count),
        Argument::Int(expected),
    ];
    let fault = fault(some, [1; 3], &arguments);
    assert!(fault.contains(message), "{fault}");
}

#[test]
fn reductions_that_tma_lacks_are_reported() {
    check_fault(1, 32, 128, "bulk copy of 16 bytes in global memory at");
    check_fault(
        0,
        33,
        132,
        "a bulk copy of 132 bytes; the size must be a multiple of 16",
    );
    check_fault(48, 32, 128, "it ends 64 bytes past the end");
    check_fault(
        0,
        128,
        512,
        "index 128 is outside 0..65: the number of elements that a copy takes of [64] of f32 in shared memory, allocated at",
    );
    check_fault(0, 32, 144, "0 of 1 arrivals and 16 bytes are missing");
    check_fault(
        0,
        32,
        112,
        "16 bytes more have been delivered than were expected",
    );
}
