//! How compressed matrices lie in memory.
//!
//! Kept elements are `[M, kept_pitch(K)]`, two for each four of a row in their order, rows at multiples of 16 bytes. Their places are numbers of 16 bits, each of 16 elements of a row: 4 bits
//! for each four of them, the index of the first kept element in the lower two (PTX ISA, `wgmma` sparse matrix storage). They are in blocks of 64 x 64 elements, those of the same rows one
//! after the other, and in a block as its 128 threads hold them beside a product: two of a thread are neighbours in memory.

use crate::products::factor::{depth, unit};

/// Rows of a block, which a warpgroup multiplies by one instruction.
pub const STRIP: usize = 64;

/// Elements of a row of a block.
pub const BLOCK: usize = 64;

/// Elements of a row that a number describes.
pub const DESCRIBED: usize = 16;

/// Numbers of a block.
pub const BLOCK_NUMBERS: usize = STRIP * BLOCK / DESCRIBED;

/// The 4 bits of four elements of which the first two are kept.
pub(super) const FIRST_TWO: u16 = 0b01_00;

/// Blocks of a stage of the ring, along K.
pub(super) const fn blocks_of_stage<T>() -> usize {
    depth::<T>() / BLOCK
}

/// Blocks of rows of `k` elements: those of whole stages.
pub const fn blocks<T>(k: usize) -> usize {
    k.div_ceil(depth::<T>()) * blocks_of_stage::<T>()
}

/// Numbers that say where the kept elements of a matrix `[M, K]` were; `usize::MAX` where there are more.
pub const fn numbers<T>([m, k]: [usize; 2]) -> usize {
    let blocks = m.div_ceil(STRIP).saturating_mul(blocks::<T>(k));
    blocks.saturating_mul(BLOCK_NUMBERS)
}

/// Kept elements of rows of `k`.
pub const fn kept(k: usize) -> usize {
    k.div_ceil(4) * 2
}

/// Elements from one row of kept elements to the next.
pub const fn kept_pitch<T>(k: usize) -> usize {
    kept(k).next_multiple_of(unit::<T>())
}

/// Where the number of the elements from `16 · at` on of a row is; `usize::MAX` where it is farther away.
pub const fn number_place<T>([row, at]: [usize; 2], k: usize) -> usize {
    let numbers_of_row = BLOCK / DESCRIBED;
    let of_rows = (row / STRIP).saturating_mul(blocks::<T>(k));
    let block = of_rows.saturating_add(at / numbers_of_row);
    let [warp, half, of_lane, column] =
        [row % STRIP / 16, row % 16 / 8, row % 8, at % numbers_of_row];
    // Of 16 bits a thread has a column of two rows; of 8 bits two columns of a row.
    let (column, second) = if size_of::<T>() == 2 {
        (column, half)
    } else {
        (column / 2 * 2 + half, column % 2)
    };
    let thread = warp * 32 + of_lane * 4 + column;
    let first = block.saturating_mul(BLOCK_NUMBERS);
    first.saturating_add(thread * 2 + second)
}
