//! The lists of a block-sparse mask on the host: what a call gives, and what kernels read of it.

use crate::attention::error::{Result, expect};

/// Queries and keys of a block of a mask are multiples of this.
pub(in crate::attention) const UNIT: usize = 128;

/// The extents of a [`BlockMask`](crate::attention::BlockMask).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockShape {
    /// Batches that have lists of their own: those of q, or 1 where all share them.
    pub batch: usize,
    /// Query heads that have lists of their own, or 1.
    pub heads: usize,
    /// Queries and keys.
    pub tokens: [usize; 2],
    /// Queries and keys of a block, multiples of 128.
    pub block: [usize; 2],
}

impl BlockShape {
    /// Blocks of queries, and of keys.
    pub fn blocks(&self) -> [usize; 2] {
        [0, 1].map(|side| self.tokens[side].div_ceil(self.block[side].max(1)))
    }

    /// Lists: one for each block of queries of each head of each batch.
    pub fn lists(&self) -> usize {
        self.batch
            .saturating_mul(self.heads)
            .saturating_mul(self.blocks()[0])
    }

    /// Lists of [`KeyLists`] from one batch, and from one head, to the next: none where they share lists.
    pub(in crate::attention) fn lists_of_queries(&self) -> [usize; 2] {
        let [query_blocks, _] = self.blocks();
        let of = |count: usize, lists: usize| if count > 1 { lists } else { 0 };
        [
            of(self.batch, query_blocks * self.heads),
            of(self.heads, query_blocks),
        ]
    }

    /// Lists of [`QueryLists`](super::transposed::QueryLists) from one batch, one block of keys and one head to the next.
    pub(in crate::attention) fn lists_of_keys(&self) -> [usize; 3] {
        let [_, key_blocks] = self.blocks();
        let of = |count: usize, lists: usize| if count > 1 { lists } else { 0 };
        [
            of(self.batch, key_blocks * self.heads),
            self.heads,
            of(self.heads, 1),
        ]
    }
}

/// Lists of key blocks, one after the other: that of block `q` of head `h` of batch `b` is number `(b · heads + h) · query blocks + q`.
#[derive(Clone, Copy, Debug)]
pub struct BlockLists<'a> {
    /// Where each list begins in `blocks`, and where the last one ends.
    pub starts: &'a [usize],
    /// Key blocks, in any order in a list.
    pub blocks: &'a [u32],
}

impl BlockLists<'_> {
    /// The blocks of a list.
    pub(super) fn of(&self, list: usize) -> &[u32] {
        &self.blocks[self.starts[list]..self.starts[list + 1]]
    }
}

/// How a block of queries sees a block of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// Not at all: its products are left out.
    Hidden,
    /// By the mask of the options and of the [`Modifier`](crate::attention::Modifier).
    Partial,
    /// Whole: no score is masked.
    Full,
}

/// The lists as `forward_blocks` reads them, one for each block of queries: of a list its partial blocks, then the full ones. A full block that the last key ends is among the partial
/// ones, and a list without a block of keys has one behind the last key.
pub(in crate::attention) struct KeyLists {
    pub(in crate::attention) starts: Vec<i32>,
    /// Twice the partial blocks of each list, and 1 where the block that the last key ends is full.
    pub(in crate::attention) partial: Vec<i32>,
    pub(in crate::attention) blocks: Vec<i32>,
}

impl KeyLists {
    /// Those of the blocks in which scores are masked, and of those in which none is.
    ///
    /// # Errors
    /// [`Error::Argument`](crate::attention::Error::Argument) for lists that do not fit `shape`.
    pub(in crate::attention) fn new(
        shape: BlockShape,
        partial: BlockLists<'_>,
        full: BlockLists<'_>,
    ) -> Result<KeyLists> {
        check_shape(shape)?;
        let [_, key_blocks] = shape.blocks();
        check_lists(
            ["mask.partial.starts", "mask.partial.blocks"],
            shape,
            partial,
        )?;
        check_lists(["mask.full.starts", "mask.full.blocks"], shape, full)?;
        let blocks = partial.blocks.len().saturating_add(full.blocks.len());
        check_total(blocks.saturating_add(shape.lists()))?;
        let whole = shape.tokens[1] / shape.block[1];
        let (mut starts, mut counts, mut blocks) = (vec![0], Vec::new(), Vec::new());
        let mut lists = vec![usize::MAX; key_blocks];
        for list in 0..shape.lists() {
            let (mut masked, seen) = (partial.of(list).to_vec(), full.of(list));
            for &block in masked.iter().chain(seen) {
                let before = std::mem::replace(&mut lists[block as usize], list);
                let found = || format!("block {block} twice in list {list}");
                expect(
                    before != list,
                    "mask",
                    found,
                    "each block once, partial or full",
                )?;
            }
            // A full block that the last key ends is masked at that key.
            let (tail, seen): (Vec<u32>, Vec<u32>) =
                seen.iter().partition(|&&block| block as usize >= whole);
            masked.extend(&tail);
            if masked.is_empty() && seen.is_empty() {
                masked.push(key_blocks as u32);
            }
            counts.push((2 * masked.len() + tail.len()) as i32);
            blocks.extend(masked.iter().chain(&seen).map(|&block| block as i32));
            starts.push(blocks.len() as i32);
        }
        Ok(KeyLists {
            starts,
            partial: counts,
            blocks,
        })
    }
}

pub(super) fn check_shape(shape: BlockShape) -> Result<()> {
    /// The most lists, and blocks along a dimension, that 32-bit numbers count.
    const MOST: usize = 1 << 28;
    for (name, extent) in [
        ("batch", shape.batch),
        ("heads", shape.heads),
        ("queries", shape.tokens[0]),
        ("keys", shape.tokens[1]),
    ] {
        let found = || format!("{name} {extent}");
        expect(
            (1..=MOST).contains(&extent),
            "mask.shape",
            found,
            format!("{name} of 1 to {MOST}"),
        )?;
    }
    for (name, extent) in ["queries", "keys"].into_iter().zip(shape.block) {
        expect(
            extent > 0 && extent.is_multiple_of(UNIT) && extent <= MOST,
            "mask.shape.block",
            || format!("{extent} {name}"),
            format!("a multiple of {UNIT}, up to {MOST}"),
        )?;
    }
    let of_heads = shape.batch.saturating_mul(shape.heads);
    let lists = shape.blocks().map(|blocks| of_heads.saturating_mul(blocks));
    let lists = lists[0].max(lists[1]);
    expect(
        lists < MOST,
        "mask.shape",
        || format!("{lists} lists"),
        format!("less than {MOST}"),
    )
}

/// Checks how many blocks all lists have, each of which may be one block longer for the lists that are empty: 32-bit numbers say where lists begin.
pub(super) fn check_total(blocks: usize) -> Result<()> {
    const MOST: usize = i32::MAX as usize;
    expect(
        blocks <= MOST,
        "mask",
        || format!("{blocks} blocks in all lists, one for each list added"),
        format!(
            "at most {MOST}: larger blocks, or lists that all batches or heads share (`BlockShape::batch` or `BlockShape::heads` of 1), have fewer"
        ),
    )
}

fn check_lists(
    [of_starts, of_blocks]: [&'static str; 2],
    shape: BlockShape,
    lists: BlockLists<'_>,
) -> Result<()> {
    let BlockLists { starts, blocks } = lists;
    let expected = shape.lists() + 1;
    expect(
        starts.len() == expected,
        of_starts,
        || format!("{} numbers", starts.len()),
        format!(
            "{expected}: where each of {} lists begins, and the end",
            expected - 1
        ),
    )?;
    let falls = starts.windows(2).position(|pair| pair[0] > pair[1]);
    expect(
        falls.is_none() && starts[0] == 0 && starts[expected - 1] == blocks.len(),
        of_starts,
        || match falls {
            Some(list) => format!("{} after {} in list {list}", starts[list + 1], starts[list]),
            None => format!("{} to {}", starts[0], starts[expected - 1]),
        },
        format!("ascending numbers from 0 to the {} blocks", blocks.len()),
    )?;
    let [_, key_blocks] = shape.blocks();
    let outside = blocks.iter().find(|&&block| block as usize >= key_blocks);
    expect(
        outside.is_none(),
        of_blocks,
        || format!("block {}", outside.copied().unwrap_or(0)),
        format!("blocks below {key_blocks}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_blocks_than_starts_can_say_are_refused() {
        assert!(check_total(i32::MAX as usize).is_ok());
        let error = check_total(1 << 31).map_err(|error| error.to_string());
        assert_eq!(
            error,
            Err("attention: `mask`: found 2147483648 blocks in all lists, one for each list added; expected at most 2147483647: larger blocks, or lists that all batches or heads share (`BlockShape::batch` or `BlockShape::heads` of 1), have fewer".to_string())
        );
    }
}
