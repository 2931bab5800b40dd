//! The remainder of IEEE 754, exponents, and scaling by powers of two.

use super::real::Real;

/// `x - n y` for the integer `n` nearest to `x / y`, the even one of two; exact.
pub(super) fn remainder<F: Real>(x: F, y: F) -> F {
    let (magnitude, divisor) = (x.abs(), y.abs());
    let most = F::pick(f32::MAX.into(), f64::MAX);
    // Modulo twice the divisor: whether the quotient is odd shows in what is left.
    let is_doubled = divisor.le(most * 0.5);
    let doubled = F::choose(is_doubled, divisor + divisor, divisor);
    let rest = F::choose(is_doubled, magnitude.fmod(doubled), magnitude);
    let rest = F::choose(divisor.eq(F::constant(0.0)), F::constant(f64::NAN), rest);
    // Half of a small divisor would be rounded, twice a large rest infinite.
    let is_small = divisor.lt(F::constant(1.0));
    let side = |rest: F| F::choose(is_small, rest + rest, rest);
    let half = F::choose(is_small, divisor, divisor * 0.5);
    let is_above = half.lt(side(rest));
    let below = rest - divisor;
    let again = half.le(side(below));
    let below = F::choose(again, below - divisor, below);
    let rest = F::choose(is_above, below, rest);
    let rest = F::choose(x.is_negative(), -rest, rest);
    let infinity = F::constant(f64::INFINITY);
    let has_none = magnitude.eq(infinity) | x.is_nan() | y.is_nan();
    F::choose(has_none, F::constant(f64::NAN), rest)
}

/// `x 2^power` of an integer `power`, rounded once.
pub(super) fn ldexp<F: Real>(x: F, power: F) -> F {
    let (least, most, bits) = if F::IS_DOUBLE {
        (-1022.0, 1023.0, 53.0)
    } else {
        (-126.0, 127.0, 24.0)
    };
    let limit = most * 2.0 + 2.0 * bits;
    // Before the last step a small number stays normal with all its bits, so that it is rounded once.
    let down = least + bits;
    let step = |(x, power): (F, F)| {
        let (is_low, is_high) = (power.lt(F::constant(least)), F::constant(most).lt(power));
        let by = F::choose(is_high, F::constant(most), F::constant(0.0));
        let by = F::choose(is_low, F::constant(down), by);
        (x * by.power_of_two(), power - by)
    };
    let (x, power) = step(step((x, power.within(-limit, limit))));
    x * power.within(least, most).power_of_two()
}

/// The exponent of `x`, as of a normal number; -infinity of 0, infinity of infinity.
pub(super) fn logb<F: Real>(x: F) -> F {
    let magnitude = x.abs();
    let bits = if F::IS_DOUBLE { 54 } else { 24 };
    let least = F::pick(f32::MIN_POSITIVE.into(), f64::MIN_POSITIVE);
    let is_small = magnitude.lt(least);
    let normal = F::choose(is_small, magnitude * 2_f64.powi(bits), magnitude);
    let start = F::choose(is_small, F::constant((-bits).into()), F::constant(0.0));
    let (_, exponent) = normal.split(1.0);
    let infinity = F::constant(f64::INFINITY);
    let result = F::choose(magnitude.lt(infinity), exponent + start, magnitude);
    F::choose(magnitude.eq(F::constant(0.0)), -infinity, result)
}
