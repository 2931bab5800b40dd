//! Functions against exact values, and f32 against f64, over the whole domain.

use super::host::{Double, Single};
use super::{double, error_of, in_double, of_double, of_single, single, ulps};
use crate::lang::functions::ACCURACY;

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
