//! Tensors: shapes, unresolved layouts, reductions, masks.

use tilekit::prelude::*;
use tilekit::{Error, Instance};

use crate::check;

#[kernel(warps = 2)]
fn masked_tail(input: Ptr<i32>, out: Ptr<i32>) {
    let n = input.at(0).load();
    let at = arange(0..64, Coalesced);
    let inside = at < n;
    let x = input.at(at + 1).mask(inside).other(-1).load();
    let odd = at % 2 == 1;
    out.at(at).mask(inside && odd || at == 63).store(x * 10);
}

#[test]
fn masks_are_made_of_anything() {
    let of = |n: i32| {
        (0..=n)
            .map(|i| if i == 0 { n } else { i })
            .collect::<Vec<_>>()
    };
    check!(
        masked_tail,
        [of(0), of(1), of(7), of(63)],
        |input: &[i32], out: &mut [i32]| {
            let n = input[0] as usize;
            for at in (1..n).step_by(2) {
                out[at] = input[at + 1] * 10;
            }
            out[63] = if n == 64 { input[64] * 10 } else { -10 };
        }
    );
}

#[kernel(warps = 1)]
fn two_accumulators(input: Ptr<i32>, out: Ptr<i32>) {
    let n = input.at(0).load();
    let start = zeros::<i32>([64], Auto);
    // One zero in two layouts: each variable gets its own.
    let (mut wide, mut narrow) = (start, start);
    for i in range(0, n) {
        let index = arange(0..64, Auto);
        wide += index * i;
        narrow += index + i;
    }
    let four = wide.set_layout(Blocked::new([4], [32], [1], [0]));
    let one = narrow.set_layout(Blocked::new([1], [32], [1], [0]));
    let at = arange(0..64, four.layout());
    out.at(at).store(four + one.convert_layout(four.layout()));
}

#[test]
fn one_value_may_be_wanted_in_two_layouts() {
    check!(
        two_accumulators,
        [[0], [1], [5]],
        |input: &[i32], out: &mut [i32]| {
            for (at, out) in out.iter_mut().enumerate() {
                *out = (0..input[0]).map(|i| at as i32 * i + at as i32 + i).sum();
            }
        }
    );
}

#[kernel(warps = 4)]
fn bias_of_rows(input: Ptr<bf16>, bias: Ptr<f32>, out: Ptr<f32>, rows: i32, cols: i32) {
    let row = arange(0..4, Coalesced).expand_dims(1);
    let col = arange(0..256, Coalesced).expand_dims(0);
    let inside = (row < rows) & (col < cols);
    let at = row * 256 + col;
    // A row of the bias is another shape than the tile, and so another layout: converted where both are operands.
    let b = bias
        .at(col)
        .mask(col < cols)
        .other(0.0)
        .load()
        .convert_layout(Coalesced);
    let x = input.at(at).mask(inside).other(0).load().cast::<f32>();
    out.at(at)
        .mask(inside)
        .store((x + b).convert_layout(Coalesced));
}

#[test]
fn a_row_and_a_tile_share_their_index() -> tilekit::Result<()> {
    let device = Device::emulator();
    let stream = Stream::new(&device)?;
    let x: Vec<bf16> = (0..1024)
        .map(|i| bf16::from_f32((i % 100) as f32))
        .collect();
    let bias: Vec<f32> = (0..256).map(|i| i as f32 / 4.0).collect();
    let kernel = bias_of_rows.compile(&Compiler::default())?.load(&device)?;
    for (rows, cols) in [(4, 256), (3, 255), (1, 1), (0, 7)] {
        let (x_there, bias_there) = (
            Buffer::from_slice(&device, &x)?,
            Buffer::from_slice(&device, &bias)?,
        );
        let out = Buffer::from_slice(&device, &[-1.0_f32; 1024])?;
        kernel.launch(
            &stream,
            grid(1u32),
            (&x_there, &bias_there, &out, rows, cols),
        )?;
        for (at, found) in out.to_vec()?.into_iter().enumerate() {
            let is_inside = (at / 256) < rows as usize && at % 256 < cols as usize;
            let wanted = if is_inside {
                x[at].to_f32() + bias[at % 256]
            } else {
                -1.0
            };
            assert!(
                (found - wanted).abs() == 0.0,
                "element {at} of {rows} x {cols}: {found}, not {wanted}"
            );
        }
    }
    Ok(())
}

#[kernel(warps = 2)]
fn reductions(input: Ptr<i32>, out: Ptr<i32>) {
    let n = input.at(0).load();
    let row = arange(0..8, Auto).expand_dims(1);
    let col = arange(0..16, Auto).expand_dims(0);
    let x =
        ((row * 37 + col * 11) % 29 - n).set_layout(Blocked::new([1, 2], [4, 8], [2, 1], [1, 0]));
    let sums = x.sum(1);
    let mut best = scalar(i32::MIN);
    for k in range(0, 3) {
        let shifted = x * (k - 1);
        let largest = shifted.max(1).max(0).scalar();
        best = best.maximum(largest);
    }
    let at = arange(0..8, sums.layout());
    out.at(at).store(sums);
    out.at(at + 8).store(x.argmax(1));
    let columns = x.min(0);
    out.at(arange(0..16, columns.layout()) + 16).store(columns);
    out.at(40).store(best);
    out.at(41)
        .store(x.reduce(0, |a, b| a ^ b).reduce(0, |a, b| a ^ b).scalar());
}

#[test]
fn reductions_inside_and_outside_of_loops() {
    check!(
        reductions,
        [[0], [13], [1000]],
        |input: &[i32], out: &mut [i32]| {
            let x = |r: i32, c: i32| (r * 37 + c * 11) % 29 - input[0];
            for r in 0..8 {
                out[r as usize] = (0..16).map(|c| x(r, c)).sum();
                let first = (0..16).rev().max_by_key(|c| x(r, *c));
                out[8 + r as usize] = first.unwrap();
            }
            for c in 0..16 {
                out[16 + c as usize] = (0..8).map(|r| x(r, c)).min().unwrap();
            }
            let all = || (0..128).map(|i| x(i / 16, i % 16));
            out[40] = all().flat_map(|x| [-x, 0, x]).max().unwrap();
            out[41] = all().fold(0, |a, b| a ^ b);
        }
    );
}

#[kernel(warps = 1)]
fn branch_of_tensors(input: Ptr<i32>, out: Ptr<i32>) {
    let n = input.at(0).load();
    let at = arange(0..64, Blocked::new([2], [32], [1], [0]));
    let (x, scale) = if n > 0 {
        (at * n, n)
    } else {
        (zeros_like(at), scalar(-1))
    };
    let mut y = x;
    if n > 10 {
        y = y.maximum(at + 100);
    } else if n == 0 {
        y += scale;
    }
    let z = where_(at % 3 == 0, y, 7);
    out.at(at).store(z);
}

#[test]
fn branches_give_tensors() {
    check!(
        branch_of_tensors,
        [[-5], [0], [3], [11]],
        |input: &[i32], out: &mut [i32]| {
            let n = input[0];
            for (at, out) in (0..64).zip(out) {
                let x = if n > 0 { at * n } else { 0 };
                let y = if n > 10 {
                    x.max(at + 100)
                } else if n == 0 {
                    x - 1
                } else {
                    x
                };
                *out = if at % 3 == 0 { y } else { 7 };
            }
        }
    );
}

#[test]
fn a_launch_without_programs_is_refused() -> tilekit::Result<()> {
    let device = Device::emulator();
    let stream = Stream::new(&device)?;
    let kernel = branch_of_tensors
        .compile(&Compiler::default())?
        .load(&device)?;
    let x = Buffer::<i32>::zeros(&device, 64)?;
    let done = kernel.launch(&stream, grid([1, 0]), (&x, &x));
    assert!(
        matches!(done, Err(Error::BadGrid { axis: "y", .. })),
        "{done:?}"
    );
    // A buffer without elements can be passed, but nothing can be read from it.
    let empty = Buffer::<i32>::zeros(&device, 0)?;
    let done = kernel.launch(&stream, grid(1u32), (&empty, &x));
    assert!(matches!(done, Err(Error::Fault(_))), "{done:?}");
    Ok(())
}

#[kernel(warps = 1)]
fn large_tiles<const N: usize>(out: Ptr<i32>) {
    let at = arange(0..N, Coalesced);
    out.at(at).store(at);
}

#[test]
fn sizes_that_cannot_be_are_refused_and_not_a_panic() {
    for (traced, code) in [
        (
            Compiler::default().compile(&Instance::of(large_tiles::<0>)),
            "TK",
        ),
        (
            Compiler::default().compile(&Instance::of(large_tiles::<3>)),
            "TK",
        ),
        (
            Compiler::default().compile(&Instance::of(large_tiles::<{ 1 << 40 }>)),
            "TK",
        ),
    ] {
        let told = traced.expect_err("no such tile").to_string();
        assert!(told.contains(code) && told.contains("tiles.rs:"), "{told}");
    }
    // Of one element there are copies in every thread but one.
    Compiler::default()
        .compile(&Instance::of(large_tiles::<1>))
        .unwrap();
}

#[kernel(warps = 4)]
fn doubles_of_two_widths(input: Ptr<f32>, halves: Ptr<f16>, n: i32) {
    let at = arange(0..1024, Coalesced);
    let inside = at < n;
    let wide = input.at(at).mask(inside).load();
    let narrow = halves.at(at).mask(inside).load();
    input.at(at).mask(inside).store(wide * 2.0);
    halves.at(at).mask(inside).store(narrow + narrow);
}

#[test]
fn accesses_of_two_widths_share_an_index_and_a_mask() -> tilekit::Result<()> {
    let device = Device::emulator();
    let stream = Stream::new(&device)?;
    let kernel = doubles_of_two_widths
        .compile(&Compiler::default())?
        .load(&device)?;
    for n in [0, 1, 6, 1021, 1024] {
        let wide = Buffer::from_slice(&device, &[1.5_f32; 1024])?;
        let narrow = Buffer::from_slice(&device, &[f16::from_f32(0.5); 1024])?;
        kernel.launch(&stream, grid(1u32), (&wide, &narrow, n))?;
        let doubled = |at: usize| at < n as usize;
        for (at, (w, h)) in wide.to_vec()?.into_iter().zip(narrow.to_vec()?).enumerate() {
            let factor: f32 = if doubled(at) { 2.0 } else { 1.0 };
            assert_eq!(
                (w.to_bits(), h),
                ((1.5 * factor).to_bits(), f16::from_f32(0.5 * factor)),
                "{at} of {n}"
            );
        }
    }
    Ok(())
}

#[kernel(warps = 1)]
fn swizzled_buffers(input: Ptr<i32>, out: Ptr<i32>) {
    let layout = Blocked::new([1, 4], [4, 8], [1, 1], [1, 0]);
    let row = arange(0..2, Slice::new(1, layout.clone())).expand_dims(1);
    let col = arange(0..32, Slice::new(0, layout.clone())).expand_dims(0);
    let x = input.at(row * 32 + col).load();
    // The swizzle alone: of each of three matrices, and of one.
    let buffers = Smem::<i32>::alloc([3, 2, 32], Nvmma::B128);
    for k in 0..3 {
        buffers.index(k).store(x + k);
    }
    let copy = Smem::alloc_with(buffers.index(2).load(layout.clone()), Nvmma::B64);
    out.at(row * 32 + col)
        .store(copy.load(layout.clone()) * 2 + buffers.index(1).load(layout));
}

#[test]
fn tiles_take_a_swizzle_alone() {
    let input: Vec<i32> = (0..64).map(|i| i * 13 % 37).collect();
    check!(
        swizzled_buffers,
        [input],
        |input: &[i32], out: &mut [i32]| {
            for (out, x) in out.iter_mut().zip(input) {
                *out = (x + 2) * 2 + x + 1;
            }
        }
    );
}

#[kernel(warps = 2)]
fn reduced_twice(input: Ptr<i32>, out: Ptr<i32>) {
    let x = input.at(arange(0..64, Coalesced)).load();
    let five = x.reshape([2, 4, 2, 2, 2]);
    // A slice of a slice, which the reshape behind it would rather have without a name.
    let largest = five.sum(1).max(3);
    let swapped = largest.permute([1, 0, 2]).ravel();
    let at = arange(0..8, Coalesced);
    out.at(at).store(swapped.convert_layout(Coalesced));
    // What is left of a vector is one element.
    let sum = x.sum(0);
    out.at(8).store(sum);
    out.at(9).mask(sum > 0).store(x.max(0));
    let _ = out.at(10).atomic_add(x.min(0));
}

#[test]
fn reductions_of_reductions_and_their_last_element() {
    let of = |n: i32| (0..64).map(|i| i * 29 % 61 - n).collect::<Vec<_>>();
    check!(
        reduced_twice,
        [of(20), of(60)],
        |input: &[i32], out: &mut [i32]| {
            for (a, c, d) in (0..8).map(|i| (i / 2 % 2, i / 4, i % 2)) {
                let sum = |e: usize| -> i32 {
                    (0..4)
                        .map(|b| input[a * 32 + b * 8 + c * 4 + d * 2 + e])
                        .sum()
                };
                out[c * 4 + a * 2 + d] = sum(0).max(sum(1));
            }
            let sum = input.iter().sum();
            out[8] = sum;
            out[9] = if sum > 0 {
                *input.iter().max().unwrap()
            } else {
                0
            };
            out[10] = *input.iter().min().unwrap();
        }
    );
}

/// Adds the number of warps that it is traced for to the 32 numbers from `from` on.
#[device]
fn add_warps(input: Ptr<i32>, out: Ptr<i32>, from: i32) {
    let at = arange(0..32, Blocked::new([1], [32], [num_warps()], [0])) + from;
    out.at(at).store(input.at(at).load() + num_warps() as i32);
}

#[kernel(warps = 4)]
fn code_of_several_partitions(input: Ptr<i32>, out: Ptr<i32>) {
    warp_specialize()
        .main(|| add_warps(input, out, 0))
        .worker(Warps(2), || add_warps(input, out, 32))
        .run();
}

#[kernel(warps = 8)]
fn code_of_a_kernel(input: Ptr<i32>, out: Ptr<i32>) {
    add_warps(input, out, 0);
    add_warps(input, out, 32);
}

#[test]
fn code_knows_the_warps_that_run_it() {
    let input: [i32; 64] = std::array::from_fn(|i| i as i32);
    check!(
        code_of_several_partitions,
        [input],
        |input: &[i32], out: &mut [i32]| {
            for at in 0..64 {
                out[at] = input[at] + if at < 32 { 4 } else { 2 };
            }
        }
    );
    check!(
        code_of_a_kernel,
        [input],
        |input: &[i32], out: &mut [i32]| {
            for at in 0..64 {
                out[at] = input[at] + 8;
            }
        }
    );
}
