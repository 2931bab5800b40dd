//! How much L2 fetches at a time of what tensor maps of operands load.

use tilekit::L2Promotion;

use super::need::Need;

/// Rows of the smaller of M and N, at most, and steps along K, at least, of a product that reads its larger operand once and for long.
const FEW_ROWS: usize = 256;
const LONG: usize = 16;

/// How much L2 fetches at a time of an operand whose rows are so many bytes apart: lines. Two lines at a time cross the fabric between the halves of L2 for nothing. Of rows that begin between units of 32 bytes what is asked for alone is fetched, unless DRAM gives
/// all of them once (`bench/results/products/memory.md`).
pub(super) fn promotion(pitch: usize, need: &Need) -> L2Promotion {
    let [m, n, _] = need.size;
    let is_read_once = m.min(n) <= FEW_ROWS && need.steps() >= LONG;
    if pitch.is_multiple_of(32) || is_read_once {
        L2Promotion::Bytes128
    } else {
        L2Promotion::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 100 x 960 x 13640 whole lines take 0.97 of the time.
    #[test]
    fn lines_are_fetched_where_rows_begin_at_sectors_or_are_read_once() {
        let of = |size: [usize; 3]| promotion(2 * size[2], &Need::of_16_bits(size));
        assert_eq!(of([4096, 4096, 4096]), L2Promotion::Bytes128);
        assert_eq!(of([171, 4936, 10160]), L2Promotion::Bytes128);
        assert_eq!(of([3475, 7688, 9016]), L2Promotion::None);
        assert_eq!(of([100, 960, 13640]), L2Promotion::Bytes128);
        assert_eq!(of([252, 12424, 376]), L2Promotion::None);
    }
}
