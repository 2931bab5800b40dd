//! The sizes of a convolution, and what follows from them.

use tilekit::prelude::*;
use tilekit::{TensorSource, TensorView};

use crate::products::factor::{UNIT_BYTES, unit};

/// Elements of which a map wants the channels of a pixel to be a multiple, in 16 bits.
pub(super) const UNIT: usize = UNIT_BYTES / 2;

/// One dimension of images: depth, height or width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Along {
    /// Input pixels.
    pub(super) input: usize,
    /// Output pixels.
    pub(super) output: usize,
    /// Taps of a filter.
    pub(super) taps: usize,
    /// Input pixels from one output pixel to the next.
    pub(super) stride: usize,
    /// The input pixel under the first tap of the first output pixel: minus the padding.
    pub(super) lower: i64,
    /// Input pixels from one tap to the next.
    pub(super) dilation: usize,
}

impl Along {
    /// A dimension that images do not have.
    pub(super) const NONE: Along = Along {
        input: 1,
        output: 1,
        taps: 1,
        stride: 1,
        lower: 0,
        dilation: 1,
    };

    /// With as many output pixels as fit; none if filters are larger than what they are moved over.
    pub(super) fn new(
        [input, taps]: [usize; 2],
        [stride, padding, dilation]: [usize; 3],
    ) -> Option<Along> {
        let padded = input.checked_add(padding.checked_mul(2)?)?;
        let reach = taps.checked_sub(1)?.checked_mul(dilation)?;
        let steps = padded.checked_sub(reach)?.checked_sub(1)? / stride;
        Some(Along {
            input,
            output: steps + 1,
            taps,
            stride,
            lower: -i64::try_from(padding).ok()?,
            dilation,
        })
    }

    /// The input pixel under the first tap of the last output pixel.
    pub(super) fn last(&self) -> i64 {
        self.lower + (self.output as i64 - 1) * self.stride as i64
    }

    /// From the end of the input to the end of the pixels that the first tap takes.
    pub(super) fn upper(&self) -> i64 {
        self.last() + 1 - self.input as i64
    }
}

/// A convolution: sizes and where taps lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Shape {
    pub(super) images: usize,
    /// Channels of a group.
    pub(super) channels: usize,
    /// Filters of a group.
    pub(super) filters: usize,
    pub(super) groups: usize,
    /// Depth, height, width.
    pub(super) along: [Along; 3],
    pub(super) has_depth: bool,
}

impl Shape {
    pub(super) fn taps(&self) -> usize {
        self.along.iter().map(|along| along.taps).product()
    }

    /// Output pixels of all images. Those of no image may be of any size.
    pub(super) fn pixels(&self) -> usize {
        let outputs = self.along.iter().map(|along| along.output);
        outputs.fold(self.images, usize::saturating_mul)
    }

    /// Input pixels of all images.
    pub(super) fn input_pixels(&self) -> usize {
        let inputs = self.along.iter().map(|along| along.input);
        inputs.fold(self.images, usize::saturating_mul)
    }

    pub(super) fn has_strides(&self) -> bool {
        self.along.iter().any(|along| along.stride > 1)
    }

    /// Dimensions of an image with its batch and its channels.
    pub(super) fn rank(&self) -> u32 {
        if self.has_depth { 5 } else { 4 }
    }

    /// The dimensions that the image's map has.
    pub(super) fn spatial(&self) -> &[Along] {
        if self.has_depth {
            &self.along
        } else {
            &self.along[1..]
        }
    }

    /// The same of groups that are each so many of these together, a divisor of them all: the channels of one have filters of zeros in the others.
    pub(super) fn merged(&self, groups: usize) -> Shape {
        Shape {
            channels: self.channels * groups,
            filters: self.filters * groups,
            groups: self.groups / groups,
            ..*self
        }
    }

    /// How many groups may be merged.
    pub(super) fn mergers(&self) -> impl Iterator<Item = usize> {
        let groups = self.groups;
        let pairs = (1..).take_while(move |n| n * n <= groups);
        let both = pairs.flat_map(move |n| [n, groups / n]);
        both.filter(move |n| groups.is_multiple_of(*n))
    }

    /// Whether each pixel of the result is a product of the filters and one pixel of the image, in the same order, so that all of it is a product of matrices.
    pub(super) fn is_product(&self) -> bool {
        let is_one =
            |along: &Along| along.taps == 1 && along.lower == 0 && along.input == along.output;
        self.groups == 1 && self.along.iter().all(is_one)
    }

    /// Products and sums.
    pub(super) fn flops(&self) -> usize {
        2 * self.pixels() * self.groups * self.filters * self.channels * self.taps()
    }

    /// Elements of all filters.
    pub(super) fn of_filters(&self) -> usize {
        self.groups * self.filters * self.taps() * self.channels
    }

    /// Bytes of all images and of their result, of elements of 16 bits.
    pub(super) fn bytes(&self) -> f64 {
        let of_image: usize = self.along.iter().map(|along| along.input).product();
        let of_images = self.images * of_image * self.channels;
        (2 * self.groups * (of_images + self.pixels() * self.filters)) as f64
    }

    /// The image, whose pixels and channels follow each other, for im2col loads.
    pub(super) fn image<'s, T: DeviceElement, S: TensorSource<T>>(
        &self,
        view: TensorView<'s, T, S>,
    ) -> TensorView<'s, T, S> {
        let spatial = self.spatial();
        let mut shape = vec![self.images];
        shape.extend(spatial.iter().map(|along| along.input));
        shape.push(self.channels * self.groups);
        self.windowed(view.with_shape(shape.as_slice()))
    }

    /// An image whose pixels begin before the ones in front of them end: from one image, line and pixel to the next, and how many pixels a line has.
    pub(super) fn lines<'s, T: DeviceElement, S: TensorSource<T>>(
        &self,
        view: TensorView<'s, T, S>,
        [image, line, pixel]: [usize; 3],
        pixels: usize,
    ) -> TensorView<'s, T, S> {
        let lines = self.along[1].input;
        let view = view.with_shape([self.images, lines, pixels, self.channels]);
        self.windowed(view.with_strides([image, line, pixel, 1]))
    }

    /// A view of an image with the window and the steps of its im2col loads.
    pub(super) fn windowed<'s, T: DeviceElement, S: TensorSource<T>>(
        &self,
        view: TensorView<'s, T, S>,
    ) -> TensorView<'s, T, S> {
        let spatial = self.spatial();
        let lower: Vec<i32> = spatial.iter().map(|along| along.lower as i32).collect();
        let upper: Vec<i32> = spatial.iter().map(|along| along.upper() as i32).collect();
        let mut steps = vec![1];
        steps.extend(spatial.iter().map(|along| along.stride as u32));
        steps.push(1);
        view.with_window(&lower, &upper).with_steps(&steps)
    }

    /// Filters `[filters, taps, channels]`, a tap at a time. Taps begin at multiples of 16 bytes.
    pub(super) fn taps_of<T: DeviceElement, S: TensorSource<T>>(
        view: TensorView<'_, T, S>,
        [filters, taps, channels]: [usize; 3],
    ) -> TensorView<'_, T, S> {
        let view = view.with_shape([taps, filters, channels]);
        let pitch = channels.next_multiple_of(unit::<T>());
        view.with_strides([pitch, taps * pitch, 1])
    }

    /// The result, a group at a time, whose pixels begin every `pitch` elements for each group.
    pub(super) fn result<'s, T: DeviceElement, S: TensorSource<T>>(
        &self,
        view: TensorView<'s, T, S>,
        pitch: usize,
    ) -> TensorView<'s, T, S> {
        let [pixels, groups, filters] = [self.pixels(), self.groups, self.filters];
        let view = view.with_shape([groups, pixels, filters]);
        view.with_strides([pitch, groups * pitch, 1])
    }
}
