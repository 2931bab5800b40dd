//! Pixels under a tap of a convolution's filter, gathered by TMA loads in im2col mode: a run of output pixels, row after
//! row and image after image, each moved by the tap's offset; pixels in the padding are loaded as zero. Stores walk through
//! images in the same order, under no tap.

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

/// Stores `from`, whose pixels follow each other without gaps, to those of `to`, which may be any distances apart.
#[kernel(warps = 4, instances(<64, 32>))]
pub fn tma_im2col_store<const PIXELS: usize, const CHANNELS: usize>(
    #[block([PIXELS, CHANNELS], Nvmma::B64)] from: TensorMap<f16>,
    #[im2col(4, [PIXELS, CHANNELS], Nvmma::B64)] to: TensorMap<f16>,
    height: i32,
    width: i32,
) {
    let tile = Smem::<f16>::alloc([PIXELS, CHANNELS], from.layout());
    let first = program_id(0) * PIXELS;
    let channel = program_id(1) * CHANNELS;
    let full = Mbarrier::alloc(1);
    full.expect(from.block_bytes());
    from.load([first, channel], tile, full);
    full.wait(0);
    let (row, col) = (first / width % height, first % width);
    to.store((first / (height * width), row, col, channel), tile);
    tma_store_wait_read(0);
}

/// Pixels of even and odd rows and columns of an image, by a launch for each.
#[case(sizes(images = [1, 3, 32], height = [2, 9, 56], width = [3, 12, 56], channels = [32, 64, 256]))]
fn tma_im2col_store_case(case: &mut Case) -> CaseResult {
    const PIXELS: usize = 64;
    const CHANNELS: usize = 32;
    let (images, height, width) = (case.size("images"), case.size("height"), case.size("width"));
    let channels = case.size("channels");
    let out = case.output::<f16>("out", [images, height, width, channels]);
    let classes = [[0, 0], [0, 1], [1, 0], [1, 1]];
    let extents = classes.map(|[row, col]| [(height - row).div_ceil(2), (width - col).div_ceil(2)]);
    let names = ["even_even", "even_odd", "odd_even", "odd_odd"];
    let inputs = std::array::from_fn::<_, 4, _>(|class| {
        let [rows, cols] = extents[class];
        case.normal::<f16>(names[class], [images * rows * cols, channels])
    });
    for (class, [row, col]) in classes.into_iter().enumerate() {
        let [rows, cols] = extents[class];
        let to = out.view().with_shape([images, rows, cols, channels]);
        let line = width * channels;
        let to = to.with_strides([height * line, 2 * line, 2 * channels, 1]);
        let to = to.with_offset(row * line + col * channels);
        let programs = (images * rows * cols).div_ceil(PIXELS);
        case.launch(
            tma_im2col_store::<PIXELS, CHANNELS>,
            grid([programs, channels / CHANNELS]),
            (
                inputs[class].view(),
                to.with_window(&[0, 0], &[0, 0]),
                rows as i32,
                cols as i32,
            ),
        )?;
    }
    case.expect(
        &out,
        |[image, row, col, channel]| {
            let class = row % 2 * 2 + col % 2;
            let [rows, cols] = extents[class];
            let pixel = (image * rows + row / 2) * cols + col / 2;
            inputs[class][[pixel, channel]]
        },
        Exactly,
    )?;
    case.moves_bytes(4 * images * height * width * channels);
    Ok(())
}
