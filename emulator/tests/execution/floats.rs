//! Every family of floating-point arithmetic against the host, corner values included.

use std::hint::black_box;

use crate::integers::{check32, rows};
use crate::kernel::{Elementwise, Random};

fn floats32() -> Vec<u64> {
    let special = [
        0.0f32,
        -0.0,
        1.0,
        -1.5,
        f32::MIN_POSITIVE,
        f32::from_bits(1),
        f32::MAX,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        0.1,
        3.0e38,
    ];
    special.iter().map(|v| u64::from(v.to_bits())).collect()
}

fn check_f32(code: &str, inputs: usize, expected: impl Fn(&[f32]) -> f32) {
    let rows = rows(&floats32(), inputs, 0xffff_ffff);
    let results = Elementwise {
        code,
        inputs: ("f", 4),
        result: ("f", 4),
    }
    .run(&rows);
    for (row, result) in rows.iter().zip(results) {
        let row: Vec<f32> = row.iter().map(|&v| f32::from_bits(v as u32)).collect();
        // Seen as bits: `is_nan` of an inlined `sqrt` was folded to false.
        let expected = black_box(expected(&row));
        let expected = if expected.is_nan() {
            0x7fff_ffff
        } else {
            expected.to_bits()
        };
        assert_eq!(
            result as u32,
            expected,
            "{code} of {row:?}: {} {}",
            f32::from_bits(result as u32),
            f32::from_bits(expected)
        );
    }
}

fn check_f64(code: &str, inputs: usize, expected: impl Fn(&[f64]) -> f64) {
    let corners = [
        0.0,
        -0.0,
        1.0,
        -1.5,
        1e300,
        f64::INFINITY,
        f64::MIN_POSITIVE,
        0.1,
    ]
    .map(f64::to_bits);
    let rows = rows(&corners, inputs, u64::MAX);
    let results = Elementwise {
        code,
        inputs: ("fd", 8),
        result: ("fd", 8),
    }
    .run(&rows);
    for (row, result) in rows.iter().zip(results) {
        let row: Vec<f64> = row.iter().map(|&v| f64::from_bits(v)).collect();
        let (result, expected) = (f64::from_bits(result), expected(&row));
        let same = result.to_bits() == expected.to_bits() || result.is_nan() && expected.is_nan();
        assert!(same, "{code} of {row:?}: {result} {expected}");
    }
}

#[test]
fn arithmetic_on_f32_agrees_with_the_host() {
    check_f32("add.f32 %f0, %f1, %f2;", 2, |v| v[0] + v[1]);
    check_f32("sub.rn.f32 %f0, %f1, %f2;", 2, |v| v[0] - v[1]);
    check_f32("mul.f32 %f0, %f1, %f2;", 2, |v| v[0] * v[1]);
    check_f32("div.rn.f32 %f0, %f1, %f2;", 2, |v| v[0] / v[1]);
    check_f32("fma.rn.f32 %f0, %f1, %f2, %f3;", 3, |v| {
        v[0].mul_add(v[1], v[2])
    });
    check_f32("sqrt.rn.f32 %f0, %f1;", 1, |v| v[0].sqrt());
    check_f32("rcp.rn.f32 %f0, %f1;", 1, |v| 1.0 / v[0]);
    check_f32("min.f32 %f0, %f1, %f2;", 2, |v| match (v[0], v[1]) {
        (a, b) if a == b => f32::from_bits(a.to_bits() | b.to_bits()),
        (a, b) => a.min(b),
    });
    check_f32("max.NaN.f32 %f0, %f1, %f2;", 2, |v| match (v[0], v[1]) {
        (a, b) if a.is_nan() || b.is_nan() => f32::NAN,
        (a, b) if a == b => f32::from_bits(a.to_bits() & b.to_bits()),
        (a, b) => a.max(b),
    });
    check_f32("add.sat.f32 %f0, %f1, %f2;", 2, |v| {
        let sum = v[0] + v[1];
        if sum > 0.0 { sum.min(1.0) } else { 0.0 }
    });
    let flush = |v: f32| {
        if v.is_subnormal() {
            0.0f32.copysign(v)
        } else {
            v
        }
    };
    check_f32("mul.ftz.f32 %f0, %f1, %f2;", 2, |v| {
        flush(flush(v[0]) * flush(v[1]))
    });
    check_f32("fma.rn.ftz.f32 %f0, %f1, %f2, %f3;", 3, |v| {
        flush(flush(v[0]).mul_add(flush(v[1]), flush(v[2])))
    });
    check_f32(
        "copysign.f32 %f0, %f1, %f2; add.f32 %f0, %f0, 0f80000000;",
        2,
        |v| v[1].copysign(v[0]) + -0.0,
    );
}

#[test]
fn directed_roundings_of_f32_enclose_the_exact_result() {
    // Exponents close to one another: f64 then holds sums and products exactly.
    let mut random = Random(5);
    let mut value =
        || (random.next() as u32 & 0x807f_ffff) | (120 + random.next() as u32 % 12) << 23;
    let rows: Vec<Vec<u64>> = (0..500)
        .map(|_| vec![value().into(), value().into()])
        .collect();
    for (op, exact) in [
        ("add", (|a, b| a + b) as fn(f64, f64) -> f64),
        ("mul", |a, b| a * b),
    ] {
        for mode in ["rm", "rp", "rz"] {
            let code = format!("{op}.{mode}.f32 %f0, %f1, %f2;");
            let results = Elementwise {
                code: &code,
                inputs: ("f", 4),
                result: ("f", 4),
            }
            .run(&rows);
            for (row, result) in rows.iter().zip(results) {
                let [a, b] = [0, 1].map(|i| f64::from(f32::from_bits(row[i] as u32)));
                let (value, nearest) = (exact(a, b), exact(a, b) as f32);
                let below = if f64::from(nearest) > value {
                    nearest.next_down()
                } else {
                    nearest
                };
                let above = if f64::from(nearest) < value {
                    nearest.next_up()
                } else {
                    nearest
                };
                let expected = match mode {
                    "rm" => below,
                    "rp" => above,
                    _ if value > 0.0 => below,
                    _ => above,
                };
                assert_eq!(
                    f32::from_bits(result as u32),
                    expected,
                    "{code} of {a} and {b}"
                );
            }
        }
    }
}

#[test]
fn approximations_are_close() {
    let close = |code: &str, host: fn(f64) -> f64| {
        let rows: Vec<Vec<u64>> = (1..400)
            .map(|i| vec![u64::from((i as f32 * 0.037).to_bits())])
            .collect();
        let results = Elementwise {
            code,
            inputs: ("f", 4),
            result: ("f", 4),
        }
        .run(&rows);
        for (row, result) in rows.iter().zip(results) {
            let expected = host(f64::from(f32::from_bits(row[0] as u32)));
            let error = (f64::from(f32::from_bits(result as u32)) - expected).abs();
            assert!(
                error <= expected.abs() * 1e-7,
                "{code} of {}",
                f32::from_bits(row[0] as u32)
            );
        }
    };
    close("ex2.approx.ftz.f32 %f0, %f1;", f64::exp2);
    close("lg2.approx.f32 %f0, %f1;", f64::log2);
    close("sin.approx.f32 %f0, %f1;", f64::sin);
    close("cos.approx.ftz.f32 %f0, %f1;", f64::cos);
    close("tanh.approx.f32 %f0, %f1;", f64::tanh);
    close("rsqrt.approx.f32 %f0, %f1;", |v| 1.0 / v.sqrt());
    close("rcp.approx.ftz.f32 %f0, %f1;", |v| 1.0 / v);
    close("div.full.f32 %f0, 0f3F800000, %f1;", |v| 1.0 / v);
}

#[test]
fn arithmetic_on_f64_agrees_with_the_host() {
    check_f64("add.f64 %fd0, %fd1, %fd2;", 2, |v| v[0] + v[1]);
    check_f64("sub.f64 %fd0, %fd1, %fd2;", 2, |v| v[0] - v[1]);
    check_f64("mul.rn.f64 %fd0, %fd1, %fd2;", 2, |v| v[0] * v[1]);
    check_f64("div.rn.f64 %fd0, %fd1, %fd2;", 2, |v| v[0] / v[1]);
    check_f64("fma.rn.f64 %fd0, %fd1, %fd2, %fd3;", 3, |v| {
        v[0].mul_add(v[1], v[2])
    });
    check_f64("sqrt.rn.f64 %fd0, %fd1;", 1, |v| v[0].sqrt());
    check_f64("abs.f64 %fd0, %fd1;", 1, |v| v[0].abs());
}

#[test]
fn half_precision_rounds_once() {
    // The host's f32 arithmetic on f16 and bf16 values, rounded by an independent conversion.
    let f16 = |bits: u32| {
        let (e, m) = ((bits >> 10 & 31) as i32, f64::from(bits & 1023));
        let magnitude = match e {
            0 => m * 2f64.powi(-24),
            31 if m == 0.0 => f64::INFINITY,
            31 => f64::NAN,
            _ => (1024.0 + m) * 2f64.powi(e - 25),
        };
        if bits & 0x8000 != 0 {
            -magnitude
        } else {
            magnitude
        }
    };
    let nearest = |value: f64| {
        if value.is_nan() {
            return 0x7fff;
        }
        let sign = if value.is_sign_negative() { 0x8000 } else { 0 };
        let magnitude = value.abs();
        let below = (0..0x7c00u32)
            .rev()
            .find(|&bits| f16(bits) <= magnitude)
            .unwrap_or(0);
        let low_gap = magnitude - f16(below);
        let high = if below == 0x7bff {
            65536.0
        } else {
            f16(below + 1)
        };
        let high_gap = high - magnitude;
        let up = high_gap < low_gap || high_gap == low_gap && below & 1 == 1;
        sign | (below + u32::from(up && magnitude.is_finite() || magnitude.is_infinite()))
    };
    let corners: Vec<u64> = [
        0, 0x8000, 1, 0x3c00, 0x3c01, 0x7bff, 0x7c00, 0x0400, 0x03ff, 0xc200,
    ]
    .to_vec();
    let mut all = Vec::new();
    for &a in &corners {
        for &b in &corners {
            all.push(vec![a, b, (a * 7 + b) & 0x7bff]);
        }
    }
    for (code, expected) in [
        (
            "add.f16 %h0, %h1, %h2;",
            (|v| v[0] + v[1]) as fn([f64; 3]) -> f64,
        ),
        ("mul.f16 %h0, %h1, %h2;", |v| v[0] * v[1]),
        ("fma.rn.f16 %h0, %h1, %h2, %h3;", |v| {
            v[0].mul_add(v[1], v[2])
        }),
    ] {
        let results = Elementwise {
            code,
            inputs: ("h", 2),
            result: ("h", 2),
        }
        .run(&all);
        for (row, result) in all.iter().zip(results) {
            let values = [0, 1, 2].map(|i| f16(row[i] as u32));
            assert_eq!(
                result as u32,
                nearest(expected(values)),
                "{code} of {row:x?}"
            );
        }
    }
}

#[test]
fn packed_pairs_compute_both_halves() {
    check32("add.f16x2 %r0, %r1, %r2;", 2, |v| {
        let half = |at: u32| {
            let rows = vec![vec![
                u64::from(v[0] >> at & 0xffff),
                u64::from(v[1] >> at & 0xffff),
            ]];
            let sum = Elementwise {
                code: "add.f16 %h0, %h1, %h2;",
                inputs: ("h", 2),
                result: ("h", 2),
            }
            .run(&rows);
            (sum[0] as u32) << at
        };
        half(0) | half(16)
    });
    let ones = |bits: u32| vec![vec![u64::from(bits), u64::from(bits)]];
    let check = |code: &str, bits: u32, expected: u32| {
        let result = Elementwise {
            code,
            inputs: ("r", 4),
            result: ("r", 4),
        }
        .run(&ones(bits));
        assert_eq!(result[0] as u32, expected, "{code}");
    };
    check(
        "fma.rn.bf16x2 %r0, %r1, %r2, %r2;",
        0x3f80_4000,
        0x4000_40c0,
    );
    check("neg.bf16x2 %r0, %r1;", 0x3f80_4000, 0xbf80_c000);
    check("max.f16x2 %r0, %r1, 0x40004000;", 0x3c00_4400, 0x4000_4400);
    check(
        "fma.rn.relu.f16x2 %r0, %r1, %r2, 0xcc00cc00;",
        0x3c00_4900,
        0x0000_5540,
    );
}

#[test]
fn comparisons_of_floats_order_nans_as_the_isa_says() {
    for (compare, host) in [
        ("lt", (|a, b| a < b) as fn(f32, f32) -> bool),
        ("ne", |a, b| a < b || a > b),
        ("neu", |a, b| a != b),
        ("geu", |a, b| a >= b || a.is_nan() || b.is_nan()),
        ("num", |a, b| !a.is_nan() && !b.is_nan()),
        ("nan", |a, b| a.is_nan() || b.is_nan()),
    ] {
        check_f32(
            &format!(
                "setp.{compare}.f32 %p1, %f1, %f2; selp.f32 %f0, 0f3F800000, 0f00000000, %p1;"
            ),
            2,
            |v| {
                if host(v[0], v[1]) { 1.0 } else { 0.0 }
            },
        );
    }
    check_f32(
        "testp.subnormal.f32 %p1, %f1; selp.f32 %f0, 0f3F800000, 0f00000000, %p1;",
        1,
        |v| {
            if v[0].is_subnormal() { 1.0 } else { 0.0 }
        },
    );
}
