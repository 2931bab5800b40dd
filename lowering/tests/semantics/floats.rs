//! Floats of every width: arithmetic, and functions against the host's in f64.

use ir::elem::DType;

use crate::machine::{LEN, check, check_near};
use crate::values::{FLOATS, Number, decode, encode, rounded, samples};

fn float_reference(op: &str, dtype: DType, a: f64, b: f64) -> Number {
    // In f32, so that sums and products of f32 are rounded once; shorter types are rounded again, which is harmless.
    let narrow = |f: fn(f32, f32) -> f32, g: fn(f64, f64) -> f64| {
        if dtype == DType::F64 {
            g(a, b)
        } else {
            f(a as f32, b as f32).into()
        }
    };
    let value = match op {
        "add" => narrow(|a, b| a + b, |a, b| a + b),
        "sub" => narrow(|a, b| a - b, |a, b| a - b),
        "mul" => narrow(|a, b| a * b, |a, b| a * b),
        "div" => narrow(|a, b| a / b, |a, b| a / b),
        "rem" => narrow(|a, b| a % b, |a, b| a % b),
        "min" => a.min(b),
        "max" => a.max(b),
        "min_nan" if a.is_nan() || b.is_nan() => f64::NAN,
        "max_nan" if a.is_nan() || b.is_nan() => f64::NAN,
        "min_nan" => a.min(b),
        "max_nan" => a.max(b),
        other => panic!("no reference for {other}"),
    };
    rounded(value, dtype)
}

#[test]
fn floats_compute_as_on_the_host() {
    for dtype in FLOATS {
        for op in [
            "add", "sub", "mul", "div", "rem", "min", "max", "min_nan", "max_nan",
        ] {
            let precision = if op == "div" {
                ", precision=precise"
            } else {
                ""
            };
            let body = format!(
                "  %r = binary %x0, %x1 {{op={op}{precision}}} : tensor<{LEN}x{dtype}, #b>\n"
            );
            let (a, b) = (samples(dtype, 3), samples(dtype, 4));
            let zero_sign_is_open = op.starts_with("min") || op.starts_with("max");
            let b: Vec<u64> = if zero_sign_is_open {
                b.iter()
                    .map(|&b| {
                        if decode(b, dtype).float() == 0.0 {
                            encode(Number::Float(1.0), dtype)
                        } else {
                            b
                        }
                    })
                    .collect()
            } else {
                b
            };
            check(&[dtype, dtype], dtype, &body, &[a, b], |x| {
                float_reference(op, dtype, x[0].float(), x[1].float())
            });
        }
    }
}

/// The error function in f64, by its series near 0 and its continued fraction elsewhere.
fn erf(x: f64) -> f64 {
    let t = x.abs();
    if t.is_nan() || t > 6.0 {
        return if x.is_nan() { x } else { x.signum() };
    }
    let value = if t < 3.0 {
        let (mut term, mut sum) = (t, t);
        for n in 1..200 {
            term *= 2.0 * t * t / f64::from(2 * n + 1);
            sum += term;
        }
        sum * (-t * t).exp() * std::f64::consts::FRAC_2_SQRT_PI
    } else {
        let fraction = (1..120).rev().fold(t, |f, n| t + f64::from(n) / 2.0 / f);
        1.0 - (-t * t).exp() / fraction / std::f64::consts::PI.sqrt()
    };
    value.copysign(x)
}

type Named = (&'static str, fn(f64) -> f64);

#[test]
fn functions_are_near_the_host() {
    let functions: [Named; 12] = [
        ("exp", f64::exp),
        ("exp2", f64::exp2),
        ("log", f64::ln),
        ("log2", f64::log2),
        ("sin", f64::sin),
        ("cos", f64::cos),
        ("tanh", f64::tanh),
        ("erf", erf),
        ("sqrt", f64::sqrt),
        ("rsqrt", |x| 1.0 / x.sqrt()),
        ("floor", f64::floor),
        ("ceil", f64::ceil),
    ];
    for dtype in FLOATS {
        for (op, function) in functions {
            for precision in ["default", "precise"] {
                let body = format!(
                    "  %r = unary %x0 {{op={op}, precision={precision}}} : tensor<{LEN}x{dtype}, #b>\n"
                );
                // The default flushes subnormals, so numbers stay clear of them.
                let is_tame = |x: f64| {
                    x.is_nan()
                        || (x == 0.0 || x.abs() > 1e-20)
                            && (x.abs() < 80.0 || op != "exp" && op != "exp2")
                            && x.is_finite()
                };
                let tame = samples(dtype, 11).into_iter().map(|bits| {
                    let x = decode(bits, dtype).float();
                    if is_tame(x) {
                        bits
                    } else {
                        encode(Number::Float(0.75), dtype)
                    }
                });
                // An exponential of the default carries the rounding of x log2(e), which grows with x.
                let ulps = match (op, precision, dtype) {
                    ("exp", "default", DType::F32) => 64.0,
                    (_, _, DType::F16 | DType::Bf16) => 1.0,
                    // The host's own series is no better.
                    ("erf", _, DType::F64) => 16.0,
                    _ => 3.0,
                };
                check_near(&[dtype], dtype, &body, &[tame.collect()], ulps, |x| {
                    Number::Float(function(x[0].float()))
                });
            }
        }
    }
}

#[test]
fn angles_of_any_size_have_their_sine() {
    // Past 2^27 or so pi/2 must be known to hundreds of bits; near multiples of it all leading bits cancel.
    // The f64 nearest to a multiple of pi/2 (Muller, "Elementary Functions", 11.2); some hosts get seven bits wrong.
    let nearest = 6_381_956_970_095_103.0 * 2.0_f64.powi(797);
    let special = [
        1e8,
        1e9 + 0.5,
        1e15,
        1e22,
        1e100,
        1e308,
        f64::MAX,
        -1e300,
        2.0_f64.powi(53),
        2.0_f64.powi(120),
        2.0_f64.powi(1023),
        nearest,
        355.0,
        710.0,
        1_146_408.0,
        5e-324,
        -1e-300,
        0.0,
        -0.0,
    ];
    let number = |at: usize| {
        let noise = (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 12;
        let exponent = 27 + (at as u64 * 37) % 996;
        let random = f64::from_bits((exponent + 1023) << 52 | noise);
        special.get(at).copied().unwrap_or(random)
    };
    let data: Vec<u64> = (0..LEN).map(|at| number(at).to_bits()).collect();
    let functions: [Named; 2] = [("sin", f64::sin), ("cos", f64::cos)];
    for (op, function) in functions {
        for precision in ["default", "precise"] {
            let body = format!(
                "  %r = unary %x0 {{op={op}, precision={precision}}} : tensor<{LEN}xf64, #b>\n"
            );
            check_near(
                &[DType::F64],
                DType::F64,
                &body,
                std::slice::from_ref(&data),
                2.0,
                |x| {
                    let x = x[0].float();
                    let is_worst = op == "cos" && x == nearest;
                    let exact = if is_worst {
                        -4.687_165_924_254_628e-19
                    } else {
                        function(x)
                    };
                    Number::Float(exact)
                },
            );
        }
    }
}
