//! The gamma function and its logarithm, in f64.

use super::coefficients::gamma::{GAMMA_NEAR_2, LGAMMA_NEAR_2, SIN_PI, STIRLING};
use super::exponential::exp_parts;
use super::logarithm::log;
use super::power::log_in_two;
use super::real::{Real, polynomial, two_product, two_sum};

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

/// For `0 < x < 8`: how Gamma(x) follows from Gamma(2 + z), `|z| <= 1/2`.
struct Reduced<F: Real> {
    z: F,
    /// Is Gamma(2 + z) divided by the product, instead of multiplied with it?
    is_below: F::Bool,
    product: F,
}

fn reduced<F: Real>(x: F) -> Reduced<F> {
    let one = F::constant(1.0);
    let whole = x.rint();
    let below_half = x.lt(F::constant(0.5));
    let is_below = x.lt(F::constant(1.5));
    // Gamma(x) = Gamma(2 + z) / (x (x + 1)), Gamma(2 + z) / x, or Gamma(2 + z) times (x - 1) (x - 2) ... (2 + z).
    let z = F::choose(below_half, x, F::choose(is_below, x - 1.0, x - whole));
    let down = F::choose(below_half, x.fma(x, x), x);
    let up = (1..=6).fold(one, |product, n| {
        let is_factor = F::constant(f64::from(n) + 1.75).lt(whole);
        F::choose(is_factor, product * (x - f64::from(n)), product)
    });
    Reduced {
        z,
        is_below,
        product: F::choose(is_below, down, up),
    }
}

/// `ln Gamma(x)` for `0 < x < 8`: a series around 2, and the logarithm of the product.
fn near<F: Real>(x: F) -> F {
    let reduced = reduced(x);
    let product = log(reduced.product);
    let series = polynomial(reduced.z, &[], &LGAMMA_NEAR_2);
    let product = F::choose(reduced.is_below, -product, product);
    reduced.z.fma(series, product)
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

/// From here on, and below -185, the gamma function is infinite or 0.
const LAST: f64 = 190.0;
/// ln(2 pi) / 2.
const HALF_LN_TWO_PI: f64 = 0.918_938_533_204_672_8;

/// `Gamma(x)`; infinite at 0, with its sign, and NaN at the negative integers.
pub(crate) fn tgamma<F: Real>(x: F) -> F {
    let a = x.abs();
    let bounded = a.within(0.0, LAST);
    let is_far = F::constant(8.0).le(a);
    let (power, share) = far_gamma(bounded);
    let power = F::choose(is_far, power, F::constant(0.0));
    let share = F::choose(is_far, share, near_gamma(bounded));
    // Gamma(-a) Gamma(a) = -pi / (a sin(pi a)), where the sine of an odd number of half turns more has the other sign.
    let whole = a.rint();
    let half = whole * 0.5;
    let part = a - whole;
    let sine = part * polynomial(part * part, &[], &SIN_PI);
    let pi = F::constant(std::f64::consts::PI);
    let reflected = pi.div((bounded * share) * sine).scaled(-power);
    let is_even = half.trunc().eq(half);
    let reflected = F::choose(is_even, -reflected, reflected);
    let nan = F::constant(f64::NAN);
    let reflected = F::choose(part.eq(F::constant(0.0)), nan, reflected);
    let result = F::choose(x.is_negative(), reflected, share.scaled(power));
    // Near 0 it is 1 / x less 0.58.
    let is_tiny = a.lt(F::constant(2_f64.powi(-60)));
    F::choose(is_tiny, F::constant(1.0).div(x), result)
}

/// `(k, m)` with `Gamma(x) = m 2^k`, for `x >= 8`: Stirling's series, its exponent in two numbers.
fn far_gamma<F: Real>(x: F) -> (F, F) {
    let (high, low) = log_in_two(x);
    let n = x - 0.5;
    let (product, lost) = two_product(n, high);
    let lost = n.fma(low, lost);
    let (main, main_lost) = two_sum(product, -x);
    let (main, constant_lost) = two_sum(main, F::constant(HALF_LN_TWO_PI));
    let reciprocal = F::constant(1.0).div(x);
    let series = polynomial(reciprocal * reciprocal, &[], &STIRLING) * reciprocal;
    let (main, series_lost) = two_sum(main, series);
    let lost = lost + (main_lost + constant_lost + series_lost);
    let (power, p) = exp_parts(main, lost);
    (power, p + 1.0)
}

/// For `0 < x < 8`.
fn near_gamma<F: Real>(x: F) -> F {
    let reduced = reduced(x);
    let series = polynomial(reduced.z, &[], &GAMMA_NEAR_2);
    let divided = series.div(reduced.product);
    F::choose(reduced.is_below, divided, series * reduced.product)
}
