//! `e^x` and `2^x` in f32.

use ir::ops::arith::Precision;
use ptx::{BinaryOp, Operand, RegClass, Rounding, Type};

use crate::emit::code::Code;

impl Code {
    pub(super) fn exp(&mut self, precision: Precision, x: Operand) -> Operand {
        if precision == Precision::Precise {
            return self.exp_accurate(x);
        }
        let scaled = self.binary(
            BinaryOp::Mul,
            Type::F32,
            x,
            Operand::f32(std::f32::consts::LOG2_E),
        );
        self.approx(ptx::UnaryOp::Ex2, scaled)
    }

    pub(super) fn exp2(&mut self, precision: Precision, x: Operand) -> Operand {
        if precision != Precision::Precise {
            return self.approx(ptx::UnaryOp::Ex2, x);
        }
        let x = self.clamped(x, 160.0);
        let whole: Operand = self
            .convert(Type::F32, Type::F32, Some(Rounding::Rni), x)
            .into();
        let rest = self.exactly(BinaryOp::Sub, Type::F32, x, whole);
        // The rest is at most 1/2, so one rounded product with ln 2 costs a quarter of a unit.
        let scaled = self.exactly(
            BinaryOp::Mul,
            Type::F32,
            rest,
            Operand::f32(std::f32::consts::LN_2),
        );
        let power = self.exp_near_zero(scaled);
        self.scaled_by_power(power, whole)
    }

    /// `e^x` within one unit in the last place, subnormal results included.
    pub(super) fn exp_accurate(&mut self, x: Operand) -> Operand {
        let x = self.clamped(x, 110.0);
        let turns = self.binary(
            BinaryOp::Mul,
            Type::F32,
            x,
            Operand::f32(std::f32::consts::LOG2_E),
        );
        let whole: Operand = self
            .convert(Type::F32, Type::F32, Some(Rounding::Rni), turns)
            .into();
        // x - whole * ln 2, with ln 2 in two parts (Cody and Waite).
        let rest = self.fma(Type::F32, whole, Operand::f32(-std::f32::consts::LN_2), x);
        let rest = self.fma(Type::F32, whole, Operand::f32(1.904_654_2e-9), rest);
        let power = self.exp_near_zero(rest.into());
        self.scaled_by_power(power, whole)
    }

    /// `e^x` for `|x| <= ln 2 / 2`, by a minimax polynomial.
    fn exp_near_zero(&mut self, x: Operand) -> Operand {
        const COEFFICIENTS: [f32; 7] = [
            1.378_059_4e-3,
            8.373_124_5e-3,
            4.166_953_6e-2,
            0.166_664_72,
            0.499_999_85,
            1.0,
            1.0,
        ];
        self.polynomial(x, &COEFFICIENTS)
    }

    /// `x` between `-limit` and `limit`, so that exponents stay small; NaN stays NaN.
    fn clamped(&mut self, x: Operand, limit: f32) -> Operand {
        let bound = |op, value: f32, x: Operand| ptx::Binary {
            nan: true,
            ..ptx::Binary::new(op, Type::F32, ptx::Dest::Sink, x, Operand::f32(value))
        };
        let x = self.binary_with(bound(BinaryOp::Max, -limit, x)).into();
        self.binary_with(bound(BinaryOp::Min, limit, x)).into()
    }

    /// `x * 2^power` for a whole `power`, in two steps, since one factor could leave the exponents.
    fn scaled_by_power(&mut self, x: Operand, power: Operand) -> Operand {
        let power = self.convert(Type::S32, Type::F32, Some(Rounding::Rzi), power);
        let half = self.binary(BinaryOp::Shr, Type::S32, power, 1_u32);
        let rest = self.binary(BinaryOp::Sub, Type::S32, power, half);
        let once = self.power_of_two(half.into());
        let twice = self.power_of_two(rest.into());
        let scaled = self.exactly(BinaryOp::Mul, Type::F32, x, once);
        self.exactly(BinaryOp::Mul, Type::F32, scaled, twice)
    }

    /// `2^power` by its bits.
    fn power_of_two(&mut self, power: Operand) -> Operand {
        let biased = self.binary(BinaryOp::Add, Type::S32, power, 127_u32);
        let bits = self.binary(BinaryOp::Shl, Type::B32, biased, 23_u32);
        self.mov_bits(RegClass::F32, bits).into()
    }
}
