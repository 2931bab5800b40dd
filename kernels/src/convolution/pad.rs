//! Lines of pixels copied to others with more or fewer channels: for images whose pixels no tensor map takes.

use tilekit::prelude::*;

use super::error::{Result, expect};
use crate::products::factor::Stored;

/// Elements of a program.
pub(super) const ELEMENTS: usize = 1024;

/// Pixel `p` and channel `c` of each line of `target` are those of pixel `p - before` and channel `c - first` of the source, and 0 where it has no such pixel or channel. Lines of `target` have `target_length`
/// elements. `first` is 0 for `of_group` lines, as many channels as a source has for as many lines more, and so on for `merged` groups, of which the next begins at 0 again: filters of groups
/// become those of fewer, whose other channels are multiplied by zeros.
#[kernel(warps = 4, instances(<bf16>))]
pub fn pad<T: Stored>(
    #[align(size_of::<T>())] source: Ptr<T>,
    source_pixels: i32,
    source_channels: i32,
    #[align(size_of::<T>())] target: Ptr<T>,
    target_length: i32,
    target_channels: i32,
    before: i32,
    of_group: i32,
    merged: i32,
) {
    let (source, target) = (source.cast::<T::Bits>(), target.cast::<T::Bits>());
    let blocks = cdiv(target_length, ELEMENTS);
    let (line, block) = (program_id(0) / blocks, program_id(0) % blocks);
    let layout = Blocked::new([1], [32], [4], [0]);
    let at = block * ELEMENTS + arange(0..ELEMENTS, layout);
    let first = line / of_group % merged * source_channels;
    let (pixel, channel) = (at / target_channels - before, at % target_channels - first);
    let exists =
        (pixel >= 0) & (pixel < source_pixels) & (channel >= 0) & (channel < source_channels);
    let inside = at < target_length;
    let line = line.cast::<i64>();
    let source = source + line * (source_pixels * source_channels).cast::<i64>();
    let place = source.at(pixel * source_channels + channel);
    let elements = place.mask(exists & inside).other(0).load();
    let target = target + line * target_length.cast::<i64>();
    target.at(at).mask(inside).store(elements);
}

/// Elements of a program of [`fill`].
pub(super) const FILLED: usize = 2048;

/// Zeros, for all `count` elements.
#[kernel(warps = 4, instances(<bf16>, <f16>))]
pub fn fill<T: Stored>(to: Ptr<T>, #[multiple_of(8)] count: i64) {
    let first = program_id(0).cast::<i64>() * FILLED;
    let at = arange(0..FILLED, Blocked::new([8], [32], [4], [0]));
    let inside = at < minimum(count - first, FILLED).cast::<i32>();
    let zeros = full_like(at, 0).cast::<T::Bits>();
    let to = to.cast::<T::Bits>() + first;
    to.at(at).mask(inside).store(zeros);
}

/// Elements of a line that is copied: the last program of one has indices past the end, which fit an i32 too.
const MOST_IN_LINE: usize = (i32::MAX as usize + 1) - ELEMENTS;

pub(super) fn check_line(name: &'static str, elements: usize) -> Result<()> {
    expect(
        elements <= MOST_IN_LINE,
        name,
        || format!("a line of {elements} elements, which is copied"),
        format!("at most {MOST_IN_LINE}: indices have 32 bits; divide the line among calls"),
    )
}
