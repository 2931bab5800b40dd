//! The tangent.

use ir::ops::arith::Precision;
use ptx::{BinaryOp, Operand, Type};

use crate::emit::code::Code;

/// `(tan(s) - s) / s^3` in `t = s^2` for `s <= pi / 4`. Error 2^-26.62.
const SINGLE: [f32; 7] = [
    0.00384730426594615,
    0.0011782998917624354,
    0.009966544806957245,
    0.021619873121380806,
    0.05399462580680847,
    0.133332297205925,
    0.3333333432674408,
];

/// `(tan(s) - s) / s^3` in `t = s^2` for `s <= pi / 4`. Error 2^-55.44.
const DOUBLE: [f64; 16] = [
    3.9593826774870375e-06,
    -9.78892394518042e-06,
    1.9624520081964115e-05,
    -1.0301615279305815e-05,
    2.7190623817911748e-05,
    3.388407372584696e-05,
    9.878620704641594e-05,
    0.00023865671085472481,
    0.0005901137118951908,
    0.0014558231957127114,
    0.0035921290358184323,
    0.008863235471522317,
    0.021869488538212176,
    0.053968253968215994,
    0.1333333333333336,
    0.3333333333333333,
];

impl Code {
    /// The tangent of an angle in quarter turns and a rest: that of the rest, or minus its reciprocal.
    pub(super) fn tangent(&mut self, precision: Precision, x: Operand) -> Operand {
        if precision == Precision::Fast {
            let sine = self.approx(ptx::UnaryOp::Sin, x);
            let cosine = self.approx(ptx::UnaryOp::Cos, x);
            return self.float_quotient(precision, Type::F32, sine, cosine);
        }
        let (rest, turns) = self.quarter_turns(x);
        let square = self.exactly(BinaryOp::Mul, Type::F32, rest, rest);
        let series = self.polynomial(square, &SINGLE);
        let cube = self.exactly(BinaryOp::Mul, Type::F32, rest, square);
        let near: Operand = self.fma(Type::F32, series, cube, rest).into();
        let turned = self.float_quotient(Precision::Precise, Type::F32, Operand::f32(-1.0), near);
        let is_odd = self.bit_set(turns, 1);
        self.selp(Type::F32, turned, near, is_odd).into()
    }

    /// The same in f64.
    pub(super) fn tangent_f64(&mut self, x: Operand) -> Operand {
        let (rest, turns) = self.quarter_turns_f64(x);
        let square = self.exactly(BinaryOp::Mul, Type::F64, rest, rest);
        let series = self.polynomial_f64(square, &DOUBLE);
        let cube = self.exactly(BinaryOp::Mul, Type::F64, rest, square);
        let near: Operand = self.fma(Type::F64, series, cube, rest).into();
        let turned = self.divide_f64(Operand::f64(-1.0), near);
        let is_odd = self.bit_set(turns, 1);
        self.selp(Type::F64, turned, near, is_odd).into()
    }
}
