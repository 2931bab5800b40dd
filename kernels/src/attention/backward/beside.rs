//! The passes of other heads beside the main loop of attention backward: a warp writes row sums and zeros for a head that comes later, and rounds dQ of one that is complete.
//!
//! In front of the main loop and behind it, the passes are bound by DRAM while the tensor cores wait: they took 181 of 1270 us at 64 heads of 4096 tokens, depth 128, with a causal mask
//! (`bench/results/attention.md`, "Passes beside the main loop"). So the first heads alone are begun by [`backward_begin`](super::passes::backward_begin), and the last ones rounded by
//! [`backward_end`](super::passes::backward_end).
//!
//! The rows of a head are divided among the CTAs of the head that is `ahead` heads in front of it, and then its dQ among those of the head as many behind it. A CTA has as many rows as it has steps, so that its warp
//! ends before its consumers do. A head has two counts: of CTAs that have begun their rows, for which the warps wait that load row sums, or add to dQ; and of warps that have added all of their terms,
//! for which those wait that round it.
//!
//! CTAs take their blocks of keys by tickets, in the order of sections. `ahead` is a section's heads at least, or twice as many where sections overlap, so that a CTA waits only for CTAs with lower tickets, which have
//! begun. Of those that run, the one with the lowest ticket waits for none: there is no deadlock, however many CTAs are resident.

use tilekit::prelude::*;

use super::part::ADDERS;
use super::sections::{Plan, SMS};
use super::strips::{Buffers, Strip, Strips};
use crate::attention::mainloop::problem::ROWS;
use crate::attention::modifier::Modifier;
use crate::attention::plan::Sizes;

/// Whether the main loop has a part of both passes. Beyond depth 128 shared memory has no place for their rows; numbers of dropout, and what a modifier computes, leave no registers for the warp. At depth 96
/// half of a block of dQ is no power of two of elements, as copies are.
pub(super) const fn has_passes<M: Modifier>(depth: usize) -> bool {
    matches!(depth, 64 | 128) && M::SCALES_LATER && !M::DROPS
}

/// Heads of K and V from those whose rows are begun to those of the main loop, and on to those whose dQ is rounded; not more than `all`. The CTAs that begin a head's rows should have ended when its own begin, and those should have
/// ended when others round its dQ.
pub(super) fn heads_ahead(plan: Plan, blocks: usize, all: usize) -> usize {
    (least_ahead(plan, blocks) + (SMS / blocks).max(1)).min(all)
}

/// The least of [`heads_ahead`] without deadlock: the heads of a section, and of the one before it where they overlap.
pub(super) fn least_ahead(plan: Plan, blocks: usize) -> usize {
    let overlapping = if (plan.lead as usize) < blocks { 2 } else { 1 };
    overlapping * plan.heads as usize
}

/// The lines of a pass that has `ahead` heads of K and V of a call, as the last two dimensions of its grid, and the first line of the pass behind the main loop. A line is a query head of a batch.
pub(super) fn lines(sizes: Sizes, ahead: usize) -> ([usize; 2], usize) {
    let Sizes {
        batch,
        heads,
        kv_heads,
        ..
    } = sizes;
    let all = batch * kv_heads;
    if ahead == all {
        ([heads, batch], 0)
    } else {
        let of_head = heads / kv_heads;
        ([of_head, ahead], (all - ahead) * of_head)
    }
}

/// Passes of other heads.
#[derive(Clone, Copy)]
pub(super) struct Beside<T> {
    pub(super) strips: Strips<T>,
    /// Two counts for each head of K and V.
    pub(super) progress: Ptr<i32>,
    /// Heads of K and V between a pass and the main loop, and all of them.
    pub(super) ahead: Scalar<i32>,
    pub(super) heads: Scalar<i32>,
    /// Blocks of keys of a head.
    pub(super) blocks: Scalar<i32>,
    /// Whether the first block of keys has the most steps, and the last one the least.
    pub(super) is_causal: Scalar<bool>,
    /// Query heads of a head of K and V, and of a batch.
    pub(super) query_heads: [Scalar<i32>; 2],
    /// Strips of a query head.
    pub(super) of_line: Scalar<i32>,
}

/// A CTA's share of a pass: strips of 64 queries of a head of K and V.
#[derive(Clone, Copy)]
struct Share {
    head: Scalar<i32>,
    first: Scalar<i32>,
    end: Scalar<i32>,
}

impl<T: Float + MmaOperand<T, f32>> Beside<T> {
    /// The share of the CTA of block `number` of keys of head `head`. A warp computes it: one pass after the other, for which it has registers.
    #[device]
    pub(super) fn run(self, head: Scalar<i32>, number: Scalar<i32>, buffers: Buffers<T>) {
        let next = head + self.ahead;
        if next < self.heads {
            self.begin(self.share(next, number), buffers);
            self.begun(next).release().atomic_add(1);
        }
        if head >= self.ahead {
            let last = head - self.ahead;
            self.await_terms(last);
            self.end(self.share(last, number), buffers);
        }
    }

    /// Writes row sums and zeros of a share.
    #[device]
    fn begin(self, share: Share, buffers: Buffers<T>) {
        self.strips.clear(buffers);
        for number in range(share.first, share.end) {
            let strip = self.strip(share.head, number);
            self.strips.begin(strip, number - share.first, buffers);
        }
        tma_store_wait(0);
    }

    /// Rounds dQ of a share.
    #[device]
    fn end(self, share: Share, buffers: Buffers<T>) {
        for number in range(share.first, share.end) {
            let strip = self.strip(share.head, number);
            self.strips.end(strip, number - share.first, buffers);
        }
    }

    /// The strips of the CTA of block `number` of keys: as many as it has steps, of all of them.
    #[device]
    fn share(self, head: Scalar<i32>, number: Scalar<i32>) -> Share {
        let strips = self.query_heads[0] * self.of_line;
        Share {
            head,
            first: strips_before(number, self.blocks, strips, self.is_causal),
            end: strips_before(number + 1, self.blocks, strips, self.is_causal),
        }
    }

    /// Strip `number` of a head of K and V.
    #[device]
    fn strip(self, head: Scalar<i32>, number: Scalar<i32>) -> Strip {
        let [of_group, of_batch] = self.query_heads;
        let line = head * of_group + number / self.of_line;
        Strip {
            batch: line / of_batch,
            head: line % of_batch,
            line,
            first: number % self.of_line * ROWS,
            number: head * of_group * self.of_line + number,
        }
    }
}

impl<T: Element> Beside<T> {
    /// Waits until the rows of a head have been begun.
    #[device]
    pub(super) fn await_rows(self, head: Scalar<i32>) {
        if head >= self.ahead {
            let blocks = self.blocks;
            self.begun(head)
                .acquire()
                .atomic_poll(|begun| begun == blocks);
            fence_async_global();
        }
    }

    /// Waits until all terms have been added to dQ of a head.
    #[device]
    fn await_terms(self, head: Scalar<i32>) {
        let warps = self.blocks * ADDERS;
        self.added(head)
            .acquire()
            .atomic_poll(|added| added == warps);
        fence_async_global();
    }

    /// Counts a warp that has added all of its terms to dQ of a head.
    #[device]
    pub(super) fn end_terms(self, head: Scalar<i32>) {
        tma_store_wait(0);
        self.added(head).release().atomic_add(1);
    }

    /// CTAs that have begun their share of a head's rows.
    fn begun(self, head: Scalar<i32>) -> Access<Ptr<i32>> {
        self.progress.at(head * 2)
    }

    /// Warps that have added their terms of a head's dQ.
    fn added(self, head: Scalar<i32>) -> Access<Ptr<i32>> {
        self.progress.at(head * 2 + 1)
    }
}

/// How many of a head's strips belong to the blocks of keys in front of block `number`, of `blocks`: as many as these have of all steps. With a causal mask those become fewer linearly.
#[device]
fn strips_before(
    number: Scalar<i32>,
    blocks: Scalar<i32>,
    strips: Scalar<i32>,
    is_causal: Scalar<bool>,
) -> Scalar<i32> {
    let part = number.cast::<f32>() / blocks.cast::<f32>();
    let part = select(is_causal, part * (2.0 - part), part);
    let before = (strips.cast::<f32>() * part).cast::<i32>();
    // Whatever rounding gives, the last block ends with the last strip.
    select(number < blocks, minimum(before, strips), strips)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[kernel(warps = 1)]
    fn write_shares(to: Ptr<i32>, blocks: i32, strips: i32, is_causal: i32) {
        assume(blocks > 0);
        let before = strips_before(program_id(0), blocks, strips, is_causal != 0);
        to.at(program_id(0)).store(before);
    }

    /// Strips of each block of keys.
    fn shares(blocks: i32, strips: i32, is_causal: bool) -> Vec<i32> {
        let device = Device::emulator_with_seed(0);
        let stream = Stream::new(&device).unwrap();
        let kernel = write_shares.compile(&Compiler::default()).unwrap();
        let kernel = kernel.load(&device).unwrap();
        let ends = blocks as usize + 1;
        let to = Buffer::<i32>::zeros(&device, ends).unwrap();
        let arguments = (&to, blocks, strips, i32::from(is_causal));
        kernel.launch(&stream, grid(ends), arguments).unwrap();
        stream.synchronize().unwrap();
        let before = to.to_vec().unwrap();
        assert_eq!((before[0], before[blocks as usize]), (0, strips));
        before.windows(2).map(|pair| pair[1] - pair[0]).collect()
    }

    #[test]
    fn blocks_of_a_causal_mask_have_shares_that_become_fewer() {
        assert_eq!(shares(4, 16, true), [7, 5, 3, 1]);
        assert_eq!(shares(4, 16, false), [4, 4, 4, 4]);
        assert_eq!(shares(4, 3, true), [1, 1, 0, 1]);
        assert_eq!(shares(1, 5, true), [5]);
    }

    #[test]
    fn every_strip_belongs_to_one_block() {
        for (blocks, strips) in [
            (1, 0),
            (3, 1),
            (7, 100),
            (33, 66),
            (128, 2048),
            (1024, 1 << 20),
        ] {
            for is_causal in [false, true] {
                let shares = shares(blocks, strips, is_causal);
                assert!(shares.iter().all(|&share| share >= 0), "{blocks} {strips}");
            }
        }
    }

    #[test]
    fn passes_are_a_section_ahead_and_what_runs() {
        let plan = |heads, lead| Plan { heads, lead };
        // 8 heads of a section, and 8 that run.
        assert_eq!(heads_ahead(plan(8, 16), 16, 128), 16);
        assert_eq!(heads_ahead(plan(1, 128), 128, 16), 2);
        // Sections that overlap.
        assert_eq!(heads_ahead(plan(2, 64), 128, 16), 5);
        assert_eq!(heads_ahead(plan(8, 16), 16, 5), 5);
        assert_eq!(least_ahead(plan(2, 1), 2), 4);
    }
}
