//! What kernels compute, executed by the emulator and compared with the host, bit by bit: every operation on every
//! element type, casts between all of them, ragged masks, reductions over every axis, conversions between layouts.

#![allow(
    clippy::unwrap_used,
    clippy::format_push_string,
    clippy::match_same_arms,
    clippy::float_cmp,
    clippy::similar_names,
    reason = "a test says what failed by where it failed, and compares bits; a table of references reads line by line"
)]

use emulator::{Emulator, Launch, Program};
use gluon_lang::elem::DType;
use gluon_lang::layout::{Layout, relate};
use gluon_lang::text::parse;
use half::{bf16, f16};
use lowering::{Options, compile};

/// Elements of the tensors: two for each thread of four warps.
const LEN: usize = 256;
const BLOCKED: &str = "Blocked([2], [32], [4], [0])";

/// Runs a kernel on one CTA with these inputs and `out_bytes` bytes of output behind them, all as pointers.
#[track_caller]
fn run(text: &str, inputs: &[&[u8]], out_bytes: usize) -> Vec<u8> {
    let func = parse("test.tile", text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let compiled = compile(func, &Options::default()).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let ptx = compiled.module.to_text();
    assert!(
        compiled.module.check().is_empty(),
        "{:?}\n{ptx}",
        compiled.module.check()
    );
    let program = Program::load(&compiled.module).unwrap_or_else(|e| panic!("{e}\n{ptx}"));
    let emulator = Emulator::new();
    let memory = emulator.memory();
    let mut params = Vec::new();
    for input in inputs {
        let address = memory.alloc(input.len() as u64).unwrap();
        memory.write(address, input).unwrap();
        params.extend(address.to_le_bytes());
    }
    let out = memory.alloc(out_bytes as u64).unwrap();
    params.extend(out.to_le_bytes());
    let launch = Launch {
        dynamic_shared_bytes: compiled.launch.shared_bytes,
        ..Launch::linear(1, compiled.launch.threads)
    };
    let done = emulator.launch(&program, &compiled.launch.entry, &launch, &params);
    done.unwrap_or_else(|e| panic!("{e}\n{text}\n{ptx}"));
    let mut bytes = vec![0; out_bytes];
    memory.read(out, &mut bytes).unwrap();
    bytes
}

/// A number of any type.
#[derive(Clone, Copy, Debug)]
enum Number {
    Int(i128),
    Float(f64),
}

impl Number {
    fn float(self) -> f64 {
        match self {
            Number::Int(i) => i as f64,
            Number::Float(f) => f,
        }
    }
}

/// The low bits of `value` as a number of an integer type.
fn wrap(value: i128, dtype: DType) -> i128 {
    let bits = dtype.bits();
    let low = value & ((1 << bits) - 1);
    if dtype.is_signed_int() && low >> (bits - 1) == 1 {
        low - (1 << bits)
    } else {
        low
    }
}

fn decode(bits: u64, dtype: DType) -> Number {
    match dtype {
        DType::F16 => Number::Float(f16::from_bits(bits as u16).to_f64()),
        DType::Bf16 => Number::Float(bf16::from_bits(bits as u16).to_f64()),
        DType::F32 => Number::Float(f32::from_bits(bits as u32).into()),
        DType::F64 => Number::Float(f64::from_bits(bits)),
        DType::E4m3 | DType::E5m2 => Number::Float(fp8_value(bits as u8, dtype)),
        _ => Number::Int(wrap(bits.into(), dtype)),
    }
}

fn fp8_value(code: u8, dtype: DType) -> f64 {
    let (mantissa, bias) = if dtype == DType::E4m3 {
        (3, 7)
    } else {
        (2, 15)
    };
    let sign = if code >> 7 == 1 { -1.0 } else { 1.0 };
    let magnitude = code & 0x7f;
    let (exponent, fraction) = (
        i32::from(magnitude >> mantissa),
        f64::from(magnitude & ((1 << mantissa) - 1)),
    );
    let is_nan = if dtype == DType::E4m3 {
        magnitude == 0x7f
    } else {
        magnitude > 0x7c
    };
    if is_nan {
        return f64::NAN;
    }
    if dtype == DType::E5m2 && magnitude == 0x7c {
        return sign * f64::INFINITY;
    }
    let unit = f64::from(1 << mantissa);
    sign * if exponent == 0 {
        fraction / unit * 2_f64.powi(1 - bias)
    } else {
        (1.0 + fraction / unit) * 2_f64.powi(exponent - bias)
    }
}

/// The nearest 8-bit float, ties to even, saturating.
fn fp8_code(value: f64, dtype: DType) -> u8 {
    if value.is_nan() {
        return 0x7f;
    }
    let last = if dtype == DType::E4m3 { 0x7e } else { 0x7b };
    let x = value.abs();
    let distance = |code: u8| (fp8_value(code, dtype) - x).abs();
    let nearest = (0..=last).min_by(|&a, &b| {
        let by_distance = distance(a).total_cmp(&distance(b));
        by_distance.then((a % 2).cmp(&(b % 2)))
    });
    let code = if x >= fp8_value(last, dtype) {
        last
    } else {
        nearest.unwrap()
    };
    code | u8::from(value.is_sign_negative()) << 7
}

/// The bits of a number converted to a type as `cast` says.
fn encode(number: Number, dtype: DType) -> u64 {
    match (dtype, number) {
        (DType::I1, n) => u64::from(n.float() != 0.0),
        (DType::F16, n) => f16::from_f64(n.float()).to_bits().into(),
        (DType::Bf16, n) => bf16::from_f64(n.float()).to_bits().into(),
        (DType::F32, Number::Int(i)) => (i as f32).to_bits().into(),
        (DType::F32, Number::Float(f)) => (f as f32).to_bits().into(),
        (DType::F64, n) => n.float().to_bits(),
        (DType::E4m3 | DType::E5m2, n) => fp8_code(n.float(), dtype).into(),
        (_, Number::Int(i)) => i as u64 & mask(dtype),
        (_, Number::Float(f)) => {
            let (low, high) = if dtype.is_signed_int() {
                (
                    -(1_i128 << (dtype.bits() - 1)),
                    (1_i128 << (dtype.bits() - 1)) - 1,
                )
            } else {
                (0, (1_i128 << dtype.bits()) - 1)
            };
            (f as i128).clamp(low, high) as u64 & mask(dtype)
        }
    }
}

fn mask(dtype: DType) -> u64 {
    u64::MAX >> (64 - dtype.bits())
}

/// Bits that show mistakes: ends of ranges, specials, and noise.
fn samples(dtype: DType, seed: u64) -> Vec<u64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let specials: Vec<u64> = if dtype.is_float() {
        let numbers = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            1.5,
            2.5,
            -3.75,
            127.0,
            128.5,
            -129.0,
            255.5,
            448.0,
            465.0,
            1e4,
            65504.0,
            1e9,
            -3e9,
            1e19,
            -1e19,
            1e-3,
            1e-8,
            1e-40,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
        ];
        numbers
            .iter()
            .map(|&n| encode(Number::Float(n), dtype))
            .collect()
    } else {
        [
            0_u64,
            1,
            2,
            3,
            7,
            31,
            32,
            127,
            128,
            129,
            255,
            256,
            1 << 15,
            u64::MAX,
            u64::MAX - 1,
            1 << 31,
            (1 << 31) - 1,
            1 << 63,
            (1 << 63) - 1,
            (1 << 24) + 1,
        ]
        .iter()
        .map(|b| b & mask(dtype))
        .collect()
    };
    (0..LEN)
        .map(|at| {
            let noise = next();
            match at % 3 {
                0 => specials[noise as usize % specials.len()],
                // Numbers of everyday size.
                1 if dtype.is_float() => {
                    encode(Number::Float((noise % 4001) as f64 / 16.0 - 125.0), dtype)
                }
                1 => (noise % 41).wrapping_sub(20) & mask(dtype),
                _ => noise >> 8 & mask(dtype),
            }
        })
        .collect()
}

fn bytes(values: &[u64], dtype: DType) -> Vec<u8> {
    values
        .iter()
        .flat_map(|v| v.to_le_bytes()[..dtype.bytes() as usize].to_vec())
        .collect()
}

fn values(bytes: &[u8], dtype: DType) -> Vec<u64> {
    bytes
        .chunks(dtype.bytes() as usize)
        .map(|chunk| {
            chunk
                .iter()
                .rev()
                .fold(0, |word, &byte| word << 8 | u64::from(byte))
        })
        .collect()
}

/// A kernel that loads its inputs element by element, computes, and stores `%r`.
fn elementwise(inputs: &[DType], out: DType, body: &str) -> String {
    let mut text = format!("#b = {BLOCKED}\nkernel @k(");
    for (at, dtype) in inputs.iter().enumerate() {
        text += &format!("%p{at}: ptr<{dtype}> {{divisor=16}}, ");
    }
    text += &format!(
        "%out: ptr<{out}> {{divisor=16}}) warps(4) {{\n  %i = arange {{start=0, end={LEN}}} : tensor<{LEN}xi32, #b>\n"
    );
    for (at, dtype) in inputs.iter().enumerate() {
        text += &format!(
            "  %s{at} = splat %p{at} : tensor<{LEN}xptr<{dtype}>, #b>\n  %a{at} = ptr_add %s{at}, %i : tensor<{LEN}xptr<{dtype}>, #b>\n  %x{at} = load %a{at} : tensor<{LEN}x{dtype}, #b>\n"
        );
    }
    text + &format!(
        "{body}  %so = splat %out : tensor<{LEN}xptr<{out}>, #b>\n  %ao = ptr_add %so, %i : tensor<{LEN}xptr<{out}>, #b>\n  store %ao, %r\n  return\n}}\n"
    )
}

/// Runs `body` on samples of the input types and compares with `wanted`.
#[track_caller]
fn check(
    inputs: &[DType],
    out: DType,
    body: &str,
    samples: &[Vec<u64>],
    wanted: impl Fn(&[Number]) -> Number,
) {
    check_near(inputs, out, body, samples, 0.0, wanted);
}

/// The same within `ulps` units in the last place of the wanted number.
#[track_caller]
fn check_near(
    inputs: &[DType],
    out: DType,
    body: &str,
    samples: &[Vec<u64>],
    ulps: f64,
    wanted: impl Fn(&[Number]) -> Number,
) {
    let text = elementwise(inputs, out, body);
    let data: Vec<Vec<u8>> = samples
        .iter()
        .zip(inputs)
        .map(|(s, &d)| bytes(s, d))
        .collect();
    let data: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
    let found = values(&run(&text, &data, LEN * out.bytes() as usize), out);
    for at in 0..LEN {
        let numbers: Vec<Number> = samples
            .iter()
            .zip(inputs)
            .map(|(s, &d)| decode(s[at], d))
            .collect();
        let exact = wanted(&numbers);
        let want = encode(exact, out);
        let (have, rounded) = (decode(found[at], out), decode(want, out));
        let is_equal = found[at] == want
            || have.float().is_nan() && rounded.float().is_nan()
            || is_near(have.float(), exact.float(), out, ulps);
        assert!(
            is_equal,
            "element {at} of {numbers:?}: {have:?} ({:#x}), not {rounded:?} ({want:#x})\n{inputs:?} to {out:?}: {body}",
            found[at]
        );
    }
}

fn is_near(have: f64, want: f64, dtype: DType, ulps: f64) -> bool {
    let (bits, least) = match dtype {
        DType::F32 => (23, f64::from(f32::MIN_POSITIVE)),
        DType::F64 => (52, f64::MIN_POSITIVE),
        DType::F16 => (10, 6.1e-5),
        DType::Bf16 => (7, f64::from(f32::MIN_POSITIVE)),
        _ => return false,
    };
    let unit = 2_f64.powi(want.abs().max(least).log2().floor() as i32 - bits);
    ulps > 0.0 && (have - want).abs() <= ulps * unit
}

const INTS: [DType; 8] = [
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::U8,
    DType::U16,
    DType::U32,
    DType::U64,
];
const FLOATS: [DType; 4] = [DType::F16, DType::Bf16, DType::F32, DType::F64];

fn binary_body(op: &str, dtype: DType) -> String {
    format!("  %r = binary %x0, %x1 {{op={op}}} : tensor<{LEN}x{dtype}, #b>\n")
}

fn int_reference(op: &str, dtype: DType, a: i128, b: i128) -> i128 {
    let bits = i128::from(dtype.bits());
    // A count is a number of the element's type; a negative one is past every width.
    let count = if (0..bits).contains(&b) {
        Some(b as u32)
    } else {
        None
    };
    let value = match op {
        "add" => a + b,
        "sub" => a - b,
        "mul" => a.wrapping_mul(b),
        "mul_high" if dtype == DType::U64 => ((a as u128 * b as u128) >> 64) as i128,
        "mul_high" => (a * b) >> bits,
        "div" => a / b,
        "rem" => a % b,
        "min" => a.min(b),
        "max" => a.max(b),
        "and" => a & b,
        "or" => a | b,
        "xor" => a ^ b,
        "shl" => count.map_or(0, |c| a << c),
        "shr" => a >> count.unwrap_or(bits as u32),
        other => panic!("no reference for {other}"),
    };
    wrap(value, dtype)
}

#[test]
fn integers_compute_as_on_the_host() {
    for dtype in INTS {
        for op in [
            "add", "sub", "mul", "mul_high", "div", "rem", "min", "max", "and", "or", "xor", "shl",
            "shr",
        ] {
            let a = samples(dtype, 1);
            let mut b = samples(dtype, 2);
            if op == "div" || op == "rem" {
                // Divisors 0 and -1 have no quotient for some numbers.
                b.iter_mut()
                    .filter(|b| **b == 0 || **b == mask(dtype))
                    .for_each(|b| *b = 3);
            }
            check(
                &[dtype, dtype],
                dtype,
                &binary_body(op, dtype),
                &[a, b],
                |x| match x {
                    [Number::Int(a), Number::Int(b)] => {
                        Number::Int(int_reference(op, dtype, *a, *b))
                    }
                    _ => panic!("integers"),
                },
            );
        }
    }
}

#[test]
fn division_by_constants_is_division() {
    for dtype in INTS {
        for divisor in [
            1_i128,
            2,
            3,
            5,
            7,
            10,
            16,
            60,
            100,
            127,
            128,
            641,
            1000,
            65535,
            -1,
            -2,
            -3,
            -7,
            -16,
            -100,
            i128::from(i32::MAX),
            i128::from(u32::MAX),
            i128::from(i64::MAX),
        ] {
            if wrap(divisor, dtype) != divisor {
                continue;
            }
            for op in ["div", "rem"] {
                let body = format!(
                    "  %d = constant {{value={divisor}}} : tensor<{LEN}x{dtype}, #b>\n  %r = binary %x0, %d {{op={op}}} : tensor<{LEN}x{dtype}, #b>\n"
                );
                check(&[dtype], dtype, &body, &[samples(dtype, 5)], |x| match x {
                    [Number::Int(a)] => Number::Int(int_reference(op, dtype, *a, divisor)),
                    _ => panic!("integers"),
                });
            }
        }
    }
}

fn rounded(value: f64, dtype: DType) -> Number {
    decode(encode(Number::Float(value), dtype), dtype)
}

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

#[test]
fn comparisons_know_signs_and_nan() {
    for dtype in INTS.into_iter().chain(FLOATS) {
        for op in ["eq", "ne", "lt", "le", "gt", "ge"] {
            let body = format!("  %r = compare %x0, %x1 {{op={op}}} : tensor<{LEN}xi1, #b>\n");
            let (a, b) = (samples(dtype, 6), samples(dtype, 7));
            check(&[dtype, dtype], DType::I1, &body, &[a, b], |x| {
                let holds = match (x[0], x[1]) {
                    (Number::Int(a), Number::Int(b)) => match op {
                        "eq" => a == b,
                        "ne" => a != b,
                        "lt" => a < b,
                        "le" => a <= b,
                        "gt" => a > b,
                        _ => a >= b,
                    },
                    (a, b) => {
                        let (a, b) = (a.float(), b.float());
                        match op {
                            "eq" => a == b,
                            "ne" => a != b,
                            "lt" => a < b,
                            "le" => a <= b,
                            "gt" => a > b,
                            _ => a >= b,
                        }
                    }
                };
                Number::Int(holds.into())
            });
        }
    }
}

#[test]
fn casts_between_all_types() {
    for from in DType::ALL {
        for to in DType::ALL {
            let body = format!("  %r = cast %x0 : tensor<{LEN}x{to}, #b>\n");
            check(&[from], to, &body, &[samples(from, 8)], |x| x[0]);
        }
    }
}

#[test]
fn unary_operations_of_all_types() {
    for dtype in INTS {
        for op in ["neg", "abs", "not"] {
            let body = format!("  %r = unary %x0 {{op={op}}} : tensor<{LEN}x{dtype}, #b>\n");
            check(&[dtype], dtype, &body, &[samples(dtype, 9)], |x| match x {
                [Number::Int(a)] => Number::Int(wrap(
                    match op {
                        "neg" => -a,
                        "abs" => a.abs(),
                        _ => !a,
                    },
                    dtype,
                )),
                _ => panic!("integers"),
            });
        }
    }
    for dtype in FLOATS {
        for op in ["neg", "abs", "floor", "ceil"] {
            let body = format!("  %r = unary %x0 {{op={op}}} : tensor<{LEN}x{dtype}, #b>\n");
            check(&[dtype], dtype, &body, &[samples(dtype, 9)], |x| {
                let x = x[0].float();
                Number::Float(match op {
                    "neg" => -x,
                    "abs" => x.abs(),
                    "floor" => x.floor(),
                    _ => x.ceil(),
                })
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
fn ragged_masks_keep_what_is_outside() {
    for dtype in [
        DType::I8,
        DType::U16,
        DType::Bf16,
        DType::F32,
        DType::I64,
        DType::I1,
    ] {
        for inside in [0, 1, 3, 37, 128, 255, 256] {
            let body = format!(
                "  %n = constant {{value={inside}}} : tensor<{LEN}xi32, #b>\n  %m = compare %i, %n {{op=lt}} : tensor<{LEN}xi1, #b>\n  %z = load %a1, mask=%m, other=%x0 : tensor<{LEN}x{dtype}, #b>\n  %r = select %m, %z, %x0 : tensor<{LEN}x{dtype}, #b>\n"
            );
            let data = [samples(dtype, 12), samples(dtype, 13)];
            let text = elementwise(&[dtype, dtype], dtype, &body);
            let raw: Vec<Vec<u8>> = data.iter().map(|s| bytes(s, dtype)).collect();
            let found = values(
                &run(&text, &[&raw[0], &raw[1]], LEN * dtype.bytes() as usize),
                dtype,
            );
            let wanted: Vec<u64> = (0..LEN)
                .map(|at| data[usize::from(at < inside)][at])
                .collect();
            assert_eq!(found, wanted, "{dtype}, {inside} inside");
        }
    }
}

/// Layouts of a tensor of 32 x 64 over four warps, from plain to awkward: copies in lanes, warps and registers.
const LAYOUTS: [&str; 8] = [
    "Blocked([1, 1], [1, 32], [4, 1], [1, 0])",
    "Blocked([1, 4], [4, 8], [2, 2], [1, 0])",
    "Blocked([4, 1], [8, 4], [1, 4], [0, 1])",
    "Blocked([2, 2], [32, 1], [4, 1], [0, 1])",
    "Blocked([1, 8], [1, 32], [1, 4], [1, 0])",
    "Blocked([1, 16], [16, 2], [4, 1], [1, 0])",
    "Blocked([8, 2], [2, 16], [2, 2], [0, 1])",
    "Blocked([1, 2], [8, 4], [4, 1], [1, 0])",
];

/// Pointers to row-major elements of a 32 x 64 tensor in layout `#name`.
fn pointers(base: &str, dtype: DType, name: &str, tag: &str) -> String {
    let t = |elem: &str| format!("tensor<32x64x{elem}, #{name}>");
    format!(
        "  %{tag}ri = arange {{start=0, end=32}} : tensor<32xi32, #{name}_rows>\n  %{tag}ci = arange {{start=0, end=64}} : tensor<64xi32, #{name}_cols>\n  %{tag}r1 = expand_dims %{tag}ri {{axis=1}} : tensor<32x1xi32, #{name}>\n  %{tag}c1 = expand_dims %{tag}ci {{axis=0}} : tensor<1x64xi32, #{name}>\n  %{tag}r2 = broadcast %{tag}r1 : {ti}\n  %{tag}c2 = broadcast %{tag}c1 : {ti}\n  %{tag}w = constant {{value=64}} : {ti}\n  %{tag}r3 = binary %{tag}r2, %{tag}w {{op=mul}} : {ti}\n  %{tag}at = binary %{tag}r3, %{tag}c2 {{op=add}} : {ti}\n  %{tag}s = splat %{base} : {tp}\n  %{tag}p = ptr_add %{tag}s, %{tag}at : {tp}\n",
        ti = t("i32"),
        tp = t(&format!("ptr<{dtype}>")),
    )
}

fn aliases(name: &str, layout: &str) -> String {
    format!(
        "#{name} = {layout}\n#{name}_rows = Slice(1, {layout})\n#{name}_cols = Slice(0, {layout})\n"
    )
}

#[test]
fn conversions_between_all_pairs_of_layouts() {
    for dtype in [DType::I8, DType::Bf16, DType::F32, DType::F64, DType::I1] {
        for from in LAYOUTS {
            for to in LAYOUTS {
                let text = format!(
                    "{}{}kernel @k(%x: ptr<{dtype}> {{divisor=16}}, %out: ptr<{dtype}> {{divisor=16}}) warps(4) {{\n{}  %v = load %fp : tensor<32x64x{dtype}, #from>\n  %c = convert_layout %v : tensor<32x64x{dtype}, #to>\n{}  store %tp, %c\n  return\n}}\n",
                    aliases("from", from),
                    aliases("to", to),
                    pointers("x", dtype, "from", "f"),
                    pointers("out", dtype, "to", "t"),
                );
                let data: Vec<u64> = (0..8).flat_map(|seed| samples(dtype, 20 + seed)).collect();
                let raw = bytes(&data, dtype);
                assert_eq!(
                    run(&text, &[&raw], raw.len()),
                    raw,
                    "{dtype} from {from} to {to}"
                );
            }
        }
    }
}

#[test]
fn reductions_over_both_axes_of_all_layouts() {
    for dtype in [DType::I8, DType::I32, DType::U64, DType::F16] {
        for layout in LAYOUTS {
            for axis in [0, 1] {
                let kept = if axis == 0 {
                    ("cols", 64)
                } else {
                    ("rows", 32)
                };
                let (slice, len) = kept;
                let text = format!(
                    "{}kernel @k(%x: ptr<{dtype}> {{divisor=16}}, %out: ptr<{dtype}> {{divisor=16}}) warps(4) {{\n{}  %v = load %fp : tensor<32x64x{dtype}, #l>\n  %m = reduce [%v] {{axis={axis}}} (%a: {dtype}, %b: {dtype}) {{\n    %c = binary %a, %b {{op=max}} : {dtype}\n    yield [%c]\n  }} : tensor<{len}x{dtype}, #l_{slice}>\n  %i = arange {{start=0, end={len}}} : tensor<{len}xi32, #l_{slice}>\n  %s = splat %out : tensor<{len}xptr<{dtype}>, #l_{slice}>\n  %p = ptr_add %s, %i : tensor<{len}xptr<{dtype}>, #l_{slice}>\n  store %p, %m\n  return\n}}\n",
                    aliases("l", layout),
                    pointers("x", dtype, "l", "f"),
                );
                let data: Vec<u64> = (0..8)
                    .flat_map(|seed| samples(dtype, 40 + seed))
                    .map(|bits| {
                        if decode(bits, dtype).float().is_nan() {
                            0
                        } else {
                            bits
                        }
                    })
                    .collect();
                let found = values(
                    &run(&text, &[&bytes(&data, dtype)], len * dtype.bytes() as usize),
                    dtype,
                );
                for (at, have) in found.into_iter().enumerate() {
                    let members = (0..2048).filter(|i| {
                        if axis == 0 {
                            i % 64 == at
                        } else {
                            i / 64 == at
                        }
                    });
                    let largest =
                        members
                            .map(|i| decode(data[i], dtype))
                            .max_by(|a, b| match (a, b) {
                                (Number::Int(a), Number::Int(b)) => a.cmp(b),
                                (a, b) => a.float().total_cmp(&b.float()),
                            });
                    let want = encode(largest.unwrap(), dtype);
                    assert_eq!(
                        have, want,
                        "element {at} of {dtype} over axis {axis} in {layout}"
                    );
                }
            }
        }
    }
}

#[test]
fn loops_end_at_the_end_of_their_type() {
    // Iterations counted: the index must not wrap around past the bound.
    let cases = [
        ("i32", 0_i64, 10_i64, 3, 4_i64),
        ("i32", 2_147_483_640, 2_147_483_647, 5, 2),
        ("i32", -2_147_483_648, -2_147_483_646, 100, 1),
        ("u32", 4_294_967_290, 4_294_967_295, 4, 2),
        ("u32", 0, 10, 64, 1),
        (
            "i64",
            9_223_372_036_854_775_800,
            9_223_372_036_854_775_807,
            100,
            1,
        ),
        ("i32", 5, 5, 1, 0),
        ("i32", 6, 5, 1, 0),
    ];
    for (ty, low, high, step, count) in cases {
        let text = format!(
            "kernel @k(%x: ptr<{ty}>, %out: ptr<i32>) warps(1) {{\n  %one = constant {{value=1}} : {ty}\n  %two = constant {{value=2}} : {ty}\n  %p1 = ptr_add %x, %one : ptr<{ty}>\n  %p2 = ptr_add %x, %two : ptr<{ty}>\n  %low = load %x : {ty}\n  %high = load %p1 : {ty}\n  %step = load %p2 : {ty}\n  %zero = constant {{value=0}} : i32\n  %add = constant {{value=1}} : i32\n  %n = for %low, %high, %step, [%zero] (%i: {ty}, %c: i32) {{\n    %d = binary %c, %add {{op=add}} : i32\n    yield [%d]\n  }} : i32\n  store %out, %n\n  return\n}}\n"
        );
        let dtype: DType = ty.parse().unwrap();
        let input = bytes(&[low as u64, high as u64, step as u64], dtype);
        let found = values(&run(&text, &[&input], 4), DType::U32)[0];
        assert_eq!(found as i64, count, "{ty} from {low} to {high} by {step}");
    }
}

#[test]
fn carried_values_change_places_at_once() {
    let text = "kernel @k(%x: ptr<i32>, %out: ptr<i32>) warps(1) {
  %zero = constant {value=0} : i32
  %one = constant {value=1} : i32
  %five = constant {value=5} : i32
  %a0 = load %x : i32
  %q = ptr_add %x, %one : ptr<i32>
  %b0 = load %q : i32
  %a, %b = for %zero, %five, %one, [%a0, %b0] (%i: i32, %l: i32, %r: i32) {
    %s = binary %l, %r {op=add} : i32
    yield [%r, %s]
  } : i32, i32
  store %out, %a
  %o = ptr_add %out, %one : ptr<i32>
  store %o, %b
  return
}
";
    let found = values(&run(text, &[&bytes(&[0, 1], DType::I32)], 8), DType::I32);
    assert_eq!(found, [5, 8], "Fibonacci");
}

#[test]
fn the_place_of_the_largest_is_found_with_it() {
    for layout in LAYOUTS {
        let text = format!(
            "{}kernel @k(%x: ptr<f32> {{divisor=16}}, %out: ptr<i32> {{divisor=16}}) warps(4) {{\n{}  %v = load %fp : tensor<32x64xf32, #l>\n  %best, %at = reduce [%v, %fc2] {{axis=1}} (%a: f32, %i: i32, %b: f32, %j: i32) {{\n    %more = compare %a, %b {{op=gt}} : i1\n    %same = compare %a, %b {{op=eq}} : i1\n    %first = compare %i, %j {{op=lt}} : i1\n    %tie = binary %same, %first {{op=and}} : i1\n    %left = binary %more, %tie {{op=or}} : i1\n    %m = select %left, %a, %b : f32\n    %k = select %left, %i, %j : i32\n    yield [%m, %k]\n  }} : tensor<32xf32, #l_rows>, tensor<32xi32, #l_rows>\n  %s = splat %out : tensor<32xptr<i32>, #l_rows>\n  %p = ptr_add %s, %fri : tensor<32xptr<i32>, #l_rows>\n  store %p, %at\n  return\n}}\n",
            aliases("l", layout),
            pointers("x", DType::F32, "l", "f"),
        );
        let number = |at: usize| ((at * 7919) % 613) as f32;
        let data: Vec<u8> = (0..2048).flat_map(|at| number(at).to_le_bytes()).collect();
        let found = values(&run(&text, &[&data], 32 * 4), DType::I32);
        for (row, have) in found.into_iter().enumerate() {
            let largest = (0..64)
                .rev()
                .max_by(|&a, &b| number(row * 64 + a).total_cmp(&number(row * 64 + b)));
            assert_eq!(have, largest.unwrap() as u64, "row {row} in {layout}");
        }
    }
}

#[test]
fn inline_ptx_runs_for_each_element() {
    let body = format!(
        "  %r = inline_ptx [%x0, %x1] {{text=\"{{ .reg .b32 t; mul.lo.s32 t, $1, $2; add.s32 $0, t, 7; }}\", is_pure=true}} : tensor<{LEN}xi32, #b>\n"
    );
    let data = [samples(DType::I32, 60), samples(DType::I32, 61)];
    check(&[DType::I32; 2], DType::I32, &body, &data, |x| match x {
        [Number::Int(a), Number::Int(b)] => Number::Int(wrap(a * b + 7, DType::I32)),
        _ => panic!("integers"),
    });
}

#[test]
fn shape_operations_move_no_element() {
    for layout in LAYOUTS {
        // Transposed and back, folded to one dimension and back, joined with itself, and cut apart again.
        let l: Layout = layout.parse().unwrap();
        let turned = relate::permute(&l, &[32, 64], &[1, 0]).unwrap();
        let back = relate::permute(&turned, &[64, 32], &[1, 0]).unwrap();
        let flat = relate::reshape(&back, &[32, 64], &[2048]).unwrap();
        let whole = relate::reshape(&flat, &[2048], &[32, 64]).unwrap();
        let joined = relate::join(&whole, &[32, 64]).unwrap();
        let half = relate::split(&joined, &[32, 64, 2]).unwrap();
        let text = format!(
            "#turned = {turned}\n#back = {back}\n#flat = {flat}\n#whole = {whole}\n#joined = {joined}\n#half = {half}\n{}kernel @k(%x: ptr<i16> {{divisor=16}}, %out: ptr<i16> {{divisor=16}}) warps(4) {{\n{}  %v = load %fp : tensor<32x64xi16, #l>\n  %t = permute %v {{order=[1, 0]}} : tensor<64x32xi16, #turned>\n  %b = permute %t {{order=[1, 0]}} : tensor<32x64xi16, #back>\n  %f = reshape %b : tensor<2048xi16, #flat>\n  %g = reshape %f : tensor<32x64xi16, #whole>\n  %n = unary %g {{op=neg}} : tensor<32x64xi16, #whole>\n  %j = join %g, %n : tensor<32x64x2xi16, #joined>\n  %lhs, %rhs = split %j : tensor<32x64xi16, #half>, tensor<32x64xi16, #half>\n  %d = binary %lhs, %rhs {{op=sub}} : tensor<32x64xi16, #half>\n  %c = convert_layout %d : tensor<32x64xi16, #l>\n  store %fq, %c\n  return\n}}\n",
            aliases("l", layout),
            pointers("x", DType::I16, "l", "f")
                + "  %fo = splat %out : tensor<32x64xptr<i16>, #l>\n  %fq = ptr_add %fo, %fat : tensor<32x64xptr<i16>, #l>\n",
        );
        let data: Vec<u64> = (0..8)
            .flat_map(|seed| samples(DType::I16, 70 + seed))
            .collect();
        let raw = bytes(&data, DType::I16);
        let wanted: Vec<u64> = data.iter().map(|v| (v * 2) & 0xffff).collect();
        let found = values(&run(&text, &[&raw], raw.len()), DType::I16);
        assert_eq!(found, wanted, "{layout}");
    }
}
