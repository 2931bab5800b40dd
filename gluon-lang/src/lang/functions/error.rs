//! The complement of the error function, its inverse, and the normal distribution.

use super::coefficients::{
    ERF_F32, ERF_F64, ERFCX_F32, ERFCX_F64, ERFINV_FAR_F32, ERFINV_FAR_F64, ERFINV_MIDDLE_F64,
    ERFINV_NEAR_F32, ERFINV_NEAR_F64,
};
use super::exponential::exp_parts;
use super::logarithm::log;
use super::real::{Real, polynomial, two_product};

/// `share erfc(a)` of an `a` from 0 on, where `high + low` is `a^2`: `e^(-a^2)` is all the more sensitive to its exponent.
fn tail<F: Real>(a: F, (high, low): (F, F), share: f64) -> F {
    let most = if F::IS_DOUBLE { 28.0 } else { 11.0 };
    let a = a.within(0.0, most);
    // Far out the result is 0, and the square may be infinite.
    let is_far = F::constant(most * most).lt(high);
    let high = F::choose(is_far, F::constant(most * most), high);
    let low = F::choose(is_far, F::constant(0.0), low);
    let (power, p) = exp_parts(-high, -low);
    let t = (a - 4.0).div(a + 4.0);
    let scaled = polynomial(t, &ERFCX_F32, &ERFCX_F64) * share;
    p.fma(scaled, scaled).div(a + a + 1.0).scaled(power)
}

/// `erf(x)` for `|x| <= 1/2`.
fn near<F: Real>(x: F) -> F {
    x.fma(polynomial(x * x, &ERF_F32, &ERF_F64), x)
}

/// `1 - erf(x)`, with all its bits where it is small.
pub(crate) fn erfc<F: Real>(x: F) -> F {
    let small = tail(x.abs(), two_product(x, x), 1.0);
    let far = F::choose(x.lt(F::constant(0.0)), F::constant(2.0) - small, small);
    let is_near = x.abs().lt(F::constant(0.5));
    F::choose(is_near, F::constant(1.0) - near(x), far)
}

/// The share of the standard normal distribution below `x`.
pub(crate) fn normcdf<F: Real>(x: F) -> F {
    let a = x.abs() * std::f64::consts::FRAC_1_SQRT_2;
    let small = tail(a, two_product(x, x * 0.5), 0.5);
    let far = F::choose(F::constant(0.0).lt(x), F::constant(1.0) - small, small);
    let is_near = a.lt(F::constant(0.5));
    let half = F::constant(0.5);
    F::choose(is_near, near(a.copysign(x)).fma(half, half), far)
}

/// The inverse of the error function; NaN beyond 1.
pub(crate) fn erfinv<F: Real>(x: F) -> F {
    let one = F::constant(1.0);
    // A function of -ln(1 - x^2) is smooth up to the ends.
    let w = -log(x.fma(-x, one));
    let root = w.sqrt();
    let ratio = if F::IS_DOUBLE {
        let near = polynomial(w - 3.0, &[], &ERFINV_NEAR_F64);
        let middle = polynomial(root - 3.25, &[], &ERFINV_MIDDLE_F64);
        let far = polynomial(root - 5.0, &[], &ERFINV_FAR_F64);
        let far = F::choose(w.lt(F::constant(16.0)), middle, far);
        F::choose(w.lt(F::constant(6.0)), near, far)
    } else {
        let near = polynomial(w - 2.5, &ERFINV_NEAR_F32, &[]);
        let far = polynomial(root - 3.0, &ERFINV_FAR_F32, &[]);
        F::choose(w.lt(F::constant(5.0)), near, far)
    };
    let end = F::constant(f64::INFINITY).copysign(x);
    F::choose(x.abs().eq(one), end, x * ratio)
}
