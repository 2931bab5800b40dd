//! Numbers made of a thread's place in its warp, CTA and cluster, and predicates of them.

use std::collections::BTreeMap;

use ptx::{BinaryOp, Compare, Operand, Reg, Special, Type};

use super::code::Code;

impl Code {
    /// The number of this lane with some bits set and others cleared.
    pub(super) fn lane_with(&mut self, set: u32, clear: u32) -> Operand {
        if set | clear == 31 {
            return set.into();
        }
        self.in_prologue(|code| {
            let thread = code.thread();
            let rest = code.binary(BinaryOp::And, Type::B32, thread, 31 & !(set | clear));
            if set == 0 {
                return rest.into();
            }
            code.binary(BinaryOp::Or, Type::B32, rest, set).into()
        })
    }

    /// `base` with bit `i` of `number` put at bit `to[i]`.
    pub(super) fn with_bits_spread(&mut self, base: Operand, number: Reg, to: &[u32]) -> Operand {
        let mut moves: BTreeMap<i32, u32> = BTreeMap::new();
        for (from, &to) in to.iter().enumerate() {
            *moves.entry(to as i32 - from as i32).or_insert(0) |= 1 << from;
        }
        let mut sum = base;
        for (distance, mask) in moves {
            let kept = self.binary(BinaryOp::And, Type::B32, number, mask);
            let moved = match distance {
                0 => kept,
                1.. => self.binary(BinaryOp::Shl, Type::B32, kept, distance.unsigned_abs()),
                _ => self.binary(BinaryOp::Shr, Type::U32, kept, distance.unsigned_abs()),
            };
            sum = self.binary(BinaryOp::Or, Type::B32, sum, moved).into();
        }
        sum
    }

    /// A predicate: of these bits of the CTA's rank in its cluster, those of `wanted` are set and no others.
    pub(super) fn rank_bits_are(&mut self, mask: u32, wanted: u32) -> Reg {
        self.in_prologue(|code| {
            let rank = code.mov(Type::U32, Special::ClusterCtaRank);
            let bits = code.binary(BinaryOp::And, Type::B32, rank, mask);
            code.setp(Compare::Eq, Type::U32, bits, wanted)
        })
    }

    /// The opposite of a predicate.
    pub(super) fn negated(&mut self, p: Reg) -> Reg {
        self.unary(ptx::UnaryOp::Not, Type::Pred, p)
    }
}
