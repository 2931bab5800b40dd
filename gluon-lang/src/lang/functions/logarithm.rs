//! Logarithms: `ln`, `ln(1 + x)` and to base 10.

use super::coefficients::elementary::{LOG1P_F32, LOG1P_F64};
use super::real::{Real, polynomial};

/// ln 2 in two parts.
fn ln_2<F: Real>() -> (F, F) {
    (
        F::pick(0.693_147_182_464_599_6, std::f64::consts::LN_2),
        F::pick(-1.904_654_212_125_933_6e-9, 2.319_046_813_846_299_6e-17),
    )
}

/// `ln(1 + f) - f` for `|f| <= 1/3`.
fn log1p_rest<F: Real>(f: F) -> F {
    f * f * polynomial(f, &LOG1P_F32, &LOG1P_F64)
}

/// `x = (1 + f) 2^e` with `2/3 <= 1 + f < 4/3`, as `(f, e)`, of a positive number, a subnormal one too.
fn log_parts<F: Real>(x: F) -> (F, F) {
    let bits = if F::IS_DOUBLE { 54 } else { 24 };
    let least = F::pick(f32::MIN_POSITIVE.into(), f64::MIN_POSITIVE);
    let is_small = x.lt(least);
    let normal = F::choose(is_small, x * 2_f64.powi(bits), x);
    let start = F::choose(is_small, F::constant((-bits).into()), F::constant(0.0));
    let (mantissa, exponent) = normal.split(2.0 / 3.0);
    (mantissa - 1.0, exponent + start)
}

/// What a logarithm is at the ends of its domain: -infinity of 0, infinity of infinity, NaN below 0.
fn at_the_ends<F: Real>(x: F, result: F) -> F {
    let (zero, infinity) = (F::constant(0.0), F::constant(f64::INFINITY));
    let result = F::choose(x.lt(infinity), result, x);
    let result = F::choose(x.lt(zero), F::constant(f64::NAN), result);
    F::choose(x.eq(zero), -infinity, result)
}

/// The natural logarithm.
pub(super) fn log<F: Real>(x: F) -> F {
    let (f, exponent) = log_parts(x);
    let (high, low) = ln_2::<F>();
    let rest = exponent.fma(low, log1p_rest(f));
    at_the_ends(x, exponent.fma(high, f + rest))
}

/// The logarithm to base 10.
pub(crate) fn log10<F: Real>(x: F) -> F {
    let (f, exponent) = log_parts(x);
    let e_high = F::pick(0.434_294_492_006_301_9, std::f64::consts::LOG10_E);
    let e_low = F::pick(-1.010_304_995_219_257_8e-8, 1.098_319_650_216_765e-17);
    let two_high = F::pick(0.301_030_009_984_970_1, std::f64::consts::LOG10_2);
    let two_low = F::pick(-1.432_098_883_924_482e-8, -2.803_728_127_785_170_4e-18);
    let low = f.fma(e_low, log1p_rest(f) * e_high);
    let low = exponent.fma(two_low, low);
    at_the_ends(x, exponent.fma(two_high, f.fma(e_high, low)))
}

/// `ln(1 + x)`.
pub(crate) fn log1p<F: Real>(x: F) -> F {
    log1p_and(x, F::constant(0.0))
}

/// `ln(1 + x) + twos ln 2`.
pub(super) fn log1p_and<F: Real>(x: F, twos: F) -> F {
    let sum = x + 1.0;
    let (_, exponent) = sum.split(2.0 / 3.0);
    // (1 + x) 2^-exponent - 1 with one rounding. A quarter of x, so that the power of two is a normal number.
    let scale = (F::constant(2.0) - exponent).power_of_two();
    let f = (x * 0.25).fma(scale, scale * 0.25 - 1.0);
    let exponent = exponent + twos;
    let (high, low) = ln_2::<F>();
    let rest = exponent.fma(low, log1p_rest(f));
    let result = exponent.fma(high, f + rest);
    let tiny = x.abs().lt(F::pick(2_f64.powi(-26), 2_f64.powi(-55)));
    // Neither 1 + x nor a quarter of x says enough of a tiny number.
    let result = F::choose(tiny, x, result);
    let ends = at_the_ends(sum, result);
    F::choose(tiny, result, ends)
}
