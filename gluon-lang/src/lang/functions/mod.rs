//! Elementary and special functions, written in the language: each for one element of f32 or f64, in correctly rounded
//! arithmetic ([`real`]), and mapped over the elements of a tensor. f16 and bf16 are computed in f32 and rounded once.
//!
//! What the hardware has an instruction for, and what needs a branch away from the usual case, stands in
//! [`math`](super::math) instead.

mod approximate;
mod bessel;
mod bits;
mod coefficients;
mod error;
mod exponential;
mod float_bits;
mod gamma;
mod half_turns;
mod hyperbolic;
mod inverse;
mod logarithm;
mod number;
mod power;
mod random;
mod real;
mod remainder;
mod rounded;
#[cfg(test)]
mod tests;

pub use bits::{Dp4a, byte_perm};
pub use random::{philox, rand, rand4x, randint, randint4x, randn, randn4x};
pub use rounded::Wide;

use super::mix::{Operand, ScalarOperand};
use super::trace::{self, At, Raw, here};
use super::{Element, Float, Scalar, Tensor};
use ir::elem::{DType, Elem};
use ir::entity::Value;
use ir::ops::cast::Rounding;
use number::Number;

/// How far a function may be from the exact result: units in the last place of the result, subnormal results in units
/// of the smallest number. Tests hold every function to it.
#[derive(Clone, Copy, Debug)]
pub struct Accuracy {
    /// The function.
    pub name: &'static str,
    /// The bound for f32.
    pub single: f64,
    /// The bound for f64.
    pub double: f64,
    /// An error that is within the bound however many units it is: near zeros of a function that waves.
    pub absolute: f64,
}

impl Accuracy {
    /// Of a function whose error is bounded in units in the last place alone.
    const fn new(name: &'static str, single: f64, double: f64) -> Accuracy {
        Accuracy {
            name,
            single,
            double,
            absolute: 0.0,
        }
    }

    const fn or_absolute(self, absolute: f64) -> Accuracy {
        Accuracy { absolute, ..self }
    }
}

type Single = Number<f32>;
type Double = Number<f64>;

/// A function of one or two elements, in both widths.
struct Function {
    name: &'static str,
    single: fn(&[Single]) -> Single,
    double: fn(&[Double]) -> Double,
}

impl Function {
    /// The function of these operands, which have the element type `dtype`; of each element, if one of them is a tensor.
    #[inline(never)]
    fn of(&self, operands: &[Raw], dtype: DType, at: At) -> Value {
        let elem = Elem::Data(dtype);
        let raws: Vec<(Raw, Elem)> = operands.iter().map(|raw| (*raw, elem)).collect();
        let Some(fitted) = trace::fit_elementwise(self.name, &raws, at) else {
            return trace::poison(at);
        };
        let computed = if dtype == DType::F64 {
            DType::F64
        } else {
            DType::F32
        };
        let cast = |value: &Value, to| trace::cast(*value, Elem::Data(to), Rounding::Default, at);
        let wide: Vec<Value> = fitted.iter().map(|v| cast(v, computed)).collect();
        let result = if trace::is_tensor(wide[0], at) {
            let elements = trace::open_map(&wide, 1, at);
            let result = self.of_elements(&elements, computed, at);
            trace::close_map(&wide, 1, &[result], at)[0]
        } else {
            self.of_elements(&wide, computed, at)
        };
        cast(&result, dtype)
    }

    fn of_elements(&self, elements: &[Value], dtype: DType, at: At) -> Value {
        if dtype == DType::F64 {
            let numbers: Vec<Double> = elements.iter().map(|v| Number::new(*v, at)).collect();
            (self.double)(&numbers).value()
        } else {
            let numbers: Vec<Single> = elements.iter().map(|v| Number::new(*v, at)).collect();
            (self.single)(&numbers).value()
        }
    }
}

/// Declares functions of one and of two elements: documentation, name, the bounds for f32 and f64 in units in the last
/// place, and how one element is computed.
macro_rules! functions {
    (
        unary { $($(#[$doc:meta])* $name:ident $single:literal $double:literal $(or $absolute:literal)? = |$x:ident| $of:expr $(, single $of_single:expr)?;)* }
        binary { $($(#[$doc2:meta])* $name2:ident $single2:literal $double2:literal = |$a:ident, $b:ident| $of2:expr $(, single $of_single2:expr)?;)* }
    ) => {
        /// The bounds of the functions of this crate that are not exact.
        pub const ACCURACY: &[Accuracy] = &[
            Accuracy::new("tan", 3.0, 2.0),
            $(Accuracy::new(stringify!($name), $single, $double)$(.or_absolute($absolute))?,)*
            $(Accuracy::new(stringify!($name2), $single2, $double2),)*
        ];

        functions!(@ Scalar ScalarOperand
            { $(($(#[$doc])*) $name $single $double [$($absolute)?] = |$x| [$of] [$($of_single)?];)* }
            { $(($(#[$doc2])*) $name2 $single2 $double2 = |$a, $b| [$of2] [$($of_single2)?];)* });
        functions!(@ Tensor Operand
            { $(($(#[$doc])*) $name $single $double [$($absolute)?] = |$x| [$of] [$($of_single)?];)* }
            { $(($(#[$doc2])*) $name2 $single2 $double2 = |$a, $b| [$of2] [$($of_single2)?];)* });
    };
    (@ $handle:ident $operand:ident
        { $(($(#[$doc:meta])*) $name:ident $single:literal $double:literal [$($absolute:literal)?] = |$x:ident| [$of:expr] [$($of_single:expr)?];)* }
        { $(($(#[$doc2:meta])*) $name2:ident $single2:literal $double2:literal = |$a:ident, $b:ident| [$of2:expr] [$($of_single2:expr)?];)* }
    ) => {
        /// Functions computed in correctly rounded arithmetic: the same bits on every machine, but for Bessel functions. Where no
        /// bound is named, the result is exact.
        impl<T: Element> $handle<T> {
            $(
                $(#[$doc])*
                #[doc = functions!(@bound $single $double $($absolute)?)]
                #[inline]
                #[track_caller]
                pub fn $name(self) -> Self
                where
                    T: Float,
                {
                    const FUNCTION: Function = Function {
                        name: stringify!($name),
                        single: |x| { let $x = x[0]; functions!(@either [$of] [$($of_single)?]) },
                        double: |x| { let $x = x[0]; $of },
                    };
                    Self::wrap(FUNCTION.of(&[self.raw()], T::DTYPE, here()))
                }
            )*
            $(
                $(#[$doc2])*
                #[doc = functions!(@bound $single2 $double2)]
                #[inline]
                #[track_caller]
                pub fn $name2(self, other: impl $operand<T>) -> Self
                where
                    T: Float,
                {
                    const FUNCTION: Function = Function {
                        name: stringify!($name2),
                        single: |x| { let ($a, $b) = (x[0], x[1]); functions!(@either [$of2] [$($of_single2)?]) },
                        double: |x| { let ($a, $b) = (x[0], x[1]); $of2 },
                    };
                    Self::wrap(FUNCTION.of(&[self.raw(), other.into_raw()], T::DTYPE, here()))
                }
            )*
        }
    };
    (@either [$of:expr] []) => { $of };
    (@either [$of:expr] [$single:expr]) => { $single };
    (@bound 0.0 0.0) => { "" };
    (@bound $single:literal $double:literal) => {
        concat!("\n\nWithin ", $single, " units in the last place in f32, ", $double, " in f64.")
    };
    (@bound $single:literal $double:literal $absolute:literal) => {
        concat!(
            "\n\nWithin ", $single, " units in the last place in f32, ", $double, " in f64, or within ", $absolute,
            " of the exact result, which counts near zeros. f32 is computed in f64."
        )
    };
}

functions! {
    unary {
        /// Arc sine, from -π/2 to π/2; NaN beyond 1.
        asin 1.6 1.3 = |x| inverse::asin(x);
        /// Arc cosine, from 0 to π; NaN beyond 1.
        acos 1.5 1.3 = |x| inverse::acos(x);
        /// Arc tangent, from -π/2 to π/2.
        atan 1.5 1.5 = |x| inverse::atan(x);
        /// Hyperbolic sine.
        sinh 2.5 2.0 = |x| hyperbolic::sinh(x);
        /// Hyperbolic cosine.
        cosh 1.5 1.5 = |x| hyperbolic::cosh(x);
        /// Inverse hyperbolic sine.
        asinh 2.0 1.6 = |x| hyperbolic::asinh(x);
        /// Inverse hyperbolic cosine, from 0 on; NaN below 1.
        acosh 2.2 1.8 = |x| hyperbolic::acosh(x);
        /// Inverse hyperbolic tangent; NaN beyond 1.
        atanh 2.2 2.0 = |x| hyperbolic::atanh(x);
        /// `10^x`.
        exp10 1.2 1.2 = |x| exponential::exp10(x);
        /// `e^x - 1`, which keeps its bits near 0.
        expm1 1.6 1.5 = |x| exponential::expm1(x);
        /// Logarithm to base 10.
        log10 1.2 1.2 = |x| logarithm::log10(x);
        /// `ln(1 + x)`, which keeps its bits near 0.
        log1p 1.7 1.2 = |x| logarithm::log1p(x);
        /// The cube root, with the sign of `x`.
        cbrt 0.9 0.6 = |x| power::cbrt(x);
        /// The complement of the error function, `1 - erf(x)`, which keeps its bits where it is small.
        erfc 4.0 3.0 = |x| error::erfc(x);
        /// The inverse of the error function; NaN beyond 1.
        erfinv 3.0 3.0 = |x| error::erfinv(x);
        /// The share of the standard normal distribution below `x`.
        normcdf 4.0 3.0 = |x| error::normcdf(x);
        /// `ln |Γ(x)|`; infinite at 0 and the negative integers. f32 is computed in f64. In f64 the bound holds from -2.25
        /// on; below, near the zeros between negative integers, the error is a few units of 1 instead.
        lgamma 0.6 5.0 = |x| gamma::lgamma(x), single gamma::lgamma(x.cast::<f64>()).cast();
        /// `e^(x²) erfc(x)`, which keeps its bits where `erfc` is small.
        erfcx 3.5 3.0 = |x| error::erfcx(x);
        /// The inverse of `erfc`, from 0 to 2; NaN beyond.
        erfcinv 4.0 4.0 = |x| error::erfcinv(x);
        /// The inverse of `normcdf`, from 0 to 1; NaN beyond.
        normcdfinv 5.0 5.0 = |x| error::normcdfinv(x);
        /// `Γ(x)`; infinite at 0, and NaN at the negative integers. f32 is computed in f64.
        tgamma 0.6 6.0 = |x| gamma::tgamma(x), single gamma::tgamma(x.cast::<f64>()).cast();
        /// `sin(πx)`, exactly reduced: 0 of integers, with their sign.
        sinpi 1.5 1.5 = |x| half_turns::sinpi(x);
        /// `cos(πx)`, exactly reduced: 0 halfway between integers.
        cospi 1.5 1.5 = |x| half_turns::cospi(x);
        /// The exponent of `x`, as of a normal number; -∞ of 0, ∞ of infinities.
        logb 0.0 0.0 = |x| remainder::logb(x);
        /// The Bessel function of the first kind of order 0.
        j0 0.6 8.0 or 1e-15 = |x| bessel::j0(x), single bessel::j0(x.cast::<f64>()).cast();
        /// The Bessel function of the first kind of order 1.
        j1 0.6 8.0 or 1e-15 = |x| bessel::j1(x), single bessel::j1(x.cast::<f64>()).cast();
        /// The Bessel function of the second kind of order 0; -∞ at 0, NaN below.
        y0 0.6 10.0 or 1e-15 = |x| bessel::y0(x), single bessel::y0(x.cast::<f64>()).cast();
        /// The Bessel function of the second kind of order 1; -∞ at 0, NaN below.
        y1 0.6 8.0 or 1e-15 = |x| bessel::y1(x), single bessel::y1(x.cast::<f64>()).cast();
        /// The modified Bessel function of the first kind of order 0. f32 is computed in f64.
        cyl_bessel_i0 0.6 3.0 = |x| bessel::i0(x), single bessel::i0(x.cast::<f64>()).cast();
        /// The modified Bessel function of the first kind of order 1. f32 is computed in f64.
        cyl_bessel_i1 0.6 5.0 = |x| bessel::i1(x), single bessel::i1(x.cast::<f64>()).cast();
        /// The nearest integer, ties away from zero.
        round 0.0 0.0 = |x| real::round(x);
    }
    binary {
        /// The angle of the point (`other`, `self`), from -π to π, with the sign of `self`.
        atan2 1.6 1.6 = |y, x| inverse::atan2(y, x);
        /// `self^other`. NaN for a negative number to a power that is no integer; 1 where the power is 0 or the number 1. f32 is
        /// computed in f64.
        pow 0.6 1.5 = |x, y| power::pow_double(x, y),
            single power::pow_single(x.cast::<f64>(), y.cast::<f64>()).cast();
        /// `sqrt(self² + other²)`, without overflow on the way.
        hypot 1.2 1.2 = |x, y| power::hypot(x, y);
        /// What is left of `self` after the integral multiple of `other` that is nearest, the even one of two: from
        /// `-other / 2` to `other / 2`.
        remainder 0.0 0.0 = |x, y| remainder::remainder(x, y);
    }
}
