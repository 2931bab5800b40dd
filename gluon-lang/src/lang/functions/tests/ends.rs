//! Functions at the ends of their domains: zeros with their sign, infinities, NaN, and what lies outside.

use super::{error_of, of_double, of_single};
use crate::lang::functions::ACCURACY;

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
