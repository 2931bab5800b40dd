//! Blocks and tiles that the CTAs of a cluster split: each CTA copies and multiplies its part.

use gluon_lang::lang::Element;
use gluon_lang::lang::prelude::*;

use crate::machine::{Argument, Number, buffer, bytes, numbers, ptx, run, tensor};

/// Ways to split a matrix: CTA bases, in units of what one CTA holds.
const WAYS: [&[[u32; 2]]; 7] = [
    &[[1, 0]],
    &[[0, 1]],
    &[[0, 0]],
    &[[1, 0], [0, 1]],
    &[[2, 0], [1, 0]],
    &[[0, 0], [0, 1]],
    &[[1, 0], [0, 0]],
];

fn rows(bases: &[[u32; 2]]) -> Blocked {
    Blocked::new([1, 1], [1, 32], [4, 1], [1, 0]).with_ctas(bases.iter().copied())
}

fn indices(rows: usize, columns: usize, layout: &Blocked) -> (Tensor<i32>, Tensor<i32>) {
    let row = arange(0..rows, Slice::new(1, layout.clone())).expand_dims(1);
    let column = arange(0..columns, Slice::new(0, layout.clone())).expand_dims(0);
    (row, column)
}

/// The block at `row`, `col` of `a`, split over the cluster: through registers to `out`, and back through shared memory to
/// `b`. With `ONCE` one CTA loads for all that have the same part.
#[kernel(warps = 4, cluster = CTAS)]
fn move_split<
    T: Element,
    const CTAS: usize,
    const WAY: usize,
    const SWIZZLE: u32,
    const R: usize,
    const C: usize,
    const ONCE: bool,
>(
    #[block([R, C], Nvmma::new(SWIZZLE, T::DTYPE.bits()).with_ctas(WAYS[WAY].iter().copied()))]
    a: TensorMap<T>,
    #[block([R, C], Nvmma::new(SWIZZLE, T::DTYPE.bits()).with_ctas(WAYS[WAY].iter().copied()))]
    b: TensorMap<T>,
    out: Ptr<T>,
    row: i32,
    col: i32,
) {
    let tile = Smem::<T>::alloc([2, R, C], a.layout());
    let full = Mbarrier::alloc(1);
    full.expect(a.block_bytes());
    cluster_barrier_relaxed();
    let at = (row + cluster_id(0) * (R as i32), col);
    if ONCE {
        a.copy().multicast_copies().load(at, tile.index(0), full);
    } else {
        a.load(at, tile.index(0), full);
    }
    full.wait(0);
    let block = tile.index(0).load(rows(WAYS[WAY]));
    let (row_at, col_at) = indices(R, C, &rows(WAYS[WAY]));
    let base = out + cluster_id(0) * (R * C);
    base.at(row_at * C + col_at).store(block);
    tile.index(1).store(block);
    let is_stored = (row >= 0) & (col >= 0);
    b.copy().when(is_stored).store(at, tile.index(1));
    tma_store_wait(0);
    cluster_barrier_relaxed();
}

/// Moves blocks by two clusters inside a tensor, across its edges and outside of it. Those that begin in front of it are loaded alone.
#[track_caller]
fn check_split<
    T: Element + Number,
    const CTAS: usize,
    const WAY: usize,
    const SWIZZLE: u32,
    const R: usize,
    const C: usize,
>(
    make: impl Fn(u32) -> T,
) {
    let step = 16 / T::BYTES as i64;
    let (height, width) = (2 * R as i64 + 3, C as i64 + step);
    let count = (height * width) as usize;
    let from: Vec<T> = (0..count as u32).map(&make).collect();
    let zero = make(0);
    for (row, col) in [(0, 0), (R as i64 / 2 + 1, step), (-2, -step)] {
        let dims = [height as u64, width as u64];
        let arguments = [
            tensor(&from, &dims),
            tensor(&vec![zero; count], &dims),
            buffer(&vec![zero; 2 * R * C]),
            Argument::Int(row as i32),
            Argument::Int(col as i32),
        ];
        let grid = [2 * CTAS as u32, 1, 1];
        let each = move_split::<T, CTAS, WAY, SWIZZLE, R, C, false>;
        let mut all = vec![run(each, grid, &arguments)];
        if WAYS[WAY].contains(&[0, 0]) {
            let once = move_split::<T, CTAS, WAY, SWIZZLE, R, C, true>;
            all.push(run(once, grid, &arguments));
        }
        let mut block = Vec::new();
        let mut copy = vec![zero; count];
        for r in row..row + 2 * R as i64 {
            for c in col..col + C as i64 {
                let is_inside = (0..height).contains(&r) && (0..width).contains(&c);
                let at = (r * width + c) as usize;
                block.push(if is_inside { from[at] } else { zero });
                if is_inside && row >= 0 && col >= 0 {
                    copy[at] = from[at];
                }
            }
        }
        for after in all {
            assert!(
                after[2] == bytes(&block),
                "[{row}, {col}] into shared memory"
            );
            assert!(
                after[1] == bytes(&copy),
                "[{row}, {col}] out of shared memory"
            );
        }
    }
}

#[test]
fn each_cta_copies_its_part_of_a_block() {
    let half = |i| f16::from_bits(i as u16);
    check_split::<f16, 2, 0, 128, 16, 64>(half);
    check_split::<f16, 2, 1, 64, 16, 64>(half);
    check_split::<f16, 2, 2, 128, 16, 64>(half);
    check_split::<i32, 4, 3, 32, 16, 32>(|i| i as i32);
    check_split::<u8, 4, 4, 32, 32, 64>(|i| i as u8);
    check_split::<f16, 4, 5, 0, 8, 32>(half);
    check_split::<f32, 4, 6, 128, 16, 64>(f32::from_bits);
}

/// Stores and prefetches that happen in one of two launches alike, and what copies add, once for all CTAs that have it.
#[kernel(warps = 4, cluster = 4)]
fn add_split(
    #[block([16, 32], Nvmma::PLAIN.with_ctas([[0, 0], [1, 0]]))] sums: TensorMap<i32>,
    happens: i32,
) {
    let layout = rows(&[[0, 0], [1, 0]]);
    let (row, column) = indices(16, 32, &layout);
    let tile = Smem::alloc_with(row * 100 + column, sums.layout());
    sums.copy().when(happens > 0).prefetch([0, 0]);
    sums.copy()
        .when(happens > 0)
        .reduce(TmaReduceOp::Add, [0, 0], tile);
    sums.store_add([0, 0], tile);
    tma_store_wait(0);
}

#[test]
fn one_of_the_ctas_with_the_same_part_stores_it() {
    for happens in [0, 1] {
        let arguments = [tensor(&[7_i32; 512], &[16, 32]), Argument::Int(happens)];
        let after = run(add_split, [4, 1, 1], &arguments);
        let value = |i: i32| 7 + (1 + happens) * (i / 32 * 100 + i % 32);
        assert_eq!(
            numbers::<i32>(&after[0]),
            (0..512).map(value).collect::<Vec<_>>()
        );
    }
}

fn line(bases: &[[u32; 1]]) -> Blocked {
    Blocked::new([4], [32], [4], [0]).with_ctas(bases.iter().copied())
}

/// The first `count` of 2048 elements that four CTAs split, two of them with the same part: loaded, doubled, stored and
/// added.
#[kernel(warps = 4, cluster = 4)]
fn run_split<const ONCE: bool>(x: Ptr<i32>, out: Ptr<i32>, sums: Ptr<i32>, count: i32) {
    let bases = [[0], [1]];
    let tile = Smem::alloc_with(
        full([2048], -1, line(&bases)),
        Swizzled::plain([0]).with_ctas(bases),
    );
    let full = Mbarrier::alloc(1);
    fence_async_shared();
    cluster_barrier();
    let copy = x.bulk(0).count(count);
    full.expect(copy.bytes_into(tile));
    if ONCE {
        copy.multicast_copies().load(tile, full);
    } else {
        copy.load(tile, full);
    }
    full.wait(0);
    tile.store(tile.load(line(&bases)) * 2);
    out.bulk(0).store(tile);
    sums.bulk(0).count(count).store_add(tile);
    tma_store_wait(0);
    cluster_barrier_relaxed();
}

#[test]
fn each_cta_copies_its_part_of_a_run() {
    let from: Vec<i32> = (0..2048).collect();
    for count in [2048, 1536, 1024, 512, 4] {
        let arguments = [
            buffer(&from),
            buffer(&[0_i32; 2048]),
            buffer(&[1_i32; 2048]),
            Argument::Int(count),
        ];
        let loaded = |i: i32| 2 * if i < count { i } else { -1 };
        let added = |i: i32| 1 + if i < count { loaded(i) } else { 0 };
        for after in [
            run(run_split::<false>, [4, 1, 1], &arguments),
            run(run_split::<true>, [4, 1, 1], &arguments),
        ] {
            let wanted: Vec<i32> = (0..2048).map(loaded).collect();
            assert_eq!(numbers::<i32>(&after[1]), wanted, "{count}");
            let wanted: Vec<i32> = (0..2048).map(added).collect();
            assert_eq!(numbers::<i32>(&after[2]), wanted, "{count}");
        }
    }
}

/// A vector that two CTAs split goes to the other one: by a bulk copy, by `st.async`, and by plain stores, and
/// is read there.
#[kernel(warps = 4, cluster = 2)]
fn exchange_split(x: Ptr<i32>, out: Ptr<i32>) {
    let bases = [[1]];
    let shared = || Swizzled::plain([0]).with_ctas(bases);
    let at = arange(0..1024, line(&bases));
    let own = Smem::alloc_with(x.at(at).load(), shared());
    let [copied, told, stored] = [(); 3].map(|()| Smem::<i32>::alloc([1024], shared()));
    let full = Mbarrier::alloc(1);
    full.expect(copied.bytes() + told.bytes());
    cluster_barrier();
    let other = cluster_rank() ^ 1;
    copied.in_cta(other).bulk().store(own, full);
    told.in_cta(other).store_async(x.at(at).load() * 2, full);
    stored.in_cta(other).store(x.at(at).load() * 4);
    let read = own.in_cta(other).load(line(&bases)) * 8;
    full.wait(0);
    cluster_barrier();
    let [copied, told, stored] = [copied, told, stored].map(|tile| tile.load(line(&bases)));
    out.at(at).store(read + copied + told + stored);
}

#[test]
fn parts_go_to_the_place_of_the_same_part_of_another_cta() {
    let from: Vec<i32> = (0..1024).collect();
    let arguments = [buffer(&from), buffer(&[0_i32; 1024])];
    let after = run(exchange_split, [2, 1, 1], &arguments);
    let wanted: Vec<i32> = (0..1024).map(|i| (i ^ 512) * 15).collect();
    assert_eq!(numbers::<i32>(&after[1]), wanted);
}

/// Copies by the threads into a tile that the CTAs split.
#[kernel(warps = 4, cluster = 2)]
fn copy_split(x: Ptr<i32>, out: Ptr<i32>) {
    let layout = rows(&[[0, 1]]);
    let (row, column) = indices(8, 64, &layout);
    let tile = Smem::<i32>::alloc([8, 64], Swizzled::plain([1, 0]).with_ctas([[0, 1]]));
    x.at(row * 64 + column).copy_to(tile);
    async_copy_commit();
    async_copy_wait(0);
    out.at(row * 64 + column).store(tile.load(layout));
}

#[test]
fn threads_copy_their_ctas_part() {
    let from: Vec<i32> = (0..512).collect();
    let after = run(
        copy_split,
        [2, 1, 1],
        &[buffer(&from), buffer(&[0_i32; 512])],
    );
    assert_eq!(numbers::<i32>(&after[1]), from);
}

/// Which CTA reads what another one loads, and how it counts for that: four arrivals are all readers of a CTA. Nobody arrives at
/// a CTA that brings it nothing, for only what is brought tells that the arrivals before have been counted.
const READERS: [(i32, i32, u32); 7] = [
    (0, 0, 2),
    (1, 0, 1),
    (2, 0, 1),
    (1, 1, 2),
    (3, 1, 2),
    (2, 2, 2),
    (3, 2, 2),
];

/// `C = A · Bᵀ` by four CTAs, two by two: each has half of the rows of A and of B, and loads what it shares once with another.
#[kernel(warps = 4, cluster = 4)]
fn product_split<const K: usize, const IN_REGISTERS: bool>(
    #[block([128, 64], Nvmma::B128.with_ctas([[1, 0], [0, 0]]))] a: TensorMap<f16>,
    #[block([64, 64], Nvmma::B128.with_ctas([[0, 0], [1, 0]]))] b: TensorMap<f16>,
    #[block([128, 64], Nvmma::B64.with_ctas([[1, 0], [0, 1]]))] c: TensorMap<f16>,
) {
    let left = Smem::<f16>::alloc([2, 128, 64], a.layout());
    let right = Smem::<f16>::alloc([2, 64, 64], b.layout());
    let (full, empty) = (
        Mbarriers::alloc(2, Arrivals(1)),
        Mbarriers::alloc(2, Arrivals(4)),
    );
    let rank = cluster_rank();
    cluster_barrier_relaxed();
    let sums = Wgmma::new([4, 1], [64, 32, 16]).with_ctas([[1, 0], [0, 1]]);
    let mut acc = Accumulator::<f32>::zeros([128, 64], sums.clone());
    for step in 0..K / 64 {
        let stage = step % 2;
        let [left, right] = [left.index(stage), right.index(stage)];
        if step >= 2 {
            // All CTAs that this one writes to have read what is there.
            let phase = (step / 2 - 1) as i32 % 2;
            empty.index(stage).wait_when(rank < 3, phase);
        }
        full.index(stage).expect(a.block_bytes() + b.block_bytes());
        a.copy()
            .multicast_copies()
            .load([0, step as i32 * 64], left, full.index(stage));
        b.copy()
            .multicast_copies()
            .load([0, step as i32 * 64], right, full.index(stage));
        full.index(stage).wait((step / 2) as i32 % 2);
        acc = if IN_REGISTERS {
            let words = left.load(DotOperand::new(0, sums.clone(), 2));
            acc.mma(words, right.transpose())
        } else {
            acc.mma(left, right.transpose())
        };
        acc = acc.wait(0);
        for (reader, writer, count) in READERS {
            let arrival = empty.index(stage).arrival().in_cta(writer).count(count);
            arrival.when(rank == reader).arrive();
        }
    }
    let tile = Smem::alloc_with(acc.wait_all().cast::<f16>(), c.layout());
    c.store([0, 0], tile);
    tma_store_wait(0);
    cluster_barrier_relaxed();
}

#[test]
fn ctas_multiply_their_parts_of_one_product() {
    let (m, n, k) = (120, 56, 192);
    let value = |i: usize| f16::from_f32((i * 7 % 11) as f32 - 5.0);
    let a: Vec<f16> = (0..m * k).map(value).collect();
    let b: Vec<f16> = (0..n * k).map(|i| value(i * 3 + 1)).collect();
    let dims = |rows: usize, columns: usize| [rows as u64, columns as u64];
    let arguments = [
        tensor(&a, &dims(m, k)),
        tensor(&b, &dims(n, k)),
        tensor(&vec![f16::ZERO; m * n], &dims(m, n)),
    ];
    let sum = |at: usize| {
        let (row, column) = (at / n, at % n);
        let term = |i: usize| a[row * k + i].to_f64() * b[column * k + i].to_f64();
        f16::from_f64((0..k).map(term).sum())
    };
    let wanted: Vec<f16> = (0..m * n).map(sum).collect();
    for after in [
        run(product_split::<192, false>, [4, 1, 1], &arguments),
        run(product_split::<192, true>, [4, 1, 1], &arguments),
    ] {
        assert_eq!(numbers::<f16>(&after[2]), wanted);
    }
}

#[test]
fn one_cta_issues_a_multicast_for_several() {
    let each = ptx(move_split::<f16, 4, 5, 0, 8, 32, false>);
    let once = ptx(move_split::<f16, 4, 5, 0, 8, 32, true>);
    assert!(!each.contains(".multicast::cluster"), "{each}");
    assert!(once.contains(".multicast::cluster"), "{once}");
}

/// Source and destination CTAs of a multicast, and how many.
#[kernel(warps = 4, cluster = 4)]
fn loaders(
    #[block([8, 64], Nvmma::PLAIN.with_ctas([[0, 0], [0, 1]]))] a: TensorMap<f16>,
    #[block([8, 64], Nvmma::PLAIN.with_ctas([[0, 0], [0, 0]]))] b: TensorMap<f16>,
    #[block([8, 64], Nvmma::PLAIN.with_ctas([[0, 1], [1, 0]]))] c: TensorMap<f16>,
    out: Ptr<i32>,
) {
    for (at, map) in [a, b, c].into_iter().enumerate() {
        let place = out.at(program_id(0) * 3 + at as i32);
        place.store(map.loader() * 10 + map.copies() as i32);
    }
}

#[test]
fn the_first_of_those_with_the_same_part_loads_it() {
    let map = || tensor(&[f16::ZERO; 512], &[8, 64]);
    let arguments = [map(), map(), map(), buffer(&[0_i32; 12])];
    let after = run(loaders, [4, 1, 1], &arguments);
    let wanted = [2, 4, 1, 2, 4, 11, 22, 4, 21, 22, 4, 31];
    assert_eq!(numbers::<i32>(&after[3]), wanted);
}
