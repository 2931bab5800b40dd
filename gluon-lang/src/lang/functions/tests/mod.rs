//! The functions on the host, where many arguments are tried: against exact values, between the widths, and at the ends.

#![allow(
    clippy::float_cmp,
    reason = "infinities, zeros and rounded values are compared exactly"
)]

mod bounds;
mod ends;
mod host;
mod scaling;

use super::{
    Accuracy, bessel, error, exponential, gamma, half_turns, hyperbolic, inverse, logarithm, power,
    real, remainder,
};

use host::{Double, Single};

type OfSingle = fn(&[Single]) -> Single;
type OfDouble = fn(&[Double]) -> Double;
type OfOne = fn(Double) -> Double;

macro_rules! table {
    ($($name:literal = |$x:ident| $of:expr;)*) => {
        /// Every function in both widths, but those that f32 leaves to f64.
        const FUNCTIONS: &[(&str, OfSingle, OfDouble)] = &[$(
            ($name, |$x| $of, |$x| $of),
        )*];
    };
}

table! {
    "asin" = |x| inverse::asin(x[0]);
    "acos" = |x| inverse::acos(x[0]);
    "atan" = |x| inverse::atan(x[0]);
    "sinh" = |x| hyperbolic::sinh(x[0]);
    "cosh" = |x| hyperbolic::cosh(x[0]);
    "asinh" = |x| hyperbolic::asinh(x[0]);
    "acosh" = |x| hyperbolic::acosh(x[0]);
    "atanh" = |x| hyperbolic::atanh(x[0]);
    "exp10" = |x| exponential::exp10(x[0]);
    "expm1" = |x| exponential::expm1(x[0]);
    "log10" = |x| logarithm::log10(x[0]);
    "log1p" = |x| logarithm::log1p(x[0]);
    "cbrt" = |x| power::cbrt(x[0]);
    "erfc" = |x| error::erfc(x[0]);
    "erfinv" = |x| error::erfinv(x[0]);
    "normcdf" = |x| error::normcdf(x[0]);
    "erfcx" = |x| error::erfcx(x[0]);
    "erfcinv" = |x| error::erfcinv(x[0]);
    "normcdfinv" = |x| error::normcdfinv(x[0]);
    "sinpi" = |x| half_turns::sinpi(x[0]);
    "cospi" = |x| half_turns::cospi(x[0]);
    "logb" = |x| remainder::logb(x[0]);
    "round" = |x| real::round(x[0]);
    "atan2" = |x| inverse::atan2(x[0], x[1]);
    "hypot" = |x| power::hypot(x[0], x[1]);
    "remainder" = |x| remainder::remainder(x[0], x[1]);
}

fn wide(x: Single) -> Double {
    Double(x.0.into())
}

fn narrow(x: Double) -> Single {
    Single(x.0 as f32)
}

/// Functions of one operand that f32 leaves to f64.
const DOUBLE: &[(&str, OfOne)] = &[
    ("lgamma", gamma::lgamma),
    ("tgamma", gamma::tgamma),
    ("j0", bessel::j0),
    ("j1", bessel::j1),
    ("y0", bessel::y0),
    ("y1", bessel::y1),
    ("cyl_bessel_i0", bessel::i0),
    ("cyl_bessel_i1", bessel::i1),
];

fn in_double(name: &str) -> Option<OfOne> {
    DOUBLE.iter().find(|f| f.0 == name).map(|f| f.1)
}

/// The function in f32, where it is computed there.
fn single(name: &str) -> OfSingle {
    match name {
        "pow" => |x| narrow(power::pow_single(wide(x[0]), wide(x[1]))),
        name => {
            FUNCTIONS
                .iter()
                .find(|f| f.0 == name)
                .expect("a listed function")
                .1
        }
    }
}

fn double(name: &str) -> OfDouble {
    match name {
        "pow" => |x| power::pow_double(x[0], x[1]),
        name => {
            FUNCTIONS
                .iter()
                .find(|f| f.0 == name)
                .expect("a listed function")
                .2
        }
    }
}

/// The function of operands that are f32.
fn of_single(name: &str, operands: &[f64]) -> f64 {
    let singles: Vec<Single> = operands.iter().map(|x| Single(*x as f32)).collect();
    let found = match in_double(name) {
        Some(of) => narrow(of(wide(singles[0]))),
        None => single(name)(&singles),
    };
    found.0.into()
}

/// The function of operands that are f64.
fn of_double(name: &str, operands: &[f64]) -> f64 {
    let doubles: Vec<Double> = operands.iter().map(|x| Double(*x)).collect();
    match in_double(name) {
        Some(of) => of(doubles[0]).0,
        None => double(name)(&doubles).0,
    }
}

/// The error in units in the last place, 0 where it is small enough whatever the unit.
fn error_of(accuracy: &Accuracy, found: f64, high: f64, low: f64, is_double: bool) -> f64 {
    if ((found - high) - low).abs() <= accuracy.absolute {
        return 0.0;
    }
    ulps(found, high, low, is_double)
}

/// The distance of `found` from `high + low` in units in the last place of a float with so many bits of mantissa.
fn ulps(found: f64, high: f64, low: f64, is_double: bool) -> f64 {
    let (mantissa, least) = if is_double {
        (52, f64::MIN_POSITIVE)
    } else {
        (23, f32::MIN_POSITIVE.into())
    };
    if found == high && low == 0.0 || found.is_nan() && high.is_nan() {
        return 0.0;
    }
    let rounded = if is_double {
        high
    } else {
        f64::from(high as f32)
    };
    if found.is_infinite() && found == rounded {
        return 0.0;
    }
    // One step past the largest number is infinity.
    let found = if found.is_infinite() && !is_double && high.is_finite() {
        2_f64.powi(128).copysign(found)
    } else {
        found
    };
    let exponent = (high.abs().max(least).to_bits() >> 52) as i32 - 1023;
    // One power would be 0 below 2^-1023.
    let unit = 2_f64.powi(exponent) * 2_f64.powi(-mantissa);
    ((found - high) - low).abs() / unit
}
