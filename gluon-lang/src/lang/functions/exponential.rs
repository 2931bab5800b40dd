//! Exponentials: `e^x - 1` and `10^x`, and what the hyperbolic functions and the tails of the normal distribution are made of.

use super::coefficients::elementary::{EXP10_F32, EXP10_F64, EXPM1_F32, EXPM1_F64};
use super::real::{Real, polynomial};

/// `(k, p)` with `e^(x + low) = 2^k (1 + p)`, an integer `k` and `|p| < 0.42`.
pub(crate) fn exp_parts<F: Real>(x: F, low: F) -> (F, F) {
    let power = (x * std::f64::consts::LOG2_E).rint();
    // x - power ln 2, with ln 2 in two parts (Cody and Waite). Multiples of the first are exact.
    let rest = power.fma(-F::pick(0.693_145_751_953_125, 0.693_147_180_559_890_3), x);
    let rest = power.fma(
        -F::pick(1.428_606_765_330_187e-6, 5.497_923_018_708_371e-14),
        rest,
    );
    let rest = rest + low;
    let series = polynomial(rest, &EXPM1_F32, &EXPM1_F64);
    (power, (rest * rest).fma(series, rest))
}

/// From here on `e^x / 2` is infinite, and `e^x / 4` is not yet.
fn most<F: Real>() -> f64 {
    if F::IS_DOUBLE { 710.5 } else { 89.5 }
}

/// `(e^x - 1) / 4`, which is finite a little further than `e^x`.
pub(super) fn quarter_expm1<F: Real>(x: F) -> F {
    // Below, e^x is nothing beside 1.
    let (power, p) = exp_parts(x.within(-60.0, most::<F>()), F::constant(0.0));
    let scale = (power - 2.0).power_of_two();
    scale.fma(p, scale - 0.25)
}

/// `e^x / 4` of a positive `x`.
pub(super) fn quarter_exp<F: Real>(x: F) -> F {
    let (power, p) = exp_parts(x.within(0.0, most::<F>()), F::constant(0.0));
    let scale = (power - 2.0).power_of_two();
    scale.fma(p, scale)
}

/// `e^x - 1`.
pub(crate) fn expm1<F: Real>(x: F) -> F {
    let tiny = x.abs().lt(F::pick(2_f64.powi(-30), 2_f64.powi(-60)));
    // A quarter of a subnormal number would be rounded.
    F::choose(tiny, x, quarter_expm1(x) * 4.0)
}

/// `10^x`.
pub(crate) fn exp10<F: Real>(x: F) -> F {
    let limit = if F::IS_DOUBLE { 330.0 } else { 50.0 };
    let x = x.within(-limit, limit);
    let power = (x * std::f64::consts::LOG2_10).rint();
    let rest = power.fma(-F::pick(0.301_025_390_625, 0.301_029_995_663_952_83), x);
    let rest = power.fma(
        -F::pick(4.605_039_066_518_657e-6, 2.836_339_455_104_496_4e-14),
        rest,
    );
    let slope = polynomial(rest, &EXP10_F32, &EXP10_F64);
    rest.fma(slope, F::constant(1.0)).scaled(power)
}
