//! Inverse trigonometric functions.

use super::coefficients::elementary::{ASIN_F32, ASIN_F64, ATAN_F32, ATAN_F64};
use super::real::{Real, polynomial};

/// pi/2 in two parts.
fn half_pi<F: Real>() -> (F, F) {
    (
        F::pick(1.570_796_370_506_286_6, std::f64::consts::FRAC_PI_2),
        F::pick(-4.371_138_828_673_793e-8, 6.123_233_995_736_766e-17),
    )
}

/// `quarters pi/2 - x` for 1 or 2 quarters.
fn turned<F: Real>(quarters: f64, x: F) -> F {
    let (high, low) = half_pi::<F>();
    (high * quarters - x) + low * quarters
}

/// The arc tangent of a number from 0 to 1.
fn atan_to_one<F: Real>(x: F) -> F {
    let square = x * x;
    (x * square).fma(polynomial(square, &ATAN_F32, &ATAN_F64), x)
}

/// The arc tangent.
pub(crate) fn atan<F: Real>(x: F) -> F {
    let (magnitude, one) = (x.abs(), F::constant(1.0));
    let is_steep = one.lt(magnitude);
    let argument = F::choose(is_steep, one.div(magnitude), magnitude);
    let angle = atan_to_one(argument);
    F::choose(is_steep, turned(1.0, angle), angle).copysign(x)
}

/// The angle of the point `(x, y)`, from -pi to pi, with the sign of `y`.
pub(crate) fn atan2<F: Real>(y: F, x: F) -> F {
    let (width, height) = (x.abs(), y.abs());
    let is_steep = width.lt(height);
    let low = F::choose(is_steep, width, height);
    let high = F::choose(is_steep, height, width);
    let (zero, one) = (F::constant(0.0), F::constant(1.0));
    // Both are 0: the angle of the axis. Both are infinite: that of the diagonal.
    let ratio = F::choose(high.eq(zero), zero, low.div(high));
    let ratio = F::choose(low.eq(F::constant(f64::INFINITY)), one, ratio);
    let angle = atan_to_one(ratio);
    let angle = F::choose(is_steep, turned(1.0, angle), angle);
    let angle = F::choose(x.is_negative(), turned(2.0, angle), angle).copysign(y);
    F::choose(x.is_nan() | y.is_nan(), x + y, angle)
}

/// `asin(x) - x` for `x <= 1/2`, of `x` and its square.
fn asin_rest<F: Real>(x: F, square: F) -> F {
    x * square * polynomial(square, &ASIN_F32, &ASIN_F64)
}

/// Of `x` up to 1: `(s, c)` with `asin(s + c)` a small angle, `s` at most 1/2: of `x` itself, or beyond 1/2 of the square root
/// of `(1 - x) / 2`, whose arc sine is half of the arc cosine of `x`; `c` is what the root's rounding lost.
fn small_sine<F: Real>(magnitude: F, is_large: F::Bool) -> (F, F, F) {
    let half = (F::constant(1.0) - magnitude) * 0.5;
    let root = half.sqrt();
    let zero = F::constant(0.0);
    let lost = root.fma(-root, half).div(root + root);
    let lost = F::choose(root.eq(zero), zero, lost);
    (
        F::choose(is_large, root, magnitude),
        F::choose(is_large, lost, zero),
        F::choose(is_large, half, magnitude * magnitude),
    )
}

/// The arc sine; NaN beyond 1.
pub(crate) fn asin<F: Real>(x: F) -> F {
    let magnitude = x.abs();
    let is_large = F::constant(0.5).lt(magnitude);
    let (sine, lost, square) = small_sine(magnitude, is_large);
    let rest = asin_rest(sine, square) + lost;
    let (high, low) = half_pi::<F>();
    // pi/2 - 2 asin(s): the large parts first, exactly.
    let folded = (high - sine * 2.0) - (rest * 2.0 - low);
    F::choose(is_large, folded, sine + rest).copysign(x)
}

/// The arc cosine; NaN beyond 1.
pub(crate) fn acos<F: Real>(x: F) -> F {
    let magnitude = x.abs();
    let is_large = F::constant(0.5).lt(magnitude);
    let (sine, lost, square) = small_sine(magnitude, is_large);
    let rest = asin_rest(sine, square) + lost;
    let (high, low) = half_pi::<F>();
    let near_one = (sine + rest) * 2.0;
    let near_minus_one = (high - sine) * 2.0 + (low - rest) * 2.0;
    let folded = F::choose(x.is_negative(), near_minus_one, near_one);
    let signed = sine.copysign(x);
    let middle = (high - signed) + (low - rest.copysign(x));
    F::choose(is_large, folded, middle)
}
