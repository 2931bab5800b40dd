//! Tensor maps as arguments: made from the caller's tensor and the kernel's own blocks.

use tilekit::prelude::*;
use tilekit::{Error, L2Promotion, LoadedKernel};

use crate::devices;

/// Block (1, 1) of a tensor of `4×8` blocks; `COPY_BLOCK` is what it does.
#[kernel(warps = 1)]
fn copy_block(#[block([4, 8], Nvmma::PLAIN)] x: TensorMap<i32>, _out: Ptr<i32>) {}

/// 8 pixels of 4 channels of image 1, one pixel before its begin, at filter position (2, 1); `COPY_PIXELS` is what it does.
#[kernel(warps = 1)]
fn copy_pixels(#[im2col(4, [8, 4], Nvmma::PLAIN)] x: TensorMap<i32>, _out: Ptr<i32>) {}

/// PTX of a kernel in which one thread has `copy` bring 128 bytes of the map in `%rd1` to `%r2`, completing on `%r3`, and
/// each thread stores an element.
fn moved_by(entry: &str, copy: &str) -> String {
    format!(
        "
.version 8.0
.target sm_90a
.address_size 64
.visible .entry {entry}(.param .align 64 .b8 map[128], .param .u64 out)
.reqntid 32, 1, 1
{{
    .reg .pred %p<2>;
    .reg .b32 %r<12>;
    .reg .b16 %h<3>;
    .reg .b64 %rd<6>;
    .shared .align 128 .b8 tile[128];
    .shared .align 8 .b8 bar[8];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, tile;
    mov.u32 %r3, bar;
    mov.u64 %rd1, map;
    cvta.param.u64 %rd1, %rd1;
    ld.param.u64 %rd2, [out];
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra READY;
    mbarrier.init.shared::cta.b64 [%r3], 1;
    fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared::cta.b64 %rd3, [%r3], 128;
{copy}READY:
    bar.sync 0;
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r3], 0;
    @!%p1 bra WAIT;
    shl.b32 %r6, %r1, 2;
    add.u32 %r7, %r2, %r6;
    ld.shared.u32 %r6, [%r7];
    mul.wide.u32 %rd4, %r1, 4;
    add.u64 %rd5, %rd2, %rd4;
    st.global.u32 [%rd5], %r6;
    ret;
}}
"
    )
}

const COPY_BLOCK: &str = "    mov.u32 %r4, 8;
    mov.u32 %r5, 4;
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r2], [%rd1, {%r4, %r5}], [%r3];
";

const COPY_PIXELS: &str = "    mov.u32 %r4, 0;
    mov.u32 %r5, -1;
    mov.u32 %r8, -1;
    mov.u32 %r9, 1;
    mov.u16 %h1, 1;
    mov.u16 %h2, 2;
    cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%r2], [%rd1, {%r4, %r5, %r8, %r9}], [%r3], {%h1, %h2};
";

/// The code above in place of what the kernels compile to, so that these tests need nothing of the language but heads.
fn compiler() -> Compiler {
    Compiler::default().replacing(|entry| match entry {
        "copy_block" => Some(moved_by(entry, COPY_BLOCK)),
        "copy_pixels" => Some(moved_by(entry, COPY_PIXELS)),
        other => panic!("no kernel here has the entry `{other}`"),
    })
}

type Head = (TensorMap<i32>, Ptr<i32>);

fn blocks(device: &Device) -> tilekit::Result<LoadedKernel<Head>> {
    copy_block.compile(&compiler())?.load(device)
}

#[test]
fn the_kernels_blocks_are_cut_from_the_callers_tensor() -> tilekit::Result<()> {
    for device in devices() {
        let stream = Stream::new(&device)?;
        let x = Buffer::from_slice(&device, &(0..16 * 16).collect::<Vec<i32>>())?;
        let out = Buffer::<i32>::zeros(&device, 32)?;
        let kernel = blocks(&device)?;
        // 6 rows and 13 columns, the rows 16 apart: what lies outside comes as 0.
        let view = x.view([6, 13]).with_strides([16, 1]);
        kernel.launch(&stream, grid(1u32), (&view, &out))?;
        stream.synchronize()?;
        let inside = |row: i32, column: i32| {
            let value = row * 16 + column;
            if row < 6 && column < 13 { value } else { 0 }
        };
        let want: Vec<i32> = (4..8)
            .flat_map(|row| (8..16).map(move |column| inside(row, column)))
            .collect();
        assert_eq!(out.to_vec()?, want);

        // The same block, one row further down, by the offset and with maps made once.
        let moved = x.view([5, 16]).with_offset(16);
        let prepared = kernel.prepare(grid(1u32), (moved, &out))?;
        prepared.launch(&stream)?;
        stream.synchronize()?;
        assert_eq!(out.to_vec()?[..2], [88, 89]);
        assert_eq!(out.to_vec()?[8..], [0; 24], "row 5 of 5 is outside");
    }
    Ok(())
}

#[test]
fn what_is_fetched_into_l2_changes_nothing_of_a_copy() -> tilekit::Result<()> {
    use L2Promotion::{Bytes64, Bytes128, Bytes256, None};
    for device in devices() {
        let stream = Stream::new(&device)?;
        let x = Buffer::from_slice(&device, &(0..16 * 16).collect::<Vec<i32>>())?;
        let kernel = blocks(&device)?;
        for promotion in [None, Bytes64, Bytes128, Bytes256] {
            let out = Buffer::<i32>::zeros(&device, 32)?;
            let view = x.view([16, 16]).with_l2_promotion(promotion);
            kernel.launch(&stream, grid(1u32), (view, &out))?;
            stream.synchronize()?;
            let want: Vec<i32> = (0..32).map(|at| (4 + at / 8) * 16 + 8 + at % 8).collect();
            assert_eq!(out.to_vec()?, want, "{promotion:?}");
        }
    }
    Ok(())
}

#[test]
fn a_copy_moves_whole_blocks_in_steps() -> tilekit::Result<()> {
    let element = |row: usize, col: usize| (100 * row + col) as i32;
    let elements: Vec<i32> = (0..20 * 32).map(|at| element(at / 32, at % 32)).collect();
    for device in devices() {
        let stream = Stream::new(&device)?;
        let x = Buffer::from_slice(&device, &elements)?;
        let out = Buffer::<i32>::zeros(&device, 32)?;
        let view = x.view([20, 32]).with_steps(&[3, 1]);
        blocks(&device)?.launch(&stream, grid(1), (view, &out))?;
        stream.synchronize()?;
        let want: Vec<i32> = (0..32)
            .map(|at| element(4 + 3 * (at / 8), 8 + at % 8))
            .collect();
        assert_eq!(out.to_vec()?, want, "{device:?}");
    }
    Ok(())
}

#[test]
fn pixels_are_taken_within_the_callers_window() -> tilekit::Result<()> {
    let (height, width, channels) = (5, 6, 4);
    for device in devices() {
        let stream = Stream::new(&device)?;
        let len = 2 * height * width * channels;
        let x = Buffer::from_slice(&device, &(1..=len).collect::<Vec<i32>>())?;
        let out = Buffer::<i32>::zeros(&device, 32)?;
        let kernel = copy_pixels.compile(&compiler())?.load(&device)?;
        let view = x
            .view([2, height as usize, width as usize, channels as usize])
            .with_window(&[-1, -1], &[-1, -1]);
        kernel.launch(&stream, grid(1u32), (view, &out))?;
        stream.synchronize()?;
        // A 3×3 filter with padding 1: as many starts along a row as there are pixels, from one before the first.
        let value = |pixel: i32, channel: i32| {
            let (row, column) = (pixel / width - 1 + 2, pixel % width - 1 + 1);
            let is_inside = (0..height).contains(&row) && (0..width).contains(&column);
            let place = ((height + row) * width + column) * channels + channel;
            if is_inside { place + 1 } else { 0 }
        };
        let want: Vec<i32> = (0..8)
            .flat_map(|pixel| (0..4).map(move |channel| value(pixel, channel)))
            .collect();
        assert_eq!(out.to_vec()?, want, "{device:?}");
    }
    Ok(())
}

/// What a launch with this tensor says.
#[track_caller]
fn check_refused(
    view: impl Fn(&Buffer<i32>) -> TensorView<'_, i32>,
    rule: &str,
) -> tilekit::Result<()> {
    for device in devices() {
        let stream = Stream::new(&device)?;
        let x = Buffer::<i32>::zeros(&device, 1024)?;
        let out = Buffer::<i32>::zeros(&device, 32)?;
        let kernel = blocks(&device)?;
        let refused = kernel.launch(&stream, grid(1u32), (view(&x), &out));
        let line = refused
            .expect_err("the tensor cannot be copied")
            .to_string();
        assert!(line.contains("argument `x` of `copy_block`"), "{line}");
        assert!(line.contains(rule), "{line}");
    }
    Ok(())
}

#[test]
fn a_tensor_that_cannot_be_copied_is_refused_by_the_arguments_name() -> tilekit::Result<()> {
    check_refused(
        |x| x.view([4, 4, 4]),
        "the tensor has 3 dimensions, and the kernel's copies give 2",
    )?;
    check_refused(|x| x.view([32, 31]), "a stride of 124 bytes")?;
    check_refused(
        |x| x.view([8, 32]).with_offset(2),
        "must be a multiple of 16",
    )?;
    check_refused(
        |x| x.view([32, 33]),
        "ends after element 1056 and its buffer has 1024",
    )?;
    check_refused(|x| x.view([usize::MAX, 32]), "its buffer has 1024")?;
    check_refused(|x| x.view([32, 32]).with_strides([32, 2]), "it must be 1")?;
    check_refused(|x| x.view([32, 32]).with_strides([32]), "1 strides")?;
    check_refused(
        |x| x.view([32, 32]).with_steps(&[9, 1]),
        "an element stride of 9",
    )?;
    check_refused(
        |x| x.view([32, 32]).with_steps(&[1, 2]),
        "steps of 2 along the innermost dimension",
    )?;
    check_refused(|x| x.view([32, 32]).with_steps(&[1]), "steps along 1")?;
    check_refused(
        |x| x.view([32, 32]).with_steps(&[65, 1]),
        "4 elements in steps of 65 reach over 260",
    )?;
    check_refused(|x| x.view([32, 32]).filled_with_nan(), "only floats")?;
    check_refused(
        |x| x.view([32, 32]).with_window(&[0], &[0]),
        "only an `#[im2col]` parameter",
    )?;
    check_refused(
        |x| x.view([0, 32]),
        "dimension 0 of the tensor has no elements",
    )?;
    Ok(())
}

#[test]
fn a_window_is_checked_against_the_image() -> tilekit::Result<()> {
    let device = Device::emulator();
    let stream = Stream::new(&device)?;
    let x = Buffer::<i32>::zeros(&device, 1024)?;
    let out = Buffer::<i32>::zeros(&device, 32)?;
    let kernel = copy_pixels.compile(&compiler())?.load(&device)?;
    for (window, rule) in [
        ([&[0, 0, 0][..], &[0, 0]], "lower corner has 3 offsets"),
        ([&[0, 0], &[0]], "upper corner has 1 offsets"),
        ([&[-200, 0], &[0, 0]], "it can be -128 to 127"),
    ] {
        let view = x.view([2, 8, 8, 8]).with_window(window[0], window[1]);
        let refused = kernel.launch(&stream, grid(1u32), (view, &out));
        let line = refused.expect_err("no such window").to_string();
        assert!(line.contains(rule), "{line}");
    }
    Ok(())
}

#[test]
fn a_tensor_of_another_device_is_refused() -> tilekit::Result<()> {
    let device = Device::emulator();
    let stream = Stream::new(&device)?;
    let elsewhere = Buffer::<i32>::zeros(&Device::emulator(), 1024)?;
    let out = Buffer::<i32>::zeros(&device, 32)?;
    let refused = blocks(&device)?.launch(&stream, grid(1u32), (elsewhere.view([32, 32]), &out));
    assert!(matches!(refused, Err(Error::DeviceMismatch { .. })));
    Ok(())
}
