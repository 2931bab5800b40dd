//! The complement of the error function, also scaled, their inverses, and the normal distribution.

use super::coefficients::error::{
    ERF_F32, ERF_F64, ERFCX_F32, ERFCX_F64, ERFINV_END_F64, ERFINV_FAR_F32, ERFINV_FAR_F64,
    ERFINV_MIDDLE_F64, ERFINV_NEAR_F32, ERFINV_NEAR_F64, ERFINV_TAIL_F32, ERFINV_TAIL_F64,
};
use super::exponential::exp_parts;
use super::logarithm::log;
use super::real::{Real, polynomial, two_product};

/// Up to here `e^(a^2) erfc(a)` is a polynomial.
fn last<F: Real>() -> f64 {
    if F::IS_DOUBLE { 28.0 } else { 11.0 }
}

/// `e^(a^2) erfc(a) (2 a + 1)` of an `a` from 0 to there.
fn scaled_complement<F: Real>(a: F) -> F {
    let t = (a - 4.0).div(a + 4.0);
    polynomial(t, &ERFCX_F32, &ERFCX_F64)
}

/// `share erfc(a)` of an `a` from 0 on, where `high + low` is `a^2`: `e^(-a^2)` is all the more sensitive to its exponent.
fn tail<F: Real>(a: F, (high, low): (F, F), share: f64) -> F {
    let most = last::<F>();
    let a = a.within(0.0, most);
    // Far out the result is 0, and the square may be infinite.
    let is_far = F::constant(most * most).lt(high);
    let high = F::choose(is_far, F::constant(most * most), high);
    let low = F::choose(is_far, F::constant(0.0), low);
    let (power, p) = exp_parts(-high, -low);
    let scaled = scaled_complement(a) * share;
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

/// The series of `e^(a^2) erfc(a) a sqrt(pi)` in `1 / a^2` (DLMF 7.12.1), beyond where the polynomial ends.
const ERFCX_FAR: [f64; 8] = [
    -135_135.0 / 128.0,
    10_395.0 / 64.0,
    -945.0 / 32.0,
    105.0 / 16.0,
    -15.0 / 8.0,
    3.0 / 4.0,
    -1.0 / 2.0,
    1.0,
];

/// `e^(x^2) erfc(x)`.
pub(crate) fn erfcx<F: Real>(x: F) -> F {
    let a = x.abs();
    let bounded = a.within(0.0, last::<F>());
    let middle = scaled_complement(bounded).div(bounded + bounded + 1.0);
    let reciprocal = F::constant(1.0).div(a);
    let series = polynomial(reciprocal * reciprocal, &ERFCX_FAR, &ERFCX_FAR);
    let far = reciprocal * (series * (std::f64::consts::FRAC_2_SQRT_PI * 0.5));
    let small = F::choose(F::constant(last::<F>()).lt(a), far, middle);
    // Below 0 it is 2 e^(x^2) less that.
    let end = if F::IS_DOUBLE { 27.0 } else { 9.5 };
    let (high, low) = two_product(x.within(-end, end), x.within(-end, end));
    let (power, p) = exp_parts(high, low);
    let (half, one) = (F::constant(0.5), F::constant(1.0));
    let exponential = (p + 1.0).scaled(power);
    let large = exponential + exponential - small;
    let infinity = F::constant(f64::INFINITY);
    let large = F::choose(x.lt(F::constant(-end)), infinity, large);
    let result = F::choose(x.lt(F::constant(0.0)), large, small);
    F::choose(a.lt(half), exponential * (one - near(x)), result)
}

/// `erfinv(x) / x` in `w = -ln(1 - x^2)`, of which it is a smooth function up to the ends, for `w` up to 17 in f32, 37 in f64.
fn inverse_ratio<F: Real>(w: F, root: F) -> F {
    if F::IS_DOUBLE {
        let near = polynomial(w - 3.0, &[], &ERFINV_NEAR_F64);
        let middle = polynomial(root - 3.25, &[], &ERFINV_MIDDLE_F64);
        let far = polynomial(root - 5.0, &[], &ERFINV_FAR_F64);
        let far = F::choose(w.lt(F::constant(16.0)), middle, far);
        F::choose(w.lt(F::constant(6.0)), near, far)
    } else {
        let near = polynomial(w - 2.5, &ERFINV_NEAR_F32, &[]);
        let far = polynomial(root - 3.0, &ERFINV_FAR_F32, &[]);
        F::choose(w.lt(F::constant(5.0)), near, far)
    }
}

/// The same for what lies beyond, which only the complement reaches.
fn far_inverse_ratio<F: Real>(w: F, root: F) -> F {
    let s = F::constant(1.0).div(root);
    if F::IS_DOUBLE {
        let tail = polynomial(s - 0.11, &[], &ERFINV_TAIL_F64);
        let end = polynomial(s - 0.055, &[], &ERFINV_END_F64);
        root * F::choose(w.lt(F::constant(180.0)), tail, end)
    } else {
        root * polynomial(s - 0.17, &ERFINV_TAIL_F32, &[])
    }
}

/// The inverse of the error function; NaN beyond 1.
pub(crate) fn erfinv<F: Real>(x: F) -> F {
    let one = F::constant(1.0);
    let w = -log(x.fma(-x, one));
    let ratio = inverse_ratio(w, w.sqrt());
    let end = F::constant(f64::INFINITY).copysign(x);
    F::choose(x.abs().eq(one), end, x * ratio)
}

/// The inverse of the complement of the error function; NaN below 0 and beyond 2.
pub(crate) fn erfcinv<F: Real>(x: F) -> F {
    let w = -log(x * (F::constant(2.0) - x));
    let root = w.sqrt();
    let last = F::pick(17.0, 37.0);
    let ratio = F::choose(
        w.lt(last),
        inverse_ratio(w, root),
        far_inverse_ratio(w, root),
    );
    (F::constant(1.0) - x) * ratio
}

/// The inverse of the share of the standard normal distribution; NaN below 0 and beyond 1.
pub(crate) fn normcdfinv<F: Real>(x: F) -> F {
    let y = erfcinv(x + x);
    let high = F::pick(std::f32::consts::SQRT_2.into(), std::f64::consts::SQRT_2);
    let low = F::pick(2.420_323_430_563_194e-8, -9.667_293_313_452_913e-17);
    let (zero, infinity) = (F::constant(0.0), F::constant(f64::INFINITY));
    let rest = F::choose(y.abs().lt(infinity), y * low, zero);
    F::choose(y.eq(zero), zero, (-y).fma(high, -rest))
}
