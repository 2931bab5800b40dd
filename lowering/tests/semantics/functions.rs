//! Functions of the language, executed: against exact values, f32 against f64, f16 and bf16 at every number, and what looks at
//! bits against the host.

use gluon_lang::lang::prelude::*;
use gluon_lang::lang::{ACCURACY, Accuracy, KernelFn};
use half::{bf16, f16};
use ir::elem::DType;

use crate::machine::run_func;
use crate::values::{FLOATS, bytes, decode, samples, values};

/// Elements of one iteration.
const LEN: usize = 1024;

thread_local! {
    static NAME: std::cell::Cell<&'static str> = const { std::cell::Cell::new("") };
    static ITERATIONS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// The function that is tested now, of `x` and `y`.
fn function<T: Float>(x: Tensor<T>, y: Tensor<T>) -> Tensor<T> {
    match NAME.get() {
        "tan" => x.tan(),
        "asin" => x.asin(),
        "acos" => x.acos(),
        "atan" => x.atan(),
        "sinh" => x.sinh(),
        "cosh" => x.cosh(),
        "asinh" => x.asinh(),
        "acosh" => x.acosh(),
        "atanh" => x.atanh(),
        "exp10" => x.exp10(),
        "expm1" => x.expm1(),
        "log10" => x.log10(),
        "log1p" => x.log1p(),
        "cbrt" => x.cbrt(),
        "erfc" => x.erfc(),
        "erfinv" => x.erfinv(),
        "normcdf" => x.normcdf(),
        "lgamma" => x.lgamma(),
        "erfcx" => x.erfcx(),
        "erfcinv" => x.erfcinv(),
        "normcdfinv" => x.normcdfinv(),
        "tgamma" => x.tgamma(),
        "sinpi" => x.sinpi(),
        "cospi" => x.cospi(),
        "logb" => x.logb(),
        "j0" => x.j0(),
        "j1" => x.j1(),
        "y0" => x.y0(),
        "y1" => x.y1(),
        "cyl_bessel_i0" => x.cyl_bessel_i0(),
        "cyl_bessel_i1" => x.cyl_bessel_i1(),
        "round" => x.round(),
        "rint" => x.rint(),
        "trunc" => x.trunc(),
        "atan2" => x.atan2(y),
        "pow" => x.pow(y),
        "hypot" => x.hypot(y),
        "remainder" => x.remainder(y),
        "fmod" => x.fmod(y),
        "copysign" => x.copysign(y),
        "nextafter" => x.nextafter(y),
        "saturate" => x.saturate(),
        name => panic!("no function {name}"),
    }
}

fn places() -> Tensor<i32> {
    arange(0..LEN, Blocked::new([8], [32], [4], [0]))
}

#[kernel(warps = 4)]
fn of_two<T: Float>(x: Ptr<T>, y: Ptr<T>, out: Ptr<T>) {
    for iteration in range(0, ITERATIONS.get()) {
        let at = places() + iteration * LEN;
        out.at(at).store(function(x.at(at).load(), y.at(at).load()));
    }
}

/// The results of the function of each pair.
fn results<T: Float>(name: &'static str, x: &[u64], y: &[u64]) -> Vec<u64> {
    NAME.set(name);
    let whole = x.len().next_multiple_of(LEN);
    ITERATIONS.set(whole / LEN);
    let func = KernelFn::trace(of_two::<T>)
        .unwrap_or_else(|e| panic!("{e}"))
        .func;
    let fill = |s: &[u64]| {
        let mut full = s.to_vec();
        full.resize(whole, s[0]);
        bytes(&full, T::DTYPE)
    };
    let out = run_func(
        func,
        &[&fill(x), &fill(y)],
        whole * T::DTYPE.bytes() as usize,
    );
    values(&out, T::DTYPE).into_iter().take(x.len()).collect()
}

/// Units in the last place between `found` and `high + low`.
fn ulps(found: f64, high: f64, low: f64, dtype: DType) -> f64 {
    let (mantissa, least) = match dtype {
        DType::F64 => (52, f64::MIN_POSITIVE),
        DType::F16 => (10, 2_f64.powi(-14)),
        DType::Bf16 => (7, f32::MIN_POSITIVE.into()),
        _ => (23, f32::MIN_POSITIVE.into()),
    };
    if found == high && low == 0.0 || found.is_nan() && high.is_nan() {
        return 0.0;
    }
    let exponent = (high.abs().max(least).to_bits() >> 52) as i32 - 1023;
    // One power would be 0 below 2^-1023.
    ((found - high) - low).abs() / (2_f64.powi(exponent) * 2_f64.powi(-mantissa))
}

struct Golden {
    width: u32,
    operands: [f64; 2],
    value: [f64; 2],
}

fn golden(name: &str) -> Vec<Golden> {
    let number = |text: &str| f64::from_bits(u64::from_str_radix(text, 16).unwrap());
    let lines = include_str!("../../../gluon-lang/src/lang/functions/tests/golden.txt").lines();
    lines
        .map(|line| line.split(' ').collect::<Vec<_>>())
        .filter(|words| words[0] == name)
        .map(|words| {
            let numbers: Vec<f64> = words[2..].iter().map(|w| number(w)).collect();
            let [operands @ .., high, low] = &numbers[..] else {
                panic!("operands and a value in two parts");
            };
            Golden {
                width: words[1].parse().unwrap(),
                operands: [operands[0], *operands.last().unwrap()],
                value: [*high, *low],
            }
        })
        .collect()
}

fn check_golden<T: Float>(accuracy: &Accuracy, bound: f64) {
    let name = accuracy.name;
    let width = T::DTYPE.bits();
    let lines: Vec<Golden> = golden(name)
        .into_iter()
        .filter(|g| g.width == width)
        .collect();
    let bits = |x: f64| {
        if width == 32 {
            u64::from((x as f32).to_bits())
        } else {
            x.to_bits()
        }
    };
    let [x, y] = [0, 1].map(|at| {
        lines
            .iter()
            .map(|g| bits(g.operands[at]))
            .collect::<Vec<_>>()
    });
    assert!(!x.is_empty(), "no exact values of {name}");
    for (found, line) in results::<T>(name, &x, &y).into_iter().zip(&lines) {
        let found = decode(found, T::DTYPE).float();
        let [high, low] = line.value;
        let error = ulps(found, high, low, T::DTYPE);
        let is_near = ((found - high) - low).abs() <= accuracy.absolute;
        assert!(
            error <= bound || is_near,
            "{name} of {:?}: {found:e}, not {:e}: {error} ulp",
            line.operands,
            line.value[0]
        );
    }
}

#[test]
fn functions_are_within_their_bounds() {
    let has_points = |a: &&Accuracy| !matches!(a.name, "round" | "logb");
    for accuracy in ACCURACY.iter().filter(has_points) {
        check_golden::<f32>(accuracy, accuracy.single);
        check_golden::<f64>(accuracy, accuracy.double);
    }
}

/// In f64, of operands that are f32.
fn in_f64(name: &'static str, x: &[f64], y: &[f64]) -> Vec<f64> {
    let bits = |s: &[f64]| s.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    let found = results::<f64>(name, &bits(x), &bits(y));
    found.into_iter().map(f64::from_bits).collect()
}

/// f16 and bf16 are f32 rounded once, so they are within 1/2 and a little.
fn check_half<T: Float>(name: &'static str, step: usize) {
    let x: Vec<u64> = (0..1 << 16).step_by(step).collect();
    let wide: Vec<f64> = x
        .iter()
        .map(|bits| decode(*bits, T::DTYPE).float())
        .collect();
    let exact = in_f64(name, &wide, &wide);
    let found = results::<T>(name, &x, &x);
    let most = if T::DTYPE == DType::F16 {
        f16::MAX.to_f64()
    } else {
        bf16::MAX.to_f64()
    };
    for ((found, exact), x) in found.into_iter().zip(exact).zip(wide) {
        let found = decode(found, T::DTYPE).float();
        // Past the largest number there is infinity.
        let is_past =
            found.is_infinite() && exact.abs() >= most && found.signum() == exact.signum();
        let error = if is_past {
            0.0
        } else {
            ulps(found, exact, 0.0, T::DTYPE)
        };
        assert!(
            error <= 0.502,
            "{name}({x:e}) = {found:e}, not {exact:e}: {error} ulp"
        );
    }
}

#[test]
fn f16_and_bf16_are_rounded_once() {
    for (at, accuracy) in ACCURACY.iter().enumerate() {
        // Every f16 of two functions, and some of the others, which in f32 are what they are on the host.
        let is_whole = matches!(accuracy.name, "tan" | "expm1");
        let step = if is_whole { 1 } else { 61 + 2 * at };
        check_half::<f16>(accuracy.name, step);
        check_half::<bf16>(accuracy.name, 4 * step + 1);
    }
}

#[test]
fn tangents_are_near_the_host_at_every_size() {
    let x: Vec<f32> = (0..4096_u32)
        .map(|at| f32::from_bits(at.wrapping_mul(0x000f_fff1)))
        .collect();
    let bits: Vec<u64> = x.iter().map(|x| x.to_bits().into()).collect();
    for (found, x) in results::<f32>("tan", &bits, &bits).into_iter().zip(&x) {
        let (found, exact) = (f32::from_bits(found as u32), f64::from(*x).tan());
        let error = ulps(found.into(), exact, 0.0, DType::F32);
        assert!(
            error <= 3.0,
            "tan({x:e}) = {found:e}, not {exact:e}: {error} ulp"
        );
    }
}

/// What the host says of f64, of operands of any float type.
fn on_host(name: &str, x: f64, y: f64) -> f64 {
    match name {
        "rint" => x.round_ties_even(),
        "trunc" => x.trunc(),
        "round" => x.round(),
        "fmod" => x % y,
        "copysign" => x.copysign(y),
        "saturate" if x.is_nan() => 0.0,
        "saturate" => x.clamp(0.0, 1.0),
        name => panic!("no {name} on the host"),
    }
}

fn check_exact<T: Float>(name: &'static str) {
    let mut halves: Vec<u64> = [0.5, -0.5, 1.5, 2.5, -2.5, 0.49, -0.0, 0.0]
        .iter()
        .map(|x| crate::values::encode(crate::values::Number::Float(*x), T::DTYPE))
        .collect();
    let (mut x, mut y) = (samples(T::DTYPE, 21), samples(T::DTYPE, 22));
    y.extend(halves.iter().rev());
    x.append(&mut halves);
    for ((found, x), y) in results::<T>(name, &x, &y).into_iter().zip(x).zip(y) {
        let [found, x, y] = [found, x, y].map(|bits| decode(bits, T::DTYPE).float());
        let wanted = on_host(name, x, y);
        let is_zero = name == "saturate" && wanted == 0.0 && found == 0.0;
        let is_same = found.to_bits() == wanted.to_bits() || found.is_nan() && wanted.is_nan();
        assert!(
            is_same || is_zero,
            "{name}({x:e}, {y:e}) of {}: {found:e}, not {wanted:e}",
            T::DTYPE
        );
    }
}

#[test]
fn roundings_and_signs_are_those_of_the_host() {
    assert_eq!(FLOATS.len(), 4, "every float type is here");
    for name in ["rint", "trunc", "round", "fmod", "copysign", "saturate"] {
        check_exact::<f16>(name);
        check_exact::<bf16>(name);
        check_exact::<f32>(name);
        check_exact::<f64>(name);
    }
}

/// The next number up or down, by search: no number lies between.
fn check_next<T: Float>(infinity: u64) {
    let (x, y) = (samples(T::DTYPE, 31), samples(T::DTYPE, 32));
    let float = |bits: u64| decode(bits, T::DTYPE).float();
    for ((found, x), y) in results::<T>("nextafter", &x, &y).into_iter().zip(x).zip(y) {
        let (from, to, next) = (float(x), float(y), float(found));
        if from.is_nan() || to.is_nan() {
            assert!(next.is_nan(), "from {from:e} to {to:e}: {next:e}");
            continue;
        }
        if from == to {
            assert_eq!(found, y);
            continue;
        }
        let is_between = if from < to {
            from < next && next <= to
        } else {
            to <= next && next < from
        };
        assert!(is_between, "from {from:e} to {to:e}: {next:e}");
        // Numbers of one sign count up with their bits; zero stands between the signs.
        let sign = infinity.next_power_of_two();
        let rank = |bits: u64| {
            let magnitude = (bits & (sign - 1)).cast_signed();
            if bits & sign == 0 {
                magnitude
            } else {
                -magnitude
            }
        };
        assert_eq!(
            (rank(x) - rank(found)).abs(),
            1,
            "from {from:e} to {to:e}: {next:e}"
        );
    }
}

#[test]
fn the_next_number_is_one_step_away() {
    check_next::<f16>(0x7c00);
    check_next::<bf16>(0x7f80);
    check_next::<f32>(0x7f80_0000);
    check_next::<f64>(0x7ff0_0000_0000_0000);
}
