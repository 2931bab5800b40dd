//! What lies under the filters at each pixel of the result, one after the other: the rows of a product, where no im2col map reaches all pixels or the image has few channels.

use tilekit::prelude::*;

use super::launch::{WalkArguments, walk_of};
use super::shape::{Along, Shape, UNIT};
use super::walk::Walk;
use crate::products::factor::Stored;

/// Elements of a program.
pub(super) const ELEMENTS: usize = 1024;

/// `rows[pixel, tap * channels + channel]` is that channel of the pixel of `image` under a tap, and 0 outside of it and behind the last tap. Rows have `row` elements, and images `input` pixels along depth, height and width.
/// A program has some elements of the rows of a line of pixels.
#[kernel(warps = 4, instances(<bf16>, <f16>))]
pub fn gather_patches<T: Stored>(
    #[align(size_of::<T>())] image: Ptr<T>,
    #[align(size_of::<T>())] rows: Ptr<T>,
    channels: i32,
    row: i32,
    input: [i32; 3],
    walk: Walk,
) {
    let (image, rows) = (image.cast::<T::Bits>(), rows.cast::<T::Bits>());
    let length = walk.out[2] * row;
    let blocks = cdiv(length, ELEMENTS);
    let (line, block) = (program_id(0) / blocks, program_id(0) % blocks);
    let layout = Blocked::new([1], [32], [4], [0]);
    let at = block * ELEMENTS + arange(0..ELEMENTS, layout);
    let (pixel, within) = (at / row, at % row);
    let (tap, channel) = (within / channels, within % channels);
    let [planes, lines, pixels] = walk.taps;
    let (of_line, k) = (tap / pixels, tap % pixels);
    let (i, j) = (of_line / lines, of_line % lines);
    let [index, plane, top, left] = walk.first(line * walk.out[2], true);
    let [deep, high, wide] = walk.spread;
    let x = left + pixel * walk.step[2] + k * wide;
    let (y, z) = (top + j * high, plane + i * deep);
    let [depth, height, width] = input;
    let is_there = (x >= 0) & (x < width) & (y >= 0) & (y < height) & (z >= 0) & (z < depth);
    let inside = at < length;
    let line_of = (index * depth + z) * height + y;
    let place = line_of.cast::<i64>() * width + x.cast::<i64>();
    let place = place * channels.cast::<i64>() + channel.cast::<i64>();
    let source = image.at(place).mask(inside & is_there & (i < planes));
    let elements = source.other(0).load();
    let rows = rows + line.cast::<i64>() * length.cast::<i64>();
    rows.at(at).mask(inside).store(elements);
}

/// Each channel of the pixels of `image` from the row and the tap that reaches it, of rows as those of [`gather_patches`], and 0 where none does: of taps that do not overlap those of other pixels of the result.
/// A program has some elements of a line of pixels.
#[kernel(warps = 4, instances(<bf16>, <f16>))]
pub fn scatter_patches<T: Stored>(
    #[align(size_of::<T>())] image: Ptr<T>,
    #[align(size_of::<T>())] rows: Ptr<T>,
    channels: i32,
    row: i32,
    input: [i32; 3],
    walk: Walk,
) {
    let (image, rows) = (image.cast::<T::Bits>(), rows.cast::<T::Bits>());
    let [depth, height, width] = input;
    let length = width * channels;
    let blocks = cdiv(length, ELEMENTS);
    let (line, block) = (program_id(0) / blocks, program_id(0) % blocks);
    let layout = Blocked::new([1], [32], [4], [0]);
    let at = block * ELEMENTS + arange(0..ELEMENTS, layout);
    let (x, channel) = (at / channels, at % channels);
    let (y, plane) = (line % height, line / height);
    let (z, index) = (plane % depth, plane / depth);
    let above = |input: Tensor<i32>, dim: usize| {
        let from = input - walk.lower[dim];
        let (output, within) = (from / walk.step[dim], from % walk.step[dim]);
        let tap = within / walk.spread[dim];
        let is_there = (within % walk.spread[dim] == 0) & (tap < walk.taps[dim]);
        (output, tap, is_there & (output < walk.out[dim]))
    };
    let all = |x: Scalar<i32>| full_like(at, 0) + x;
    let [(deep, i, is_deep), (high, j, is_high), (wide, k, is_wide)] =
        [above(all(z), 0), above(all(y), 1), above(x, 2)];
    let pixel = ((index * walk.out[0] + deep) * walk.out[1] + high) * walk.out[2] + wide;
    let tap = (i * walk.taps[1] + j) * walk.taps[2] + k;
    let place = pixel.cast::<i64>() * row.cast::<i64>() + (tap * channels + channel).cast::<i64>();
    let inside = at < length;
    let elements = rows.at(place).mask(inside & is_deep & is_high & is_wide);
    let image = image + line.cast::<i64>() * length.cast::<i64>();
    image.at(at).mask(inside).store(elements.other(0).load());
}

/// Microseconds to gather or scatter so many elements, each of which takes some divisions, by a launch beside that of the product.
pub(super) fn patches_us(elements: usize) -> f64 {
    8.0 + 4.5e-6 * elements as f64
}

/// What lies under the filters at the pixels of a result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Patches {
    shape: Shape,
    /// Elements of a row, of which the last are zeros.
    pub(super) row: usize,
}

impl Patches {
    /// Those of a convolution without groups.
    pub(super) fn of(shape: &Shape) -> Patches {
        let row = (shape.channels * shape.taps()).next_multiple_of(UNIT);
        Patches { shape: *shape, row }
    }

    /// Those of the gradient of an image whose taps do not overlap those of other pixels.
    pub(super) fn apart(shape: &Shape) -> Option<Patches> {
        let is_apart = |along: &Along| (along.taps - 1) * along.dilation < along.stride;
        let are_apart = shape.along.iter().all(is_apart);
        are_apart.then(|| Patches::of(shape))
    }

    /// Programs of a launch that scatters.
    pub(super) fn programs_of_image(&self) -> usize {
        let [deep, high, wide] = self.shape.along;
        let lines = self.shape.images * deep.input * high.input;
        lines * (wide.input * self.shape.channels).div_ceil(ELEMENTS)
    }

    /// Programs of a launch.
    pub(super) fn programs(&self) -> usize {
        let [deep, high, wide] = self.shape.along;
        let lines = self.shape.images * deep.output * high.output;
        lines * (wide.output * self.row).div_ceil(ELEMENTS)
    }

    /// The arguments of a launch, of these tensors.
    pub(super) fn arguments<I, R>(
        &self,
        image: I,
        rows: R,
    ) -> (I, R, i32, i32, [i32; 3], WalkArguments) {
        let input = self.shape.along.map(|along| along.input as i32);
        let (channels, row) = (self.shape.channels as i32, self.row as i32);
        (image, rows, channels, row, input, walk_of(&self.shape))
    }
}
