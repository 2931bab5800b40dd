//! Bessel functions of the orders 0 and 1, computed in f64.
//!
//! Up to 8 they are series in `x^2`. Beyond, those of the first two kinds are waves, `sqrt(2 / (pi x))` times
//! `P cos(x - c) - Q sin(x - c)` and `P sin(x - c) + Q cos(x - c)` with `c = (2 order + 1) pi / 4`, of which sums and differences of
//! `sin x` and `cos x` are `sqrt(2)` times the sine and cosine (DLMF 10.17).

use super::coefficients::bessel::{
    BESSEL_COS_0, BESSEL_COS_1, BESSEL_I0, BESSEL_I0_FAR, BESSEL_I1, BESSEL_I1_FAR, BESSEL_J0,
    BESSEL_J1, BESSEL_SIN_0, BESSEL_SIN_1, BESSEL_Y0, BESSEL_Y1,
};
use super::exponential::exp_parts;
use super::logarithm::log;
use super::real::{Real, polynomial};

/// Where the series end.
const NEAR: f64 = 8.0;
/// 2 / pi.
const TWO_OVER_PI: f64 = std::f64::consts::FRAC_2_PI;

/// A series in `x^2 / 32 - 1`.
fn series<F: Real>(x: F, coefficients: &[f64]) -> F {
    let u = (x * x).fma(F::constant(1.0 / 32.0), F::constant(-1.0));
    polynomial(u, &[], coefficients)
}

/// What a wave is made of beyond 8.
struct Wave<F> {
    /// `sqrt(1 / (pi x))`.
    size: F,
    /// `sin x + cos x`.
    sum: F,
    /// `sin x - cos x`.
    difference: F,
    /// 8 / x.
    share: F,
}

impl<F: Real> Wave<F> {
    fn of(x: F) -> Self {
        let (sine, cosine) = (x.sin(), x.cos());
        let one = F::constant(1.0);
        Wave {
            size: one.div((x * std::f64::consts::PI).sqrt()),
            sum: sine + cosine,
            difference: sine - cosine,
            share: F::constant(NEAR).div(x),
        }
    }

    /// `P` and `Q`.
    fn factors(&self, cosine: &[f64], sine: &[f64]) -> (F, F) {
        let z = self.share * self.share;
        let q = polynomial(z, &[], sine) * self.share;
        (polynomial(z, &[], cosine), q)
    }
}

/// The one of the two that `x` asks for; 0 at infinity, where there is no sine.
fn near_or_far<F: Real>(x: F, near: F, far: F) -> F {
    let far = F::choose(x.eq(F::constant(f64::INFINITY)), F::constant(0.0), far);
    F::choose(x.lt(F::constant(NEAR)), near, far)
}

/// Of the first kind, order 0.
pub(crate) fn j0<F: Real>(x: F) -> F {
    let x = x.abs();
    let wave = Wave::of(x);
    let (p, q) = wave.factors(&BESSEL_COS_0, &BESSEL_SIN_0);
    let far = wave.size * p.fma(wave.sum, -(q * wave.difference));
    near_or_far(x, series(x, &BESSEL_J0), far)
}

/// Of the first kind, order 1.
pub(crate) fn j1<F: Real>(x: F) -> F {
    let a = x.abs();
    let wave = Wave::of(a);
    let (p, q) = wave.factors(&BESSEL_COS_1, &BESSEL_SIN_1);
    let far = wave.size * p.fma(wave.difference, q * wave.sum);
    let result = near_or_far(a, a * series(a, &BESSEL_J1), far);
    F::choose(x.is_negative(), -result, result)
}

/// Of the second kind, order 0; NaN of negative numbers.
pub(crate) fn y0<F: Real>(x: F) -> F {
    let wave = Wave::of(x);
    let (p, q) = wave.factors(&BESSEL_COS_0, &BESSEL_SIN_0);
    let far = wave.size * p.fma(wave.difference, q * wave.sum);
    let slope = log(x) * series(x, &BESSEL_J0);
    let near = slope.fma(F::constant(TWO_OVER_PI), series(x, &BESSEL_Y0));
    near_or_far(x, near, far)
}

/// Of the second kind, order 1; NaN of negative numbers.
pub(crate) fn y1<F: Real>(x: F) -> F {
    let wave = Wave::of(x);
    let (p, q) = wave.factors(&BESSEL_COS_1, &BESSEL_SIN_1);
    let far = wave.size * q.fma(wave.difference, -(p * wave.sum));
    let (zero, one) = (F::constant(0.0), F::constant(1.0));
    let slope = log(x).fma(x * series(x, &BESSEL_J1), -one.div(x));
    let near = slope.fma(F::constant(TWO_OVER_PI), x * series(x, &BESSEL_Y1));
    let near = F::choose(x.eq(zero), F::constant(f64::NEG_INFINITY), near);
    near_or_far(x, near, far)
}

/// `e^a` times a series in `a / 4 - 1` up to 8, beyond times one in `16 / a - 1`, over `sqrt(a)`.
fn growing<F: Real>(a: F, near: F, far: &[f64]) -> F {
    let a = a.within(0.0, 740.0);
    let v = F::constant(16.0).div(a) - 1.0;
    let far = polynomial(v, &[], far).div(a.sqrt());
    let share = F::choose(a.lt(F::constant(NEAR)), near, far);
    let (power, p) = exp_parts(a, F::constant(0.0));
    share.fma(p, share).scaled(power)
}

/// Modified, of the first kind, order 0.
pub(crate) fn i0<F: Real>(x: F) -> F {
    let a = x.abs();
    let v = a.fma(F::constant(0.25), F::constant(-1.0));
    growing(a, polynomial(v, &[], &BESSEL_I0), &BESSEL_I0_FAR)
}

/// Modified, of the first kind, order 1.
pub(crate) fn i1<F: Real>(x: F) -> F {
    let a = x.abs();
    let v = a.fma(F::constant(0.25), F::constant(-1.0));
    let near = a * polynomial(v, &[], &BESSEL_I1);
    growing(a, near, &BESSEL_I1_FAR).copysign(x)
}
