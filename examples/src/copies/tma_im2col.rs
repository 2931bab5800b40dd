//! Pixels under a tap of a convolution's filter, gathered by TMA loads in im2col mode: a run of output pixels, row after
//! row and image after image, each moved by the tap's offset; pixels in the padding are loaded as zero.

use tilekit::prelude::*;

/// `out[tap, pixel, channel]`: for each tap of a filter of 3 by 3 the input pixels under it, `PIXELS` of them for each
/// program.
#[kernel(warps = 4, instances(<64, 32>), signature(
    image: [images, height, width, channels], out: [9, pixels, channels],
    window(image, [-1, -1], [-1, -1]),
    grid = [cdiv(pixels, PIXELS), channels / CHANNELS],
    requires(pixels == images * height * width, channels % CHANNELS == 0),
))]
pub fn tma_im2col<const PIXELS: usize, const CHANNELS: usize>(
    #[im2col(4, [PIXELS, CHANNELS], Nvmma::B64)] image: TensorMap<f16>,
    #[block([1, PIXELS, CHANNELS], Nvmma::new(64, 16).with_rank(3))] out: TensorMap<f16>,
    height: i32,
    width: i32,
) {
    let tile = Smem::<f16>::alloc([PIXELS, CHANNELS], image.layout());
    let first = program_id(0) * PIXELS;
    let channel = program_id(1) * CHANNELS;
    let (row, col) = (first / width % height, first % width);
    let full = Mbarrier::alloc(1);
    // The coordinates are those of the first tap, which lies a pixel of padding further up and to the left.
    let at = (first / (height * width), row - 1, col - 1, channel);
    for tap in 0..9 {
        full.expect(image.block_bytes());
        image.load_im2col(at, [tap / 3, tap % 3], tile, full);
        full.wait(tap % 2);
        out.store((tap, first, channel), tile.reshape([1, PIXELS, CHANNELS]));
        tma_store_wait_read(0);
    }
}

#[case(sizes(images = [1, 3, 32], height = [1, 5, 56], width = [3, 8, 56], channels = [32, 64, 256]))]
fn tma_im2col_case(case: &mut Case) -> CaseResult {
    const PIXELS: usize = 64;
    const CHANNELS: usize = 32;
    let (images, height, width) = (case.size("images"), case.size("height"), case.size("width"));
    let channels = case.size("channels");
    let pixels = images * height * width;
    let x = case.normal::<f16>("x", [images, height, width, channels]);
    let out = case.output::<f16>("out", [9, pixels, channels]);
    case.launch(
        tma_im2col::<PIXELS, CHANNELS>,
        grid([pixels.div_ceil(PIXELS), channels / CHANNELS]),
        (
            x.view().with_window(&[-1, -1], &[-1, -1]),
            out.view(),
            height as i32,
            width as i32,
        ),
    )?;
    case.expect(
        &out,
        |[tap, pixel, channel]| {
            let row = (pixel / width % height + tap / 3).checked_sub(1);
            let col = (pixel % width + tap % 3).checked_sub(1);
            let inside = row.zip(col).filter(|&(r, c)| r < height && c < width);
            inside.map_or(f16::ZERO, |(r, c)| {
                x[[pixel / (height * width), r, c, channel]]
            })
        },
        Exactly,
    )?;
    case.moves_bytes(2 * (9 * pixels * channels + images * height * width * channels));
    Ok(())
}
