//! Conversions between all types, at their limits.

use crate::kernel::Elementwise;

fn one(code: &str, inputs: (&str, usize), result: (&str, usize), value: u64) -> u64 {
    Elementwise {
        code,
        inputs,
        result,
    }
    .run(&[vec![value]])[0]
}

#[test]
fn integers_extend_truncate_and_clamp() {
    let word = |code: &str, value: u64| one(code, ("r", 4), ("r", 4), value) as u32;
    assert_eq!(word("cvt.s32.s8 %r0, %r1;", 0x180), 0xffff_ff80);
    assert_eq!(word("cvt.u32.u8 %r0, %r1;", 0x180), 0x80);
    assert_eq!(word("cvt.s8.s32 %r0, %r1;", 0x180), 0xffff_ff80);
    assert_eq!(word("cvt.sat.s8.s32 %r0, %r1;", 0x180), 127);
    assert_eq!(word("cvt.sat.u8.s32 %r0, %r1;", 0xffff_ff00), 0);
    assert_eq!(word("cvt.sat.u16.u32 %r0, %r1;", 0x12345), 0xffff);
    let wide = |code: &str, value: u64| one(code, ("r", 4), ("rd", 8), value);
    assert_eq!(
        wide("cvt.s64.s32 %rd0, %r1;", 0x8000_0000),
        0xffff_ffff_8000_0000
    );
    assert_eq!(wide("cvt.u64.u32 %rd0, %r1;", 0x8000_0000), 0x8000_0000);
    let narrow = |code: &str, value: u64| one(code, ("rd", 8), ("r", 4), value) as u32;
    assert_eq!(narrow("cvt.u32.u64 %r0, %rd1;", 0x1_2345_6789), 0x2345_6789);
    assert_eq!(
        narrow("cvt.sat.s32.s64 %r0, %rd1;", 0x1_2345_6789),
        0x7fff_ffff
    );
}

#[test]
fn floats_to_integers_clamp_and_round_as_the_mode_says() {
    let check = |code: &str, value: f32, expected: u32| {
        assert_eq!(
            one(code, ("f", 4), ("r", 4), value.to_bits().into()) as u32,
            expected,
            "{code} {value}"
        );
    };
    check("cvt.rzi.s32.f32 %r0, %f1;", -2.9, (-2i32) as u32);
    check("cvt.rni.s32.f32 %r0, %f1;", 2.5, 2);
    check("cvt.rmi.s32.f32 %r0, %f1;", -2.1, (-3i32) as u32);
    check("cvt.rpi.u32.f32 %r0, %f1;", 2.1, 3);
    check("cvt.rzi.u32.f32 %r0, %f1;", -5.0, 0);
    check("cvt.rzi.s32.f32 %r0, %f1;", 1e20, 0x7fff_ffff);
    check("cvt.rzi.s32.f32 %r0, %f1;", f32::NAN, 0);
    check("cvt.rzi.s8.f32 %r0, %f1;", 300.0, 127);
    check("cvt.rzi.u8.f32 %r0, %f1;", 300.0, 255);
    assert_eq!(
        one(
            "cvt.rzi.s64.f64 %rd0, %fd1;",
            ("fd", 8),
            ("rd", 8),
            f64::NAN.to_bits()
        ),
        1 << 63
    );
    assert_eq!(
        one(
            "cvt.rzi.u64.f64 %rd0, %fd1;",
            ("fd", 8),
            ("rd", 8),
            1e30f64.to_bits()
        ),
        u64::MAX
    );
}

#[test]
fn integers_to_floats_round_as_the_mode_says() {
    let check = |code: &str, value: u32, expected: f32| {
        assert_eq!(
            one(code, ("r", 4), ("f", 4), value.into()) as u32,
            expected.to_bits(),
            "{code} {value}"
        );
    };
    check("cvt.rn.f32.s32 %f0, %r1;", (-5i32) as u32, -5.0);
    check("cvt.rn.f32.u32 %f0, %r1;", u32::MAX, 4_294_967_296.0);
    check("cvt.rz.f32.u32 %f0, %r1;", u32::MAX, 4_294_967_040.0);
    check("cvt.rn.f32.u8 %f0, %r1;", 0x1ff, 255.0);
    check("cvt.rn.f32.s8 %f0, %r1;", 0x1ff, -1.0);
    assert_eq!(
        one("cvt.rn.f16.s32 %h0, %r1;", ("r", 4), ("h", 2), 100_000),
        0x7c00
    );
    assert_eq!(
        one("cvt.rn.f64.u64 %fd0, %rd1;", ("rd", 8), ("fd", 8), u64::MAX),
        18_446_744_073_709_551_616f64.to_bits()
    );
}

#[test]
fn floats_to_floats_round_as_the_mode_says() {
    let narrow = |code: &str, value: f32| one(code, ("f", 4), ("h", 2), value.to_bits().into());
    assert_eq!(
        narrow("cvt.rn.f16.f32 %h0, %f1;", 1.0 + 1.0 / 2048.0),
        0x3c00
    );
    assert_eq!(narrow("cvt.rz.f16.f32 %h0, %f1;", 1e9), 0x7bff);
    assert_eq!(
        narrow("cvt.rn.bf16.f32 %h0, %f1;", 1.0 + 1.0 / 256.0),
        0x3f80
    );
    assert_eq!(
        narrow("cvt.rn.bf16.f32 %h0, %f1;", 1.0 + 3.0 / 256.0),
        0x3f82
    );
    assert_eq!(narrow("cvt.rn.relu.bf16.f32 %h0, %f1;", -3.0), 0);
    let widen =
        |code: &str, value: u64| f32::from_bits(one(code, ("h", 2), ("f", 4), value) as u32);
    assert_eq!(widen("cvt.f32.f16 %f0, %h1;", 0x0001), 2f32.powi(-24));
    assert_eq!(widen("cvt.f32.f16 %f0, %h1;", 0xfc00), f32::NEG_INFINITY);
    assert_eq!(widen("cvt.f32.bf16 %f0, %h1;", 0x4049), 3.140_625);
    let round = |code: &str, value: f32| {
        f32::from_bits(one(code, ("f", 4), ("f", 4), value.to_bits().into()) as u32)
    };
    assert_eq!(round("cvt.rni.f32.f32 %f0, %f1;", 3.5), 4.0);
    assert_eq!(round("cvt.rmi.f32.f32 %f0, %f1;", -0.5), -1.0);
    assert_eq!(round("cvt.sat.f32.f32 %f0, %f1;", 7.0), 1.0);
    assert_eq!(
        one(
            "cvt.rn.f32.f64 %f0, %fd1;",
            ("fd", 8),
            ("f", 4),
            0.1f64.to_bits()
        ) as u32,
        0.1f32.to_bits()
    );
    assert_eq!(
        one(
            "cvt.rp.f32.f64 %f0, %fd1;",
            ("fd", 8),
            ("f", 4),
            0.1f64.to_bits()
        ) as u32,
        0.1f32.to_bits()
    );
    assert_eq!(
        one(
            "cvt.rm.f32.f64 %f0, %fd1;",
            ("fd", 8),
            ("f", 4),
            0.1f64.to_bits()
        ) as u32,
        0.1f32.next_down().to_bits()
    );
    assert_eq!(
        one(
            "cvt.rna.tf32.f32 %r0, %f1;",
            ("f", 4),
            ("r", 4),
            0x3f80_1000
        ),
        0x3f80_2000
    );
}

#[test]
fn packed_conversions_put_the_first_source_above() {
    let rows = [vec![
        u64::from(1.0f32.to_bits()),
        u64::from((-2.0f32).to_bits()),
    ]];
    let pack = |code: &str| {
        Elementwise {
            code,
            inputs: ("f", 4),
            result: ("r", 4),
        }
        .run(&rows)[0] as u32
    };
    assert_eq!(pack("cvt.rn.bf16x2.f32 %r0, %f1, %f2;"), 0x3f80_c000);
    assert_eq!(pack("cvt.rn.f16x2.f32 %r0, %f1, %f2;"), 0x3c00_c000);
    assert_eq!(pack("cvt.rn.relu.f16x2.f32 %r0, %f1, %f2;"), 0x3c00_0000);
    assert_eq!(
        pack("cvt.rn.satfinite.e4m3x2.f32 %h1, %f1, %f2; cvt.u32.u16 %r0, %h1;"),
        0x38c0
    );
    assert_eq!(
        pack("cvt.rn.satfinite.e5m2x2.f32 %h1, %f1, %f2; cvt.u32.u16 %r0, %h1;"),
        0x3cc0
    );
    let unpack = one(
        "mov.b32 {%h1, %h2}, %r1; cvt.rn.f16x2.e4m3x2 %r0, %h1;",
        ("r", 4),
        ("r", 4),
        0x38c0,
    );
    assert_eq!(unpack as u32, 0x3c00_c000);
}

/// Corner values as an H200 gave them, where the ISA says little.
#[test]
fn corners_as_the_hardware_has_them() {
    let check =
        |code: &str, inputs: (&str, usize), result: (&str, usize), row: &[u64], expected: u64| {
            let found = Elementwise {
                code,
                inputs,
                result,
            }
            .run(&[row.to_vec()])[0];
            assert_eq!(found, expected, "{code} of {row:x?}: {found:x}");
        };
    let (h, r, f, d) = (("h", 2), ("r", 4), ("f", 4), ("fd", 8));
    check("cvt.f32.f16 %f0, %h1;", h, f, &[0x7e00], 0x7fff_ffff);
    check("cvt.ftz.f32.bf16 %f0, %h1;", h, f, &[0x7fc0], 0x7fff_ffff);
    check("cvt.f16.f16 %h0, %h1;", h, h, &[0x7f7f], 0x7fff);
    check("cvt.rn.ftz.bf16.f32 %h0, %f1;", f, h, &[0x007f_ffff], 0);
    check("cvt.rn.f32.f64 %f0, %fd1;", d, f, &[u64::MAX], 0xffff_ffff);
    check(
        "cvt.rn.f16.f64 %h0, %fd1;",
        d,
        h,
        &[0x7ff8_0000_0000_0000],
        0x7e00,
    );
    check(
        "cvt.rn.satfinite.relu.e4m3x2.f16x2 %h0, %r1;",
        r,
        h,
        &[0x8000],
        0,
    );
    check(
        "testp.normal.f32 %p1, %f1; selp.b32 %r0, 1, 0, %p1;",
        f,
        r,
        &[0],
        1,
    );
    check(
        "div.approx.f32 %f0, %f1, %f2;",
        f,
        f,
        &[0x7f7f_ffff, 0x7f7f_ffff],
        0,
    );
    check(
        "div.approx.f32 %f0, %f1, %f2;",
        f,
        f,
        &[0x7f80_0000, 0x7f7f_ffff],
        0x7fff_ffff,
    );
}
