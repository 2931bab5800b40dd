//! Masks of cases: how blocks of queries see blocks of keys.

use super::lists::{BlockKind, BlockLists, BlockShape, UNIT};
use crate::attention::plan::Sizes;

/// How blocks are seen: some of each kind, a list without any, and partial and full ones at the end.
pub(in crate::attention) fn pattern([batch, head, query, key]: [usize; 4]) -> BlockKind {
    match (batch + 2 * head + 3 * query + 5 * key) % 7 {
        _ if (head + query) % 4 == 3 => BlockKind::Hidden,
        0 | 3 => BlockKind::Hidden,
        1 | 5 => BlockKind::Partial,
        _ => BlockKind::Full,
    }
}

/// Full blocks alone.
pub(in crate::attention) fn whole([_, head, query, key]: [usize; 4]) -> BlockKind {
    if (head + query + key) % 2 == 0 {
        BlockKind::Full
    } else {
        BlockKind::Hidden
    }
}

/// The lists of a pattern, of blocks that are seen in one way.
pub(in crate::attention) struct Lists {
    starts: Vec<usize>,
    blocks: Vec<u32>,
}

impl Lists {
    /// Those of partial and of full blocks. Later blocks come first, for lists are in any order.
    pub(in crate::attention) fn of(
        kind: fn([usize; 4]) -> BlockKind,
        shape: BlockShape,
    ) -> [Lists; 2] {
        let [query_blocks, key_blocks] = shape.blocks();
        [BlockKind::Partial, BlockKind::Full].map(|wanted| {
            let (mut starts, mut blocks) = (vec![0], Vec::new());
            for list in 0..shape.lists() {
                let (head, query) = (list / query_blocks, list % query_blocks);
                let kind = |key: usize| kind([head / shape.heads, head % shape.heads, query, key]);
                let seen = (0..key_blocks).rev().filter(|&key| kind(key) == wanted);
                blocks.extend(seen.map(|key| key as u32));
                starts.push(blocks.len());
            }
            Lists { starts, blocks }
        })
    }

    pub(in crate::attention) fn view(&self) -> BlockLists<'_> {
        BlockLists {
            starts: &self.starts,
            blocks: &self.blocks,
        }
    }
}

/// The shape of a mask of a case, in which each head has lists of its own.
pub(in crate::attention) fn shape_of(sizes: Sizes) -> BlockShape {
    BlockShape {
        batch: sizes.batch,
        heads: sizes.heads,
        tokens: [sizes.queries, sizes.keys],
        block: [UNIT; 2],
    }
}
