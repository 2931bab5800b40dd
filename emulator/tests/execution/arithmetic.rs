//! Every arithmetic family against the host, corner values included.

use std::hint::black_box;

use crate::kernel::{Elementwise, Random};

const INTEGERS: [u64; 12] = [
    0,
    1,
    2,
    7,
    31,
    0x7fff,
    0x8000,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x8000_0000_0000_0000,
];

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

/// Pairs of corner values, and random ones.
fn rows(corners: &[u64], inputs: usize, mask: u64) -> Vec<Vec<u64>> {
    let mut random = Random(99);
    let mut rows = Vec::new();
    for &a in corners {
        for &b in corners {
            let mut row = vec![a, b];
            row.extend(
                corners
                    .iter()
                    .cycle()
                    .skip(rows.len())
                    .take(inputs.saturating_sub(2)),
            );
            row.truncate(inputs);
            rows.push(row);
        }
    }
    rows.extend((0..200).map(|_| (0..inputs).map(|_| random.next()).collect()));
    rows.iter_mut().flatten().for_each(|value| *value &= mask);
    rows
}

fn check32(code: &str, inputs: usize, expected: impl Fn(&[u32]) -> u32) {
    let rows = rows(&INTEGERS, inputs, 0xffff_ffff);
    let results = Elementwise {
        code,
        inputs: ("r", 4),
        result: ("r", 4),
    }
    .run(&rows);
    for (row, result) in rows.iter().zip(results) {
        let row: Vec<u32> = row.iter().map(|&v| v as u32).collect();
        assert_eq!(result as u32, expected(&row), "{code} of {row:x?}");
    }
}

fn check64(code: &str, inputs: usize, expected: impl Fn(&[u64]) -> u64) {
    let rows = rows(&INTEGERS, inputs, u64::MAX);
    let results = Elementwise {
        code,
        inputs: ("rd", 8),
        result: ("rd", 8),
    }
    .run(&rows);
    for (row, result) in rows.iter().zip(results) {
        assert_eq!(result, expected(row), "{code} of {row:x?}");
    }
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
fn integers_of_32_bits() {
    check32("add.s32 %r0, %r1, %r2;", 2, |v| v[0].wrapping_add(v[1]));
    check32("sub.u32 %r0, %r1, %r2;", 2, |v| v[0].wrapping_sub(v[1]));
    check32("add.sat.s32 %r0, %r1, %r2;", 2, |v| {
        (v[0] as i32).saturating_add(v[1] as i32) as u32
    });
    check32("sub.sat.s32 %r0, %r1, %r2;", 2, |v| {
        (v[0] as i32).saturating_sub(v[1] as i32) as u32
    });
    check32("mul.lo.s32 %r0, %r1, %r2;", 2, |v| v[0].wrapping_mul(v[1]));
    check32("mul.hi.u32 %r0, %r1, %r2;", 2, |v| {
        ((u64::from(v[0]) * u64::from(v[1])) >> 32) as u32
    });
    check32("mul.hi.s32 %r0, %r1, %r2;", 2, |v| {
        ((i64::from(v[0] as i32) * i64::from(v[1] as i32)) >> 32) as u32
    });
    check32("mad.lo.u32 %r0, %r1, %r2, %r3;", 3, |v| {
        v[0].wrapping_mul(v[1]).wrapping_add(v[2])
    });
    check32("min.s32 %r0, %r1, %r2;", 2, |v| {
        (v[0] as i32).min(v[1] as i32) as u32
    });
    check32("max.u32 %r0, %r1, %r2;", 2, |v| v[0].max(v[1]));
    check32("neg.s32 %r0, %r1;", 1, |v| v[0].wrapping_neg());
    check32("abs.s32 %r0, %r1;", 1, |v| {
        (v[0] as i32).wrapping_abs() as u32
    });
    check32("sad.s32 %r0, %r1, %r2, %r3;", 3, |v| {
        ((i64::from(v[0] as i32) - i64::from(v[1] as i32)).unsigned_abs() as u32).wrapping_add(v[2])
    });
}

#[test]
fn divisions() {
    // A divisor of zero is a fault, so that it is made odd first.
    check32("or.b32 %r2, %r2, 1; div.u32 %r0, %r1, %r2;", 2, |v| {
        v[0] / (v[1] | 1)
    });
    check32("or.b32 %r2, %r2, 1; rem.u32 %r0, %r1, %r2;", 2, |v| {
        v[0] % (v[1] | 1)
    });
    check32("or.b32 %r2, %r2, 1; div.s32 %r0, %r1, %r2;", 2, |v| {
        (v[0] as i32).wrapping_div(v[1] as i32 | 1) as u32
    });
    check32("or.b32 %r2, %r2, 1; rem.s32 %r0, %r1, %r2;", 2, |v| {
        (v[0] as i32).wrapping_rem(v[1] as i32 | 1) as u32
    });
    check64("or.b64 %rd2, %rd2, 1; div.s64 %rd0, %rd1, %rd2;", 2, |v| {
        (v[0] as i64).wrapping_div(v[1] as i64 | 1) as u64
    });
    check64("or.b64 %rd2, %rd2, 1; rem.u64 %rd0, %rd1, %rd2;", 2, |v| {
        v[0] % (v[1] | 1)
    });
}

#[test]
fn integers_of_64_bits() {
    check64("add.s64 %rd0, %rd1, %rd2;", 2, |v| v[0].wrapping_add(v[1]));
    check64("sub.s64 %rd0, %rd1, %rd2;", 2, |v| v[0].wrapping_sub(v[1]));
    check64("mul.lo.s64 %rd0, %rd1, %rd2;", 2, |v| {
        v[0].wrapping_mul(v[1])
    });
    check64("mul.hi.u64 %rd0, %rd1, %rd2;", 2, |v| {
        ((u128::from(v[0]) * u128::from(v[1])) >> 64) as u64
    });
    check64("mul.hi.s64 %rd0, %rd1, %rd2;", 2, |v| {
        ((i128::from(v[0] as i64) * i128::from(v[1] as i64)) >> 64) as u64
    });
    check64("mad.lo.s64 %rd0, %rd1, %rd2, %rd3;", 3, |v| {
        v[0].wrapping_mul(v[1]).wrapping_add(v[2])
    });
    check64("min.s64 %rd0, %rd1, %rd2;", 2, |v| {
        (v[0] as i64).min(v[1] as i64) as u64
    });
    check64("max.u64 %rd0, %rd1, %rd2;", 2, |v| v[0].max(v[1]));
    check64(
        "cvt.u32.u64 %r1, %rd1; cvt.u32.u64 %r2, %rd2; mul.wide.u32 %rd0, %r1, %r2;",
        2,
        |v| u64::from(v[0] as u32) * u64::from(v[1] as u32),
    );
    check64(
        "cvt.u32.u64 %r1, %rd1; cvt.u32.u64 %r2, %rd2; mad.wide.s32 %rd0, %r1, %r2, %rd3;",
        3,
        |v| (i64::from(v[0] as i32) * i64::from(v[1] as i32)).wrapping_add(v[2] as i64) as u64,
    );
}

#[test]
fn sixteen_bits_stay_in_their_register() {
    check32(
        "mov.b32 {%h1, %h2}, %r1; add.u16 %h0, %h1, %h2; cvt.u32.u16 %r0, %h0;",
        1,
        |v| u32::from((v[0] as u16).wrapping_add((v[0] >> 16) as u16)),
    );
    check32(
        "mov.b32 {%h1, %h2}, %r1; shr.s16 %h0, %h1, 3; cvt.s32.s16 %r0, %h0;",
        1,
        |v| i32::from(v[0] as i16 >> 3) as u32,
    );
    check32(
        "mov.b32 {%h1, %h2}, %r1; mul.wide.s16 %r0, %h1, %h2;",
        1,
        |v| (i32::from(v[0] as i16) * i32::from((v[0] >> 16) as i16)) as u32,
    );
    check32("max.s16x2 %r0, %r1, %r2;", 2, |v| {
        let half = |at: u32| u32::from(((v[0] >> at) as i16).max((v[1] >> at) as i16) as u16) << at;
        half(0) | half(16)
    });
}

#[test]
fn bits() {
    check32("and.b32 %r0, %r1, %r2;", 2, |v| v[0] & v[1]);
    check32("xor.b32 %r0, %r1, %r2;", 2, |v| v[0] ^ v[1]);
    check32("not.b32 %r0, %r1;", 1, |v| !v[0]);
    check32("cnot.b32 %r0, %r1;", 1, |v| u32::from(v[0] == 0));
    check32("shl.b32 %r0, %r1, %r2;", 2, |v| {
        if v[1] > 31 { 0 } else { v[0] << v[1] }
    });
    check32("shr.u32 %r0, %r1, %r2;", 2, |v| {
        if v[1] > 31 { 0 } else { v[0] >> v[1] }
    });
    check32("shr.s32 %r0, %r1, %r2;", 2, |v| {
        (v[0] as i32 >> v[1].min(31)) as u32
    });
    check64("cvt.u32.u64 %r1, %rd2; shl.b64 %rd0, %rd1, %r1;", 2, |v| {
        if v[1] as u32 > 63 {
            0
        } else {
            v[0] << (v[1] as u32)
        }
    });
    check32("popc.b32 %r0, %r1;", 1, |v| v[0].count_ones());
    check32("clz.b32 %r0, %r1;", 1, |v| v[0].leading_zeros());
    check32("brev.b32 %r0, %r1;", 1, |v| v[0].reverse_bits());
    check32("bfind.u32 %r0, %r1;", 1, |v| {
        31u32.wrapping_sub(v[0].leading_zeros())
    });
    check32("bfind.shiftamt.u32 %r0, %r1;", 1, |v| {
        if v[0] == 0 {
            u32::MAX
        } else {
            v[0].leading_zeros()
        }
    });
    check32("lop3.b32 %r0, %r1, %r2, %r3, 0x1b;", 3, |v| {
        let (a, b, c) = (v[0], v[1], v[2]);
        // 0x1b: terms 0, 1, 3 and 4.
        (!a & !b & !c) | (!a & !b & c) | (!a & b & c) | (a & !b & !c)
    });
    check32("lop3.b32 %r0, %r1, %r2, %r3, 0x96;", 3, |v| {
        v[0] ^ v[1] ^ v[2]
    });
    check32("prmt.b32 %r0, %r1, %r2, 0x0213;", 2, |v| {
        let bytes = v[0].to_le_bytes();
        u32::from_le_bytes([bytes[3], bytes[1], bytes[2], bytes[0]])
    });
    check32("shf.l.wrap.b32 %r0, %r1, %r2, %r3;", 3, |v| {
        (((u64::from(v[1]) << 32 | u64::from(v[0])) << (v[2] & 31)) >> 32) as u32
    });
    check32("shf.r.clamp.b32 %r0, %r1, %r2, %r3;", 3, |v| {
        ((u64::from(v[1]) << 32 | u64::from(v[0])) >> v[2].min(32)) as u32
    });
    check32("bfe.u32 %r0, %r1, 4, 8;", 1, |v| v[0] >> 4 & 0xff);
    check32("bfi.b32 %r0, %r1, %r2, 4, 8;", 2, |v| {
        v[1] & !0xff0 | (v[0] & 0xff) << 4
    });
    check32("dp4a.s32.u32 %r0, %r1, %r2, %r3;", 3, |v| {
        let products = v[0].to_le_bytes().into_iter().zip(v[1].to_le_bytes());
        products.fold(v[2], |sum, (a, b)| {
            sum.wrapping_add((i32::from(a as i8) * i32::from(b)) as u32)
        })
    });
}

#[test]
fn carries_make_wide_sums() {
    check64(
        "mov.b64 {%r1, %r2}, %rd1; mov.b64 {%r3, %r4}, %rd2; add.cc.u32 %r5, %r1, %r3; addc.u32 %r6, %r2, %r4; mov.b64 %rd0, {%r5, %r6};",
        2,
        |v| v[0].wrapping_add(v[1]),
    );
    check64(
        "mov.b64 {%r1, %r2}, %rd1; mov.b64 {%r3, %r4}, %rd2; sub.cc.u32 %r5, %r1, %r3; subc.u32 %r6, %r2, %r4; mov.b64 %rd0, {%r5, %r6};",
        2,
        |v| v[0].wrapping_sub(v[1]),
    );
    check64(
        "mov.b64 {%r1, %r2}, %rd1; mov.b64 {%r3, %r4}, %rd2; mul.lo.u32 %r5, %r1, %r3; mul.hi.u32 %r6, %r1, %r3; mad.lo.u32 %r6, %r1, %r4, %r6; mad.lo.u32 %r6, %r2, %r3, %r6; mov.b64 %rd0, {%r5, %r6};",
        2,
        |v| v[0].wrapping_mul(v[1]),
    );
}

#[test]
fn single_precision() {
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
fn directed_roundings_of_single_precision() {
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
fn double_precision() {
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
fn pairs_work_on_both_halves() {
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
fn comparisons_and_selections() {
    for (compare, host) in [
        (
            "lt.s32",
            (|a, b| (a as i32) < b as i32) as fn(u32, u32) -> bool,
        ),
        ("ge.u32", |a, b| a >= b),
        ("hi.u32", |a, b| a > b),
        ("ne.b32", |a, b| a != b),
    ] {
        check32(
            &format!("setp.{compare} %p1, %r1, %r2; selp.b32 %r0, %r1, %r2, %p1;"),
            2,
            |v| {
                if host(v[0], v[1]) { v[0] } else { v[1] }
            },
        );
    }
    check32(
        "setp.lt.u32 %p2, %r1, 5; setp.eq.and.u32 %p1|%p3, %r1, %r2, !%p2; selp.u32 %r0, 1, 0, %p1; @%p3 add.u32 %r0, %r0, 2;",
        2,
        |v| {
            let c = v[0] >= 5;
            u32::from(v[0] == v[1] && c) + 2 * u32::from(v[0] != v[1] && c)
        },
    );
    check32("set.lt.u32.s32 %r0, %r1, %r2;", 2, |v| {
        if (v[0] as i32) < v[1] as i32 {
            u32::MAX
        } else {
            0
        }
    });
    check32("slct.u32.s32 %r0, %r1, %r2, %r3;", 3, |v| {
        if v[2] as i32 >= 0 { v[0] } else { v[1] }
    });
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
