//! Synchronization that provably does nothing is not emitted: waits for groups that are complete, and barriers of a warp that order
//! nothing. The operations that emit it see one place each; here the paths to that place are known.

mod flow;
mod groups;
mod lanes;
#[cfg(test)]
mod tests;

use ptx::Stmt;

use super::code::Code;

/// Drops it from the code.
pub(super) fn remove_redundant(code: &mut Code) {
    for find in [groups::find_waits, lanes::find_barriers] {
        let lists = code.lists_mut();
        let lengths = lists.each_ref().map(|list| list.len());
        let statements: Vec<&Stmt> = lists.iter().flat_map(|list| list.iter()).collect();
        let found = find(&statements);
        if found.is_empty() {
            continue;
        }
        let mut start = 0;
        for (list, length) in lists.into_iter().zip(lengths) {
            let mut at = start;
            list.retain(|_| {
                at += 1;
                found.binary_search(&(at - 1)).is_err()
            });
            start += length;
        }
    }
}
