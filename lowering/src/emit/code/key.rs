//! When two instructions compute the same.

use ptx::{Operand, Reg, Type};
use rustc_hash::FxHashMap;

/// What a pure instruction does; with `op`, `detail` and the type it is all but the operands.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::emit) enum Kind {
    Binary,
    Unary,
    Ternary,
    Compare,
    Select,
    Convert,
    Move,
    Permute,
    Pack,
    Unpack,
    /// The same bits in another class.
    SameBits,
    ToGlobal,
    ToGeneric,
    FirstLane,
    CachePolicy,
    InPeer,
}

/// What makes two pure instructions equal: everything but the register that they write.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::emit) struct Key {
    kind: Kind,
    op: u8,
    ty: u8,
    detail: u32,
    operands: [(u8, u64); 3],
}

pub(super) type Known = FxHashMap<Key, Reg>;

/// The key of an instruction of which `detail` holds all that is not said by the others.
pub(in crate::emit) fn key(kind: Kind, op: u8, ty: Type, detail: u32, operands: &[Operand]) -> Key {
    let mut all = [(0, 0); 3];
    for (to, from) in all.iter_mut().zip(operands) {
        *to = operand_key(*from);
    }
    Key {
        kind,
        op,
        ty: ty as u8,
        detail,
        operands: all,
    }
}

fn operand_key(operand: Operand) -> (u8, u64) {
    match operand {
        Operand::Reg(reg) => (1, u64::from(reg.0)),
        Operand::Int(value) => (2, value as u64),
        Operand::F32(bits) => (3, u64::from(bits)),
        Operand::F64(bits) => (4, bits),
        Operand::Special(special) => (5, special as u64),
        Operand::Symbol(symbol, offset) => {
            let (kind, index) = match symbol {
                ptx::Symbol::Param(i) => (0, i),
                ptx::Symbol::Return(i) => (1, i),
                ptx::Symbol::Variable(i) => (2, i),
                ptx::Symbol::Global(i) => (3, i),
                ptx::Symbol::Function(i) => (4, i),
            };
            (6 + kind, u64::from(index) | u64::from(offset as u32) << 32)
        }
    }
}
