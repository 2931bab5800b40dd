//! The steps of a CTA of the backward pass: in which order it visits the blocks of queries of its query heads.
//!
//! In any order of terms one query head follows the other:
//!
//! ```text
//! head      0 0 0 .. 1 1 1 ..
//! block     0 1 2 .. 0 1 2 ..
//! ```
//!
//! In a fixed order each would be a chain of its own. With a causal mask the CTA of the first block of keys has the most steps of each head, and all CTAs that follow it would wait for it
//! at every head. So where heads have the same steps, those of a block of queries are neighbours, and the group is one chain, whose CTAs follow each other as those of a single head do:
//!
//! ```text
//! head      0 1 .. 0 1 .. 0 1 ..
//! block     9 9 .. 8 8 .. 7 7 ..
//! ```

use tilekit::prelude::*;

use super::block::Block;
use super::step::{Member, Neighbour, Step};
use super::walk::Walk;

impl<W: Walk> Block<W> {
    /// Query heads of the group.
    pub(super) fn members(self) -> Scalar<i32> {
        self.walk.keys().query_heads
    }

    /// Whether the steps of all query heads of a block of queries are neighbours: not where heads may ascend, whose CTAs wait for none. There, neighbours take 1.16 of the time.
    pub(super) fn interleaves(self) -> bool {
        self.is_ordered && W::SHARES_STEPS && self.ascends.is_none()
    }

    /// Query head `member` of the group.
    #[device]
    pub(super) fn member(self, member: Scalar<i32>) -> Member<W> {
        let head = self.kv_head * self.members() + member;
        Member {
            head,
            first_block: self.walk.keys().first_block(self.at, head),
            of_walk: self.walk.head(self.seen, member),
        }
    }

    /// Steps of a query head, from the first result up to the second.
    #[device]
    pub(super) fn steps(self, member: Member<W>) -> [Scalar<i32>; 2] {
        self.walk.steps(member.of_walk)
    }

    /// The steps in which every query sees every key of a warpgroup.
    #[device]
    pub(super) fn unmasked(self, member: Member<W>, edges: W::Edges) -> [Scalar<i32>; 2] {
        let [from, to] = self.walk.unmasked(edges, member.of_walk);
        if self.is_ordered {
            let [first, end] = self.steps(member);
            [
                self.in_direction(from, first + end - to),
                self.in_direction(to, first + end - from),
            ]
        } else {
            [from, to]
        }
    }

    /// Step `number` of a query head, in the order in which they are visited, where one head follows the other.
    #[device]
    pub(super) fn step(self, member: Member<W>, number: Scalar<i32>) -> Step {
        let fill = self.walk.fills(member.of_walk) + number;
        self.step_of_fill(member, number, fill)
    }

    /// The same, of fill `fill` of the pipelines.
    #[device]
    pub(super) fn step_of_fill(
        self,
        member: Member<W>,
        number: Scalar<i32>,
        fill: Scalar<i32>,
    ) -> Step {
        let number = self.visited(member, number);
        let block = self.walk.block(member.of_walk, number);
        Step {
            fill,
            number,
            block,
            row_block: member.first_block + block,
        }
    }

    /// Calls `visit` with each step, in order.
    #[device]
    pub(super) fn each_step(self, visit: impl Fn(Member<W>, Step)) {
        self.every_step([0, 1], visit);
    }

    /// Calls `visit` with every other step, in order: those of even fills, or of odd ones.
    #[device]
    pub(super) fn each_other_step(self, is_odd: usize, visit: impl Fn(Member<W>, Step)) {
        self.every_step([is_odd, 2], visit);
    }

    /// Calls `visit` with the first step from fill `start` on, and those `stride` apart from it, one or two.
    #[device]
    fn every_step(self, [start, stride]: [usize; 2], visit: impl Fn(Member<W>, Step)) {
        let members = self.members();
        if self.interleaves() {
            let [first, end] = self.steps(self.member(scalar(0)));
            let mut at = Neighbour {
                member: scalar(0),
                number: first,
            }
            .later(start, members);
            for fill in range(start as i32, (end - first) * members).step(stride) {
                let member = self.member(at.member);
                visit(member, self.step_of_fill(member, at.number, fill));
                at = at.later(stride, members);
            }
        } else {
            for member in range(0, members) {
                let member = self.member(member);
                let [first, end] = self.steps(member);
                // Fills of a head follow those of the one before.
                let fill = self.walk.fills(member.of_walk) + first;
                for number in range(first + (fill + start) % stride as i32, end).step(stride) {
                    visit(member, self.step(member, number));
                }
            }
        }
    }

    /// The number of a step in the order of the walk: steps are in descending order if their sums are ordered, but for heads that ascend.
    #[device]
    fn visited(self, member: Member<W>, number: Scalar<i32>) -> Scalar<i32> {
        if self.is_ordered {
            let [first, end] = self.steps(member);
            self.in_direction(number, first + end - 1 - number)
        } else {
            number
        }
    }

    /// The first number where steps ascend, else the second.
    #[device]
    fn in_direction(self, ascending: Scalar<i32>, descending: Scalar<i32>) -> Scalar<i32> {
        match self.ascends {
            Some(ascends) => select(ascends, ascending, descending),
            None => descending,
        }
    }
}
