//! Lines of pixels copied to others with more or fewer channels: for images whose pixels no tensor map takes.

use tilekit::prelude::*;

use crate::products::factor::Stored;

/// Elements of a program.
pub(super) const ELEMENTS: usize = 1024;

/// Pixel `p` and channel `c` of each line of `target` are those of pixel `p - before` of the source, and 0 where it has no such pixel or channel. Lines of `target` have `target_length`
/// elements.
#[kernel(warps = 4, instances(<bf16>))]
pub fn pad<T: Stored>(
    #[align(size_of::<T>())] source: Ptr<T>,
    source_pixels: i32,
    source_channels: i32,
    #[align(size_of::<T>())] target: Ptr<T>,
    target_length: i32,
    target_channels: i32,
    before: i32,
) {
    let (source, target) = (source.cast::<T::Bits>(), target.cast::<T::Bits>());
    let blocks = cdiv(target_length, ELEMENTS);
    let (line, block) = (program_id(0) / blocks, program_id(0) % blocks);
    let layout = Blocked::new([1], [32], [4], [0]);
    let at = block * ELEMENTS + arange(0..ELEMENTS, layout);
    let (pixel, channel) = (at / target_channels - before, at % target_channels);
    let exists = (pixel >= 0) & (pixel < source_pixels) & (channel < source_channels);
    let inside = at < target_length;
    let line = line.cast::<i64>();
    let source = source + line * (source_pixels * source_channels).cast::<i64>();
    let place = source.at(pixel * source_channels + channel);
    let elements = place.mask(exists & inside).other(0).load();
    let target = target + line * target_length.cast::<i64>();
    target.at(at).mask(inside).store(elements);
}
