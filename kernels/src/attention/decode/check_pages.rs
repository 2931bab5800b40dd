//! Lengths and pages of a cache, checked on the device.

use tilekit::prelude::*;

/// Entries of a row of the table that one step reads.
const AT_ONCE: usize = 128;

/// Fails an assertion where a length is negative or beyond a sequence's capacity of `row` pages of `page_tokens` tokens, or where a page that
/// a sequence has tokens in is not below `pages`. A program for each sequence; the table is read if `is_paged`.
#[kernel(warps = 4)]
pub fn check_pages(
    #[align(4)] lengths: Ptr<i32>,
    #[align(4)] table: Ptr<i32>,
    is_paged: i32,
    page_tokens: i32,
    row: i32,
    pages: i32,
) {
    assume(page_tokens > 0);
    let sequence = program_id(0);
    let length = lengths.at(sequence).load();
    device_assert(
        (length >= 0) & (length <= row * page_tokens),
        "attention: `cache.lengths`: found a length beyond the room of its sequence",
    );
    if is_paged != 0 {
        let used = cdiv(length, page_tokens);
        for first in range(0, used).step(AT_ONCE) {
            let entry = first + arange(0..AT_ONCE, Coalesced);
            let page = table.at(sequence * row + entry);
            let page = page.mask(entry < used).other(0).load();
            device_assert(
                (page >= 0) & (page < pages),
                "attention: `cache.table`: found a page that is none of the cache",
            );
        }
    }
}
