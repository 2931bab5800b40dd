//! Groups of few channels, and of one channel and one filter.

use super::{Sizes, check, check_filters, check_image};

/// Groups of few channels, one or more filters of each.
const SMALL_GROUPS: [Sizes<'_>; 5] = [
    Sizes::of(&[1, 5, 6, 24], &[24, 3, 3], [1, 1, 1]).in_groups(24),
    Sizes::of(&[2, 7, 6, 10], &[20, 3, 2], [2, 1, 1])
        .in_groups(10)
        .behind(3),
    Sizes::of(&[1, 6, 5, 32], &[16, 3, 3], [1, 0, 1]).in_groups(8),
    Sizes::of(&[2, 40, 128], &[128, 5], [2, 2, 1]).in_groups(128),
    Sizes::of(&[2, 5, 5, 12], &[9, 1, 1], [1, 0, 1]).in_groups(3),
];

#[test]
fn groups_of_few_channels() {
    let expected = [
        "channels one by one, 3 CTAs",
        "a product of 32 x 20 x 60; `x` copied: what lies under the filters, 64 numbers a pixel; `filters` copied: 10 groups are one, with zeros for the channels of the others",
        "128 pixels by 64 filters in steps of 16 channels, 2 CTAs; `filters` copied: 4 groups are one, with zeros for the channels of the others",
        "channels one by one, 2 CTAs",
        "a product of 50 x 9 x 12; `filters` copied: 3 groups are one, with zeros for the channels of the others",
    ];
    for (sizes, expected) in SMALL_GROUPS.into_iter().zip(expected) {
        check(sizes, expected);
    }
}

#[test]
fn gradients_of_images_of_groups_of_few_channels() {
    let expected = [
        "channels one by one, 3 CTAs",
        "4 launches for pixels a stride apart, the first 128 pixels by 64 filters in steps of 32 channels, 1 CTAs; `dy` copied: 20 channels, where 24 are taken; `filters` copied: 10 groups are one, with zeros for the channels of the others; `dx` copied: 10 channels, where multiples of 8 are stored",
        "128 pixels by 64 filters in steps of 16 channels, 1 CTAs; `filters` copied: 8 groups are one, with zeros for the channels of the others",
        "2 launches of channels one by one, 2 CTAs",
        "a product of 50 x 12 x 9; `filters` copied: 3 groups are one, with zeros for the channels of the others",
    ];
    for (sizes, expected) in SMALL_GROUPS.into_iter().zip(expected) {
        check_image(sizes, expected);
    }
}

#[test]
fn gradients_of_filters_of_groups_of_few_channels() {
    let expected = [
        "channels one by one, pixels divided by 1, 9 CTAs",
        "64x64 of filters and channels, pixels divided by 1, 3 CTAs; 10 groups are one; `x` copied: 10 channels, where the 24 of a line of taps of 12 are taken; `dy` copied: 20 filters, where multiples of 8 are taken; sums gathered into `dfilters`",
        "64x64 of filters and channels, pixels divided by 1, 9 CTAs; 8 groups are one; sums gathered into `dfilters`",
        "channels one by one, pixels divided by 1, 2 CTAs",
        "a product of 9 x 12 x 50; 3 groups are one; sums gathered into `dfilters`",
    ];
    for (sizes, expected) in SMALL_GROUPS.into_iter().zip(expected) {
        check_filters(sizes, expected);
    }
}

/// Groups of one channel and one filter: taps in both directions, strides, dilation, channels that are no multiple of 64, lines, and taps that are too many for registers.
const DEPTHWISE: [Sizes<'_>; 5] = [
    Sizes::of(&[2, 9, 13, 24], &[24, 3, 3], [1, 1, 1])
        .in_groups(24)
        .behind(8),
    Sizes::of(&[1, 12, 19, 72], &[72, 5, 4], [2, 2, 1]).in_groups(72),
    Sizes::of(&[1, 11, 14, 64], &[64, 3, 7], [1, 3, 2]).in_groups(64),
    Sizes::of(&[2, 50, 16], &[16, 6], [3, 2, 1]).in_groups(16),
    Sizes::of(&[1, 14, 16, 32], &[32, 13, 13], [1, 6, 1]).in_groups(32),
];

#[test]
fn depthwise_convolutions() {
    let expected = [
        "channels one by one, 3 CTAs",
        "channels one by one, 9 CTAs",
        "channels one by one, 2 CTAs",
        "channels one by one, 1 CTAs",
        "a product of 224 x 32 x 5408; `x` copied: what lies under the filters, 5408 numbers a pixel; `filters` copied: 32 groups are one, with zeros for the channels of the others",
    ];
    for (sizes, expected) in DEPTHWISE.into_iter().zip(expected) {
        check(sizes, expected);
    }
}

#[test]
fn gradients_of_images_of_depthwise_convolutions() {
    let expected = [
        "channels one by one, 3 CTAs",
        "4 launches of channels one by one, 9 CTAs",
        "channels one by one, 3 CTAs",
        "3 launches of channels one by one, 1 CTAs",
        "128 pixels by 64 filters in steps of 16 channels, 4 CTAs; `filters` copied: 16 groups are one, with zeros for the channels of the others",
    ];
    for (sizes, expected) in DEPTHWISE.into_iter().zip(expected) {
        check_image(sizes, expected);
    }
}

#[test]
fn gradients_of_filters_of_depthwise_convolutions() {
    let expected = [
        "channels one by one, pixels divided by 1, 9 CTAs",
        "channels one by one, pixels divided by 1, 45 CTAs",
        "channels one by one, pixels divided by 2, 6 CTAs",
        "channels one by one, pixels divided by 1, 1 CTAs",
        "64x128 of filters and channels, pixels divided by 1, 85 CTAs; 32 groups are one; sums gathered into `dfilters`",
    ];
    for (sizes, expected) in DEPTHWISE.into_iter().zip(expected) {
        check_filters(sizes, expected);
    }
}
