//! Sine and cosine in f32.

use ir::ops::arith::Precision;
use ptx::{BinaryOp, Compare, Operand, Predicate, Reg, RegClass, Rounding, Type};

use super::reduction::{TWO_OVER_PI_CHUNKS, chunk};
use crate::emit::code::Code;

/// The upper bits of -pi/2, shorter than f32 so that its multiples are exact.
const HALF_PI_HIGH: f32 = f32::from_bits(0xbfc9_0fd8);

/// Up to here three parts of pi/2 in f32 reduce an argument.
const NEAR: f32 = 71_476.06;

impl Code {
    /// Sine (`quarter` 0) or cosine (`quarter` 1): a cosine is a sine a quarter turn ahead.
    pub(super) fn sine(&mut self, precision: Precision, x: Operand, quarter: u32) -> Operand {
        if precision == Precision::Fast {
            return self.approx(
                if quarter == 0 {
                    ptx::UnaryOp::Sin
                } else {
                    ptx::UnaryOp::Cos
                },
                x,
            );
        }
        let (rest, turns) = self.quarter_turns(x);
        let turns = self.binary(BinaryOp::Add, Type::S32, turns, quarter);
        let square = self.exactly(BinaryOp::Mul, Type::F32, rest, rest);
        let cosine = self.polynomial(
            square,
            &[2.446_770_7e-5, -1.388_773e-3, 4.166_665_7e-2, -0.5, 1.0],
        );
        let series = self.polynomial(
            square,
            &[2.865_679_6e-6, -1.985_599_2e-4, 8.333_386e-3, -0.166_666_67],
        );
        // The product keeps the sign of a zero.
        let cube = self.exactly(BinaryOp::Mul, Type::F32, rest, square);
        let sine = self.fma(Type::F32, series, cube, rest);
        let is_odd = self.bit_set(turns, 1);
        let value = self.selp(Type::F32, cosine, sine, is_odd);
        let is_negative = self.bit_set(turns, 2);
        let negated = self.unary(ptx::UnaryOp::Neg, Type::F32, value);
        self.selp(Type::F32, negated, value, is_negative).into()
    }

    pub(super) fn bit_set(&mut self, bits: Reg, mask: u32) -> Reg {
        let bit = self.binary(BinaryOp::And, Type::B32, bits, mask);
        self.setp(Compare::Ne, Type::U32, bit, 0_u32)
    }

    /// `x = turns * pi/2 + rest` with `|rest| <= pi/4`; both NaN and infinity give NaN.
    pub(super) fn quarter_turns(&mut self, x: Operand) -> (Operand, Reg) {
        const MAGIC: f32 = 12_582_912.0; // 1.5 * 2^23: adding it rounds to whole numbers
        let j = self.fma(
            Type::F32,
            x,
            Operand::f32(std::f32::consts::FRAC_2_PI),
            Operand::f32(MAGIC),
        );
        let whole = self.mov_bits(RegClass::B32, j);
        let j = self.exactly(BinaryOp::Sub, Type::F32, j, Operand::f32(MAGIC));
        let rest = self.fma(Type::F32, j, Operand::f32(HALF_PI_HIGH), x);
        let rest = self.fma(Type::F32, j, Operand::f32(-3.139_164_7e-7), rest);
        let rest = self.fma(Type::F32, j, Operand::f32(-5.390_302_5e-15), rest);
        let (far_rest, turns) = (self.reg(RegClass::F32), self.reg(RegClass::B32));
        self.copy(far_rest, rest);
        self.copy(turns, whole);
        let magnitude = self.unary(ptx::UnaryOp::Abs, Type::F32, x);
        let is_far = self.setp(Compare::Gt, Type::F32, magnitude, Operand::f32(NEAR));
        let (far, back) = (self.label("far_angle"), self.label("angle"));
        self.branch(Some(Predicate::is(is_far)), far, false);
        self.bind(back);
        self.out_of_line(far, back, |code| code.reduce_far(x, far_rest, turns));
        (far_rest.into(), turns)
    }

    /// Payne and Hanek's reduction: x * 2/pi modulo 4, with 2/pi cut into 24-bit pieces whose products with x are exact
    /// in f64, and what is a multiple of 4 dropped from each.
    fn reduce_far(&mut self, x: Operand, rest: Reg, turns: Reg) {
        let wide = self.convert(Type::F64, Type::F32, None, x);
        let mut sum: Option<Operand> = None;
        // f32 has exponents below 128: bits of 2/pi past 128 + 24 + 60 places no longer show.
        for at in 0..TWO_OVER_PI_CHUNKS.min(9) {
            let product = self.exactly(BinaryOp::Mul, Type::F64, wide, Operand::f64(chunk(at)));
            let small = self.modulo_four(product);
            sum = Some(match sum {
                None => small,
                Some(sum) => {
                    let sum = self.exactly(BinaryOp::Add, Type::F64, sum, small);
                    self.modulo_four(sum)
                }
            });
        }
        let sum = sum.expect("there are pieces of 2/pi");
        let whole = self.convert(Type::F64, Type::F64, Some(Rounding::Rni), sum);
        let part = self.exactly(BinaryOp::Sub, Type::F64, sum, whole);
        let angle = self.exactly(
            BinaryOp::Mul,
            Type::F64,
            part,
            Operand::f64(std::f64::consts::FRAC_PI_2),
        );
        let narrow = self.convert(Type::F32, Type::F64, Some(Rounding::Rn), angle);
        let count = self.convert(Type::S32, Type::F64, Some(Rounding::Rzi), whole);
        self.copy(rest, narrow);
        self.copy(turns, count);
    }

    /// What `x` leaves of multiples of 4, exactly; NaN for infinity.
    pub(super) fn modulo_four(&mut self, x: Operand) -> Operand {
        let quarter = self.exactly(BinaryOp::Mul, Type::F64, x, Operand::f64(0.25));
        let whole = self.convert(Type::F64, Type::F64, Some(Rounding::Rzi), quarter);
        self.fma(Type::F64, whole, Operand::f64(-4.0), x).into()
    }
}
