//! The pages of a cache, and loads of the pieces of a block from them.

use tilekit::prelude::*;

/// The cache of keys and values, `[pages, heads, tokens, depth]`. A sequence has the pages that its row of `table` names; without
/// a table it has the page of its own index.
#[derive(Clone, Copy)]
pub(super) struct Pages<T> {
    pub(super) keys: TensorMap<T>,
    pub(super) values: TensorMap<T>,
    pub(super) table: Ptr<i32>,
    pub(super) is_paged: Scalar<bool>,
    /// Entries of a row.
    pub(super) row: Scalar<i32>,
    /// Tokens of a page.
    pub(super) tokens: Scalar<i32>,
    /// Tokens of one TMA load.
    pub(super) piece: usize,
}

impl<T: Element> Pages<T> {
    /// The pages of the pieces of `block` of a sequence with `left` keys. Where none of them is there is no page: TMA fills it with zeros.
    #[device]
    pub(super) fn of_block(
        self,
        batch: Scalar<i32>,
        left: Scalar<i32>,
        block: Scalar<i32>,
        block_keys: usize,
    ) -> Vec<Scalar<i32>> {
        let Pages {
            table,
            is_paged,
            row,
            tokens,
            piece,
            ..
        } = self;
        let page = |part: usize| {
            let token = block * block_keys + part * piece;
            let entry = table.at(batch * row + token / tokens);
            let is_there = (block >= 0) & (token < left);
            let page = entry.mask(is_paged & is_there).other(-1).load();
            select(is_paged, page, batch)
        };
        (0..block_keys / piece).map(page).collect()
    }

    /// The place of a token in its page.
    #[device]
    pub(super) fn in_page(self, token: Scalar<i32>) -> Scalar<i32> {
        select(self.is_paged, token % self.tokens, token)
    }
}
