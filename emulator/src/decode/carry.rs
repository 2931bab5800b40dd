//! Integer arithmetic with the condition code (`add.cc`, `madc`; PTX ISA 9.7.2).

use crate::lanes::{Exec, Registers, Slots};
use ptx::{BinaryOp, TernaryOp, Type};

/// Adds or subtracts with the condition code going in, coming out, or both.
macro_rules! with_carry {
    ($file:ident, $lanes:ident, $put:ident, $wide:ty, |$a:ident, $b:ident, $carry:ident| $sum:expr, $reads:expr, $writes:expr) => {{
        fn run(regs: &mut Registers, slots: &Slots, mask: u32) {
            let mut out = regs.$file[slots.d as usize];
            let mut carry_out = 0;
            for lane in 0..32 {
                let $a = <$wide>::from(regs.$file[slots.a as usize].0[lane]);
                let $b = <$wide>::from(regs.$file[slots.b as usize].0[lane]);
                let $carry = if $reads {
                    <$wide>::from(regs.carry >> lane & 1)
                } else {
                    0
                };
                let wide: $wide = $sum;
                out.0[lane] = wide as _;
                carry_out |= ((wide >> (<$wide>::BITS / 2)) as u32 & 1) << lane;
            }
            regs.$put(slots.d, mask, &out);
            if $writes {
                regs.carry = regs.carry & !mask | carry_out & mask;
            }
        }
        run as Exec
    }};
}

macro_rules! carry_of_width {
    ($ty:expr, |$a:ident, $b:ident, $carry:ident| $sum:expr, $reads:expr, $writes:expr) => {
        if $ty.bits() == 64 {
            with_carry!(
                doubles,
                Lanes64,
                put64,
                u128,
                |$a, $b, $carry| $sum,
                $reads,
                $writes
            )
        } else {
            with_carry!(
                words,
                Lanes32,
                put32,
                u64,
                |$a, $b, $carry| $sum,
                $reads,
                $writes
            )
        }
    };
}

/// Sums and differences that read or write the condition code.
pub(super) fn carry(op: BinaryOp, ty: Type) -> Option<Exec> {
    // The condition code after a subtraction is its borrow.
    Some(match op {
        BinaryOp::AddCc => carry_of_width!(ty, |a, b, _c| a + b, false, true),
        BinaryOp::Addc => carry_of_width!(ty, |a, b, c| a + b + c, true, false),
        BinaryOp::AddcCc => carry_of_width!(ty, |a, b, c| a + b + c, true, true),
        BinaryOp::SubCc => carry_of_width!(ty, |a, b, _c| a.wrapping_sub(b), false, true),
        BinaryOp::Subc => {
            carry_of_width!(ty, |a, b, c| a.wrapping_sub(b).wrapping_sub(c), true, false)
        }
        BinaryOp::SubcCc => {
            carry_of_width!(ty, |a, b, c| a.wrapping_sub(b).wrapping_sub(c), true, true)
        }
        _ => return None,
    })
}

/// `a * b + c`, one half of the product, with the condition code.
pub(super) fn multiply_carry(op: TernaryOp, ty: Type) -> Option<(bool, BinaryOp)> {
    let high = matches!(
        op,
        TernaryOp::MadHiCc | TernaryOp::MadcHi | TernaryOp::MadcHiCc
    );
    let sum = match op {
        TernaryOp::MadLoCc | TernaryOp::MadHiCc => BinaryOp::AddCc,
        TernaryOp::MadcLo | TernaryOp::MadcHi => BinaryOp::Addc,
        TernaryOp::MadcLoCc | TernaryOp::MadcHiCc => BinaryOp::AddcCc,
        _ => return None,
    };
    matches!(ty.bits(), 32 | 64).then_some((high, sum))
}
