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

    /// Queries and keys of the blocks that kernels walk: those of the mask, divided evenly where the last one would reach far past the last token.
    pub(in crate::attention) fn walked(&self) -> [usize; 2] {
        [0, 1].map(|side| {
            let (tokens, block) = (self.tokens[side], self.block[side]);
            let most = (tokens / 16).max(UNIT - 1);
            let divided = (1..=block / UNIT)
                .filter(|parts| (block / UNIT).is_multiple_of(*parts))
                .map(|parts| block / parts);
            let mut fitting =
                divided.filter(|part| tokens.next_multiple_of(*part) - tokens <= most);
            fitting
                .next()
                .expect("blocks of a unit reach past the last token by less than a unit")
        })
    }

    /// How blocks of the mask are divided on a side.
    pub(super) fn division(&self, side: usize) -> Division {
        let walked = self.walked()[side];
        Division {
            parts: (self.block[side] / walked) as u32,
            all: self.tokens[side].div_ceil(walked) as u32,
        }
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

/// The walked blocks of each block of a mask.
#[derive(Clone, Copy)]
pub(super) struct Division {
    parts: u32,
    /// Walked blocks up to the last token.
    all: u32,
}

impl Division {
    /// Those of block `block` that have tokens.
    pub(super) fn of(self, block: u32) -> std::ops::Range<u32> {
        block * self.parts..((block + 1) * self.parts).min(self.all)
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

/// The lists as `forward_blocks` reads them, one for each block of queries, of blocks of [`walked`](BlockShape::walked) keys: of a list its partial blocks, then the full ones. A full block that the last key ends is among the partial
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
        let division = shape.division(1);
        check_walked(shape, [partial, full])?;
        let whole = (shape.tokens[1] / shape.walked()[1]) as u32;
        let (mut starts, mut counts, mut blocks) = (vec![0], Vec::new(), Vec::new());
        let mut lists = vec![usize::MAX; key_blocks];
        for list in 0..shape.lists() {
            for &block in partial.of(list).iter().chain(full.of(list)) {
                let before = std::mem::replace(&mut lists[block as usize], list);
                let found = || format!("block {block} twice in list {list}");
                expect(
                    before != list,
                    "mask",
                    found,
                    "each block once, partial or full",
                )?;
            }
            let of = |lists: BlockLists<'_>| {
                let blocks = lists.of(list).to_vec();
                blocks.into_iter().flat_map(move |block| division.of(block))
            };
            // A full block that the last key ends is masked at that key.
            let (tail, seen): (Vec<u32>, Vec<u32>) = of(full).partition(|&block| block >= whole);
            let masked: Vec<u32> = of(partial).chain(tail.iter().copied()).collect();
            let masked = match (masked.is_empty(), seen.is_empty()) {
                (true, true) => vec![division.all],
                _ => masked,
            };
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

/// Checks how many blocks the lists of keys and of queries have as they are walked.
fn check_walked(shape: BlockShape, lists: [BlockLists<'_>; 2]) -> Result<()> {
    let [query_blocks, _] = shape.blocks();
    let [of_queries, of_keys] = [0, 1].map(|side| shape.division(side));
    let (mut queries, mut keys) = (0, 0_usize);
    for list in 0..shape.lists() {
        let parts = of_queries.of((list % query_blocks) as u32).len();
        for of_kind in lists {
            let blocks = of_kind.of(list);
            queries += parts * blocks.len();
            keys += blocks
                .iter()
                .map(|&key| of_keys.of(key).len())
                .sum::<usize>();
        }
    }
    check_total(queries.max(keys + shape.lists()))
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
    fn blocks_that_reach_far_past_the_last_token_are_divided() {
        let shape = |tokens, block| BlockShape {
            batch: 1,
            heads: 1,
            tokens,
            block,
        };
        let walked = |tokens, block| shape(tokens, block).walked();
        assert_eq!(walked([300, 1], [128, 128]), [128, 128]);
        assert_eq!(walked([200, 600], [1 << 28, 512]), [256, 128]);
        assert_eq!(walked([1025, 4096], [1024, 4096]), [128, 4096]);
        assert_eq!(walked([700, 5000], [384, 1024]), [384, 1024]);
        // Blocks 0 and 1 of 512 keys, of 600, are five of 128; the last one is full as far as there are keys.
        let lists = KeyLists::new(
            shape([100, 600], [128, 512]),
            BlockLists {
                starts: &[0, 1],
                blocks: &[0],
            },
            BlockLists {
                starts: &[0, 1],
                blocks: &[1],
            },
        );
        let lists = lists.expect("the lists fit the shape");
        assert_eq!(lists.blocks, [0, 1, 2, 3, 4]);
        assert_eq!((lists.starts, lists.partial), (vec![0, 5], vec![11]));
    }

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
