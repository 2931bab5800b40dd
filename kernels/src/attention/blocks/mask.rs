//! Block-sparse masks.

use tilekit::Device;
use tilekit::prelude::*;

use crate::attention::error::{Result, expect};

/// Queries and keys of a block of a mask are multiples of this.
pub(in crate::attention) const UNIT: usize = 128;

/// The extents of a [`BlockMask`].
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
}

/// Lists of key blocks, one after the other: that of block `q` of head `h` of batch `b` is number `(b · heads + h) · query blocks + q`.
#[derive(Clone, Copy, Debug)]
pub struct BlockLists<'a> {
    /// Where each list begins in `blocks`, and where the last one ends.
    pub starts: &'a [usize],
    /// Key blocks, in any order in a list.
    pub blocks: &'a [u32],
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

/// A block-sparse mask on a device, as `FlexAttention`'s `BlockMask`: the blocks of keys that each block of queries sees.
///
/// ```
/// use tilekit::prelude::*;
/// use tilekit_kernels::attention::{BlockKind, BlockMask, BlockShape};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let device = Device::emulator();
/// // Causal: blocks before the diagonal are full, those at it are partial.
/// let shape = BlockShape { batch: 1, heads: 1, tokens: [1000, 1000], block: [128, 128] };
/// let mask = BlockMask::from_fn(&device, shape, |_, _, query, key| match key {
///     key if key < query => BlockKind::Full,
///     key if key == query => BlockKind::Partial,
///     _ => BlockKind::Hidden,
/// })?;
/// assert_eq!(mask.shape().blocks(), [8, 8]);
/// # Ok(())
/// # }
/// ```
pub struct BlockMask {
    shape: BlockShape,
    pub(super) starts: Buffer<i32>,
    /// Twice the partial blocks of each list, and 1 where the block that the last key ends is full.
    pub(super) partial: Buffer<i32>,
    pub(super) blocks: Buffer<i32>,
}

impl BlockMask {
    /// A mask of lists on the host: those of the blocks in which scores are masked, and of those in which none is. A block is in one of them.
    ///
    /// # Errors
    /// [`Error::Argument`](crate::attention::Error::Argument) for lists that do not fit `shape`; otherwise an error of the device.
    pub fn new(
        device: &Device,
        shape: BlockShape,
        partial: BlockLists<'_>,
        full: BlockLists<'_>,
    ) -> Result<BlockMask> {
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
            let of = |lists: BlockLists<'_>| {
                lists.blocks[lists.starts[list]..lists.starts[list + 1]].to_vec()
            };
            let (mut masked, seen) = (of(partial), of(full));
            for &block in masked.iter().chain(&seen) {
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
                seen.into_iter().partition(|&block| block as usize >= whole);
            masked.extend(&tail);
            if masked.is_empty() && seen.is_empty() {
                masked.push(key_blocks as u32);
            }
            counts.push((2 * masked.len() + tail.len()) as i32);
            blocks.extend(masked.iter().chain(&seen).map(|&block| block as i32));
            starts.push(blocks.len() as i32);
        }
        Ok(BlockMask {
            shape,
            starts: Buffer::from_slice(device, &starts)?,
            partial: Buffer::from_slice(device, &counts)?,
            blocks: Buffer::from_slice(device, &blocks)?,
        })
    }

    /// The mask in which `kind` says how a block of queries sees a block of keys, by batch, head, block of queries and block of keys.
    ///
    /// # Errors
    /// As for [`new`](BlockMask::new).
    pub fn from_fn(
        device: &Device,
        shape: BlockShape,
        kind: impl Fn(usize, usize, usize, usize) -> BlockKind,
    ) -> Result<BlockMask> {
        check_shape(shape)?;
        let [query_blocks, key_blocks] = shape.blocks();
        let mut all = [BlockKind::Partial, BlockKind::Full].map(|kind| (kind, vec![0], Vec::new()));
        for list in 0..shape.lists() {
            let (head, query) = (list / query_blocks, list % query_blocks);
            let kinds: Vec<BlockKind> = (0..key_blocks)
                .map(|key| kind(head / shape.heads, head % shape.heads, query, key))
                .collect();
            for (kind, starts, blocks) in &mut all {
                let of_kind = (0..key_blocks).filter(|&key| kinds[key] == *kind);
                blocks.extend(of_kind.map(|key| key as u32));
                starts.push(blocks.len());
            }
            let total: usize = all.iter().map(|(_, _, blocks)| blocks.len()).sum();
            check_total(total + shape.lists())?;
        }
        let [partial, full] = all
            .each_ref()
            .map(|(_, starts, blocks)| BlockLists { starts, blocks });
        BlockMask::new(device, shape, partial, full)
    }

    /// Its extents.
    pub fn shape(&self) -> BlockShape {
        self.shape
    }
}

fn check_shape(shape: BlockShape) -> Result<()> {
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
    let lists = shape.lists();
    expect(
        lists < MOST,
        "mask.shape",
        || format!("{lists} lists"),
        format!("less than {MOST}"),
    )
}

/// Checks how many blocks all lists have, each of which may be one block longer for the lists that are empty: 32-bit numbers say where lists begin.
fn check_total(blocks: usize) -> Result<()> {
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
