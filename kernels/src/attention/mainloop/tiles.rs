//! The order in which persistent CTAs compute tiles.

use tilekit::prelude::*;

/// The quotient and the remainder of numbers that are not negative. A signed division has more invariants, which ptxas keeps in registers from tile to tile.
#[device]
pub(in crate::attention) fn divide(number: Scalar<i32>, by: Scalar<i32>) -> [Scalar<i32>; 2] {
    let [number, by] = [number, by].map(|x| x.cast::<u32>());
    let quotient = number / by;
    [quotient, number - quotient * by].map(|x| x.cast::<i32>())
}

/// The tiles of all heads in descending order of their keys, section by section: the K and V of the heads of a section fit in
/// L2. A CTA that has finished a tile draws the next one.
#[derive(Clone, Copy, Aggregate)]
pub(in crate::attention) struct Tiles {
    blocks: Scalar<i32>,
    heads: Scalar<i32>,
    section: Scalar<i32>,
}

impl Tiles {
    /// `blocks` tiles for each of `heads` heads, in sections of `section` heads.
    #[device]
    pub(in crate::attention) fn new(
        blocks: Scalar<i32>,
        heads: Scalar<i32>,
        section: Scalar<i32>,
    ) -> Self {
        assume((blocks > 0) & (heads > 0) & (section > 0));
        Tiles {
            blocks,
            heads,
            section,
        }
    }

    /// The number of tiles.
    #[device]
    pub(in crate::attention) fn count(self) -> Scalar<i32> {
        self.blocks * self.heads
    }

    /// The block and head of a tile.
    #[device]
    pub(in crate::attention) fn place(self, tile: Scalar<i32>) -> [Scalar<i32>; 2] {
        let [section, within] = divide(tile, self.section * self.blocks);
        let first = section * self.section;
        let heads = minimum(self.heads - first, self.section);
        let [row, head] = divide(within, heads);
        [self.blocks - 1 - row, first + head]
    }
}
