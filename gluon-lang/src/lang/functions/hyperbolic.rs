//! Hyperbolic functions and their inverses.

use super::exponential::{quarter_exp, quarter_expm1};
use super::logarithm::log1p_and;
use super::real::Real;

/// The hyperbolic sine.
pub(crate) fn sinh<F: Real>(x: F) -> F {
    let magnitude = x.abs();
    // With t = (e^|x| - 1) / 2 it is t + t / (2 t + 1), a sum without cancellation.
    let half = quarter_expm1(magnitude) * 2.0;
    let share = half.div(half + half + 1.0);
    // Far out the share is 1/2, and what it is of may be infinite.
    let is_far = F::constant(1e30).lt(half);
    let sum = half + F::choose(is_far, F::constant(0.5), share);
    let tiny = magnitude.lt(F::pick(2_f64.powi(-14), 2_f64.powi(-30)));
    F::choose(tiny, x, sum.copysign(x))
}

/// The hyperbolic cosine.
pub(crate) fn cosh<F: Real>(x: F) -> F {
    let quarter = quarter_exp(x.abs());
    quarter.fma(F::constant(2.0), F::constant(0.125).div(quarter))
}

/// From here on `1 + x^2` is `x^2`, and `x^2` is finite well beyond.
fn large<F: Real>() -> F {
    F::pick(16_777_216.0, 9_007_199_254_740_992.0)
}

/// The inverse of `sinh`.
pub(crate) fn asinh<F: Real>(x: F) -> F {
    let magnitude = x.abs();
    let square = magnitude * magnitude;
    let root = (square + 1.0).sqrt();
    let small = magnitude + square.div(root + 1.0);
    // ln(2 x) = ln(1 + x) + ln 2, for 1 is nothing beside x.
    let is_large = large::<F>().le(magnitude);
    let (zero, one) = (F::constant(0.0), F::constant(1.0));
    let argument = F::choose(is_large, magnitude, small);
    log1p_and(argument, F::choose(is_large, one, zero)).copysign(x)
}

/// The inverse of `cosh`, from 0 on; NaN below 1.
pub(crate) fn acosh<F: Real>(x: F) -> F {
    let above = x - 1.0;
    let small = above + above.fma(above, above + above).sqrt();
    let is_large = large::<F>().le(x);
    let (zero, one) = (F::constant(0.0), F::constant(1.0));
    let argument = F::choose(is_large, x, small);
    let result = log1p_and(argument, F::choose(is_large, one, zero));
    F::choose(x.lt(one), F::constant(f64::NAN), result)
}

/// The inverse of `tanh`; NaN where no `tanh` is.
pub(crate) fn atanh<F: Real>(x: F) -> F {
    let magnitude = x.abs();
    let argument = (magnitude + magnitude).div(F::constant(1.0) - magnitude);
    let result = log1p_and(argument, F::constant(0.0)) * 0.5;
    // Halving would round a subnormal number.
    let tiny = magnitude.lt(F::pick(2_f64.powi(-14), 2_f64.powi(-30)));
    F::choose(tiny, x, result.copysign(x))
}
