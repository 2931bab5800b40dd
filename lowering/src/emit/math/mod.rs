//! Elementary functions. By default they are within about two units in the last place, `fast` takes the hardware's
//! approximations, `precise` the correctly rounded form where there is one. The exponentials and roots of the default are
//! the hardware's too, as in Triton and Gluon: their error is about two units as well.

mod double;
mod erf;
mod exponential;
mod hyperbolic;
mod logarithm;
mod reduction;
mod remainder;
mod tangent;
mod trigonometric;

use ir::ops::arith::{Precision, UnaryOp};
use ptx::{BinaryOp, Compare, Operand, Rounding, Type};

use super::code::Code;

impl Code {
    /// `op x` on f32.
    pub(super) fn f32_unary(&mut self, op: UnaryOp, precision: Precision, x: Operand) -> Operand {
        let x = self.mov_constant(Type::F32, x);
        let ty = Type::F32;
        match op {
            UnaryOp::Neg
            | UnaryOp::Abs
            | UnaryOp::Floor
            | UnaryOp::Ceil
            | UnaryOp::Rint
            | UnaryOp::Trunc => self.exact_unary(op, ty, x),
            UnaryOp::Sqrt if precision == Precision::Precise => {
                self.nearest(ptx::UnaryOp::Sqrt, ty, x)
            }
            UnaryOp::Sqrt => self.approx(ptx::UnaryOp::Sqrt, x),
            UnaryOp::Rsqrt if precision == Precision::Precise => {
                let root = self.f32_unary(UnaryOp::Sqrt, precision, x);
                self.nearest(ptx::UnaryOp::Rcp, ty, root)
            }
            UnaryOp::Rsqrt => self.approx(ptx::UnaryOp::Rsqrt, x),
            UnaryOp::Exp => self.exp(precision, x),
            UnaryOp::Exp2 => self.exp2(precision, x),
            UnaryOp::Log => self.log(precision, x),
            UnaryOp::Log2 => self.log2(precision, x),
            UnaryOp::Sin => self.sine(precision, x, 0),
            UnaryOp::Cos => self.sine(precision, x, 1),
            UnaryOp::Tan => self.tangent(precision, x),
            UnaryOp::Tanh => self.tanh(precision, x),
            UnaryOp::Erf => self.erf(precision, x),
            UnaryOp::Not => panic!("the verifier admits no complement of floats"),
        }
    }

    /// `op x` on f64.
    pub(super) fn f64_unary(&mut self, op: UnaryOp, x: Operand) -> Operand {
        let x = self.mov_constant(Type::F64, x);
        let ty = Type::F64;
        match op {
            UnaryOp::Neg
            | UnaryOp::Abs
            | UnaryOp::Floor
            | UnaryOp::Ceil
            | UnaryOp::Rint
            | UnaryOp::Trunc => self.exact_unary(op, ty, x),
            UnaryOp::Sqrt => self.sqrt_f64(x),
            UnaryOp::Rsqrt => {
                let root = self.sqrt_f64(x);
                self.divide_f64(Operand::f64(1.0), root)
            }
            UnaryOp::Exp => self.exp_f64(x),
            UnaryOp::Exp2 => self.exp2_f64(x),
            UnaryOp::Log => self.log_f64(x),
            UnaryOp::Log2 => self.log2_f64(x),
            UnaryOp::Sin => self.sine_f64(x, 0),
            UnaryOp::Cos => self.sine_f64(x, 1),
            UnaryOp::Tan => self.tangent_f64(x),
            UnaryOp::Tanh => self.tanh_f64(x),
            UnaryOp::Erf => self.erf_f64(x),
            UnaryOp::Not => panic!("the verifier admits no complement of floats"),
        }
    }

    fn sqrt_f64(&mut self, x: Operand) -> Operand {
        self.nearest(ptx::UnaryOp::Sqrt, Type::F64, x)
    }

    /// An operation that the machine rounds to nearest, if asked.
    fn nearest(&mut self, op: ptx::UnaryOp, ty: Type, x: Operand) -> Operand {
        let inst = ptx::Unary::new(op, ty, ptx::Dest::Sink, x);
        self.unary_with(ptx::Unary {
            rounding: Some(Rounding::Rn),
            ..inst
        })
        .into()
    }

    /// A change of the sign, or a rounding to an integer.
    fn exact_unary(&mut self, op: UnaryOp, ty: Type, x: Operand) -> Operand {
        let rounding = match op {
            UnaryOp::Neg => return self.unary(ptx::UnaryOp::Neg, ty, x).into(),
            UnaryOp::Abs => return self.unary(ptx::UnaryOp::Abs, ty, x).into(),
            UnaryOp::Floor => Rounding::Rmi,
            UnaryOp::Ceil => Rounding::Rpi,
            UnaryOp::Rint => Rounding::Rni,
            UnaryOp::Trunc => Rounding::Rzi,
            _ => panic!("`{op:?}` is no operation whose result is exact"),
        };
        self.convert(ty, ty, Some(rounding), x).into()
    }

    fn divide_f64(&mut self, a: Operand, b: Operand) -> Operand {
        self.float_quotient(Precision::Precise, Type::F64, a, b)
    }

    /// A constant in a register: not every instruction takes one.
    fn mov_constant(&mut self, ty: Type, x: Operand) -> Operand {
        match x {
            Operand::Reg(_) => x,
            _ => self.mov(ty, x).into(),
        }
    }

    /// `c[0] x^n + c[1] x^(n-1) + ...`, the coefficient of the highest power first.
    fn polynomial(&mut self, x: Operand, coefficients: &[f32]) -> Operand {
        let first = Operand::f32(coefficients[0]);
        coefficients[1..].iter().fold(first, |sum, &c| {
            self.fma(Type::F32, x, sum, Operand::f32(c)).into()
        })
    }

    /// The same in f64.
    fn polynomial_f64(&mut self, x: Operand, coefficients: &[f64]) -> Operand {
        let first = Operand::f64(coefficients[0]);
        coefficients[1..].iter().fold(first, |sum, &c| {
            self.fma(Type::F64, x, sum, Operand::f64(c)).into()
        })
    }

    /// A product, sum or difference that is not contracted: what an algorithm counts on to be rounded.
    fn exactly(
        &mut self,
        op: BinaryOp,
        ty: Type,
        a: impl Into<Operand>,
        b: impl Into<Operand>,
    ) -> Operand {
        let inst = ptx::Binary::new(op, ty, ptx::Dest::Sink, a, b);
        self.binary_with(ptx::Binary {
            rounding: Some(Rounding::Rn),
            ..inst
        })
        .into()
    }

    /// The magnitude of `x` with the sign of `sign`.
    pub(super) fn with_sign(&mut self, ty: Type, sign: Operand, x: Operand) -> Operand {
        // copysign takes the sign from its first operand (PTX ISA 9.7.3).
        self.binary(BinaryOp::CopySign, ty, sign, x).into()
    }

    /// `a op b ? yes : no` on floats.
    fn choose(
        &mut self,
        compare: (Compare, Operand, Operand),
        ty: Type,
        yes: Operand,
        no: Operand,
    ) -> Operand {
        let (op, a, b) = compare;
        let p = self.setp(op, ty, a, b);
        self.selp(ty, yes, no, p).into()
    }
}
