//! Copies, products and barriers that go on by themselves, in less plain wrong uses.

use tilekit::prelude::*;

use crate::check;

#[kernel]
fn part_of_a_pattern(#[block([4, 64], Nvmma::B128)] a: TensorMap<f16>) {
    let tile = Smem::<f16>::alloc([8, 64], a.layout());
    a.store((0, 0), tile.slice(0, 4..8));
}

#[test]
fn a_block_begins_within_the_pattern_of_the_swizzle() {
    check("part_of_a_pattern", part_of_a_pattern.trace());
}
