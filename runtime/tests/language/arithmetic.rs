//! Numbers at their edges.

use tilekit::prelude::*;

use crate::check;

#[kernel(warps = 1)]
fn bytes(input: Ptr<i8>, out: Ptr<i8>) {
    let (a, b) = (input.at(0).load(), input.at(1).load());
    for (at, value) in [
        a + b,
        a - b,
        a * b,
        -a,
        a.abs(),
        !a,
        a & b,
        a | b,
        a ^ b,
        a.min(b),
        a.max(b),
    ]
    .into_iter()
    .enumerate()
    {
        out.at(at).store(value);
    }
    out.at(11).store((a > b).cast::<i8>());
    out.at(12)
        .store((a.cast::<i32>() + b.cast::<i32>() > 127).cast::<i8>());
    if b != 0 && !(a == -128 && b == -1) {
        out.at(13).store(a / b);
        out.at(14).store(a % b);
    }
}

#[test]
fn signed_bytes_wrap() {
    let inputs = [
        [127, 1],
        [-128, -1],
        [-128, -128],
        [100, 100],
        [-7, 2],
        [7, -2],
        [0, 0],
        [-128, 3],
    ];
    check!(bytes, inputs, |input: &[i8], out: &mut [i8]| {
        let (a, b) = (input[0], input[1]);
        let all = [
            a.wrapping_add(b),
            a.wrapping_sub(b),
            a.wrapping_mul(b),
            a.wrapping_neg(),
            a.wrapping_abs(),
            !a,
            a & b,
            a | b,
            a ^ b,
            a.min(b),
            a.max(b),
            i8::from(a > b),
            i8::from(i32::from(a) + i32::from(b) > 127),
        ];
        out[..13].copy_from_slice(&all);
        if b != 0 && !(a == -128 && b == -1) {
            (out[13], out[14]) = (a / b, a % b);
        }
    });
}

#[kernel(warps = 1)]
fn long_words(input: Ptr<u64>, out: Ptr<u64>) {
    let (a, b) = (input.at(0).load(), input.at(1).load());
    for (at, value) in [
        a + b,
        a - b,
        a * b,
        a / (b | 1),
        a % (b | 1),
        a.mul_high(b),
        a >> 1,
        a << 63,
    ]
    .into_iter()
    .enumerate()
    {
        out.at(at).store(value);
    }
    out.at(8).store((a < b).cast::<u64>());
    out.at(9).store(a.cast::<u32>().cast::<u64>());
    out.at(10).store(a.cast::<i32>().cast::<u64>());
    out.at(11).store(a.cast::<u8>().cast::<u64>() + 255);
    out.at(12).store(a / 10);
    out.at(13).store(a % 1_000_000_007);
    out.at(14).store(a.div_ceil(b | 1));
}

#[test]
fn long_unsigned_words_wrap() {
    let inputs = [
        [u64::MAX, 1],
        [1 << 63, 1 << 63],
        [0x1234_5678_9abc_def0, 0xfedc_ba98_7654_3210],
        [0, u64::MAX],
        [10_000_000_000, 3],
    ];
    check!(long_words, inputs, |input: &[u64], out: &mut [u64]| {
        let (a, b) = (input[0], input[1]);
        let odd = b | 1;
        let all = [
            a.wrapping_add(b),
            a.wrapping_sub(b),
            a.wrapping_mul(b),
            a / odd,
            a % odd,
            ((u128::from(a) * u128::from(b)) >> 64) as u64,
            a >> 1,
            a << 63,
            u64::from(a < b),
            u64::from(a as u32),
            a as i32 as u64,
            u64::from(a as u8) + 255,
            a / 10,
            a % 1_000_000_007,
            a.wrapping_add(odd - 1) / odd,
        ];
        out[..15].copy_from_slice(&all);
    });
}

#[kernel(warps = 1)]
fn shifts(input: Ptr<i32>, out: Ptr<i32>) {
    let (x, by) = (input.at(0).load(), input.at(1).load());
    let (ux, uby) = (x.cast::<u32>(), by.cast::<u32>());
    out.at(0).store(x << by);
    out.at(1).store(x >> by);
    out.at(2).store((ux >> uby).cast::<i32>());
    out.at(3).store((ux << uby).cast::<i32>());
    out.at(4)
        .store((x.cast::<i16>() >> by.cast::<i16>()).cast::<i32>());
    out.at(5)
        .store((x.cast::<u8>() << by.cast::<u8>()).cast::<i32>());
    out.at(6)
        .store((x.cast::<i64>() << by.cast::<i64>() >> 32).cast::<i32>());
    out.at(7).store(x >> 31);
    out.at(8).store((x << 31) >> 31);
}

/// By the width and more nothing is left but the sign; a negative count is past every width.
#[test]
fn shifts_by_the_width_and_more_leave_the_sign() {
    let numbers = [0, 1, -1, i32::MIN, i32::MAX, 0x1234_5678];
    let counts = [0, 1, 7, 8, 15, 16, 31, 32, 33, 64, 1000, -1, i32::MIN];
    let inputs = numbers.iter().flat_map(|x| counts.map(|by| [*x, by]));
    check!(shifts, inputs, |input: &[i32], out: &mut [i32]| {
        let (x, by) = (input[0], input[1]);
        let left = |x: i64, by: i64, bits: i64| if (0..bits).contains(&by) { x << by } else { 0 };
        let right = |x: i64, by: i64, bits: i64| x >> if (0..bits).contains(&by) { by } else { 63 };
        let (wide, wide_by) = (i64::from(x), i64::from(by));
        out[0] = left(wide, wide_by, 32) as i32;
        out[1] = right(wide, wide_by, 32) as i32;
        out[2] = if (0..32).contains(&by) {
            (x as u32 >> by) as i32
        } else {
            0
        };
        out[3] = left(wide, wide_by, 32) as i32;
        out[4] = right(i64::from(x as i16), i64::from(by as i16), 16) as i32;
        out[5] = (left(i64::from(x as u8), i64::from(by as u8), 8) as u8).into();
        out[6] = (left(wide, wide_by, 64) >> 32) as i32;
        out[7] = x >> 31;
        out[8] = (x << 31) >> 31;
    });
}

#[kernel(warps = 1)]
fn constant_divisions(input: Ptr<i32>, out: Ptr<i32>) {
    let x = input.at(0).load();
    for (at, d) in [1, -1, 2, -2, 3, -3, 7, 16, -16, 1000, i32::MAX, i32::MIN]
        .into_iter()
        .enumerate()
    {
        // The one quotient that no i32 holds.
        if d != -1 {
            out.at(at).store(x / d);
        }
        out.at(at + 16).store(x % d);
    }
}

#[test]
fn divisions_round_towards_zero() {
    let inputs = [
        0,
        1,
        -1,
        7,
        -7,
        15,
        -15,
        16,
        -16,
        999,
        -1000,
        i32::MAX,
        -i32::MAX,
    ]
    .map(|x| [x]);
    check!(
        constant_divisions,
        inputs,
        |input: &[i32], out: &mut [i32]| {
            for (at, d) in [1, -1, 2, -2, 3, -3, 7, 16, -16, 1000, i32::MAX, i32::MIN]
                .into_iter()
                .enumerate()
            {
                if d != -1 {
                    out[at] = input[0] / d;
                }
                out[at + 16] = input[0].wrapping_rem(d);
            }
        }
    );
}

#[kernel(warps = 1)]
fn float_to_int(input: Ptr<f32>, out: Ptr<i64>) {
    let x = input.at(0).load();
    out.at(0).store(x.cast::<i32>().cast::<i64>());
    out.at(1).store(x.cast::<u32>().cast::<i64>());
    out.at(2).store(x.cast::<i8>().cast::<i64>());
    out.at(3).store(x.cast::<u8>().cast::<i64>());
    out.at(4).store(x.cast::<i64>());
    out.at(5).store(x.cast::<u64>().cast::<i64>());
    out.at(6).store(x.cast::<i16>().cast::<i64>());
    out.at(7).store((x > 0.0).cast::<i64>());
    out.at(8).store((x != x).cast::<i64>());
    out.at(9).store((!(x <= 1.0)).cast::<i64>());
}

#[test]
fn floats_saturate_and_nan_is_zero() {
    let numbers = [
        0.0_f32,
        -0.0,
        0.9,
        -0.9,
        127.5,
        -128.9,
        255.9,
        256.0,
        3e9,
        -3e9,
        1e19,
        -1e19,
        f32::MAX,
    ];
    let special = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
    let inputs = numbers.into_iter().chain(special).map(|x| [x]);
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let kernel = float_to_int
        .compile(&Compiler::default())
        .unwrap()
        .load(&device)
        .unwrap();
    for [x] in inputs {
        let (there, out) = (
            Buffer::from_slice(&device, &[x]).unwrap(),
            Buffer::<i64>::zeros(&device, 16).unwrap(),
        );
        kernel.launch(&stream, grid(1u32), (&there, &out)).unwrap();
        let wanted = [
            i64::from(x as i32),
            i64::from(x as u32),
            i64::from(x as i8),
            i64::from(x as u8),
            x as i64,
            x as u64 as i64,
            i64::from(x as i16),
            i64::from(x > 0.0),
            i64::from(x.is_nan()),
            i64::from(x.is_nan() || x > 1.0),
        ];
        assert_eq!(out.to_vec().unwrap()[..10], wanted, "of {x}");
    }
}

#[kernel(warps = 1)]
fn chosen_host_numbers(input: Ptr<i32>, out: Ptr<i32>) {
    let n = input.at(0).load();
    out.at(0).store(select(n > 2, 11, -4));
    let lane = arange(0..32, Coalesced);
    let weights = where_(lane < n, 0.5_f32, -1.0);
    out.at(lane + 32)
        .store((weights * 4.0).cast::<i32>() + where_(n < 0, 7, 9));
}

#[test]
fn a_choice_between_host_numbers_takes_their_type() {
    check!(
        chosen_host_numbers,
        [[-1], [2], [3], [31]],
        |input: &[i32], out: &mut [i32]| {
            let n = input[0];
            out[0] = if n > 2 { 11 } else { -4 };
            for lane in 0..32 {
                out[32 + lane as usize] = if lane < n { 2 } else { -4 } + if n < 0 { 7 } else { 9 };
            }
        }
    );
}

#[kernel(warps = 1)]
fn divides(input: Ptr<i32>, out: Ptr<i32>) {
    out.at(0).store(input.at(0).load() / input.at(1).load());
}

#[test]
fn a_division_by_zero_is_reported_at_its_line() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let kernel = divides
        .compile(&Compiler::default())
        .unwrap()
        .load(&device)
        .unwrap();
    let (x, out) = (
        Buffer::from_slice(&device, &[1, 0]).unwrap(),
        Buffer::<i32>::zeros(&device, 1).unwrap(),
    );
    let done = kernel.launch(&stream, grid(1u32), (&x, &out));
    let told = done
        .and_then(|()| stream.synchronize())
        .unwrap_err()
        .to_string();
    assert!(
        told.contains("division by zero") && told.contains("arithmetic.rs:"),
        "{told}"
    );
}

#[kernel(warps = 1)]
fn host_literals(input: Ptr<i64>, out: Ptr<i64>) {
    const LARGE: i64 = 1 << 40;
    let x = input.at(0).load();
    out.at(0).store(x + LARGE);
    out.at(1).store(LARGE - x);
    out.at(2).store(1 - x * 3 + 2);
    out.at(3).store((x > LARGE).cast::<i64>());
    out.at(4).store(-5 % (x | 1));
    out.at(5).store(100 / (x | 1));
    let mut y = x;
    y <<= 2;
    y |= 1;
    y -= 7;
    y %= 1000;
    out.at(6).store(y);
    out.at(7).store(i64::MIN + x);
}

#[test]
fn host_numbers_stand_on_either_side() {
    check!(
        host_literals,
        [[0], [3], [-9], [1 << 41]],
        |input: &[i64], out: &mut [i64]| {
            let (x, large) = (input[0], 1_i64 << 40);
            let all = [
                x + large,
                large - x,
                1 - x * 3 + 2,
                i64::from(x > large),
                -5 % (x | 1),
                100 / (x | 1),
                (((x << 2) | 1) - 7) % 1000,
                i64::MIN.wrapping_add(x),
            ];
            out[..8].copy_from_slice(&all);
        }
    );
}

/// Literals that no i32 holds take the type of what is beside them: of scalars and tensors, on both sides, and of the host.
#[kernel(warps = 1)]
fn wide_literals(input: Ptr<u64>, out: Ptr<u64>) {
    let a = input.at(0).load();
    let mut masked = a & 0xffff_ffff;
    masked |= 1 << 40;
    let lanes = arange(0..32, Blocked::new([1], [32], [1], [0])).cast::<u64>();
    let host: u64 = 0x1_0000_0001 & 0xffff_ffff_0000;
    let of_host = host + 0x1_0000_0000;
    let is_large = of_host > 0xffff_ffff && 0x7fff_ffff_ffff > of_host;
    let results = [
        masked,
        a + (1 << 40),
        0xffff_ffff_ffff - (a & 0xff),
        (lanes * 0x1_0000_0000).sum(0).scalar(),
        select(a > 0xffff_ffff, a, 0),
        select(0x1_0000_0000 > a, a, 0),
        a & !0xffff_ffff_u64,
        scalar(of_host + u64::from(is_large)),
    ];
    for (at, result) in results.into_iter().enumerate() {
        out.at(at).store(result);
    }
}

#[test]
fn literals_beyond_i32_take_the_type_beside_them() {
    let inputs = [[0], [u64::from(u32::MAX)], [1 << 32], [u64::MAX >> 2]];
    check!(wide_literals, inputs, |input: &[u64], out: &mut [u64]| {
        let a = input[0];
        out[..8].copy_from_slice(&[
            a & 0xffff_ffff | 1 << 40,
            a + (1 << 40),
            0xffff_ffff_ffff - (a & 0xff),
            496 << 32,
            if a > 0xffff_ffff { a } else { 0 },
            if 0x1_0000_0000 > a { a } else { 0 },
            a & !0xffff_ffff,
            (2 << 32) + 1,
        ]);
    });
}

/// Eight elements of a thread share a factor, so that each warp votes; four rows of each warp.
#[kernel(warps = 2)]
fn rescaled(input: Ptr<f32>, out: Ptr<f32>) {
    let rows = Blocked::new([1, 8], [32, 1], [2, 1], [1, 0]);
    let row = arange(0..8, Slice::new(1, rows.clone()));
    let column = arange(0..8, Slice::new(0, rows));
    let place = (row * 8).expand_dims(1) + column.expand_dims(0);
    let factor = input.at(row).load().expand_dims(1);
    out.at(place)
        .store((place.cast::<f32>() + 0.5).rescale(factor));
}

#[test]
fn rescale_multiplies_whether_all_some_or_no_factors_are_one() {
    let [mut last, mut first] = [[1f32; 8]; 2];
    last[7] = 0.25;
    first[0] = f32::INFINITY;
    let inputs = [[1.0; 8], [0.5; 8], last, first, [-0.0; 8]];
    check!(rescaled, inputs, |input: &[f32], out: &mut [f32]| {
        for (at, out) in out.iter_mut().enumerate() {
            *out = (at as f32 + 0.5) * input[at / 8];
        }
    });
}
