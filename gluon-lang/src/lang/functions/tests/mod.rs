//! The functions on the host, where many arguments are tried: against exact values, between the widths, and at the ends.

#![allow(
    clippy::float_cmp,
    reason = "infinities, zeros and rounded values are compared exactly"
)]

mod host;

use super::{
    ACCURACY, Accuracy, bessel, error, exponential, gamma, half_turns, hyperbolic, inverse,
    logarithm, power, real, remainder,
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

fn number(text: &str) -> f64 {
    f64::from_bits(u64::from_str_radix(text, 16).expect("bits of an f64"))
}

#[test]
fn functions_are_within_their_bounds_of_exact_values() {
    let mut seen = Vec::new();
    for line in include_str!("golden.txt").lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [name, width, operands @ .., high, low] = &words[..] else {
            panic!("{line}: name, width, operands, and a value in two parts");
        };
        let bound = ACCURACY.iter().find(|a| a.name == *name);
        let bound = bound.expect("exact values are of functions with a bound");
        seen.push(*name);
        // The tangent is computed by the lowering.
        if *name == "tan" {
            continue;
        }
        let operands: Vec<f64> = operands.iter().map(|o| number(o)).collect();
        let (high, low) = (number(high), number(low));
        let is_double = *width == "64";
        let (found, within) = if is_double {
            (of_double(name, &operands), bound.double)
        } else {
            (of_single(name, &operands), bound.single)
        };
        let error = error_of(bound, found, high, low, is_double);
        assert!(
            error <= within,
            "{name} of {operands:?} in f{width}: {found:e}, not {high:e}: {error} ulp"
        );
    }
    for accuracy in ACCURACY
        .iter()
        .filter(|a| !matches!(a.name, "round" | "logb"))
    {
        assert!(
            seen.contains(&accuracy.name),
            "no exact values of {}",
            accuracy.name
        );
    }
}

/// Every sign, every exponent, and a few mantissas of each.
fn dense() -> impl Iterator<Item = f32> {
    (0..u32::MAX / 131_071).map(|at| f32::from_bits(at * 131_071))
}

#[test]
fn f32_is_within_its_bound_of_f64_everywhere() {
    for accuracy in ACCURACY {
        let name = accuracy.name;
        let has_two = matches!(name, "atan2" | "hypot" | "remainder" | "pow");
        if has_two || name == "tan" || in_double(name).is_some() {
            continue;
        }
        for x in dense() {
            let exact = of_double(name, &[x.into()]);
            let found = of_single(name, &[x.into()]);
            let error = ulps(found, exact, 0.0, false);
            assert!(
                error <= accuracy.single,
                "{name}({x:e}) = {found:e}, not {exact:e}: {error} ulp"
            );
        }
    }
}

#[test]
fn f32_of_two_operands_is_within_its_bound_of_f64_everywhere() {
    let few: Vec<f32> = dense()
        .step_by(149)
        .chain([0.0, -0.0, 1.0, -1.0, 2.0, f32::MAX, f32::MIN_POSITIVE])
        .collect();
    for name in ["atan2", "hypot", "remainder", "pow"] {
        let bound = ACCURACY
            .iter()
            .find(|a| a.name == name)
            .expect("a bound")
            .single;
        for &x in &few {
            for &y in &few {
                let exact = double(name)(&[Double(x.into()), Double(y.into())]).0;
                let found = single(name)(&[Single(x), Single(y)]).0;
                let error = ulps(found.into(), exact, 0.0, false);
                assert!(
                    error <= bound,
                    "{name}({x:e}, {y:e}) = {found:e}, not {exact:e}: {error} ulp"
                );
            }
        }
    }
}

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

/// What C says of the ends of the domains (C17, F.10).
const SPECIAL: &[(&str, &[f64], f64)] = &[
    ("asin", &[0.0], 0.0),
    ("asin", &[-0.0], -0.0),
    ("asin", &[1.5], NAN),
    ("asin", &[1.0], std::f64::consts::FRAC_PI_2),
    ("acos", &[1.0], 0.0),
    ("acos", &[-1.0], std::f64::consts::PI),
    ("acos", &[-1.5], NAN),
    ("atan", &[-0.0], -0.0),
    ("atan", &[-INF], -std::f64::consts::FRAC_PI_2),
    ("sinh", &[-0.0], -0.0),
    ("sinh", &[-INF], -INF),
    ("cosh", &[0.0], 1.0),
    ("cosh", &[-INF], INF),
    ("asinh", &[-0.0], -0.0),
    ("asinh", &[-INF], -INF),
    ("acosh", &[1.0], 0.0),
    ("acosh", &[0.5], NAN),
    ("acosh", &[-INF], NAN),
    ("acosh", &[INF], INF),
    ("atanh", &[-0.0], -0.0),
    ("atanh", &[1.0], INF),
    ("atanh", &[-1.0], -INF),
    ("atanh", &[2.0], NAN),
    ("exp10", &[-0.0], 1.0),
    ("exp10", &[-INF], 0.0),
    ("exp10", &[INF], INF),
    ("exp10", &[2.0], 100.0),
    ("expm1", &[-0.0], -0.0),
    ("expm1", &[-INF], -1.0),
    ("expm1", &[INF], INF),
    ("log10", &[0.0], -INF),
    ("log10", &[-0.0], -INF),
    ("log10", &[1.0], 0.0),
    ("log10", &[-1.0], NAN),
    ("log10", &[INF], INF),
    ("log1p", &[-0.0], -0.0),
    ("log1p", &[-1.0], -INF),
    ("log1p", &[-2.0], NAN),
    ("log1p", &[INF], INF),
    ("cbrt", &[-0.0], -0.0),
    ("cbrt", &[-INF], -INF),
    ("cbrt", &[27.0], 3.0),
    ("erfc", &[-0.0], 1.0),
    ("erfc", &[INF], 0.0),
    ("erfc", &[-INF], 2.0),
    ("erfinv", &[-0.0], -0.0),
    ("erfinv", &[1.0], INF),
    ("erfinv", &[-1.0], -INF),
    ("erfinv", &[2.0], NAN),
    ("normcdf", &[0.0], 0.5),
    ("normcdf", &[INF], 1.0),
    ("normcdf", &[-INF], 0.0),
    ("lgamma", &[1.0], 0.0),
    ("lgamma", &[2.0], 0.0),
    ("lgamma", &[0.0], INF),
    ("lgamma", &[-0.0], INF),
    ("lgamma", &[-3.0], INF),
    ("lgamma", &[-INF], INF),
    ("lgamma", &[INF], INF),
    ("erfcx", &[0.0], 1.0),
    ("erfcx", &[INF], 0.0),
    ("erfcx", &[-INF], INF),
    ("erfcx", &[-30.0], INF),
    ("erfcx", &[1e30], 5.641_895_835_477_563e-31),
    ("erfcinv", &[0.0], INF),
    ("erfcinv", &[-0.0], INF),
    ("erfcinv", &[1.0], 0.0),
    ("erfcinv", &[2.0], -INF),
    ("erfcinv", &[-0.5], NAN),
    ("erfcinv", &[2.5], NAN),
    ("normcdfinv", &[0.0], -INF),
    ("normcdfinv", &[0.5], 0.0),
    ("normcdfinv", &[1.0], INF),
    ("normcdfinv", &[1.5], NAN),
    ("tgamma", &[0.0], INF),
    ("tgamma", &[-0.0], -INF),
    ("tgamma", &[1.0], 1.0),
    ("tgamma", &[5.0], 24.0),
    ("tgamma", &[11.0], 3_628_800.0),
    ("tgamma", &[-3.0], NAN),
    ("tgamma", &[-INF], NAN),
    ("tgamma", &[INF], INF),
    ("tgamma", &[200.0], INF),
    ("tgamma", &[-200.5], -0.0),
    ("tgamma", &[-201.5], 0.0),
    ("tgamma", &[-1e300], NAN),
    ("sinpi", &[-0.0], -0.0),
    ("sinpi", &[3.0], 0.0),
    ("sinpi", &[-2.0], -0.0),
    ("sinpi", &[0.5], 1.0),
    ("sinpi", &[-0.5], -1.0),
    ("sinpi", &[1.5], -1.0),
    ("sinpi", &[1e30], 0.0),
    ("sinpi", &[INF], NAN),
    ("cospi", &[-0.0], 1.0),
    ("cospi", &[0.5], 0.0),
    ("cospi", &[-1.5], 0.0),
    ("cospi", &[1.0], -1.0),
    ("cospi", &[-1e30], 1.0),
    ("cospi", &[-INF], NAN),
    ("logb", &[0.0], -INF),
    ("logb", &[-0.0], -INF),
    ("logb", &[-INF], INF),
    ("logb", &[1.0], 0.0),
    ("logb", &[-7.9], 2.0),
    ("logb", &[8.0], 3.0),
    ("logb", &[0.75], -1.0),
    ("logb", &[1e-40], -133.0),
    ("logb", &[5e-324], -1074.0),
    ("j0", &[0.0], 1.0),
    ("j0", &[INF], 0.0),
    ("j0", &[-INF], 0.0),
    ("j1", &[-0.0], -0.0),
    ("j1", &[INF], 0.0),
    ("y0", &[0.0], -INF),
    ("y0", &[-0.0], -INF),
    ("y0", &[-1.0], NAN),
    ("y0", &[-INF], NAN),
    ("y0", &[INF], 0.0),
    ("y1", &[0.0], -INF),
    ("y1", &[-1.0], NAN),
    ("y1", &[INF], 0.0),
    ("cyl_bessel_i0", &[0.0], 1.0),
    ("cyl_bessel_i0", &[-INF], INF),
    ("cyl_bessel_i0", &[800.0], INF),
    ("cyl_bessel_i1", &[-0.0], -0.0),
    ("cyl_bessel_i1", &[-INF], -INF),
    ("round", &[0.499_999_999_999_999_94], 0.0),
    ("round", &[-0.5], -1.0),
    ("round", &[2.5], 3.0),
    ("round", &[-0.2], -0.0),
    ("round", &[INF], INF),
    ("round", &[4_503_599_627_370_497.0], 4_503_599_627_370_497.0),
    ("atan2", &[0.0, 1.0], 0.0),
    ("atan2", &[-0.0, 1.0], -0.0),
    ("atan2", &[0.0, -0.0], std::f64::consts::PI),
    ("atan2", &[-0.0, -1.0], -std::f64::consts::PI),
    ("atan2", &[-1.0, 0.0], -std::f64::consts::FRAC_PI_2),
    ("atan2", &[INF, INF], std::f64::consts::FRAC_PI_4),
    ("atan2", &[-INF, -INF], -3.0 * std::f64::consts::FRAC_PI_4),
    ("atan2", &[1.0, INF], 0.0),
    ("atan2", &[1.0, -INF], std::f64::consts::PI),
    ("atan2", &[NAN, 0.0], NAN),
    ("hypot", &[-INF, NAN], INF),
    ("hypot", &[NAN, 1.0], NAN),
    ("hypot", &[-3.0, 4.0], 5.0),
    ("hypot", &[0.0, -0.0], 0.0),
    ("remainder", &[5.0, 2.0], 1.0),
    ("remainder", &[7.0, 2.0], -1.0),
    ("remainder", &[-6.0, 4.0], 2.0),
    ("remainder", &[-4.0, 2.0], -0.0),
    ("remainder", &[1.0, 0.0], NAN),
    ("remainder", &[INF, 1.0], NAN),
    ("remainder", &[1.0, INF], 1.0),
    ("remainder", &[1.0, NAN], NAN),
    ("pow", &[NAN, 0.0], 1.0),
    ("pow", &[1.0, NAN], 1.0),
    ("pow", &[-1.0, INF], 1.0),
    ("pow", &[-1.0, -INF], 1.0),
    ("pow", &[-8.0, 3.0], -512.0),
    ("pow", &[-8.0, 2.0], 64.0),
    ("pow", &[-8.0, 0.5], NAN),
    ("pow", &[0.0, -3.0], INF),
    ("pow", &[-0.0, -3.0], -INF),
    ("pow", &[-0.0, 3.0], -0.0),
    ("pow", &[-0.0, 0.5], 0.0),
    ("pow", &[-INF, 3.0], -INF),
    ("pow", &[-INF, 0.5], INF),
    ("pow", &[-INF, -3.0], -0.0),
    ("pow", &[0.5, INF], 0.0),
    ("pow", &[0.5, -INF], INF),
    ("pow", &[2.0, -INF], 0.0),
    ("pow", &[10.0, 2.0], 100.0),
    ("pow", &[2.0, 5000.0], INF),
    ("pow", &[2.0, -5000.0], 0.0),
];

#[test]
fn the_ends_of_the_domains_are_those_of_c() {
    for &(name, operands, wanted) in SPECIAL {
        let found = of_double(name, operands);
        let is_same = is_end(name, found, wanted, true);
        assert!(
            is_same,
            "{name} of {operands:?} in f64: {found}, not {wanted}"
        );
        // Not every operand here is an f32.
        if operands
            .iter()
            .any(|x| f64::from(*x as f32) != *x && !x.is_nan())
        {
            continue;
        }
        let found = of_single(name, operands);
        let is_same = is_end(name, found, wanted, false);
        assert!(
            is_same,
            "{name} of {operands:?} in f32: {found}, not {wanted}"
        );
    }
    for accuracy in ACCURACY.iter().filter(|a| a.name != "tan") {
        let name = accuracy.name;
        assert!(SPECIAL.iter().any(|s| s.0 == name), "no ends of {name}");
        let found = of_double(name, &[NAN, 2.0]);
        assert!(found.is_nan(), "{name} of NaN: {found}");
    }
}

/// Is it what is wanted: zeros with their sign, other numbers within the bound?
fn is_end(name: &str, found: f64, wanted: f64, is_double: bool) -> bool {
    let accuracy = ACCURACY.iter().find(|a| a.name == name).expect("a bound");
    let bound = if is_double {
        accuracy.double
    } else {
        accuracy.single
    };
    if wanted == 0.0 {
        return found.to_bits() == wanted.to_bits();
    }
    error_of(accuracy, found, wanted, 0.0, is_double) <= bound
}

/// `x 2^power`, where the host rounds once: in steps that are exact but the last.
#[test]
fn scaling_rounds_once() {
    for x in [
        1.0_f64,
        -1.5,
        1.999_999_9,
        5e-324,
        1.797e308,
        -3e-310,
        0.0,
        INF,
    ] {
        for power in [
            -2200, -2098, -1100, -1074, -1023, -1022, -3, 0, 7, 1023, 1024, 2000, 2098, 9000,
        ] {
            let power = f64::from(power);
            let found = remainder::ldexp(Double(x), Double(power)).0;
            let wanted = scaled_exactly(x, power as i32);
            assert_eq!(
                found.to_bits(),
                wanted.to_bits(),
                "{x:e} 2^{power}: {found:e}, not {wanted:e}"
            );
            let single = x as f32;
            let found = remainder::ldexp(Single(single), Single(power as f32)).0;
            let wanted = scaled_exactly(single.into(), (power as i32).clamp(-700, 700)) as f32;
            assert_eq!(
                found.to_bits(),
                wanted.to_bits(),
                "{single:e} 2^{power}: {found:e}, not {wanted:e}"
            );
        }
    }
}

/// By integers: the mantissa shifted, with ties to even.
fn scaled_exactly(x: f64, power: i32) -> f64 {
    if x == 0.0 || x.is_infinite() {
        return x;
    }
    let bits = x.abs().to_bits();
    let (exponent, fraction) = ((bits >> 52) as i32, bits & ((1 << 52) - 1));
    let (mantissa, exponent) = if exponent == 0 {
        let shift = fraction.leading_zeros() as i32 - 11;
        (fraction << shift, 1 - shift)
    } else {
        (fraction | 1 << 52, exponent)
    };
    let exponent = exponent.saturating_add(power);
    let magnitude = if exponent >= 2047 {
        INF
    } else if exponent >= 1 {
        f64::from_bits((exponent as u64) << 52 | mantissa & ((1 << 52) - 1))
    } else {
        let down = (1 - exponent).min(63) as u32;
        let (kept, cut) = (mantissa >> down, mantissa & ((1 << down) - 1));
        let half = 1_u64 << (down - 1);
        let is_up = cut > half || cut == half && kept & 1 == 1;
        f64::from_bits(kept + u64::from(is_up))
    };
    magnitude.copysign(x)
}
