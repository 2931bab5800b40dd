//! The sine and cosine of multiples of pi.

use super::coefficients::elementary::{
    COS_PI_REST_F32, COS_PI_REST_F64, SIN_PI_REST_F32, SIN_PI_REST_F64,
};
use super::real::{Real, polynomial};

/// What is left of `x` after whole turns and quarters, exactly, from -1/4 to 1/4, and the number of quarters, from -2 to 2.
fn quarters<F: Real>(x: F) -> (F, F) {
    let turns = (x * 0.5).rint();
    let turn = turns.fma(F::constant(-2.0), x);
    let quarters = (turn + turn).rint();
    (quarters.fma(F::constant(-0.5), turn), quarters)
}

/// `sin(pi r)` and `cos(pi r)` of `|r| <= 1/4`.
fn sine_and_cosine<F: Real>(r: F) -> (F, F) {
    let pi = F::pick(std::f32::consts::PI.into(), std::f64::consts::PI);
    let pi_low = F::pick(-8.742_277_657_347_586e-8, 1.224_646_799_147_353_2e-16);
    let t = r * r;
    let rest = t.fma(polynomial(t, &SIN_PI_REST_F32, &SIN_PI_REST_F64), pi_low);
    let sine = r.fma(pi, r * rest);
    let one = F::constant(1.0);
    let cosine = t.fma(polynomial(t, &COS_PI_REST_F32, &COS_PI_REST_F64), one);
    (sine, cosine)
}

/// `sin(pi x)`; of integers 0 with their sign.
pub(crate) fn sinpi<F: Real>(x: F) -> F {
    let (r, quarters) = quarters(x);
    let (sine, cosine) = sine_and_cosine(r);
    let size = quarters.abs();
    let is_side = size.eq(F::constant(1.0));
    let along = F::choose(size.eq(F::constant(2.0)), -sine, sine);
    let result = F::choose(is_side, cosine.copysign(quarters), along);
    let zero = F::constant(0.0);
    F::choose(result.eq(zero), zero.copysign(x), result)
}

/// `cos(pi x)`; 0 halfway between integers.
pub(crate) fn cospi<F: Real>(x: F) -> F {
    let (r, quarters) = quarters(x);
    let (sine, cosine) = sine_and_cosine(r);
    let size = quarters.abs();
    let is_side = size.eq(F::constant(1.0));
    let across = F::choose(quarters.lt(F::constant(0.0)), sine, -sine);
    let along = F::choose(size.eq(F::constant(2.0)), -cosine, cosine);
    let result = F::choose(is_side, across, along);
    let zero = F::constant(0.0);
    F::choose(result.eq(zero), zero, result)
}
