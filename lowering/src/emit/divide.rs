//! Integer division. ptxas turns even a division by 16 into a reciprocal and corrections, so constants are taken apart
//! here: shifts for powers of two, a multiplication by a reciprocal in fixed point for the rest (Granlund and Montgomery,
//! Division by Invariant Integers using Multiplication, 1994).

use ir::elem::Elem;
use ir::ops::arith::BinaryOp as Op;
use ptx::{BinaryOp, Operand, Type};

use super::code::Code;
use super::element::{Element, arithmetic};
use super::integer::{int_type, is_signed};

impl Code {
    /// `a / b` towards zero. `is_non_negative` says that a signed `a` never is negative.
    pub(super) fn quotient(
        &mut self,
        a: Element,
        b: Element,
        elem: Elem,
        is_non_negative: bool,
    ) -> Element {
        let width = elem.bits().max(32);
        match b.as_int() {
            Some(divisor) if divisor != 0 => {
                let a = self.operand(a, elem);
                let quotient = if is_signed(elem) && !is_non_negative {
                    self.signed_quotient(a, i128::from(divisor), width)
                } else if is_signed(elem) && divisor < 0 {
                    let positive = self.unsigned_quotient(a, divisor.unsigned_abs(), width);
                    let signed = arithmetic(int_type(width, true).into());
                    self.binary(BinaryOp::Sub, signed, 0_u32, positive).into()
                } else {
                    self.unsigned_quotient(a, unsigned(divisor, elem), width)
                };
                self.cut(quotient.into(), elem)
            }
            _ => {
                let (a, b) = (self.operand(a, elem), self.operand(b, elem));
                let quotient = self.binary(BinaryOp::Div, arithmetic(elem), a, b);
                self.cut(quotient.into(), elem)
            }
        }
    }

    /// What `a / b` leaves, with the sign of `a`.
    pub(super) fn remainder(
        &mut self,
        a: Element,
        b: Element,
        elem: Elem,
        is_non_negative: bool,
    ) -> Element {
        let Some(divisor) = b.as_int().filter(|&d| d != 0) else {
            let (a, b) = (self.operand(a, elem), self.operand(b, elem));
            return self.binary(BinaryOp::Rem, arithmetic(elem), a, b).into();
        };
        let magnitude = if is_signed(elem) {
            divisor.unsigned_abs()
        } else {
            unsigned(divisor, elem)
        };
        if magnitude == 1 {
            return Element::int(0);
        }
        if magnitude.is_power_of_two() && (is_non_negative || !is_signed(elem)) {
            let a = self.operand(a, elem);
            return self
                .binary(
                    BinaryOp::And,
                    super::integer::bits(elem),
                    a,
                    (magnitude - 1) as i64,
                )
                .into();
        }
        let quotient = self.quotient(a, b, elem, is_non_negative);
        let multiple = self.int_binary(Op::Mul, quotient, b, elem);
        let (a, multiple) = (self.operand(a, elem), self.operand(multiple, elem));
        let rest = self.binary(BinaryOp::Sub, arithmetic(elem), a, multiple);
        self.cut(rest.into(), elem)
    }

    fn unsigned_quotient(&mut self, a: Operand, divisor: u64, width: u32) -> Operand {
        let ty = arithmetic(int_type(width, false).into());
        if divisor == 1 {
            return a;
        }
        if divisor.is_power_of_two() {
            return self
                .binary(BinaryOp::Shr, ty, a, divisor.trailing_zeros())
                .into();
        }
        let Reciprocal {
            factor,
            shift,
            is_long,
        } = Reciprocal::unsigned(divisor, width);
        let high = self.binary(BinaryOp::MulHi, ty, a, factor);
        if !is_long {
            return self.shifted(BinaryOp::Shr, ty, high.into(), shift);
        }
        // The factor has one bit more than a register: a + high would overflow, the mean of both does not.
        let rest = self.binary(BinaryOp::Sub, ty, a, high);
        let half = self.binary(BinaryOp::Shr, ty, rest, 1_u32);
        let mean = self.binary(BinaryOp::Add, ty, half, high);
        self.shifted(BinaryOp::Shr, ty, mean.into(), shift - 1)
    }

    fn signed_quotient(&mut self, a: Operand, divisor: i128, width: u32) -> Operand {
        let (signed, unsigned) = (
            arithmetic(int_type(width, true).into()),
            arithmetic(int_type(width, false).into()),
        );
        let magnitude = divisor.unsigned_abs() as u64;
        let positive = if magnitude == 1 {
            a
        } else if magnitude.is_power_of_two() {
            // Rounding down becomes rounding towards zero by adding magnitude - 1 to negative numbers.
            let bits = magnitude.trailing_zeros();
            let sign = self.binary(BinaryOp::Shr, signed, a, width - 1);
            let bias = self.binary(BinaryOp::Shr, unsigned, sign, width - bits);
            let biased = self.binary(BinaryOp::Add, signed, a, bias);
            self.binary(BinaryOp::Shr, signed, biased, bits).into()
        } else {
            let (factor, shift) = signed_reciprocal(magnitude, width);
            let mut high: Operand = self.binary(BinaryOp::MulHi, signed, a, factor).into();
            if factor < 0 {
                high = self.binary(BinaryOp::Add, signed, high, a).into();
            }
            let down = self.shifted(BinaryOp::Shr, signed, high, shift);
            let sign = self.binary(BinaryOp::Shr, unsigned, a, width - 1);
            self.binary(BinaryOp::Add, signed, down, sign).into()
        };
        if divisor < 0 {
            self.binary(BinaryOp::Sub, signed, 0_u32, positive).into()
        } else {
            positive
        }
    }

    fn shifted(&mut self, op: BinaryOp, ty: Type, a: Operand, by: u32) -> Operand {
        if by == 0 {
            a
        } else {
            self.binary(op, ty, a, by).into()
        }
    }
}

/// A constant divisor of an unsigned type as a positive number.
fn unsigned(divisor: i64, elem: Elem) -> u64 {
    if elem.bits() == 64 {
        divisor as u64
    } else {
        divisor as u64 & ((1 << elem.bits()) - 1)
    }
}

/// `2^(width + shift) / divisor`, rounded up, without the bit that a register does not hold.
struct Reciprocal {
    factor: i64,
    shift: u32,
    /// The factor's bit `width` is set, and missing from `factor`.
    is_long: bool,
}

impl Reciprocal {
    fn unsigned(divisor: u64, width: u32) -> Reciprocal {
        let divisor = u128::from(divisor);
        let log = 128 - (divisor - 1).leading_zeros();
        // The shortest factor that is exact for all numbers of the width.
        for shift in 0..=log {
            // For 64 bits, 2^(64 + shift) / divisor has up to 128 bits; shift stays below 64.
            let power = 1_u128.checked_shl(width + shift).filter(|p| *p != 0);
            let Some(power) = power else { break };
            let factor = power.div_ceil(divisor);
            let excess = factor * divisor - power;
            if excess <= 1 << shift && factor < 1 << width {
                return Reciprocal {
                    factor: narrow(factor, width),
                    shift,
                    is_long: false,
                };
            }
        }
        // 2^(width + log) / divisor lies between 2^width and 2^(width + 1).
        let excess = (1_u128 << log) - divisor;
        let factor = ((excess << width) / divisor) + 1;
        Reciprocal {
            factor: narrow(factor, width),
            shift: log,
            is_long: true,
        }
    }
}

/// An unsigned number of `width` bits as PTX prints it: 64-bit ones as their two's complement.
fn narrow(factor: u128, width: u32) -> i64 {
    if width == 64 {
        factor as u64 as i64
    } else {
        factor as i64
    }
}

/// Factor and shift of a signed division by `divisor`, which is at least 3 and no power of two (Hacker's Delight,
/// 10-1). The factor may be negative, for it is taken modulo the width.
fn signed_reciprocal(divisor: u64, width: u32) -> (i64, u32) {
    let d = u128::from(divisor);
    let two = 1_u128 << (width - 1);
    let limit = two - 1 - two % d;
    let gap = |power: u32| d - (1_u128 << power) % d;
    let is_enough = |power: &u32| (1_u128 << power) > limit * gap(*power);
    let power = (width..2 * width)
        .find(is_enough)
        .expect("2^(2 * width - 1) is more than limit * d");
    let factor = ((1_u128 << power) + gap(power)) / d;
    let factor = if width == 64 {
        factor as u64 as i64
    } else {
        i64::from(factor as u32 as i32)
    };
    (factor, power - width)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers where an inexact reciprocal shows first: around multiples of the divisor and at both ends.
    fn probes(divisor: u64, width: u32) -> Vec<u64> {
        let max = if width == 64 {
            u64::MAX
        } else {
            u64::from(u32::MAX)
        };
        let last = max - max % divisor;
        let mut all = vec![0, 1, 2, max / 2, max / 2 + 1, max - 1, max];
        for multiple in [
            divisor,
            divisor.wrapping_mul(2),
            divisor.wrapping_mul(12345),
            last,
            last / 2,
        ] {
            all.extend([multiple.wrapping_sub(1), multiple, multiple.wrapping_add(1)]);
        }
        all.into_iter().filter(|&x| x <= max).collect()
    }

    fn divisors() -> impl Iterator<Item = u64> {
        let large = [
            641,
            1000,
            4095,
            4097,
            65535,
            0x7fff_ffff,
            0xffff_fffe,
            0xffff_ffff,
        ];
        (3_u64..300).chain(large).filter(|d| !d.is_power_of_two())
    }

    fn by_reciprocal(a: u64, divisor: u64, width: u32) -> u64 {
        let Reciprocal {
            factor,
            shift,
            is_long,
        } = Reciprocal::unsigned(divisor, width);
        let mask = if width == 64 {
            u64::MAX
        } else {
            u64::from(u32::MAX)
        };
        let factor = factor as u64 & mask;
        let high = (u128::from(a) * u128::from(factor) >> width) as u64;
        if is_long {
            let half = (a.wrapping_sub(high) & mask) >> 1;
            (half + high) >> (shift - 1)
        } else {
            high >> shift
        }
    }

    #[test]
    fn unsigned_reciprocals_divide() {
        for width in [32, 64] {
            for divisor in divisors() {
                for a in probes(divisor, width) {
                    assert_eq!(
                        by_reciprocal(a, divisor, width),
                        a / divisor,
                        "{a} / {divisor} in {width} bits"
                    );
                }
            }
        }
    }

    #[test]
    fn signed_reciprocals_divide() {
        for width in [32, 64] {
            let max = if width == 64 {
                i64::MAX
            } else {
                i64::from(i32::MAX)
            };
            for divisor in divisors().filter(|&d| i64::try_from(d).is_ok_and(|d| d <= max)) {
                let (factor, shift) = signed_reciprocal(divisor, width);
                for probe in probes(divisor, width) {
                    let a = if width == 64 {
                        probe as i64
                    } else {
                        i64::from(probe as u32 as i32)
                    };
                    let mut high = (i128::from(a) * i128::from(factor)) >> width;
                    if factor < 0 {
                        high += i128::from(a);
                    }
                    let quotient = (high >> shift) + i128::from(a < 0);
                    assert_eq!(
                        quotient,
                        i128::from(a) / i128::from(divisor),
                        "{a} / {divisor} in {width} bits"
                    );
                }
            }
        }
    }
}
