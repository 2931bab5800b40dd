//! Facts about a scalar in a partition at one step.

use ir::elem::{DType, Elem};
use ir::ops::arith::{BinaryOp, CompareOp};

use crate::classes::Class;
use crate::program::LoopId;

/// Facts about a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Known {
    Number(i64),
    /// A number of at least `least`, but for a multiple of `modulus`.
    Residue {
        modulus: i64,
        rest: i64,
        least: i64,
    },
    /// The index of a loop that runs, and so much.
    Index {
        id: LoopId,
        plus: i64,
    },
    /// A value of a class, and so much.
    Unknown {
        class: Class,
        plus: i64,
    },
}

/// Counters are followed exactly up to this number.
pub(crate) const MOST_EXACT: i64 = 32;

impl Known {
    /// The same in another integer type, where it does not wrap.
    pub(crate) fn converted(self, to: Elem) -> Option<Known> {
        let bits = to.bits();
        let fits = match self {
            Known::Number(number) if to.data().is_some_and(DType::is_signed_int) => {
                bits >= 64 || (-(1_i64 << (bits - 1))..1 << (bits - 1)).contains(&number)
            }
            Known::Number(number) => number >= 0 && (bits >= 63 || number < 1 << bits),
            // Counters of 32 bits are taken not to wrap; narrower ones do.
            Known::Residue { .. } | Known::Index { .. } | Known::Unknown { .. } => bits >= 32,
        };
        fits.then_some(self)
    }

    pub(crate) fn number(self) -> Option<i64> {
        match self {
            Known::Number(n) => Some(n),
            _ => None,
        }
    }

    /// The parity, as the hardware takes it of a wait's operand.
    pub(crate) fn parity(self) -> Option<u8> {
        match self {
            Known::Number(n) => Some((n & 1) as u8),
            Known::Residue { modulus, rest, .. } if modulus % 2 == 0 => Some((rest & 1) as u8),
            _ => None,
        }
    }

    fn plus(self, by: i64) -> Option<Known> {
        Some(match self {
            Known::Number(n) => Known::Number(n.checked_add(by)?),
            Known::Residue {
                modulus,
                rest,
                least,
            } => Known::Residue {
                modulus,
                rest: (rest + by).rem_euclid(modulus),
                least: least.checked_add(by)?,
            },
            Known::Index { id, plus } => Known::Index {
                id,
                plus: plus.checked_add(by)?,
            },
            Known::Unknown { class, plus } => Known::Unknown {
                class,
                plus: plus.checked_add(by)?,
            },
        })
    }

    /// A counter that has become large: only its residue is kept.
    pub(crate) fn widened(self, modulus: i64) -> Option<Known> {
        match self {
            Known::Number(n) if n < 0 => None,
            Known::Number(n) if n > MOST_EXACT => Some(Known::Residue {
                modulus,
                rest: n % modulus,
                least: MOST_EXACT,
            }),
            Known::Residue {
                modulus,
                rest,
                least,
            } => Some(Known::Residue {
                modulus,
                rest,
                least: least.min(MOST_EXACT),
            }),
            known => Some(known),
        }
    }
}

/// The result of an operation; none where it is some value of its class.
pub(crate) fn binary(op: BinaryOp, x: Known, y: Known) -> Option<Known> {
    if let (Known::Number(x), Known::Number(y)) = (x, y) {
        return numbers(op, x, y).map(Known::Number);
    }
    match (op, x, y) {
        (BinaryOp::Add, x, Known::Number(by)) | (BinaryOp::Add, Known::Number(by), x) => x.plus(by),
        (BinaryOp::Sub, x, Known::Number(by)) => x.plus(by.checked_neg()?),
        (
            _,
            Known::Residue {
                modulus,
                rest,
                least,
            },
            Known::Number(by),
        ) if least >= 0 => residue(op, (modulus, rest, least), by),
        _ => None,
    }
}

fn numbers(op: BinaryOp, x: i64, y: i64) -> Option<i64> {
    Some(match op {
        BinaryOp::Add => x.checked_add(y)?,
        BinaryOp::Sub => x.checked_sub(y)?,
        BinaryOp::Mul => x.checked_mul(y)?,
        BinaryOp::Div => x.checked_div(y)?,
        BinaryOp::Rem => x.checked_rem(y)?,
        BinaryOp::Min => x.min(y),
        BinaryOp::Max => x.max(y),
        BinaryOp::And => x & y,
        BinaryOp::Or => x | y,
        BinaryOp::Xor => x ^ y,
        BinaryOp::Shl if (0..31).contains(&y) => x.checked_shl(y as u32)?,
        BinaryOp::Shr if (0..31).contains(&y) => x >> y,
        _ => return None,
    })
}

fn residue(op: BinaryOp, (modulus, rest, least): (i64, i64, i64), by: i64) -> Option<Known> {
    let divided = |by: i64| {
        (by > 0 && modulus % by == 0).then(|| Known::Residue {
            modulus: modulus / by,
            rest: rest / by,
            least: least / by,
        })
    };
    match op {
        BinaryOp::Rem => (by > 0 && modulus % by == 0).then(|| Known::Number(rest % by)),
        BinaryOp::And => {
            let size = by.checked_add(1)?;
            let is_mask = size > 0 && size & by == 0;
            (is_mask && modulus % size == 0).then_some(Known::Number(rest & by))
        }
        BinaryOp::Div => divided(by),
        BinaryOp::Shr if (0..31).contains(&by) => divided(1 << by),
        _ => None,
    }
}

/// A comparison that follows from what is known.
pub(crate) fn compared(op: CompareOp, x: Known, y: Known) -> Option<bool> {
    match (x, y) {
        (Known::Number(x), Known::Number(y)) => Some(compare(op, x, y)),
        (Known::Residue { least, .. }, Known::Number(y)) if y < least => match op {
            CompareOp::Eq | CompareOp::Lt | CompareOp::Le => Some(false),
            CompareOp::Ne | CompareOp::Gt | CompareOp::Ge => Some(true),
        },
        (Known::Number(_), Known::Residue { .. }) => compared(op.mirrored(), y, x),
        _ => None,
    }
}

/// Does it hold of two numbers?
fn compare(op: CompareOp, x: i64, y: i64) -> bool {
    match op {
        CompareOp::Eq => x == y,
        CompareOp::Ne => x != y,
        CompareOp::Lt => x < y,
        CompareOp::Le => x <= y,
        CompareOp::Gt => x > y,
        CompareOp::Ge => x >= y,
    }
}
