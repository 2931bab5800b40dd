//! What cases of attention forward with as many keys as queries share: sizes, the problem on the host, and how they are launched.

use tilekit::prelude::*;

use crate::attention::mainloop::problem::ROWS;
use crate::attention::plan::{Sizes, section_of};
use crate::attention::reference::Attention;
use crate::attention::setup::{CAUSAL, FULL};

/// The problem of a case.
pub(super) struct Square {
    pub(super) attention: Attention,
    /// Query heads of a head of K and V.
    pub(super) query_heads: usize,
    is_causal: bool,
}

impl Square {
    /// That of the case's `batch`, `heads`, `query_heads` and `tokens`.
    pub(super) fn of(case: &Case, depth: usize, is_causal: bool) -> Self {
        let [batch, heads, query_heads, tokens] =
            ["batch", "heads", "query_heads", "tokens"].map(|name| case.size(name));
        let sizes = Sizes {
            batch,
            heads,
            kv_heads: heads / query_heads,
            queries: tokens,
            keys: tokens,
            depths: [depth; 2],
        };
        Square {
            attention: Attention::new(sizes, if is_causal { CAUSAL } else { FULL }),
            query_heads,
            is_causal,
        }
    }

    /// The shapes of Q and of K.
    pub(super) fn shapes(&self) -> [[usize; 4]; 2] {
        let Sizes {
            batch,
            heads,
            kv_heads,
            queries,
            depths: [depth, _],
            ..
        } = self.attention.sizes;
        [heads, kv_heads].map(|heads| [batch, heads, queries, depth])
    }

    /// Heads of all batches.
    fn lines(&self) -> usize {
        self.attention.sizes.batch * self.attention.sizes.heads
    }

    /// Programs, and heads of a section, of an instance with so many consumer warpgroups; a row of K and one of V have `row_bytes` together.
    pub(super) fn launch(&self, groups: usize, row_bytes: usize) -> [usize; 2] {
        let tokens = self.attention.sizes.keys;
        let tiles = tokens.div_ceil(groups * ROWS) * self.lines();
        // Small cases have few programs, so that each computes several tiles, and a section for each head.
        if tiles < 16 {
            [tiles.min(3), 1]
        } else {
            let section = section_of(self.lines(), tokens, row_bytes, self.is_causal);
            [tiles.min(132), section]
        }
    }

    /// Operations of its products.
    pub(super) fn flops(&self) -> usize {
        let Sizes {
            keys,
            depths: [depth, _],
            ..
        } = self.attention.sizes;
        let all = 4 * self.lines() * keys * keys * depth;
        if self.is_causal { all / 2 } else { all }
    }
}
