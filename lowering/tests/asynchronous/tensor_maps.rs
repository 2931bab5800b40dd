//! Tensor maps that kernels make: of every rank and element, at ragged edges, for other partitions, made again and again.

use gluon_lang::lang::Element;
use gluon_lang::lang::prelude::*;

use crate::machine::{Argument, Number, buffer, bytes, fault, numbers, run};

/// Places of maps: 16 u64 each.
fn places(count: usize) -> Argument {
    buffer(&vec![-1_i32; count * 32])
}

/// Copies the block at `row`, `col` of `x` to the same place of `out`, both of `[height, width]` with rows of `stride`.
#[allow(
    clippy::too_many_arguments,
    reason = "what the host says of a tensor comes as numbers"
)]
#[kernel(warps = 4)]
fn move_block<T: Element, const ROWS: usize, const COLS: usize, const SWIZZLE: u32>(
    x: Ptr<T>,
    out: Ptr<T>,
    places: Ptr<u64>,
    height: i32,
    width: i32,
    stride: i32,
    row: i32,
    col: i32,
) {
    let layout = Nvmma::new(SWIZZLE, T::DTYPE.bits());
    let size = [ROWS, COLS];
    let x = (x.tensor([height, width], [stride])).map(size, layout.clone(), places);
    let out = (out.tensor([height, width], [stride])).map(size, layout, places + 16);
    let tile = Smem::<T>::alloc(x.block(), x.layout());
    let full = Mbarrier::alloc(1);
    full.expect(x.block_bytes());
    x.load([row, col], tile, full);
    full.wait(0);
    let is_stored = (row >= 0) & (col >= 0);
    out.copy().when(is_stored).store([row, col], tile);
    tma_store_wait(0);
}

/// Columns behind a row that belong to no tensor stay as they are, and so does all of a tensor in front of which a block begins.
#[track_caller]
fn check_move<T: Element + Number, const R: usize, const C: usize, const SWIZZLE: u32>(
    make: impl Fn(u32) -> T,
) {
    let step = 16 / T::BYTES as i32;
    let (height, width) = (R as i32 + 3, C as i32 + step);
    let stride = width + 2 * step;
    let count = (height * stride) as usize;
    let from: Vec<T> = (0..count as u32).map(&make).collect();
    let zero = make(0);
    for (row, col) in [(0, 0), (3, step), (4, 2 * step), (-2, -step)] {
        let arguments = [
            buffer(&from),
            buffer(&vec![zero; count]),
            places(2),
            Argument::Int(height),
            Argument::Int(width),
            Argument::Int(stride),
            Argument::Int(row),
            Argument::Int(col),
        ];
        let after = run(move_block::<T, R, C, SWIZZLE>, [1; 3], &arguments);
        let mut copy = vec![zero; count];
        let is_stored = row >= 0 && col >= 0;
        for r in row..(row + R as i32).min(height) {
            for c in (col..(col + C as i32).min(width)).filter(|_| is_stored) {
                let at = (r * stride + c) as usize;
                copy[at] = from[at];
            }
        }
        assert!(after[1] == bytes(&copy), "[{row}, {col}]");
    }
}

#[test]
fn blocks_of_every_swizzle_move_through_maps_of_the_kernel() {
    check_move::<f16, 64, 64, 128>(|i| f16::from_bits(i as u16));
    check_move::<bf16, 16, 16, 32>(|i| bf16::from_bits(i as u16));
    check_move::<f32, 16, 16, 64>(f32::from_bits);
    check_move::<i32, 16, 16, 0>(|i| i as i32);
    check_move::<u8, 8, 512, 0>(|i| i as u8);
}

/// Tensors of one and of three dimensions.
#[kernel(warps = 1)]
fn ranks(x: Ptr<f32>, out: Ptr<f32>, places: Ptr<u64>, n: i32) {
    let line = x.tensor([n], ()).map([32], Nvmma::PLAIN, places);
    let cube = out
        .tensor((2, n / 8, 4), (n * 2, 8))
        .map([2, 4, 4], Nvmma::PLAIN, places + 16);
    let tile = Smem::<f32>::alloc([32], line.layout());
    let full = Mbarrier::alloc(1);
    full.expect(line.block_bytes());
    line.load([8], tile, full);
    full.wait(0);
    let shape = Blocked::new([1, 1, 1], [2, 4, 4], [1, 1, 1], [2, 1, 0]);
    let block = tile.load(Blocked::new([1], [32], [1], [0]));
    let block = block.reshape([2, 4, 4]).convert_layout(shape);
    let brick = Smem::alloc_with(block, cube.layout());
    cube.store((0, 1, 0), brick);
    tma_store_wait(0);
}

#[test]
fn tensors_have_one_to_five_dimensions() {
    let n = 32_i32;
    let from: Vec<f32> = (0..n).map(|i| i as f32 + 1.0).collect();
    let out = vec![0.0_f32; 2 * 64];
    let arguments = [buffer(&from), buffer(&out), places(2), Argument::Int(n)];
    let after = run(ranks, [1; 3], &arguments);
    let mut wanted = out;
    for plane in 0..2 {
        for row in 0..3 {
            for col in 0..4 {
                let at = 8 + (plane * 4 + row) * 4 + col;
                let value = from.get(at).copied().unwrap_or(0.0);
                wanted[plane * 64 + (row + 1) * 8 + col] = value;
            }
        }
    }
    assert_eq!(numbers::<f32>(&after[1]), wanted);
}

/// What lies beyond the tensor is no number.
#[kernel(warps = 1)]
fn beyond(x: Ptr<f32>, out: Ptr<i32>, places: Ptr<u64>, n: i32) {
    let line = x.tensor([n], ()).filled_with_nan();
    let line = line.map([32], Nvmma::PLAIN, places);
    let tile = Smem::<f32>::alloc([32], line.layout());
    let full = Mbarrier::alloc(1);
    full.expect(line.block_bytes());
    line.load([0], tile, full);
    full.wait(0);
    let values = tile.load(Blocked::new([1], [32], [1], [0]));
    let is_nan = !(values >= 0.0);
    out.at(arange(0..32, values.layout()))
        .store(is_nan.cast::<i32>());
}

#[test]
fn elements_outside_are_zero_or_nan() {
    let arguments = [
        buffer(&[1.0_f32; 24]),
        buffer(&[-1_i32; 32]),
        places(1),
        Argument::Int(21),
    ];
    let after = run(beyond, [1; 3], &arguments);
    let wanted: Vec<i32> = (0..32).map(|i| i32::from(i >= 21)).collect();
    assert_eq!(numbers::<i32>(&after[1]), wanted);
}

/// Groups of rows that lie one behind the other: a map for each, made where the last one was, so that what a block has
/// beyond its group is not stored over the next.
#[kernel(warps = 4)]
fn groups(x: Ptr<f32>, out: Ptr<f32>, ends: Ptr<i32>, places: Ptr<u64>, count: i32) {
    let layout = Blocked::new([1, 4], [4, 8], [4, 1], [1, 0]);
    let place = places + program_id(0) * 16;
    let tile = Smem::<f32>::alloc([16, 32], Nvmma::B128.of(32));
    let full = Mbarrier::alloc(1);
    let mut phase = scalar(0);
    for group in range(program_id(0), count).step(num_programs(0)) {
        let first = (ends + group).load();
        let rows = (ends + group + 1).load() - first;
        let source = (x + first * 32).tensor((rows, 32), (32,));
        let a = source.map([16, 32], Nvmma::B128, place);
        for block in range(0, cdiv(rows, 16)) {
            full.expect(a.block_bytes());
            a.load([block * 16, scalar(0)], tile, full);
            full.wait(phase);
            phase ^= 1;
            let sum = tile.load(layout.clone()) + group.cast::<f32>();
            let row = block * 16 + arange(0..16, Slice::new(1, layout.clone())).expand_dims(1);
            let col = arange(0..32, Slice::new(0, layout.clone())).expand_dims(0);
            let place = (out + first * 32).at(row * 32 + col);
            place.mask(row < rows).store(sum);
        }
    }
}

#[test]
fn a_map_is_made_for_each_group() {
    let sizes = [5, 0, 33, 16, 1, 20, 7];
    let mut ends = vec![0_i32];
    for size in sizes {
        ends.push(ends[ends.len() - 1] + size);
    }
    let total = ends[ends.len() - 1] as usize * 32;
    let from: Vec<f32> = (0..total).map(|i| i as f32).collect();
    let arguments = [
        buffer(&from),
        buffer(&vec![0.0_f32; total]),
        buffer(&ends),
        places(3),
        Argument::Int(sizes.len() as i32),
    ];
    let after = run(groups, [3, 1, 1], &arguments);
    let group_of = |row: usize| ends[1..].iter().filter(|&&end| end as usize <= row).count();
    let wanted: Vec<f32> = (0..total).map(|i| (i + group_of(i / 32)) as f32).collect();
    assert_eq!(numbers::<f32>(&after[1]), wanted);
}

/// One partition loads through a map that all made before they parted, the other through one of its own.
#[kernel(warps = 4)]
fn parted(x: Ptr<f32>, out: Ptr<f32>, places: Ptr<u64>) {
    let a = (x.tensor((16, 32), (32,))).map([16, 32], Nvmma::B128, places);
    let tile = Smem::<f32>::alloc([2, 16, 32], a.layout());
    let full = Mbarriers::alloc(2, Arrivals(1));
    warp_specialize()
        .main(|| {
            full.index(0).wait(0);
            full.index(1).wait(0);
            let layout = Blocked::new([1, 4], [4, 8], [4, 1], [1, 0]);
            let sum = tile.index(0).load(layout.clone()) + tile.index(1).load(layout.clone());
            let row = arange(0..16, Slice::new(1, layout.clone())).expand_dims(1);
            let col = arange(0..32, Slice::new(0, layout)).expand_dims(0);
            out.at(row * 32 + col).store(sum);
        })
        .worker(Warps(1), || {
            full.index(0).expect(a.block_bytes());
            a.load((0, 0), tile.index(0), full.index(0));
        })
        .worker(Warps(1), || {
            let b = (x.tensor((8, 32), (32,))).map([16, 32], Nvmma::B128, places + 16);
            full.index(1).expect(b.block_bytes());
            b.load((0, 0), tile.index(1), full.index(1));
        })
        .run();
}

#[test]
fn partitions_make_and_share_maps() {
    let from: Vec<f32> = (0..512).map(|i| i as f32).collect();
    let arguments = [buffer(&from), buffer(&[0.0_f32; 512]), places(2)];
    let after = run(parted, [1; 3], &arguments);
    let twice = |i: usize| if i < 256 { 2.0 } else { 1.0 };
    let wanted: Vec<f32> = (0..512).map(|i| i as f32 * twice(i)).collect();
    assert_eq!(numbers::<f32>(&after[1]), wanted);
}

#[test]
fn maps_that_tma_would_refuse_are_reported() {
    let arguments = |stride: i32, height: i32| {
        [
            buffer(&[1.0_f32; 1024]),
            buffer(&[0.0_f32; 1024]),
            places(2),
            Argument::Int(height),
            Argument::Int(16),
            Argument::Int(stride),
            Argument::Int(0),
            Argument::Int(0),
        ]
    };
    let kernel = move_block::<f32, 16, 16, 64>;
    let stride = fault(kernel, [1; 3], &arguments(18, 16));
    let expected = "has a stride of 72 bytes; it must be a multiple of 16 below 2^40";
    assert!(stride.contains(expected), "{stride}");
    let beyond = fault(kernel, [1; 3], &arguments(128, 16));
    assert!(
        beyond.contains("past the end of the allocation"),
        "{beyond}"
    );
}

/// A map 64 bytes behind its place.
#[kernel(warps = 4)]
fn off_its_place(x: Ptr<f32>, places: Ptr<u64>) {
    let map = x
        .tensor([16, 16], [16])
        .map([16, 16], Nvmma::B64, places + 8);
    let tile = Smem::<f32>::alloc(map.block(), map.layout());
    map.store([0, 0], tile);
}

#[test]
fn a_map_lies_at_a_multiple_of_its_size() {
    let arguments = [buffer(&[1.0_f32; 256]), places(2)];
    let off = fault(off_its_place, [1; 3], &arguments);
    assert!(
        off.contains("the address must be a multiple of 128 bytes"),
        "{off}"
    );
}
