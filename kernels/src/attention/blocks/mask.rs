//! Block-sparse masks on a device.

use tilekit::Device;
use tilekit::prelude::*;

use super::lists::{BlockKind, BlockLists, BlockShape, KeyLists, check_shape, check_total};
use super::transposed::QueryLists;
use crate::attention::error::Result;

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
    pub(super) keys: DeviceKeyLists,
    pub(in crate::attention) queries: DeviceQueryLists,
}

/// [`KeyLists`] on a device.
pub(super) struct DeviceKeyLists {
    pub(super) starts: Buffer<i32>,
    pub(super) partial: Buffer<i32>,
    pub(super) blocks: Buffer<i32>,
}

/// [`QueryLists`] on a device.
pub(in crate::attention) struct DeviceQueryLists {
    pub(in crate::attention) starts: Buffer<i32>,
    pub(in crate::attention) partial: Buffer<i32>,
    pub(in crate::attention) blocks: Buffer<i32>,
    pub(in crate::attention) ranks: Buffer<i32>,
}

impl BlockMask {
    /// A mask of lists on the host: those of the blocks in which scores are masked, and of those in which none is. A block is in one of them. The lists of the backward pass are made of
    /// them, for each block of keys the blocks of queries that see it.
    ///
    /// # Errors
    /// [`Error::Argument`](crate::attention::Error::Argument) for lists that do not fit `shape`; otherwise an error of the device.
    pub fn new(
        device: &Device,
        shape: BlockShape,
        partial: BlockLists<'_>,
        full: BlockLists<'_>,
    ) -> Result<BlockMask> {
        let keys = KeyLists::new(shape, partial, full)?;
        let queries = QueryLists::new(shape, partial, full);
        let buffer = |numbers: &[i32]| Buffer::from_slice(device, numbers);
        Ok(BlockMask {
            shape,
            keys: DeviceKeyLists {
                starts: buffer(&keys.starts)?,
                partial: buffer(&keys.partial)?,
                blocks: buffer(&keys.blocks)?,
            },
            queries: DeviceQueryLists {
                starts: buffer(&queries.starts)?,
                partial: buffer(&queries.partial)?,
                blocks: buffer(&queries.blocks)?,
                ranks: buffer(&queries.ranks)?,
            },
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
