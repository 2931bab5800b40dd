//! Hyperbolic tangent in f32.

use ir::ops::arith::Precision;
use ptx::{BinaryOp, Compare, Operand, Type};

use crate::emit::code::Code;

impl Code {
    pub(super) fn tanh(&mut self, precision: Precision, x: Operand) -> Operand {
        if precision == Precision::Fast {
            return self.approx(ptx::UnaryOp::Tanh, x);
        }
        let ty = Type::F32;
        let magnitude: Operand = self.unary(ptx::UnaryOp::Abs, ty, x).into();
        // Near 0 a polynomial; elsewhere 1 - 2 / (e^2x + 1), where the subtraction cancels nothing.
        let square = self.exactly(BinaryOp::Mul, ty, x, x);
        let series = self.polynomial(
            square,
            &[1.573_944_1e-2, -5.230_255_8e-2, 0.133_152_47, -0.333_327_68],
        );
        let series = self.exactly(BinaryOp::Mul, ty, series, square);
        let near = self.fma(ty, series, x, x);
        let twice = self.binary(
            BinaryOp::Mul,
            ty,
            magnitude,
            Operand::f32(2.0 * std::f32::consts::LOG2_E),
        );
        let power = self.approx(ptx::UnaryOp::Ex2, twice);
        let denominator = self.exactly(BinaryOp::Add, ty, power, Operand::f32(1.0));
        let reciprocal = self.approx(ptx::UnaryOp::Rcp, denominator);
        let far = self.fma(ty, reciprocal, Operand::f32(-2.0), Operand::f32(1.0));
        let far = self.with_sign(ty, x, far.into());
        // The comparison fails for NaN, which the polynomial yields.
        self.choose(
            (Compare::Ge, magnitude, Operand::f32(0.599_609_4)),
            ty,
            far,
            near.into(),
        )
    }
}
