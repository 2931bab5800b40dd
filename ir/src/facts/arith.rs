//! Facts through integer arithmetic.

use crate::Type;
use crate::ops::arith::{BinaryOp, CompareOp};

use super::{DimFacts, Facts, MAX_DIVISIBILITY, Range};

/// `lhs op rhs`.
pub fn binary(op: BinaryOp, lhs: &Facts, rhs: &Facts, ty: &Type) -> Facts {
    // What adds nothing leaves all that is known of the other side.
    match (op, lhs.constant(), rhs.constant()) {
        (BinaryOp::Mul | BinaryOp::Div, _, Some(1))
        | (BinaryOp::Shl | BinaryOp::Shr, _, Some(0)) => return lhs.clone(),
        (BinaryOp::Mul, Some(1), _) => return rhs.clone(),
        _ => {}
    }
    let dims = (0..lhs.dims.len().min(rhs.dims.len())).map(|at| dim(op, lhs, rhs, at));
    Facts {
        dims: dims.collect(),
        range: range(op, lhs, rhs),
    }
    .within(ty)
}

/// A sum counts up where one side does and the other stays.
pub(crate) fn contiguity_of_sum(lhs: DimFacts, rhs: DimFacts) -> u8 {
    let left = lhs.contiguity.min(rhs.constancy);
    let right = rhs.contiguity.min(lhs.constancy);
    left.max(right)
}

fn dim(op: BinaryOp, lhs: &Facts, rhs: &Facts, at: usize) -> DimFacts {
    let (l, r) = (lhs.dims[at], rhs.dims[at]);
    let constancy = l.constancy.min(r.constancy);
    let stride = stride(op, (lhs, l), (rhs, r));
    let sum = |contiguity: u8| DimFacts {
        contiguity,
        stride,
        divisibility: l
            .divisibility_at(contiguity)
            .min(r.divisibility_at(contiguity)),
        constancy,
    };
    let each = |divisibility: u8| DimFacts {
        contiguity: 0,
        stride,
        divisibility: divisibility.min(MAX_DIVISIBILITY),
        constancy,
    };
    match op {
        BinaryOp::Add => sum(contiguity_of_sum(l, r)),
        BinaryOp::Sub => sum(l.contiguity.min(r.constancy)),
        BinaryOp::Mul => each(l.divisibility_at(0) + r.divisibility_at(0)),
        BinaryOp::Shl => match shift(rhs) {
            Some(by) => each(l.divisibility_at(0) + by),
            None => each(l.divisibility_at(0)),
        },
        BinaryOp::Div | BinaryOp::Shr => match power_divisor(op, lhs, rhs) {
            Some((by, is_exact)) => DimFacts {
                stride,
                ..quotient(l, r, by, is_exact)
            },
            None => each(0),
        },
        BinaryOp::Rem => {
            // Rounding towards zero turns a run round at zero.
            if !lhs.is_non_negative() || !rhs.is_non_negative() {
                return each(l.divisibility_at(0).min(r.divisibility_at(0)));
            }
            sum(l
                .contiguity
                .min(l.divisibility)
                .min(r.divisibility_at(0))
                .min(r.constancy))
        }
        BinaryOp::And => match low_mask(rhs).or_else(|| low_mask(lhs)) {
            Some(bits) => {
                let side = if low_mask(rhs).is_some() { l } else { r };
                let contiguity = side.contiguity.min(side.divisibility).min(bits);
                DimFacts {
                    contiguity,
                    divisibility: side.divisibility_at(contiguity),
                    constancy,
                    stride,
                }
            }
            // A bit that either side lacks, the result lacks.
            None => each(l.divisibility_at(0).max(r.divisibility_at(0))),
        },
        BinaryOp::Or | BinaryOp::Xor | BinaryOp::Min | BinaryOp::Max => {
            each(l.divisibility_at(0).min(r.divisibility_at(0)))
        }
        BinaryOp::MulHigh | BinaryOp::MinNan | BinaryOp::MaxNan | BinaryOp::CopySign => each(0),
    }
}

/// Divided by `2^by`, runs that begin at a multiple of it become equal.
fn quotient(l: DimFacts, r: DimFacts, by: u8, is_exact: bool) -> DimFacts {
    let aligned = l.contiguity.min(l.divisibility).min(by).min(r.constancy);
    DimFacts {
        contiguity: 0,
        divisibility: if is_exact {
            l.divisibility_at(0).saturating_sub(by)
        } else {
            0
        },
        constancy: l.constancy.min(r.constancy).max(aligned),
        stride: None,
    }
}

/// By how much neighbours differ, along a dimension of which `l` and `r` are the facts. Where neither side changes, no result
/// does.
fn stride(op: BinaryOp, (lhs, l): (&Facts, DimFacts), (rhs, r): (&Facts, DimFacts)) -> Option<i64> {
    let (left, right) = (l.stride?, r.stride?);
    if (left, right) == (0, 0) {
        return Some(0);
    }
    let times = |stride: i64, by: &Facts| stride.checked_mul(i64::try_from(by.constant()?).ok()?);
    match op {
        BinaryOp::Add => left.checked_add(right),
        BinaryOp::Sub => left.checked_sub(right),
        BinaryOp::Mul if right == 0 => times(left, rhs),
        BinaryOp::Mul if left == 0 => times(right, lhs),
        BinaryOp::Shl if right == 0 => left.checked_mul(1_i64.checked_shl(shift(rhs)?.into())?),
        // All ones less a number is its complement.
        BinaryOp::Xor if right == 0 && is_complement(lhs, rhs) => left.checked_neg(),
        BinaryOp::Xor if left == 0 && is_complement(rhs, lhs) => right.checked_neg(),
        _ => None,
    }
}

/// Is `mask` a constant of low bits, and does `number` have no others?
fn is_complement(number: &Facts, mask: &Facts) -> bool {
    let all = low_mask(mask).and(mask.constant());
    let whole = all.map(|all| Range::new(0, all));
    let range = number.range;
    whole
        .zip(range)
        .is_some_and(|(whole, range)| whole.contains(range))
}

/// The power of two that every divisor is a multiple of, and whether it is the divisor itself. Only where a quotient
/// rounds down: for a shift, and for numbers that are not negative.
fn power_divisor(op: BinaryOp, lhs: &Facts, rhs: &Facts) -> Option<(u8, bool)> {
    if op == BinaryOp::Shr {
        return shift(rhs).map(|by| (by, true));
    }
    let rounds_down = lhs.is_non_negative() && rhs.range.is_some_and(|r| r.low > 0);
    let by = rhs.divisibility();
    rounds_down.then(|| (by, rhs.constant() == Some(1 << by)))
}

/// A shift by a known number of bits.
fn shift(rhs: &Facts) -> Option<u8> {
    rhs.constant()
        .and_then(|by| u8::try_from(by).ok())
        .filter(|by| *by < 64)
}

/// The number of bits of a mask of low bits.
fn low_mask(facts: &Facts) -> Option<u8> {
    let mask = facts.constant()?;
    let is_low = mask > 0 && (mask & (mask + 1)) == 0;
    is_low.then(|| mask.trailing_ones() as u8)
}

/// Bounds of the exact result; the caller cuts them to the type.
fn range(op: BinaryOp, lhs: &Facts, rhs: &Facts) -> Option<Range> {
    let (l, r) = (lhs.range?, rhs.range?);
    let of = |values: [i128; 4]| {
        let least = values.iter().min().copied().unwrap_or(0);
        let most = values.iter().max().copied().unwrap_or(0);
        Range::new(least, most)
    };
    Some(match op {
        BinaryOp::Add => Range::new(l.low + r.low, l.high + r.high),
        BinaryOp::Sub => Range::new(l.low - r.high, l.high - r.low),
        BinaryOp::Mul => of([
            l.low.checked_mul(r.low)?,
            l.low.checked_mul(r.high)?,
            l.high.checked_mul(r.low)?,
            l.high.checked_mul(r.high)?,
        ]),
        BinaryOp::Div if r.low > 0 => of([
            l.low / r.low,
            l.low / r.high,
            l.high / r.low,
            l.high / r.high,
        ]),
        BinaryOp::Rem if r.low > 0 => {
            let most = r.high - 1;
            Range::new(l.low.max(-most).min(0), l.high.min(most).max(0))
        }
        BinaryOp::Min => Range::new(l.low.min(r.low), l.high.min(r.high)),
        BinaryOp::Max => Range::new(l.low.max(r.low), l.high.max(r.high)),
        BinaryOp::And if l.low >= 0 && r.low >= 0 => Range::new(0, l.high.min(r.high)),
        BinaryOp::And if r.low >= 0 => Range::new(0, r.high),
        BinaryOp::And if l.low >= 0 => Range::new(0, l.high),
        BinaryOp::Or | BinaryOp::Xor if l.low >= 0 && r.low >= 0 => {
            let bits = 128 - (l.high | r.high).leading_zeros();
            Range::new(0, (1_i128 << bits.min(100)) - 1)
        }
        BinaryOp::Shl => {
            let by = shift(rhs)?;
            Range::new(l.low.checked_mul(1 << by)?, l.high.checked_mul(1 << by)?)
        }
        BinaryOp::Shr => {
            let by = shift(rhs)?;
            Range::new(l.low >> by, l.high >> by)
        }
        _ => return None,
    })
}

/// A comparison: equal where both sides are, and where a counting side reaches a bound only at the start of a run.
pub fn compare(op: CompareOp, lhs: &Facts, rhs: &Facts) -> Facts {
    let dims = lhs.dims.iter().zip(&rhs.dims).map(|(&l, &r)| {
        let both = l.constancy.min(r.constancy);
        // `i < n` changes between n - 1 and n, so runs that begin at multiples of their length do not see it inside.
        let run = |counts: DimFacts, bound: DimFacts| {
            let aligned = counts.contiguity.min(counts.divisibility);
            aligned.min(bound.divisibility_at(0)).min(bound.constancy)
        };
        let reaches = match op {
            CompareOp::Lt | CompareOp::Ge => run(l, r),
            CompareOp::Gt | CompareOp::Le => run(r, l),
            CompareOp::Eq | CompareOp::Ne => 0,
        };
        DimFacts {
            contiguity: 0,
            divisibility: 0,
            constancy: both.max(reaches),
            stride: ((l.stride, r.stride) == (Some(0), Some(0))).then_some(0),
        }
    });
    Facts {
        dims: dims.collect(),
        range: Some(outcome(op, lhs, rhs)),
    }
}

/// The possible outcomes of a comparison, from the bounds of its sides.
fn outcome(op: CompareOp, lhs: &Facts, rhs: &Facts) -> Range {
    let either = Range::new(0, 1);
    let (Some(l), Some(r)) = (lhs.range, rhs.range) else {
        return either;
    };
    let (always, never) = match op {
        CompareOp::Lt => (l.high < r.low, l.low >= r.high),
        CompareOp::Le => (l.high <= r.low, l.low > r.high),
        CompareOp::Gt => (l.low > r.high, l.high <= r.low),
        CompareOp::Ge => (l.low >= r.high, l.high < r.low),
        CompareOp::Eq => (
            l.constant().is_some() && l == r,
            l.high < r.low || r.high < l.low,
        ),
        CompareOp::Ne => (
            l.high < r.low || r.high < l.low,
            l.constant().is_some() && l == r,
        ),
    };
    match (always, never) {
        (true, _) => Range::new(1, 1),
        (_, true) => Range::new(0, 0),
        _ => either,
    }
}
