//! Exchange between the lanes of a warp (PTX ISA 9.7.9.6 and 9.7.13.9 to 9.7.13.14).

use super::family::family;
use crate::operand::{Dest, Operand, PairDest, Predicate};
use crate::spelling::spelled;
use crate::types::Type;

spelled! {
    /// The lane that a value is read from.
    ShflMode { Up = "up", Down = "down", Bfly = "bfly", Idx = "idx" }

    /// What a vote computes.
    VoteOp {
        All = "vote.sync.all.pred", Any = "vote.sync.any.pred", Uni = "vote.sync.uni.pred",
        Ballot = "vote.sync.ballot.b32",
    }

    /// Lanes with the same value as mine, or all if all are the same.
    MatchOp { Any = "match.any.sync", All = "match.all.sync" }

    /// Reductions over a warp.
    ReduxOp { Add = "add", Min = "min", Max = "max", And = "and", Or = "or", Xor = "xor" }

    /// Registers given back or requested.
    SetMaxNRegOp { Inc = "setmaxnreg.inc.sync.aligned.u32", Dec = "setmaxnreg.dec.sync.aligned.u32" }
}

family! {
    /// Exchanges a register (PTX ISA 9.7.9.6). `clamp` is `segment mask << 8 | bound`.
    Shfl: ["shfl.sync" mode: ShflMode; "b32"]
        (out dst: PairDest, in a: Operand, in lane: Operand, in clamp: Operand, in mask: Operand);

    /// A vote over predicates (PTX ISA 9.7.13.9).
    Vote: [op: VoteOp] (out dst: Dest, in src: Predicate, in mask: Operand);

    /// Compares values across lanes (PTX ISA 9.7.13.10).
    Match: [op: MatchOp, ty: Type] (out dst: PairDest, in a: Operand, in mask: Operand);

    /// The lanes that execute this together (PTX ISA 9.7.13.11).
    ActiveMask: [; "activemask.b32"] (out dst: Dest);

    /// An integer reduction over lanes (PTX ISA 9.7.13.12).
    Redux: ["redux.sync" op: ReduxOp, ty: Type] (out dst: Dest, in src: Operand, in mask: Operand);

    /// Elects one lane of a mask (PTX ISA 9.7.13.14).
    Elect: [; "elect.sync"] (out dst: PairDest, in mask: Operand);

    /// Changes the register budget of the warp, 24 to 256 in steps of 8 (PTX ISA 9.7.19.5).
    SetMaxNReg: [op: SetMaxNRegOp] (in count: Operand);
}
