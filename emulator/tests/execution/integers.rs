//! Every family of integer arithmetic against the host, corner values included.

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

/// Pairs of corner values, and random ones.
pub(crate) fn rows(corners: &[u64], inputs: usize, mask: u64) -> Vec<Vec<u64>> {
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

pub(crate) fn check32(code: &str, inputs: usize, expected: impl Fn(&[u32]) -> u32) {
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

#[test]
fn arithmetic_on_32_bit_integers_agrees_with_the_host() {
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
fn integer_divisions_agree_with_the_host() {
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
fn arithmetic_on_64_bit_integers_agrees_with_the_host() {
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
fn arithmetic_of_16_bits_wraps_at_16_bits() {
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
fn bit_instructions_agree_with_the_host() {
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
fn comparisons_and_selections_agree_with_the_host() {
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
}
