//! The lists of a block-sparse mask for the backward pass: the blocks of queries that see each block of keys.

use super::lists::{BlockLists, BlockShape};

/// The lists as `backward_blocks` reads them, of blocks of [`walked`](BlockShape::walked) queries: that of block `k` of keys of head `h` of batch `b` is number `(b · key blocks + k) · heads + h`. Of a list come its partial blocks, then the full
/// ones, both in ascending order.
pub(in crate::attention) struct QueryLists {
    /// Where each list begins in `blocks`, and where the last one ends.
    pub(in crate::attention) starts: Vec<i32>,
    /// The partial blocks of each list.
    pub(in crate::attention) partial: Vec<i32>,
    pub(in crate::attention) blocks: Vec<i32>,
    /// How many blocks of keys in front of the list's own each of `blocks` sees.
    pub(in crate::attention) ranks: Vec<i32>,
}

impl QueryLists {
    /// The lists of key blocks, which [`KeyLists`](super::lists::KeyLists) has checked, by their blocks.
    pub(in crate::attention) fn new(
        shape: BlockShape,
        partial: BlockLists<'_>,
        full: BlockLists<'_>,
    ) -> QueryLists {
        let [query_blocks, key_blocks] = shape.blocks();
        let division = shape.division(0);
        let of_list = |list: usize| division.of((list % query_blocks) as u32);
        let list_of = |list: usize, key: u32| {
            let (batch, head) = (
                list / query_blocks / shape.heads,
                list / query_blocks % shape.heads,
            );
            (batch * key_blocks + key as usize) * shape.heads + head
        };
        let mut counts = [0, 1].map(|_| vec![0; shape.batch * key_blocks * shape.heads]);
        for (counts, lists) in counts.iter_mut().zip([partial, full]) {
            for list in 0..shape.lists() {
                for &key in lists.of(list) {
                    counts[list_of(list, key)] += of_list(list).len() as i32;
                }
            }
        }
        let [partial_counts, full_counts] = counts;
        let mut starts = vec![0];
        let mut next = [Vec::new(), Vec::new()];
        for (partial, full) in partial_counts.iter().zip(&full_counts) {
            let start = starts[starts.len() - 1];
            next[0].push(start);
            next[1].push(start + partial);
            starts.push(start + partial + full);
        }
        let all = starts[starts.len() - 1] as usize;
        let (mut blocks, mut ranks) = (vec![0; all], vec![0; all]);
        for list in 0..shape.lists() {
            let of = |kind: usize| {
                let keys = [partial, full][kind].of(list).to_vec();
                keys.into_iter().map(move |key| (key, kind))
            };
            let mut seen: Vec<(u32, usize)> = of(0).chain(of(1)).collect();
            seen.sort_unstable();
            for (rank, (key, kind)) in seen.into_iter().enumerate() {
                let next = &mut next[kind][list_of(list, key)];
                for block in of_list(list) {
                    blocks[*next as usize] = block as i32;
                    ranks[*next as usize] = rank as i32;
                    *next += 1;
                }
            }
        }
        QueryLists {
            starts,
            partial: partial_counts,
            blocks,
            ranks,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_queries_are_listed_by_the_blocks_of_keys_that_they_see() {
        let shape = BlockShape {
            batch: 1,
            heads: 2,
            tokens: [300, 256],
            block: [128, 128],
        };
        // Head 0: both partial; key 1 full and key 0 partial; none. Head 1: key 1 full; key 0 full; both full.
        let partial = BlockLists {
            starts: &[0, 2, 3, 3, 3, 3, 3],
            blocks: &[1, 0, 0],
        };
        let full = BlockLists {
            starts: &[0, 0, 1, 1, 2, 3, 5],
            blocks: &[1, 1, 0, 1, 0],
        };
        let QueryLists {
            starts,
            partial,
            blocks,
            ranks,
        } = QueryLists::new(shape, partial, full);
        // Keys 0 of head 0, of head 1, keys 1 of head 0, of head 1.
        assert_eq!(starts, [0, 2, 4, 6, 8]);
        assert_eq!(partial, [2, 0, 1, 0]);
        assert_eq!(blocks, [0, 1, 1, 2, 0, 1, 0, 2]);
        assert_eq!(ranks, [0, 0, 0, 0, 1, 1, 0, 1]);
    }
}
