//! The order in which CTAs of the backward pass begin: which block of keys of which head each of them has.
//!
//! Heads are in sections. CTAs of a section begin in ascending order of their blocks of keys, and those of a block with one head after the other:
//!
//! ```text
//! block of keys  0           1           2         ..
//! head           0 1 .. k-1  0 1 .. k-1  0 1 .. k-1
//! ```
//!
//! Of a causal mask the first block of keys has the most queries: the longest CTAs of a section begin first, and those that are left at the end of the launch are short.
//!
//! Where dQ is added in a fixed order, the CTAs of a head follow each other through the blocks of queries, at a distance of a hand-off: an addition, its end, the release of a count, a poll. With one head after
//! the other, all CTAs that run would stand in one such chain, and the last of them would begin as many hand-offs late. In a section there are as many chains as heads. With a causal mask, besides, a section begins
//! when the one before it has begun half of its blocks, and from then on CTAs of both begin in turns. For a CTA has fewer steps than that of the preceding block, and near the diagonal a chain takes longer than its
//! CTAs: at any time half of those that begin are long.
//!
//! Or, with a mask at depth 192, CTAs of a head begin with its last block of keys, and visit blocks of queries in ascending order. Then a CTA comes to each block of queries behind the CTA of the next block of keys even
//! where both begin together: the diagonal of the other is ahead. None waits, but the longest CTAs come last, and a launch would end with them. So most heads ascend, and the last ones descend.
//!
//! At depth 256 a cluster has two blocks of keys (`exchange.rs`), which count as one here.
//!
//! A section has few heads, since fewer CTAs read the same Q and dO, and add to the same dQ, the more heads there are at a time. In any order of terms with a mask it has as many as give each SM a CTA, or two of a cluster: fewer leave SMs
//! without one at the end, where the last section's longest CTAs would begin late; more find less in L2 (`bench/results/attention.md`, "Heads of a section in any order").

use tilekit::prelude::*;

use super::part::{OfCluster, has_adders, may_ascend};
use crate::attention::plan::{Mask, SECTION_BYTES, Sizes};

/// How heads are divided into sections, as a launch passes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Heads of K and V, of all batches, in a section.
    pub(super) heads: i32,
    /// Blocks of keys that a section has begun when the next one begins.
    pub(super) lead: i32,
}

/// The most heads of a section in a fixed order: CTAs of fewer blocks of a head are too few to find its Q, dO and dQ in L2.
const MOST_HEADS: usize = 8;

/// SMs of an H100 or H200, each of which has one CTA at a time. Where consumers add terms of dQ themselves in a fixed order, a masked section has no more heads than give each SM a CTA, or two of
/// a cluster: 2048 tokens at depth 256 took 0.94 of the time of 8 heads with 5 or 6 without clusters.
pub(super) const SMS: usize = 132;

/// Blocks of keys from which on sections of groups in a fixed order do not overlap.
const LONG: usize = 16;

impl Plan {
    /// That of a call. Without a mask all CTAs take the same time, and in any order of terms none waits for another: one head follows the other, as is best for L2.
    pub(super) fn new(
        sizes: Sizes,
        mask: Mask,
        is_ordered: bool,
        of_cluster: OfCluster,
        element_bytes: usize,
    ) -> Plan {
        let Sizes {
            batch,
            heads,
            kv_heads,
            queries,
            keys,
            depths: [depth, values],
        } = sizes;
        let blocks = of_cluster.clusters(keys).max(1);
        let (is_masked, all) = (!mask.is_full(), (batch * kv_heads).max(1));
        let row_bytes = (depth + values) * element_bytes + depth * size_of::<f32>();
        let head_bytes = heads / kv_heads.max(1) * queries * row_bytes;
        let most_heads = if is_masked && !has_adders(depth) {
            MOST_HEADS.min(SMS.div_ceil(blocks))
        } else {
            MOST_HEADS
        };
        let is_chain = is_ordered && is_masked && heads > kv_heads && !may_ascend(depth);
        if is_chain {
            return Plan::of_groups(blocks, all);
        }
        let heads = match (is_ordered, is_masked) {
            (true, _) => (SECTION_BYTES / head_bytes.max(1)).clamp(1, most_heads.min(all)),
            (false, true) => heads_of_a_wave(blocks).min(all),
            (false, false) => 1,
        };
        Plan {
            heads: heads as i32,
            lead: if is_ordered && is_masked {
                blocks.div_ceil(2)
            } else {
                blocks
            } as i32,
        }
    }
}

impl Plan {
    /// That of a call in a fixed order with a mask whose query heads of a group are one chain, of so many blocks of keys and groups. CTAs of the first blocks of keys have `query_heads` times the steps of a single head, so that
    /// a section that has begun half of its blocks is far from its end: sections of two waves follow each other, but for short sequences (`bench/results/attention.md`, "Groups in a fixed order").
    fn of_groups(blocks: usize, all: usize) -> Plan {
        let wave = heads_of_a_wave(blocks);
        let (heads, lead) = if blocks < LONG {
            (wave, blocks.div_ceil(2))
        } else {
            (2 * wave, blocks)
        };
        Plan {
            heads: heads.min(all) as i32,
            lead: lead as i32,
        }
    }
}

/// Heads whose CTAs, of `blocks` of keys each, are as many as the SMs: a power of two, the nearest in the ratio.
fn heads_of_a_wave(blocks: usize) -> usize {
    let heads = (SMS as f64 / blocks as f64).log2().round().max(0.0);
    1 << heads as u32
}

/// The sections of a launch. A round is the first `lead` blocks of a section, and the other blocks of the section before it; there is one more of them than sections.
#[derive(Clone, Copy)]
pub(super) struct Sections {
    /// Heads of a section, and of all of them.
    pub(super) heads: [Scalar<i32>; 2],
    pub(super) lead: Scalar<i32>,
    /// Blocks of keys of a head, twice `lead` at most.
    pub(super) blocks: Scalar<i32>,
}

impl Sections {
    /// The block of keys, and the head, of the CTA that begins after so many others. Blocks of a head are in ascending order.
    #[device]
    pub(super) fn of(self, begun: Scalar<i32>) -> [Scalar<i32>; 2] {
        let [most, all] = self.heads;
        let rest = self.blocks - self.lead;
        // Of the rounds but the first and the last two, each has `most` heads of either section.
        let of_first = minimum(most, all) * self.lead;
        let whole = most * self.blocks;
        let later = maximum(begun - of_first, 0) / whole;
        let round = minimum(select(begun < of_first, 0, later + 1), (all - 1) / most);
        let start = select(round > 0, of_first + (round - 1) * whole, 0);
        let of_round = self.in_round(round, rest);
        let is_last = begun - start >= of_round;
        let (round, start) = (
            select(is_last, round + 1, round),
            select(is_last, start + of_round, start),
        );
        let [fresh, earlier] = self.heads_of(round);
        // As long as the earlier section has blocks, those of both begin in turns.
        let place = begun - start;
        let beside = (fresh + earlier) * rest;
        let is_beside = place < beside;
        let width = maximum(select(is_beside, fresh + earlier, fresh), 1);
        let place = select(is_beside, place, place - beside);
        let block = select(is_beside, 0, rest) + place / width;
        let head = place % width;
        let is_earlier = head >= fresh;
        [
            select(is_earlier, self.lead + block, block),
            round * most + head - select(is_earlier, most + fresh, 0),
        ]
    }

    /// Whether a head's blocks of queries ascend, and its CTAs begin with the last block of keys, in a fixed order with a mask: all heads but the last quarter, or section.
    #[device]
    pub(super) fn ascends(self, head: Scalar<i32>) -> Scalar<bool> {
        let [most, all] = self.heads;
        let is_masked = self.lead < self.blocks;
        is_masked & (head < all - maximum(most, all / 4))
    }

    /// CTAs of a round.
    #[device]
    fn in_round(self, round: Scalar<i32>, rest: Scalar<i32>) -> Scalar<i32> {
        let [fresh, earlier] = self.heads_of(round);
        fresh * self.lead + earlier * rest
    }

    /// Heads of the section that begins in a round, and of the one before it.
    #[device]
    fn heads_of(self, round: Scalar<i32>) -> [Scalar<i32>; 2] {
        let [most, all] = self.heads;
        let of = |section: Scalar<i32>| minimum(maximum(all - section * most, 0), most);
        [of(round), select(round > 0, of(round - 1), 0)]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[kernel(warps = 1)]
    fn write_order(to: Ptr<i32>, section: i32, lead: i32, blocks: i32, heads: i32) {
        assume((section > 0) & (blocks > 0) & (heads > 0));
        let sections = Sections {
            heads: [section, heads],
            lead,
            blocks,
        };
        let [block, head] = sections.of(program_id(0));
        to.at(program_id(0) * 2).store(block);
        to.at(program_id(0) * 2 + 1).store(head);
    }

    /// Blocks and heads in the order in which their CTAs begin.
    fn order(section: i32, lead: i32, blocks: i32, heads: i32) -> Vec<(i32, i32)> {
        let device = Device::emulator_with_seed(0);
        let stream = Stream::new(&device).unwrap();
        let kernel = write_order.compile(&Compiler::default()).unwrap();
        let kernel = kernel.load(&device).unwrap();
        let ctas = (blocks * heads) as usize;
        let to = Buffer::<i32>::zeros(&device, ctas * 2).unwrap();
        kernel
            .launch(&stream, grid(ctas), (&to, section, lead, blocks, heads))
            .unwrap();
        stream.synchronize().unwrap();
        let found = to.to_vec().unwrap();
        found.chunks(2).map(|pair| (pair[0], pair[1])).collect()
    }

    #[test]
    fn heads_of_a_section_alternate() {
        let expected = [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (1, 2)];
        assert_eq!(order(2, 2, 2, 3), expected);
    }

    #[test]
    fn a_section_begins_when_the_one_before_it_has_begun_half() {
        let expected = [(0, 0), (1, 0), (0, 1), (2, 0), (1, 1), (2, 1)];
        assert_eq!(order(1, 2, 3, 2), expected);
    }

    #[test]
    fn every_block_begins_once_and_behind_those_before_it() {
        for (section, blocks, heads) in [
            (1, 1, 1),
            (1, 4, 3),
            (2, 3, 5),
            (2, 5, 4),
            (3, 4, 7),
            (4, 3, 2),
            (5, 1, 7),
        ] {
            for lead in [blocks, (blocks + 1) / 2] {
                let found = order(section, lead, blocks, heads);
                let distinct: HashSet<_> = found.iter().collect();
                assert_eq!(
                    distinct.len(),
                    found.len(),
                    "{section} {lead} {blocks} {heads}"
                );
                let mut next = vec![0; heads as usize];
                for (block, head) in found {
                    assert_eq!(
                        next[head as usize], block,
                        "{section} {lead} {blocks} {heads}"
                    );
                    next[head as usize] += 1;
                }
            }
        }
    }

    #[kernel(warps = 1)]
    fn write_directions(to: Ptr<i32>, section: i32, lead: i32, blocks: i32, heads: i32) {
        let sections = Sections {
            heads: [section, heads],
            lead,
            blocks,
        };
        let head = program_id(0);
        to.at(head).store(sections.ascends(head).cast::<i32>());
    }

    /// How many heads ascend, which are the first ones.
    fn ascending(section: i32, lead: i32, blocks: i32, heads: i32) -> usize {
        let device = Device::emulator_with_seed(0);
        let stream = Stream::new(&device).unwrap();
        let kernel = write_directions.compile(&Compiler::default()).unwrap();
        let kernel = kernel.load(&device).unwrap();
        let to = Buffer::<i32>::zeros(&device, heads as usize).unwrap();
        kernel
            .launch(&stream, grid(heads), (&to, section, lead, blocks, heads))
            .unwrap();
        stream.synchronize().unwrap();
        let found = to.to_vec().unwrap();
        assert!(found.is_sorted_by(|a, b| a >= b), "{found:?}");
        found.iter().filter(|&&ascends| ascends == 1).count()
    }

    #[test]
    fn the_last_heads_descend() {
        assert_eq!(ascending(1, 2, 4, 16), 12);
        assert_eq!(ascending(8, 2, 4, 16), 8);
        assert_eq!(ascending(8, 2, 3, 5), 0);
        // Without a mask all CTAs take the same time.
        assert_eq!(ascending(1, 4, 4, 16), 0);
    }

    #[test]
    fn sections_fit_l2() {
        let plan = |heads, tokens, depths, mask, is_ordered| {
            let sizes = Sizes {
                batch: 1,
                heads,
                kv_heads: heads,
                queries: tokens,
                keys: tokens,
                depths,
            };
            Plan::new(
                sizes,
                mask,
                is_ordered,
                OfCluster::of_window(depths[0], false),
                2,
            )
        };
        let full = Mask::default();
        let causal = Mask {
            right: Some(0),
            ..full
        };
        let expect = |found, heads, lead| assert_eq!(found, Plan { heads, lead });
        expect(plan(16, 16384, [128, 128], full, false), 1, 128);
        expect(plan(16, 16384, [128, 128], full, true), 2, 128);
        expect(plan(16, 16384, [128, 128], causal, true), 2, 64);
        expect(plan(16, 16384, [192, 128], causal, true), 1, 86);
        expect(plan(64, 4096, [128, 128], causal, false), 4, 32);
        expect(plan(64, 512, [128, 128], causal, false), 32, 4);
        expect(plan(3, 1, [128, 128], causal, false), 3, 1);
        expect(plan(16, 16384, [128, 128], causal, false), 1, 128);
        expect(plan(4, 4096, [256, 256], causal, false), 4, 26);
        expect(plan(128, 2048, [128, 128], causal, true), 8, 8);
        expect(plan(32, 16384, [64, 64], causal, true), 4, 64);
        expect(plan(4, 64, [64, 64], causal, true), 4, 1);
        expect(plan(64, 2048, [256, 256], causal, true), 8, 7);
        expect(plan(32, 4096, [256, 256], causal, true), 4, 13);
        expect(plan(32, 4096, [256, 256], full, true), 4, 26);
        expect(plan(8, 16384, [256, 256], causal, true), 1, 52);
    }

    #[test]
    fn groups_in_a_fixed_order_have_sections_of_two_waves() {
        let expect = |blocks, all, heads, lead| {
            assert_eq!(Plan::of_groups(blocks, all), Plan { heads, lead });
        };
        expect(32, 8, 8, 32);
        expect(64, 8, 4, 64);
        expect(4, 64, 32, 2);
        expect(16, 8, 8, 16);
        expect(52, 4, 4, 52);
        expect(2, 3, 3, 1);
    }
}
