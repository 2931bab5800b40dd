//! Placing blocks of bytes that are needed for a while.

/// A block of bytes, needed from moment `first` to moment `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// Size in bytes.
    pub bytes: u32,
    /// What its offset must be a multiple of, a power of two.
    pub alignment: u32,
    /// The first moment.
    pub first: u32,
    /// The last moment.
    pub last: u32,
    /// The warps that need it, if they run beside others that have code of their own.
    pub partition: Option<usize>,
}

impl Block {
    /// Are both needed at one moment? Partitions run beside each other.
    pub(super) fn overlaps(&self, other: &Block) -> bool {
        let apart = self
            .partition
            .zip(other.partition)
            .is_some_and(|(a, b)| a != b);
        apart || self.first <= other.last && other.first <= self.last
    }
}

/// An offset for each block, and the bytes in all. Blocks needed at one moment do not overlap.
///
/// Each block, the largest first, goes to the lowest offset that is free while it is needed. That is within the largest
/// block of the best there is, and small blocks fill the holes.
pub(super) fn place(blocks: &[Block]) -> (Vec<u32>, u32) {
    let mut order: Vec<usize> = (0..blocks.len()).collect();
    order.sort_by_key(|&at| (std::cmp::Reverse(blocks[at].bytes), blocks[at].first, at));
    let mut offsets = vec![0; blocks.len()];
    let mut placed: Vec<usize> = Vec::with_capacity(blocks.len());
    let mut total = 0;
    for at in order {
        let block = &blocks[at];
        let mut taken: Vec<(u32, u32)> = placed
            .iter()
            .filter(|&&other| blocks[other].overlaps(block))
            .map(|&other| (offsets[other], offsets[other] + blocks[other].bytes))
            .collect();
        taken.sort_unstable();
        offsets[at] = lowest_gap(&taken, block);
        total = total.max(offsets[at] + block.bytes);
        placed.push(at);
    }
    (offsets, total)
}

/// The lowest aligned offset where the block overlaps none of the ranges, which are sorted by their start.
fn lowest_gap(taken: &[(u32, u32)], block: &Block) -> u32 {
    let mut offset = 0_u32;
    for &(start, end) in taken {
        if offset + block.bytes <= start {
            break;
        }
        offset = offset.max(end.next_multiple_of(block.alignment));
    }
    offset
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(bytes: u32, first: u32, last: u32) -> Block {
        Block {
            bytes,
            alignment: 16,
            first,
            last,
            partition: None,
        }
    }

    #[track_caller]
    fn check(blocks: &[Block], expected: &[u32], total: u32) {
        assert_eq!(place(blocks), (expected.to_vec(), total));
    }

    #[test]
    fn reuses_what_is_free_again() {
        check(&[block(64, 0, 0), block(64, 1, 1)], &[0, 0], 64);
        check(&[block(64, 0, 1), block(64, 1, 1)], &[0, 64], 128);
        check(
            &[block(32, 0, 1), block(64, 1, 2), block(48, 3, 3)],
            &[64, 0, 0],
            96,
        );
    }

    #[test]
    fn fills_holes_and_aligns() {
        check(
            &[block(100, 0, 0), block(20, 0, 0), block(12, 0, 0)],
            &[0, 112, 144],
            156,
        );
        let wide = Block {
            alignment: 128,
            ..block(16, 0, 0)
        };
        check(&[block(20, 0, 0), wide], &[0, 128], 144);
        check(&[], &[], 0);
    }

    #[test]
    fn never_overlaps() {
        let number =
            |i: u32, salt: u32| (i.wrapping_mul(2_654_435_761) ^ salt.wrapping_mul(40503)) >> 24;
        let blocks: Vec<Block> = (0..200)
            .map(|i| {
                let first = number(i, 1) % 50;
                Block {
                    bytes: number(i, 2) + 1,
                    alignment: 1 << (number(i, 3) % 8),
                    first,
                    last: first + number(i, 4) % 9,
                    partition: (i % 7 == 0).then_some((i % 3) as usize),
                }
            })
            .collect();
        let (offsets, total) = place(&blocks);
        for (a, &at) in blocks.iter().zip(&offsets) {
            assert_eq!(at % a.alignment, 0);
            assert!(at + a.bytes <= total);
            for (b, &other) in blocks.iter().zip(&offsets) {
                let apart = at + a.bytes <= other || other + b.bytes <= at;
                assert!(
                    std::ptr::eq(a, b) || apart || !a.overlaps(b),
                    "{a:?} at {at}, {b:?} at {other}"
                );
            }
        }
    }
}
