//! Blocks through tensor maps: at the edges of tensors, wider than a box, in every swizzle.

use gluon_lang::lang::Element;
use gluon_lang::lang::prelude::*;

use crate::machine::{Argument, Number, buffer, bytes, fault, numbers, run, tensor};

fn rows() -> Blocked {
    Blocked::new([1, 1], [1, 32], [4, 1], [1, 0])
}

/// The block at `row`, `col` of `a`: through registers to `out`, row by row, and back through shared memory to `b`.
#[kernel(warps = 4)]
fn move_block<T: Element, const ROWS: usize, const COLS: usize, const SWIZZLE: u32>(
    #[block([ROWS, COLS], Nvmma::new(SWIZZLE, T::DTYPE.bits()))] a: TensorMap<T>,
    #[block([ROWS, COLS], Nvmma::new(SWIZZLE, T::DTYPE.bits()))] b: TensorMap<T>,
    out: Ptr<T>,
    row: i32,
    col: i32,
) {
    let tile = Smem::<T>::alloc([2, ROWS, COLS], a.layout());
    let full = Mbarrier::alloc(1);
    full.expect(a.block_bytes());
    a.load([row, col], tile.index(0), full);
    full.wait(0);
    let block = tile.index(0).load(rows());
    let row_at = arange(0..ROWS, Slice::new(1, rows())).expand_dims(1);
    let col_at = arange(0..COLS, Slice::new(0, rows())).expand_dims(0);
    out.at(row_at * COLS + col_at).store(block);
    tile.index(1).store(block);
    let is_stored = (row >= 0) & (col >= 0);
    b.copy().when(is_stored).store([row, col], tile.index(1));
    tma_store_wait(0);
}

fn ramp<T: Number>(count: usize, make: impl Fn(u32) -> T) -> Vec<T> {
    (0..count as u32).map(make).collect()
}

/// Moves blocks inside a tensor, across its edges and outside of it. Those that begin in front of it are loaded alone.
#[track_caller]
fn check_move<T: Element + Number, const R: usize, const C: usize, const SWIZZLE: u32>(
    make: impl Fn(u32) -> T,
) {
    let step = 16 / T::BYTES as i64;
    let (height, width) = (R as i64 + 3, C as i64 + step);
    let count = (height * width) as usize;
    let from = ramp(count, &make);
    let zero = make(0);
    for (row, col) in [(0, 0), (3, step), (4, 2 * step), (-2, -step), (height, 0)] {
        let arguments = [
            tensor(&from, &[height as u64, width as u64]),
            tensor(&vec![zero; count], &[height as u64, width as u64]),
            buffer(&vec![zero; R * C]),
            Argument::Int(row as i32),
            Argument::Int(col as i32),
        ];
        let after = run(move_block::<T, R, C, SWIZZLE>, [1; 3], &arguments);
        let mut block = Vec::new();
        let mut copy = vec![zero; count];
        for r in row..row + R as i64 {
            for c in col..col + C as i64 {
                let is_inside = (0..height).contains(&r) && (0..width).contains(&c);
                let at = (r * width + c) as usize;
                block.push(if is_inside { from[at] } else { zero });
                if is_inside && row >= 0 && col >= 0 {
                    copy[at] = from[at];
                }
            }
        }
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

#[test]
fn blocks_of_every_swizzle_move_whole() {
    check_move::<f16, 64, 64, 128>(|i| f16::from_bits(i as u16));
    check_move::<f16, 8, 32, 64>(|i| f16::from_bits(i as u16));
    check_move::<bf16, 16, 16, 32>(|i| bf16::from_bits(i as u16));
    check_move::<f32, 16, 16, 0>(f32::from_bits);
    check_move::<i32, 32, 32, 128>(|i| i as i32);
    check_move::<u8, 8, 128, 128>(|i| i as u8);
}

#[test]
fn blocks_beyond_a_box_move_in_several_messages() {
    check_move::<f16, 16, 256, 128>(|i| f16::from_bits(i as u16));
    check_move::<f16, 512, 32, 32>(|i| f16::from_bits(i as u16));
    check_move::<u8, 4, 512, 0>(|i| i as u8);
}

/// Adds, and takes the smaller and the larger, of what is there and what each CTA brings.
#[kernel(warps = 1)]
fn combine(
    #[block([8, 32], Nvmma::B128)] sum: TensorMap<i32>,
    #[block([8, 32], Nvmma::B128)] most: TensorMap<i32>,
    #[block([8, 32], Nvmma::B128)] bits: TensorMap<i32>,
    value: i32,
) {
    let layout = Blocked::new([1, 1], [1, 32], [1, 1], [1, 0]);
    let tile = Smem::alloc_with(full([8, 32], value + program_id(0), layout), sum.layout());
    sum.copy()
        .policy(L2Policy::EvictLast)
        .reduce(TmaReduceOp::Add, (0, 0), tile);
    most.reduce(TmaReduceOp::Max, (0, 0), tile);
    bits.reduce(TmaReduceOp::Xor, (0, 0), tile);
    tma_store_wait_read(2);
    tma_store_wait(0);
}

#[test]
fn stores_combine_with_what_is_there() {
    let start: Vec<i32> = (0..256).collect();
    let one = || tensor(&start, &[8, 32]);
    let after = run(
        combine,
        [3, 1, 1],
        &[one(), one(), one(), Argument::Int(100)],
    );
    let wanted = |f: fn(i32) -> i32| start.iter().map(|&i| f(i)).collect::<Vec<i32>>();
    assert_eq!(numbers::<i32>(&after[0]), wanted(|i| i + 303));
    assert_eq!(numbers::<i32>(&after[1]), wanted(|i| i.max(102)));
    assert_eq!(
        numbers::<i32>(&after[2]),
        wanted(|i| i ^ 0x64 ^ 0x65 ^ 0x66)
    );
}

/// A ring of stages: blocks of a row, loaded ahead, summed as they come.
#[kernel(warps = 4)]
fn ring<const STAGES: usize>(
    #[block([16, 64], Nvmma::B128)] a: TensorMap<f16>,
    out: Ptr<f32>,
    blocks: i32,
) {
    let tiles = Smem::<f16>::alloc([STAGES, 16, 64], a.layout());
    let full = Mbarriers::alloc(STAGES, Arrivals(1));
    for stage in 0..STAGES {
        a.copy()
            .policy(L2Policy::EvictFirst)
            .prefetch((0, stage * 64));
        full.index(stage)
            .expect_when(blocks > stage as i32, a.block_bytes());
        a.copy().when(blocks > stage as i32).load(
            (0, stage * 64),
            tiles.index(stage),
            full.index(stage),
        );
    }
    let mut sum = zeros::<f32>([16, 64], rows());
    let mut stage = scalar(0);
    let mut phase = scalar(0);
    for i in range(0, blocks) {
        let full = full.index(stage);
        full.wait(phase);
        sum += tiles.index(stage).load(rows()).cast::<f32>();
        let next = i + STAGES as i32;
        full.expect_when(next < blocks, a.block_bytes());
        a.copy()
            .when(next < blocks)
            .load((0, next * 64), tiles.index(stage), full);
        stage += 1;
        if stage == STAGES as i32 {
            stage = scalar(0);
            phase ^= 1;
        }
    }
    let row_at = arange(0..16, Slice::new(1, rows())).expand_dims(1);
    let col_at = arange(0..64, Slice::new(0, rows())).expand_dims(0);
    out.at(row_at * 64 + col_at).store(sum);
}

#[test]
fn a_ring_of_stages_loads_ahead() {
    let from = ramp(16 * 64 * 5, |i| f16::from_f32((i * 7 % 31) as f32));
    for blocks in [0, 1, 2, 3, 5] {
        let arguments = [
            tensor(&from, &[16, 320]),
            buffer(&[-1.0_f32; 1024]),
            Argument::Int(blocks),
        ];
        let after = run(ring::<2>, [1; 3], &arguments);
        let wanted: Vec<f32> = (0..1024)
            .map(|at| {
                let (row, col) = (at / 64, at % 64);
                let block = |b: usize| from[row * 320 + b * 64 + col].to_f32();
                (0..blocks as usize).map(block).sum()
            })
            .collect();
        assert_eq!(numbers::<f32>(&after[1]), wanted, "{blocks} blocks");
    }
}

/// A block into the lower half of a tile that is twice as high.
#[kernel(warps = 4)]
fn into_a_part(#[block([16, 128], Nvmma::B128)] a: TensorMap<f16>, out: Ptr<f16>) {
    let tile = Smem::<f16>::alloc([16, 256], a.layout());
    let part = tile.slice(1, 128..256);
    let full = Mbarrier::alloc(1);
    full.expect(a.block_bytes());
    a.load((0, 8), part, full);
    full.wait(0);
    let row_at = arange(0..16, Slice::new(1, rows())).expand_dims(1);
    let col_at = arange(0..128, Slice::new(0, rows())).expand_dims(0);
    out.at(row_at * 128 + col_at).store(part.load(rows()));
}

#[test]
fn a_block_fills_a_part_of_an_allocation() {
    let from = ramp(16 * 136, |i| f16::from_bits(i as u16));
    let after = run(
        into_a_part,
        [1; 3],
        &[
            tensor(&from, &[16, 136]),
            buffer(&vec![f16::ZERO; 16 * 128]),
        ],
    );
    let wanted: Vec<f16> = (0..16 * 128)
        .map(|at| from[at / 128 * 136 + at % 128 + 8])
        .collect();
    assert!(after[1] == bytes(&wanted));
}

/// Blocks of rows that are wider than the swizzle, from and into the upper half of the rows of a tile, and as planes.
#[kernel(warps = 4)]
fn through_some_rows(
    #[block([16, 128], Nvmma::B128)] a: TensorMap<f16>,
    #[block([1, 16, 128], Nvmma::B128)] out: TensorMap<f16>,
) {
    let part = Smem::<f16>::alloc([64, 128], a.layout()).slice(0, 48..64);
    let full = Mbarrier::alloc(1);
    full.expect(a.block_bytes());
    a.load((0, 0), part, full);
    full.wait(0);
    out.store((0, 0, 0), part.reshape(out.block()));
    tma_store_wait_read(0);
}

#[test]
fn each_box_of_a_block_begins_where_its_part_of_an_allocation_does() {
    let from = ramp(16 * 128, |i| f16::from_bits(i as u16));
    let zeros = vec![f16::ZERO; 16 * 128];
    let after = run(
        through_some_rows,
        [1; 3],
        &[tensor(&from, &[16, 128]), tensor(&zeros, &[1, 16, 128])],
    );
    assert!(after[1] == bytes(&from));
}

/// Pixels of an image for one tap of a filter of 3 by 3.
#[kernel(warps = 4)]
fn pixels(
    #[im2col(4, [32, 64], Nvmma::B64)] image: TensorMap<f16>,
    out: Ptr<f16>,
    first: i32,
    tap_row: i32,
    tap_col: i32,
) {
    let tile = Smem::<f16>::alloc([32, 64], image.layout());
    let full = Mbarrier::alloc(1);
    full.expect(image.block_bytes());
    image.load_im2col((0, first - 1, -1, 0), [tap_row, tap_col], tile, full);
    full.wait(0);
    let row_at = arange(0..32, Slice::new(1, rows())).expand_dims(1);
    let col_at = arange(0..64, Slice::new(0, rows())).expand_dims(0);
    out.at(row_at * 64 + col_at).store(tile.load(rows()));
}

#[test]
fn im2col_gives_the_pixels_under_a_tap() {
    // An image of 8 rows and 8 columns with 64 channels, twice; padded by 1, so that each pixel has its tap.
    let (count, height, width, channels) = (2, 8, 8, 64);
    let from = ramp(count * height * width * channels, |i| {
        f16::from_bits(i as u16)
    });
    for (first, tap_row, tap_col) in [(0, 0, 0), (0, 1, 1), (5, 2, 0), (7, 2, 2)] {
        let arguments = [
            Argument::Image(bytes(&from), vec![2, 8, 8, 64], [-1, -1, 0], [-1, -1, 0]),
            buffer(&vec![f16::ZERO; 32 * 64]),
            Argument::Int(first),
            Argument::Int(tap_row),
            Argument::Int(tap_col),
        ];
        let after = run(pixels, [1; 3], &arguments);
        let wanted: Vec<f16> = (0..32 * 64)
            .map(|at| {
                let (pixel, channel) = (first as usize * width + at / 64, at % 64);
                let (n, rest) = (pixel / (height * width), pixel % (height * width));
                let row = (rest / width) as i32 + tap_row - 1;
                let col = (rest % width) as i32 + tap_col - 1;
                let is_inside = (0..8).contains(&row) && (0..8).contains(&col);
                let at = || ((n * height + row as usize) * width + col as usize) * channels;
                if is_inside {
                    from[at() + channel]
                } else {
                    f16::ZERO
                }
            })
            .collect();
        assert!(after[1] == bytes(&wanted), "{first}, {tap_row}, {tap_col}");
    }
}

/// The pixels of an image from `image`, `row`, `col` on to the same places of another.
#[kernel(warps = 4)]
fn copy_pixels(
    #[im2col(4, [32, 64], Nvmma::B64)] from: TensorMap<f16>,
    #[im2col(4, [32, 64], Nvmma::B64)] to: TensorMap<f16>,
    image: i32,
    row: i32,
    col: i32,
) {
    let tile = Smem::<f16>::alloc([32, 64], from.layout());
    let full = Mbarrier::alloc(1);
    full.expect(from.block_bytes());
    from.load_im2col((image, row, col, 0), [0, 0], tile, full);
    full.wait(0);
    to.store((image, row, col, 0), tile);
    tma_store_wait(0);
}

/// A store walks through the window from its first pixel on, and drops what is behind the last image.
#[test]
fn im2col_stores_pixels_that_follow_each_other() {
    let (height, width, channels) = (5, 7, 64);
    let dims = vec![2, height as u64, width as u64, channels as u64];
    let from = ramp(2 * height * width * channels, |i| {
        f16::from_bits(1 + i as u16)
    });
    let upper = [-1, -2, 0];
    let [rows, cols] = [height - 2, width - 1];
    for first in [0, 10, 2 * rows * cols - 5] {
        let image = first / (rows * cols);
        let (row, col) = (first / cols % rows, first % cols);
        let arguments = [
            Argument::Image(bytes(&from), dims.clone(), [0; 3], upper),
            Argument::Image(vec![0; 2 * from.len()], dims.clone(), [0; 3], upper),
            Argument::Int(image as i32),
            Argument::Int(row as i32),
            Argument::Int(col as i32),
        ];
        let after = run(copy_pixels, [1; 3], &arguments);
        let mut wanted = vec![f16::ZERO; from.len()];
        for pixel in first..(first + 32).min(2 * rows * cols) {
            let line = pixel / (rows * cols) * height + pixel / cols % rows;
            let at = (line * width + pixel % cols) * channels;
            wanted[at..at + channels].copy_from_slice(&from[at..at + channels]);
        }
        assert!(after[1] == bytes(&wanted), "{first}");
    }
}

#[test]
fn a_box_begins_at_a_multiple_of_16_bytes() {
    let arguments = [
        tensor(&[f16::ZERO; 256], &[4, 64]),
        tensor(&[f16::ZERO; 256], &[4, 64]),
        buffer(&[f16::ZERO; 256]),
        Argument::Int(0),
        Argument::Int(4),
    ];
    let message = fault(move_block::<f16, 4, 64, 128>, [1; 3], &arguments);
    let wanted = "begins at element 4 of the innermost dimension, 2 bytes each; it must begin at a multiple of 16 bytes";
    assert!(message.contains(wanted), "{message}");
}
