//! The forms of arithmetic instructions: which types go with which modifiers.

use crate::inst::{BinaryOp, TernaryOp, UnaryOp};
use crate::types::{Rounding, Type};
use Type::{
    B16, B32, B64, Bf16, Bf16x2, F16, F16x2, F32, F64, Pred, S16, S16x2, S32, S64, U16, U16x2, U32,
    U64,
};

/// What a form says about rounding.
#[derive(Clone, Copy, Debug)]
pub(super) enum RoundingRule {
    Never,
    Optional(&'static [Rounding]),
    Required(&'static [Rounding]),
    /// A rounding, or `.approx` or `.full` instead.
    Approximate(&'static [Rounding]),
}

/// One line of the instruction table in the ISA.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    pub(super) types: &'static [Type],
    pub(super) rounding: RoundingRule,
    /// Modifiers that may be given.
    pub(super) flags: &'static [&'static str],
}

const IEEE: &[Rounding] = &[Rounding::Rn, Rounding::Rz, Rounding::Rm, Rounding::Rp];
const NEAREST: &[Rounding] = &[Rounding::Rn];
const INTEGERS: &[Type] = &[U16, S16, U32, S32, U64, S64];
const BITS: &[Type] = &[B16, B32, B64];
/// Bits and integers of 16 to 64 bits.
pub(super) const WORDS: &[Type] = &[B16, B32, B64, U16, U32, U64, S16, S32, S64];

const fn plain(types: &'static [Type]) -> Form {
    Form {
        types,
        rounding: RoundingRule::Never,
        flags: &[],
    }
}

const fn form(
    types: &'static [Type],
    rounding: RoundingRule,
    flags: &'static [&'static str],
) -> Form {
    Form {
        types,
        rounding,
        flags,
    }
}

/// Sums, differences and products of floats.
const OF_F32: Form = form(&[F32], RoundingRule::Optional(IEEE), &["ftz", "sat"]);
const OF_F64: Form = form(&[F64], RoundingRule::Optional(IEEE), &[]);
const OF_F16: Form = form(
    &[F16, F16x2],
    RoundingRule::Optional(NEAREST),
    &["ftz", "sat"],
);
const OF_BF16: Form = form(&[Bf16, Bf16x2], RoundingRule::Optional(NEAREST), &[]);

const ADD: &[Form] = &[
    form(&[S32], RoundingRule::Never, &["sat"]),
    plain(&[U16, S16, U32, U64, S64, U16x2, S16x2]),
    OF_F32,
    OF_F64,
    OF_F16,
    OF_BF16,
];
const SUB: &[Form] = &[
    form(&[S32], RoundingRule::Never, &["sat"]),
    plain(&[U16, S16, U32, U64, S64]),
    OF_F32,
    OF_F64,
    OF_F16,
    OF_BF16,
];
const MUL: &[Form] = &[OF_F32, OF_F64, OF_F16, OF_BF16];
const DIV: &[Form] = &[
    plain(INTEGERS),
    form(&[F32], RoundingRule::Approximate(IEEE), &["ftz"]),
    form(&[F64], RoundingRule::Required(IEEE), &[]),
];
const MIN_MAX: &[Form] = &[
    plain(&[U16, S16, U32, U64, S64, U16x2]),
    form(&[S32, S16x2], RoundingRule::Never, &["relu"]),
    form(
        &[F32, F16, F16x2],
        RoundingRule::Never,
        &["ftz", "NaN", "xorsign.abs"],
    ),
    form(
        &[Bf16, Bf16x2],
        RoundingRule::Never,
        &["NaN", "xorsign.abs"],
    ),
    plain(&[F64]),
];
const CARRY: &[Form] = &[plain(&[U32, S32, U64, S64])];

/// The forms of an operation on two values.
pub(super) fn binary(op: BinaryOp) -> &'static [Form] {
    match op {
        BinaryOp::Add => ADD,
        BinaryOp::Sub => SUB,
        BinaryOp::AddCc
        | BinaryOp::Addc
        | BinaryOp::AddcCc
        | BinaryOp::SubCc
        | BinaryOp::Subc
        | BinaryOp::SubcCc => CARRY,
        BinaryOp::Mul => MUL,
        BinaryOp::MulLo | BinaryOp::MulHi | BinaryOp::Rem => const { &[plain(INTEGERS)] },
        BinaryOp::MulWide => const { &[plain(&[U16, S16, U32, S32])] },
        BinaryOp::Div => DIV,
        BinaryOp::Min | BinaryOp::Max => MIN_MAX,
        BinaryOp::CopySign => const { &[plain(&[F32, F64])] },
        BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => const { &[plain(&[Pred, B16, B32, B64])] },
        BinaryOp::Shl => const { &[plain(BITS)] },
        BinaryOp::Shr => const { &[plain(&[B16, B32, B64, U16, S16, U32, S32, U64, S64])] },
    }
}

const NEG: &[Form] = &[
    plain(&[S16, S32, S64, F64, Bf16, Bf16x2]),
    form(&[F32, F16, F16x2], RoundingRule::Never, &["ftz"]),
];
const ROOT: &[Form] = &[
    form(&[F32], RoundingRule::Approximate(IEEE), &["ftz"]),
    form(&[F64], RoundingRule::Required(IEEE), &[]),
];
const RECIPROCAL: &[Form] = &[
    form(&[F32], RoundingRule::Approximate(IEEE), &["ftz"]),
    form(&[F64], RoundingRule::Approximate(IEEE), &["ftz"]),
];
const APPROXIMATE: RoundingRule = RoundingRule::Approximate(&[]);

/// The forms of an operation on one value.
pub(super) fn unary(op: UnaryOp) -> &'static [Form] {
    match op {
        UnaryOp::Neg | UnaryOp::Abs => NEG,
        UnaryOp::Not => const { &[plain(&[Pred, B16, B32, B64])] },
        UnaryOp::Cnot => const { &[plain(BITS)] },
        UnaryOp::Popc | UnaryOp::Clz | UnaryOp::Brev => const { &[plain(&[B32, B64])] },
        UnaryOp::Bfind | UnaryOp::BfindShiftAmount => const { &[plain(&[U32, S32, U64, S64])] },
        UnaryOp::Sqrt => ROOT,
        UnaryOp::Rcp => RECIPROCAL,
        UnaryOp::Rsqrt => const { &[form(&[F32, F64], APPROXIMATE, &["ftz"])] },
        UnaryOp::Ex2 => {
            const {
                &[
                    form(&[F32], APPROXIMATE, &["ftz"]),
                    form(&[F16, F16x2], APPROXIMATE, &[]),
                    form(&[Bf16, Bf16x2], APPROXIMATE, &["ftz"]),
                ]
            }
        }
        UnaryOp::Lg2 | UnaryOp::Sin | UnaryOp::Cos => {
            const { &[form(&[F32], APPROXIMATE, &["ftz"])] }
        }
        UnaryOp::Tanh => const { &[form(&[F32, F16, F16x2, Bf16, Bf16x2], APPROXIMATE, &[])] },
    }
}

const FMA: &[Form] = &[
    form(&[F32], RoundingRule::Required(IEEE), &["ftz", "sat"]),
    form(&[F64], RoundingRule::Required(IEEE), &[]),
    form(
        &[F16, F16x2],
        RoundingRule::Required(NEAREST),
        &["ftz", "sat", "relu"],
    ),
    form(&[Bf16, Bf16x2], RoundingRule::Required(NEAREST), &["relu"]),
];
const MAD: &[Form] = &[
    form(&[F32], RoundingRule::Required(IEEE), &["ftz", "sat"]),
    form(&[F64], RoundingRule::Required(IEEE), &[]),
];

/// The forms of an operation on three values.
pub(super) fn ternary(op: TernaryOp) -> &'static [Form] {
    match op {
        TernaryOp::Fma => FMA,
        TernaryOp::Mad => MAD,
        TernaryOp::MadLo | TernaryOp::Sad => const { &[plain(INTEGERS)] },
        TernaryOp::MadHi => {
            const {
                &[
                    plain(&[U16, S16, U32, U64, S64]),
                    form(&[S32], RoundingRule::Never, &["sat"]),
                ]
            }
        }
        TernaryOp::MadWide => const { &[plain(&[U16, S16, U32, S32])] },
        TernaryOp::MadLoCc
        | TernaryOp::MadHiCc
        | TernaryOp::MadcLo
        | TernaryOp::MadcHi
        | TernaryOp::MadcLoCc
        | TernaryOp::MadcHiCc
        | TernaryOp::Bfe => CARRY,
        TernaryOp::Fns => const { &[plain(&[B32])] },
    }
}
