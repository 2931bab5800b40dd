//! Fast functions under names of their own: the hardware's approximations, and a power of two on the FMA pipes.

use super::super::trace::{self, Raw, here};
use super::super::{Float, Scalar, Tensor};
use ir::elem::Elem;
use ir::entity::Value;
use ir::ops::arith::{BinaryOp, Precision, UnaryOp};
use ir::ops::create::Const;
use ir::ops::rounded::{Direction, RoundedOp};

macro_rules! approximations {
    ($($(#[$doc:meta])* $name:ident = $op:ident;)*) => {
        approximations!(@ Scalar $($(#[$doc])* $name = $op;)*);
        approximations!(@ Tensor $($(#[$doc])* $name = $op;)*);
    };
    (@ $handle:ident $($(#[$doc:meta])* $name:ident = $op:ident;)*) => {
        /// The hardware's approximations (PTX ISA 9.7.3), with subnormal numbers taken as zero; [`fast`](Tensor::fast) under
        /// names of their own. f16 and bf16 go through f32; f64 has none, and is computed as without.
        impl<T: Float> $handle<T> {
            $(
                $(#[$doc])*
                #[inline]
                #[track_caller]
                pub fn $name(self) -> Self {
                    Self::wrap(trace::unary(UnaryOp::$op, Precision::Fast, self.value(), here()))
                }
            )*
        }
    };
}

approximations! {
    /// `2^x` by `ex2.approx`: relative error 2^-22.
    exp2_approx = Exp2;
    /// `e^x` by `ex2.approx` of `x log2(e)`, whose rounding adds to the error as `x` grows.
    exp_approx = Exp;
    /// Logarithm to base 2 by `lg2.approx`: absolute error 2^-22.6 near 1, relative error 2^-22 elsewhere.
    log2_approx = Log2;
    /// Natural logarithm by `lg2.approx`.
    log_approx = Log;
    /// Sine by `sin.approx`: absolute error 2^-20.5 for angles up to π in magnitude, more beyond.
    sin_approx = Sin;
    /// Cosine by `cos.approx`: absolute error 2^-20.9 for angles up to π in magnitude, more beyond.
    cos_approx = Cos;
    /// Tangent, as the quotient of both.
    tan_approx = Tan;
    /// Hyperbolic tangent by `tanh.approx`: relative error 2^-11.
    tanh_approx = Tanh;
    /// Square root by `sqrt.approx`: relative error 2^-23.
    sqrt_approx = Sqrt;
    /// `1 / sqrt(x)` by `rsqrt.approx`: relative error 2^-22.9.
    rsqrt_approx = Rsqrt;
}

/// Minimax coefficients of `2^f` for `|f| <= 1/2`, highest power first.
const EXP2_2: [f32; 3] = [0.238_428_94, 0.703_448, 1.000_443_1];
const EXP2_3: [f32; 4] = [0.055_171_67, 0.242_611_12, 0.693_261, 0.999_928_1];
const EXP2_4: [f32; 5] = [
    9.570_102e-3,
    0.055_917_86,
    0.240_247_44,
    0.693_121_8,
    0.999_999_3,
];
const EXP2_5: [f32; 6] = [
    1.327_647_2e-3,
    9.675_541e-3,
    0.055_507_13,
    0.240_221_2,
    0.693_146_94,
    1.000_000_1,
];

macro_rules! software {
    ($($handle:ident)*) => {$(
        impl $handle<f32> {
            /// `2^x` on the FMA pipes, which leaves the special function unit to others: `x` is split into an integer, which is
            /// added to the exponent, and a fraction, whose power is a polynomial of this degree. Relative error: 2^-9.2 of
            /// degree 2, 2^-13.7 of 3, 2^-18.5 of 4, 2^-22.2 of 5; so 2 suffices for bf16 and 3 for f16. For `x` below 128; what
            /// is below 2^-125 becomes that. NaN becomes the largest number of f32, or stays NaN: floats of 16 bits round that to infinity.
            #[inline]
            #[track_caller]
            pub fn exp2_fma<const DEGREE: usize>(self) -> Self {
                const { assert!(DEGREE >= 2 && DEGREE <= 5, "the degree of the polynomial is 2 to 5") };
                let coefficients: &[f32] = match DEGREE {
                    2 => &EXP2_2,
                    3 => &EXP2_3,
                    4 => &EXP2_4,
                    _ => &EXP2_5,
                };
                Self::wrap(exp2_fma(self.value(), coefficients, here()))
            }

            /// `1 / x` by `rcp.approx`: within 1 unit in the last place, subnormal numbers taken as zero.
            #[inline]
            #[track_caller]
            pub fn rcp_approx(self) -> Self {
                let operand = (self.raw(), Elem::F32);
                Self::wrap(trace::inline_ptx("rcp.approx.ftz.f32 $0, $1;", true, &[operand], &[Elem::F32], here())[0])
            }
        }
    )*};
}

software!(Scalar Tensor);

/// `2^x`, by 3/2 2^23: a sum with it is rounded to an integer, which stands in its lowest bits.
#[inline(never)]
fn exp2_fma(x: Value, coefficients: &[f32], at: trace::At) -> Value {
    let float = |value: f32| Raw::Const(Const::float(value.into()));
    let rounded = |op, operands: &[Raw]| {
        let operands: Vec<(Raw, Elem)> = operands.iter().map(|raw| (*raw, Elem::F32)).collect();
        Raw::Value(trace::rounded(op, Direction::Nearest, &operands, at))
    };
    let integers = float(12_582_912.0);
    let x = trace::binary(
        BinaryOp::MaxNan,
        Raw::Value(x),
        float(-125.0),
        Elem::F32,
        at,
    );
    let placed = rounded(RoundedOp::Add, &[Raw::Value(x), integers]);
    let whole = rounded(RoundedOp::Sub, &[placed, integers]);
    let fraction = rounded(RoundedOp::Sub, &[Raw::Value(x), whole]);
    let power = coefficients[1..]
        .iter()
        .fold(float(coefficients[0]), |sum, c| {
            rounded(RoundedOp::Fma, &[sum, fraction, float(*c)])
        });
    let bits = |raw: Raw| match raw {
        Raw::Value(value) => Raw::Value(trace::bitcast(value, Elem::I32, at)),
        Raw::Const(_) => raw,
    };
    let shift = Raw::Const(Const::Int(23));
    let exponent = trace::binary(BinaryOp::Shl, bits(placed), shift, Elem::I32, at);
    let sum = trace::binary(
        BinaryOp::Add,
        bits(power),
        Raw::Value(exponent),
        Elem::I32,
        at,
    );
    trace::bitcast(sum, Elem::F32, at)
}
