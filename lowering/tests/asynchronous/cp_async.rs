//! Asynchronous copies by the threads.

use diag::Code;
use gluon_lang::lang::prelude::*;
use gluon_lang::lang::{Element, KernelFn};
use lowering::{Options, compile};

use crate::machine::{Argument, Number, buffer, bytes, numbers, run};

fn rows() -> Blocked {
    Blocked::new([1, 4], [4, 8], [4, 1], [1, 0])
}

/// A ragged tile of `rows` by `cols` elements into shared memory and out again.
#[kernel(warps = 4)]
fn move_tile<T: Element>(
    x: Ptr<T>,
    out: Ptr<T>,
    #[multiple_of(8)] stride: i32,
    height: i32,
    width: i32,
) {
    let row_at = arange(0..16, Slice::new(1, rows())).expand_dims(1);
    let col_at = arange(0..64, Slice::new(0, rows())).expand_dims(0);
    let inside = (row_at < height) & (col_at < width);
    let tile = Smem::<T>::alloc([16, 64], Nvmma::new(64, T::DTYPE.bits()));
    x.at(row_at * stride + col_at).mask(inside).copy_to(tile);
    async_copy_commit();
    async_copy_wait(0);
    out.at(row_at * 64 + col_at).store(tile.load(rows()));
}

#[track_caller]
fn check_move<T: Element + Number>(make: impl Fn(u32) -> T) {
    let from: Vec<T> = (0..16 * 72).map(make).collect();
    let zero = T::take(&vec![0; T::BYTES]);
    for (height, width) in [(16, 64), (7, 33), (16, 1), (0, 64), (1, 62)] {
        let arguments = [
            buffer(&from),
            buffer(&[from[1]; 16 * 64]),
            Argument::Int(72),
            Argument::Int(height),
            Argument::Int(width),
        ];
        let after = run(move_tile::<T>, [1; 3], &arguments);
        let wanted: Vec<T> = (0..16 * 64)
            .map(|at| {
                let (row, col) = (at / 64, at % 64);
                let is_inside = row < height as usize && col < width as usize;
                if is_inside {
                    from[row * 72 + col]
                } else {
                    zero
                }
            })
            .collect();
        assert!(after[1] == bytes(&wanted), "{height} x {width}");
    }
}

#[test]
fn ragged_tiles_are_filled_with_zeros() {
    check_move::<f32>(|i| i as f32 + 1.0);
    check_move::<i32>(|i| i as i32 + 1);
    check_move::<f16>(|i| f16::from_bits(i as u16 + 1));
    check_move::<u8>(|i| i as u8 | 1);
}

/// The same row by row, two rows in flight, each in a buffer of its own.
#[kernel(warps = 4)]
fn two_stages(x: Ptr<f32>, out: Ptr<f32>, count: i32) {
    let line = Blocked::new([4], [32], [4], [0]);
    let other = Blocked::new([1], [32], [4], [0]);
    let (at, at_out) = (arange(0..512, line.clone()), arange(0..512, other.clone()));
    let even = Smem::<f32>::alloc([512], Swizzled::plain([0]));
    let odd = Smem::<f32>::alloc([512], Swizzled::plain([0]));
    x.at(at).mask(count > 0).copy_to(even);
    async_copy_commit();
    let mut sum = zeros::<f32>([512], other.clone());
    for i in range(0, count / 2) {
        x.at(at + (2 * i + 1) * 512).copy_to(odd);
        async_copy_commit();
        async_copy_wait(1);
        sum += even.load(other.clone());
        x.at(at + (2 * i + 2) * 512)
            .mask(2 * i + 2 < count)
            .copy_to(even);
        async_copy_commit();
        async_copy_wait(1);
        sum = sum * 2.0 + odd.load(other.clone());
    }
    async_copy_wait(0);
    out.at(at_out).store(sum);
}

#[test]
fn a_wait_for_one_group_leaves_the_next_in_flight() {
    let from: Vec<f32> = (0..512 * 6).map(|i| (i * 37 % 101) as f32).collect();
    for count in [0, 2, 6] {
        let arguments = [
            buffer(&from),
            buffer(&[-1.0_f32; 512]),
            Argument::Int(count),
        ];
        let after = run(two_stages, [1; 3], &arguments);
        let row = |i: i32, at: usize| from[i as usize * 512 + at];
        let wanted: Vec<f32> = (0..512)
            .map(|at| {
                (0..count / 2).fold(0.0, |sum, i| {
                    (sum + row(2 * i, at)) * 2.0 + row(2 * i + 1, at)
                })
            })
            .collect();
        assert_eq!(numbers::<f32>(&after[1]), wanted, "{count} rows");
    }
}

/// Copies that complete on a barrier, counted and not.
#[kernel(warps = 4)]
fn on_barriers(x: Ptr<i32>, out: Ptr<i32>) {
    let line = Blocked::new([4], [32], [4], [0]);
    let other = Blocked::new([1], [32], [4], [0]);
    let (at, at_out) = (arange(0..512, line), arange(0..512, other.clone()));
    let tiles = Smem::<i32>::alloc([2, 512], Swizzled::plain([0]));
    let counted = Mbarrier::alloc(128);
    let besides = Mbarrier::alloc(128);
    x.at(at).copy_to(tiles.index(0));
    counted.arrive_after_copies();
    x.at(at + 512).copy_to(tiles.index(1));
    besides.include_copies();
    besides.arrival().by(Arrivers::Thread).arrive();
    counted.wait(0);
    let first = tiles.index(0).load(other.clone());
    besides.wait(0);
    out.at(at_out).store(first * tiles.index(1).load(other));
}

#[test]
fn copies_complete_on_barriers() {
    let from: Vec<i32> = (0..1024).collect();
    let after = run(on_barriers, [1; 3], &[buffer(&from), buffer(&[0_i32; 512])]);
    let wanted: Vec<i32> = (0..512).map(|i| i * (i + 512)).collect();
    assert_eq!(numbers::<i32>(&after[1]), wanted);
}

/// Rows through a ring of two: threads of one partition copy them, and another one stores them by bulk stores. With `TOLD`,
/// `cp.async.mbarrier.arrive` signals the barriers; without, threads wait for their copies, one row late.
#[kernel(warps = 4)]
fn handed_over<const TOLD: bool>(x: Ptr<i32>, out: Ptr<i32>, rows: i32) {
    let ring = Smem::<i32>::alloc([2, 512], Swizzled::plain([0]));
    let full = Mbarriers::alloc(2, Arrivals(if TOLD { 128 } else { 1 }));
    let empty = Mbarriers::alloc(2, Arrivals(1));
    let copy = |row: Scalar<i32>| {
        empty.index(row % 2).wait((row / 2 % 2) ^ 1);
        let at = row * 512 + arange(0..512, Blocked::new([4], [32], [4], [0]));
        x.at(at).copy_to(ring.index(row % 2));
    };
    warp_specialize()
        .main(|| {
            for row in range(0, rows) {
                full.index(row % 2).wait(row / 2 % 2);
                if TOLD {
                    fence_async_shared();
                }
                out.bulk(row * 512).store(ring.index(row % 2));
                tma_store_wait_read(0);
                empty.index(row % 2).arrive();
            }
        })
        .worker(Warps(4), || {
            for row in range(0, rows + if TOLD { 0 } else { 1 }) {
                if TOLD {
                    copy(row);
                    full.index(row % 2).arrive_after_copies();
                } else {
                    if row < rows {
                        copy(row);
                    }
                    async_copy_commit();
                    if row > 0 {
                        async_copy_wait(1);
                        fence_async_shared();
                        full.index((row - 1) % 2).arrive();
                    }
                }
            }
        })
        .run();
}

#[test]
fn copies_are_read_by_tma_of_another_partition() {
    let from: Vec<i32> = (0..5 * 512).collect();
    for rows in [0, 1, 5] {
        let inputs = [
            buffer(&from),
            buffer(&vec![0_i32; 5 * 512]),
            Argument::Int(rows),
        ];
        let wanted: Vec<i32> = from
            .iter()
            .map(|&i| if i < rows * 512 { i } else { 0 })
            .collect();
        let after = run(handed_over::<false>, [1; 3], &inputs);
        assert_eq!(numbers::<i32>(&after[1]), wanted, "{rows} rows waited for");
        let after = run(handed_over::<true>, [1; 3], &inputs);
        assert_eq!(numbers::<i32>(&after[1]), wanted, "{rows} rows told of");
    }
}

/// What is said of a kernel whose copies are too narrow.
#[track_caller]
fn refused<Args>(kernel: impl KernelFn<Args>) -> String {
    let traced = kernel.trace().unwrap_or_else(|e| panic!("{e}"));
    let Err(diagnostics) = compile(traced.func, &Options::default()) else {
        panic!("the kernel is wrong, and it compiled");
    };
    assert_eq!(diagnostics.0[0].code, Code::AccessWidth);
    diagnostics.to_string()
}

#[kernel(warps = 4)]
fn narrow(x: Ptr<f16>) {
    let tile = Smem::<f16>::alloc([128], Swizzled::plain([0]));
    x.at(arange(0..128, Blocked::new([1], [32], [4], [0])))
        .copy_to(tile);
}

#[kernel(warps = 4)]
fn narrow_for_l2(x: Ptr<f32>) {
    let tile = Smem::<f32>::alloc([256], Swizzled::plain([0]));
    x.at(arange(0..256, Blocked::new([2], [32], [4], [0])))
        .cache(CacheOp::Cg)
        .copy_to(tile);
}

#[test]
fn copies_that_the_machine_does_not_have_are_refused() {
    assert!(refused(narrow).contains("no thread can copy 4 bytes at once"));
    assert!(refused(narrow_for_l2).contains("no thread can copy 16 bytes at once"));
}
