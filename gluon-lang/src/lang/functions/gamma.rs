//! The logarithm of the gamma function, in f64.

use super::coefficients::{LGAMMA_NEAR_2, SIN_PI, STIRLING};
use super::logarithm::log;
use super::real::{Real, polynomial};

/// ln pi.
const LN_PI: f64 = 1.144_729_885_849_400_2;
/// (ln(2 pi) - 1) / 2.
const STIRLING_CONSTANT: f64 = 0.418_938_533_204_672_7;

/// `ln |Gamma(x)|`; infinite at 0 and the negative integers.
pub(crate) fn lgamma<F: Real>(x: F) -> F {
    let a = x.abs();
    let is_far = F::constant(8.0).le(a);
    let positive = F::choose(is_far, stirling(a), near(a));
    let infinity = F::constant(f64::INFINITY);
    let result = F::choose(x.is_negative(), reflected(a, positive), positive);
    F::choose(a.eq(F::constant(0.0)) | a.eq(infinity), infinity, result)
}

/// Stirling's series, for `x >= 8`.
fn stirling<F: Real>(x: F) -> F {
    let reciprocal = F::constant(1.0).div(x);
    let series = polynomial(reciprocal * reciprocal, &[], &STIRLING);
    let main = (x - 0.5).fma(log(x) - 1.0, F::constant(STIRLING_CONSTANT));
    series.fma(reciprocal, main)
}

/// For `0 < x < 8`: a series around 2, and the logarithm of what the recurrence multiplies.
fn near<F: Real>(x: F) -> F {
    let one = F::constant(1.0);
    let whole = x.rint();
    let below_half = x.lt(F::constant(0.5));
    let below = x.lt(F::constant(1.5));
    // Gamma(x) = Gamma(2 + z) / (x (x + 1)), Gamma(2 + z) / x, or Gamma(2 + z) times (x - 1) (x - 2) ... (2 + z).
    let z = F::choose(below_half, x, F::choose(below, x - 1.0, x - whole));
    let down = F::choose(below_half, x.fma(x, x), x);
    let up = (1..=6).fold(one, |product, n| {
        let is_factor = F::constant(f64::from(n) + 1.75).lt(whole);
        F::choose(is_factor, product * (x - f64::from(n)), product)
    });
    let product = log(F::choose(below, down, up));
    let series = polynomial(z, &[], &LGAMMA_NEAR_2);
    z.fma(series, F::choose(below, -product, product))
}

/// `ln |Gamma(-a)|` by `Gamma(-a) Gamma(a) = -pi / (a sin(pi a))`.
fn reflected<F: Real>(a: F, positive: F) -> F {
    let part = (a - a.rint()).abs();
    let sine = part * polynomial(part * part, &[], &SIN_PI);
    let result = (F::constant(LN_PI) - log(a * sine)) - positive;
    let infinity = F::constant(f64::INFINITY);
    let result = F::choose(part.eq(F::constant(0.0)), infinity, result);
    // Near 0 the product would be too small for a number; 1 / a is all there is.
    F::choose(a.lt(F::constant(2_f64.powi(-70))), -log(a), result)
}
