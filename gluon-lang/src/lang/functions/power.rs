//! Powers and roots.

use super::coefficients::elementary::{ATANH_TAIL, EXP2, LOG2};
use super::exponential::exp_parts;
use super::real::{Real, polynomial, two_product, two_sum};

/// ln 2, its upper 42 bits: whole multiples of it are exact.
const LN_2_HIGH: f64 = 0.693_147_180_559_890_3;
/// What is left of ln 2.
const LN_2_LOW: f64 = 5.497_923_018_708_371e-14;

/// `|x|^y` in f64 of numbers that are f32, before it is rounded to f32.
pub(crate) fn pow_single<F: Real>(x: F, y: F) -> F {
    let (mantissa, exponent) = x.abs().split(2.0 / 3.0);
    let f = mantissa - 1.0;
    let log = f.fma(polynomial(f, &[], &LOG2), exponent);
    let turns = (y * log).within(-300.0, 300.0);
    let whole = turns.rint();
    let power = polynomial(turns - whole, &[], &EXP2) * whole.power_of_two();
    at_the_ends(x, y, power)
}

/// `|x|^y` in f64: the logarithm in two numbers, some 64 bits.
pub(crate) fn pow_double<F: Real>(x: F, y: F) -> F {
    let (high, low) = log_in_two(x.abs());
    let (product, lost) = two_product(y, high);
    let lost = y.fma(low, lost);
    let limit = F::constant(800.0);
    let is_far = limit.lt(product.abs());
    let lost = F::choose(is_far, F::constant(0.0), lost);
    let (power, p) = exp_parts(product.within(-800.0, 800.0), lost);
    at_the_ends(x, y, (p + 1.0).scaled(power))
}

/// `ln x` as a sum of two numbers.
pub(super) fn log_in_two<F: Real>(x: F) -> (F, F) {
    let is_small = x.lt(F::constant(f64::MIN_POSITIVE));
    let normal = F::choose(is_small, x * 2_f64.powi(54), x);
    let start = F::choose(is_small, F::constant(-54.0), F::constant(0.0));
    let (mantissa, exponent) = normal.split(std::f64::consts::FRAC_1_SQRT_2);
    let exponent = exponent + start;
    // ln m = 2 atanh(s) with s = (m - 1) / (m + 1).
    let f = mantissa - 1.0;
    let (sum, sum_lost) = two_sum(mantissa, F::constant(1.0));
    let reciprocal = F::constant(1.0).div(sum);
    let s = f * reciprocal;
    let s_lost = reciprocal * sum_lost.fma(-s, sum.fma(-s, f));
    let (z, z_lost) = two_product(s, s);
    let z_lost = (s + s).fma(s_lost, z_lost);
    // 2 s + s z (2/3 + z P(z))
    let (third, third_low) = (
        F::constant(2.0 / 3.0),
        F::constant(3.700_743_415_417_188e-17),
    );
    let rest = z.fma(polynomial(z, &[], &ATANH_TAIL), third_low);
    let q = third + rest;
    let q_lost = (third - q) + rest;
    let (w, w_lost) = two_product(s, z);
    let w_lost = w_lost + s.fma(z_lost, s_lost * z);
    let (c, c_lost) = two_product(w, q);
    let c_lost = c_lost + w.fma(q_lost, w_lost * q);
    let (l, l_lost) = two_sum(s + s, c);
    let l_lost = l_lost + ((s_lost + s_lost) + c_lost);
    let (high, lost) = two_sum(exponent * LN_2_HIGH, l);
    let low = lost + exponent.fma(F::constant(LN_2_LOW), l_lost);
    let total = high + low;
    (total, (high - total) + low)
}

/// The power with its sign and at the ends of the domain (C, F.10.4.4), from that of the magnitude.
fn at_the_ends<F: Real>(x: F, y: F, power: F) -> F {
    let (zero, one) = (F::constant(0.0), F::constant(1.0));
    let (infinity, nan) = (F::constant(f64::INFINITY), F::constant(f64::NAN));
    let (magnitude, exponent) = (x.abs(), y.abs());
    let is_end = magnitude.eq(zero) | magnitude.eq(infinity);
    let is_far = exponent.eq(infinity);
    let grows = (one.lt(magnitude) & zero.lt(y)) | (magnitude.lt(one) & y.lt(zero));
    let end = F::choose(grows, infinity, zero);
    let end = F::choose(is_far & magnitude.eq(one), one, end);
    let result = F::choose(is_end | is_far, end, power);
    let is_whole = y.trunc().eq(y);
    let half = y * 0.5;
    let is_odd = is_whole & !half.trunc().eq(half) & !is_far;
    let result = F::choose(x.is_negative() & is_odd, -result, result);
    let has_none = x.lt(zero) & !is_end & !is_whole & !is_far;
    let result = F::choose(has_none, nan, result);
    let result = F::choose(x.is_nan() | y.is_nan(), nan, result);
    F::choose(y.eq(zero) | x.eq(one), one, result)
}

/// The cube root.
pub(crate) fn cbrt<F: Real>(x: F) -> F {
    let magnitude = x.abs();
    let bits = if F::IS_DOUBLE { 54 } else { 24 };
    let least = F::pick(f32::MIN_POSITIVE.into(), f64::MIN_POSITIVE);
    let is_small = magnitude.lt(least);
    let normal = F::choose(is_small, magnitude * 2_f64.powi(bits), magnitude);
    let guess = normal.inverse_cube_root_guess();
    let better = inverse_cube_root_step(normal, guess);
    let better = if F::IS_DOUBLE {
        inverse_cube_root_step(normal, better)
    } else {
        better
    };
    // c = x y^2, then Newton's step on c^3 = x with the residual exact to about twice the bits.
    let square = better * better;
    let root = normal * square;
    let (root_square, lost) = two_product(root, root);
    let residual = root.fma(-root_square, normal) - lost * root;
    let third = F::constant(1.0 / 3.0);
    let root = (square * third).fma(residual, root);
    let scale = F::choose(
        is_small,
        F::constant(2_f64.powi(-bits / 3)),
        F::constant(1.0),
    );
    let root = (root * scale).copysign(x);
    let is_number = magnitude.lt(F::constant(f64::INFINITY)) & !x.eq(F::constant(0.0));
    F::choose(is_number, root, x)
}

/// Three times the bits of an approximation of `x^(-1/3)`, and a few more.
fn inverse_cube_root_step<F: Real>(x: F, y: F) -> F {
    // With h = 1 - x y^3: x^(-1/3) = y (1 - h)^(-1/3).
    let h = (x * y * y).fma(-y, F::constant(1.0));
    let series = polynomial(
        h,
        &[14.0 / 81.0, 2.0 / 9.0, 1.0 / 3.0],
        &[14.0 / 81.0, 2.0 / 9.0, 1.0 / 3.0],
    );
    (y * h).fma(series, y)
}

/// `sqrt(x^2 + y^2)`, without overflow on the way.
pub(crate) fn hypot<F: Real>(x: F, y: F) -> F {
    let (x, y) = (x.abs(), y.abs());
    let is_less = x.lt(y);
    let (low, high) = (F::choose(is_less, x, y), F::choose(is_less, y, x));
    let (_, exponent) = high.split(1.0);
    let limit = if F::IS_DOUBLE { 1021.0 } else { 125.0 };
    let exponent = exponent.within(-limit, limit);
    let scale = (-exponent).power_of_two();
    let (a, b) = (high * scale, low * scale);
    let root = a.fma(a, b * b).sqrt() * exponent.power_of_two();
    let infinity = F::constant(f64::INFINITY);
    let root = F::choose(x.is_nan() | y.is_nan(), F::constant(f64::NAN), root);
    F::choose(x.eq(infinity) | y.eq(infinity), infinity, root)
}
