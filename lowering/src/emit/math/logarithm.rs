//! Logarithms in f32.

use ir::ops::arith::Precision;
use ptx::{BinaryOp, Compare, Operand, RegClass, Rounding, Type};

use crate::emit::code::Code;

impl Code {
    pub(super) fn log(&mut self, precision: Precision, x: Operand) -> Operand {
        if precision == Precision::Fast {
            let log2 = self.approx(ptx::UnaryOp::Lg2, x);
            return self
                .binary(
                    BinaryOp::Mul,
                    Type::F32,
                    log2,
                    Operand::f32(std::f32::consts::LN_2),
                )
                .into();
        }
        let (exponent, log) = self.exponent_and_log(x);
        let sum = self
            .fma(
                Type::F32,
                exponent,
                Operand::f32(std::f32::consts::LN_2),
                log,
            )
            .into();
        self.log_or_limit(x, sum)
    }

    pub(super) fn log2(&mut self, precision: Precision, x: Operand) -> Operand {
        if precision == Precision::Fast {
            return self.approx(ptx::UnaryOp::Lg2, x);
        }
        let (exponent, log) = self.exponent_and_log(x);
        // 1 / ln 2 in two parts, so that its own rounding does not add to the result's.
        let low = self.exactly(BinaryOp::Mul, Type::F32, log, Operand::f32(1.925_963_3e-8));
        let sum = self.fma(Type::F32, log, Operand::f32(std::f32::consts::LOG2_E), low);
        let sum = self.exactly(BinaryOp::Add, Type::F32, sum, exponent);
        self.log_or_limit(x, sum)
    }

    /// `x = m * 2^e` with m from 2/3 to 4/3, as `(e, ln m)`.
    fn exponent_and_log(&mut self, x: Operand) -> (Operand, Operand) {
        // Subnormals are scaled up first.
        let is_small = self.setp(Compare::Lt, Type::F32, x, Operand::f32(f32::MIN_POSITIVE));
        let scaled = self.exactly(BinaryOp::Mul, Type::F32, x, Operand::f32(8_388_608.0));
        let number = self.selp(Type::F32, scaled, x, is_small);
        let start = self.selp(Type::F32, Operand::f32(-23.0), Operand::f32(0.0), is_small);
        let bits = self.mov_bits(RegClass::B32, number);
        let above = self.binary(BinaryOp::Sub, Type::S32, bits, 0x3f2a_aaab_u32);
        let shifted = self.binary(BinaryOp::And, Type::B32, above, 0xff80_0000_u32);
        let mantissa = self.binary(BinaryOp::Sub, Type::S32, bits, shifted);
        let mantissa = self.mov_bits(RegClass::F32, mantissa);
        let exponent = self.convert(Type::F32, Type::S32, Some(Rounding::Rn), shifted);
        let exponent = self
            .fma(Type::F32, exponent, Operand::f32(f32::EPSILON), start)
            .into();
        let f = self.exactly(BinaryOp::Add, Type::F32, mantissa, Operand::f32(-1.0));
        (exponent, self.log_of_one_plus(f))
    }

    /// `ln(1 + f)` for f from -1/3 to 1/3, by a minimax polynomial evaluated in two halves.
    fn log_of_one_plus(&mut self, f: Operand) -> Operand {
        let square = self.exactly(BinaryOp::Mul, Type::F32, f, f);
        let high = self.polynomial(f, &[-0.130_187_99, 0.140_889_58]);
        let low = self.polynomial(f, &[-0.121_489_584, 0.139_809_53]);
        let mut sum: Operand = self.fma(Type::F32, high, square, low).into();
        for c in [
            -0.166_845_02,
            0.200_121_15,
            -0.249_996_36,
            0.333_331_94,
            -0.5,
        ] {
            sum = self.fma(Type::F32, sum, f, Operand::f32(c)).into();
        }
        self.fma(Type::F32, sum, square, f).into()
    }

    /// The sum for positive finite numbers; minus infinity at 0, infinity at infinity, NaN elsewhere.
    fn log_or_limit(&mut self, x: Operand, sum: Operand) -> Operand {
        let ty = Type::F32;
        let infinity = Operand::f32(f32::INFINITY);
        // x + x is infinity at infinity and NaN at NaN.
        let twice = self.exactly(BinaryOp::Add, ty, x, x);
        let result = self.choose(
            (Compare::Ltu, x, Operand::f32(0.0)),
            ty,
            Operand::f32(f32::NAN),
            sum,
        );
        let result = self.choose((Compare::Geu, x, infinity), ty, twice, result);
        self.choose(
            (Compare::Eq, x, Operand::f32(0.0)),
            ty,
            Operand::f32(f32::NEG_INFINITY),
            result,
        )
    }
}
