//! Strides and taps that no im2col map reaches.

use super::{Sizes, check, check_filters, check_image};

/// Patches of an image, and taps farther apart than im2col maps reach.
const OUT_OF_REACH: [Sizes<'_>; 3] = [
    Sizes::of(&[2, 32, 32, 3], &[24, 16, 16], [16, 0, 1]),
    Sizes::of(&[1, 300, 2], &[16, 200], [1, 0, 1]),
    Sizes::of(&[1, 40, 3, 5], &[3, 4, 2], [11, 1, 1]).behind(1),
];

#[test]
fn what_no_map_reaches() {
    let expected = [
        "a product of 8 x 24 x 768; `x` copied: what lies under the filters, 768 numbers a pixel",
        "a product of 101 x 16 x 400; `x` copied: what lies under the filters, 400 numbers a pixel",
        "a product of 4 x 3 x 40; `x` copied: what lies under the filters, 40 numbers a pixel",
    ];
    for (sizes, expected) in OUT_OF_REACH.into_iter().zip(expected) {
        check(sizes, expected);
    }
    let expected = [
        "a product of 24 x 768 x 8; `x` copied: what lies under the filters, 768 numbers a pixel",
        "64x64 of filters and channels, pixels divided by 2, 50 CTAs; `x` copied: 2 channels, where the 1600 of a line of taps of 8 are taken; sums gathered into `dfilters`",
        "a product of 3 x 40 x 4; `x` copied: what lies under the filters, 40 numbers a pixel",
    ];
    for (sizes, expected) in OUT_OF_REACH.into_iter().zip(expected) {
        check_filters(sizes, expected);
    }
    let expected = [
        "a product of 8 x 768 x 24; `dx` copied: what lies under the filters, 768 numbers a pixel",
        "a product of 4 x 40 x 3; `dx` copied: what lies under the filters, 40 numbers a pixel",
    ];
    let [patches, _, strided] = OUT_OF_REACH;
    for (sizes, expected) in [patches, strided].into_iter().zip(expected) {
        check_image(sizes, expected);
    }
}
