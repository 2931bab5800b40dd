//! Some of all mutants, where there is no time for each.

use std::collections::BTreeMap;

use ptx::MutationKind;

use super::subject::Mutant;

/// At most `limit` mutants, in their order: those of each kind in turn, and of a kind spread over all kernels. A larger limit
/// keeps those of a smaller one.
pub(super) fn sample(mutants: Vec<Mutant<'_>>, limit: usize) -> Vec<Mutant<'_>> {
    let kinds: Vec<MutationKind> = mutants.iter().map(|mutant| mutant.mutation.kind).collect();
    let mut chosen = chosen(&kinds, limit);
    chosen.sort_unstable();
    let is_chosen = |at: &usize| chosen.binary_search(at).is_ok();
    let numbered = mutants.into_iter().enumerate();
    numbered
        .filter(|(at, _)| is_chosen(at))
        .map(|(_, mutant)| mutant)
        .collect()
}

fn chosen(kinds: &[MutationKind], limit: usize) -> Vec<usize> {
    let mut of_kind: BTreeMap<MutationKind, Vec<usize>> = BTreeMap::new();
    for (at, kind) in kinds.iter().enumerate() {
        of_kind.entry(*kind).or_default().push(at);
    }
    for all in of_kind.values_mut() {
        spread(all);
    }
    let most = of_kind.values().map(Vec::len).max().unwrap_or(0);
    let rounds = (0..most).flat_map(|round| of_kind.values().filter_map(move |all| all.get(round)));
    rounds.take(limit).copied().collect()
}

/// Puts a list into an order of which every beginning is spread over the list: by the bits of the index, reversed.
pub(in crate::harness::verbs) fn spread(all: &mut Vec<usize>) {
    let mut indexed: Vec<(usize, usize)> = all.iter().copied().enumerate().collect();
    indexed.sort_by_key(|(index, _)| index.reverse_bits());
    *all = indexed.into_iter().map(|(_, at)| at).collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_gets_its_turn_and_is_spread() {
        use MutationKind::{BarSync, Fence, Relaxed};
        let kinds = [
            BarSync, BarSync, BarSync, BarSync, Fence, BarSync, Relaxed, Fence,
        ];
        assert_eq!(chosen(&kinds, 3), [0, 4, 6]);
        assert_eq!(chosen(&kinds, 5), [0, 4, 6, 5, 7]);
        let mut all = chosen(&kinds, 100);
        assert_eq!(all[..5], [0, 4, 6, 5, 7]);
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3, 4, 5, 6, 7]);
        assert!(chosen(&[], 3).is_empty());
    }
}
