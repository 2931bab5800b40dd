//! The error function in f32.

use ir::ops::arith::Precision;
use ptx::{BinaryOp, Compare, Operand, Type};

use crate::emit::code::Code;

impl Code {
    pub(super) fn erf(&mut self, precision: Precision, x: Operand) -> Operand {
        if precision == Precision::Fast {
            self.erf_fast(x)
        } else {
            self.erf_accurate(x)
        }
    }

    /// Two minimax polynomials, each within one unit in the last place on its side of 475/512, where the second is that
    /// of `ln(1 - erf)`.
    fn erf_accurate(&mut self, x: Operand) -> Operand {
        let ty = Type::F32;
        let t: Operand = self.unary(ptx::UnaryOp::Abs, ty, x).into();
        let square = self.exactly(BinaryOp::Mul, ty, x, x);
        let near = self.polynomial(
            square,
            &[
                -5.967_617e-4,
                4.991_194_2e-3,
                -2.676_813_5e-2,
                0.112_819_925,
                -0.376_125_34,
                0.128_379_17,
            ],
        );
        let near = self.fma(ty, near, x, x);
        let high = self.polynomial(t, &[-1.728_534_7e-5, 3.831_972e-4]);
        let low = self.polynomial(t, &[-3.883_964_4e-3, 2.425_462_2e-2]);
        let mut log: Operand = self.fma(ty, high, square, low).into();
        for c in [-0.106_777_88, -0.634_846_9, -0.128_717_51] {
            log = self.fma(ty, log, t, Operand::f32(c)).into();
        }
        let negative = self.unary(ptx::UnaryOp::Neg, ty, t);
        let log = self.fma(ty, log, t, negative);
        let scaled = self.binary(
            BinaryOp::Mul,
            ty,
            log,
            Operand::f32(std::f32::consts::LOG2_E),
        );
        let power = self.approx(ptx::UnaryOp::Ex2, scaled);
        let far = self.exactly(BinaryOp::Sub, ty, Operand::f32(1.0), power);
        let far = self.with_sign(ty, x, far);
        self.choose(
            (Compare::Gt, t, Operand::f32(0.927_734_4)),
            ty,
            far,
            near.into(),
        )
    }

    /// Abramowitz and Stegun 7.1.26: absolute error below 2e-7.
    fn erf_fast(&mut self, x: Operand) -> Operand {
        let ty = Type::F32;
        let magnitude = self.unary(ptx::UnaryOp::Abs, ty, x);
        let denominator = self.fma(ty, magnitude, Operand::f32(0.327_591_1), Operand::f32(1.0));
        let t = self.approx(ptx::UnaryOp::Rcp, denominator);
        let series = self.polynomial(
            t,
            &[
                1.061_405_4,
                -1.453_152,
                1.421_413_7,
                -0.284_496_74,
                0.254_829_6,
            ],
        );
        let series = self.binary(BinaryOp::Mul, ty, series, t);
        let square = self.binary(
            BinaryOp::Mul,
            ty,
            x,
            Operand::f32(-std::f32::consts::LOG2_E),
        );
        let exponent = self.binary(BinaryOp::Mul, ty, square, x);
        let power = self.approx(ptx::UnaryOp::Ex2, exponent);
        let negative = self.unary(ptx::UnaryOp::Neg, ty, series);
        let result = self.fma(ty, negative, power, Operand::f32(1.0));
        self.with_sign(ty, x, result.into())
    }
}
