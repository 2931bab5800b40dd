//! What looks at bits, rounds in a direction, or is a function of the author's for each element, against the host.

use gluon_lang::lang::prelude::*;
use gluon_lang::lang::{Dp4a, KernelFn, Wide};
use ir::elem::DType;

use crate::machine::{LEN, run_func};
use crate::values::{bytes, decode, samples, values};

fn places() -> Tensor<i32> {
    arange(0..LEN, Blocked::new([4], [32], [2], [0]))
}

#[kernel(warps = 2)]
fn counts<T: Int>(x: Ptr<T>, out: Ptr<i64>) {
    let x = x.at(places()).load();
    let counts = [x.popc(), x.clz(), x.ffs()].map(|count| count.cast::<i64>());
    for (number, count) in counts.into_iter().enumerate() {
        out.at(places() + number * LEN).store(count);
    }
    out.at(places() + 3 * LEN).store(x.brev().cast::<i64>());
}

fn check_bits<T: Int>() {
    let x = samples(T::DTYPE, 41);
    let func = KernelFn::trace(counts::<T>)
        .unwrap_or_else(|e| panic!("{e}"))
        .func;
    let bits = T::DTYPE.bits();
    let mask = u64::MAX >> (64 - bits);
    let found = values(
        &run_func(func, &[&bytes(&x, T::DTYPE)], 4 * 8 * LEN),
        DType::I64,
    );
    for at in 0..LEN {
        let x = x[at] & mask;
        let [popc, clz, ffs, brev] = std::array::from_fn(|number| found[number * LEN + at]);
        assert_eq!(popc, u64::from(x.count_ones()), "popc of {x:#x}");
        assert_eq!(
            clz,
            u64::from(x.leading_zeros() + bits - 64),
            "clz of {x:#x}"
        );
        let lowest = if x == 0 { 0 } else { x.trailing_zeros() + 1 };
        assert_eq!(ffs, u64::from(lowest), "ffs of {x:#x}");
        assert_eq!(
            brev & mask,
            x.reverse_bits() >> (64 - bits),
            "brev of {x:#x}"
        );
    }
}

#[test]
fn bits_are_counted_as_on_the_host() {
    check_bits::<i8>();
    check_bits::<u16>();
    check_bits::<i32>();
    check_bits::<u32>();
    check_bits::<i64>();
    check_bits::<u64>();
}

#[kernel(warps = 2)]
fn permuted(a: Ptr<u32>, b: Ptr<u32>, selector: Ptr<u32>, out: Ptr<u32>) {
    let at = places();
    out.at(at).store(byte_perm(
        a.at(at).load(),
        b.at(at).load(),
        selector.at(at).load(),
    ));
}

#[test]
fn bytes_are_permuted_as_prmt_says() {
    let [a, b] = [1, 2].map(|seed| samples(DType::U32, seed));
    let selector: Vec<u64> = (0..LEN as u64).map(|at| (at * 0x1357) & 0xffff).collect();
    let func = KernelFn::trace(permuted)
        .unwrap_or_else(|e| panic!("{e}"))
        .func;
    let data = [&a, &b, &selector].map(|x| bytes(x, DType::U32));
    let found = values(
        &run_func(func, &[&data[0], &data[1], &data[2]], 4 * LEN),
        DType::U32,
    );
    for at in 0..LEN {
        let source = (b[at] << 32 | a[at]).to_le_bytes();
        let wanted: [u8; 4] = std::array::from_fn(|to| {
            let digit = selector[at] >> (4 * to) & 15;
            let byte = source[(digit & 7) as usize];
            if digit & 8 == 0 {
                byte
            } else if byte >> 7 == 1 {
                0xff
            } else {
                0
            }
        });
        assert_eq!(
            found[at],
            u64::from(u32::from_le_bytes(wanted)),
            "{:#x} {:#x} {:#x}",
            a[at],
            b[at],
            selector[at]
        );
    }
}

#[kernel(warps = 2)]
fn dots<A: Element + Dp4a<B>, B: Element>(
    a: Ptr<A>,
    b: Ptr<B>,
    c: Ptr<<A as Dp4a<B>>::Sum>,
    out: Ptr<<A as Dp4a<B>>::Sum>,
) {
    let at = places();
    out.at(at)
        .store(a.at(at).load().dp4a(b.at(at).load(), c.at(at).load()));
}

fn check_dot<A: Dp4a<B>, B: Element>() {
    let [a, b, c] = [5, 6, 7].map(|seed| samples(DType::U32, seed));
    let func = KernelFn::trace(dots::<A, B>)
        .unwrap_or_else(|e| panic!("{e}"))
        .func;
    let data = [&a, &b, &c].map(|x| bytes(x, DType::U32));
    let found = values(
        &run_func(func, &[&data[0], &data[1], &data[2]], 4 * LEN),
        DType::U32,
    );
    let byte = |word: u64, at: usize, is_signed: bool| {
        let byte = (word >> (8 * at)) as u8;
        if is_signed {
            i64::from(byte.cast_signed())
        } else {
            i64::from(byte)
        }
    };
    let (a_signed, b_signed) = (A::DTYPE.is_signed_int(), B::DTYPE.is_signed_int());
    for at in 0..LEN {
        let sum: i64 = (0..4)
            .map(|i| byte(a[at], i, a_signed) * byte(b[at], i, b_signed))
            .sum();
        let wanted = (sum + c[at].cast_signed()) as u32;
        assert_eq!(
            found[at],
            u64::from(wanted),
            "{:#x} {:#x} {:#x}",
            a[at],
            b[at],
            c[at]
        );
    }
}

#[test]
fn dot_products_of_bytes_are_signed_as_their_types() {
    check_dot::<i32, i32>();
    check_dot::<i32, u32>();
    check_dot::<u32, i32>();
    check_dot::<u32, u32>();
}

#[kernel(warps = 2)]
fn saturating<T: Int, U: Int>(x: Ptr<T>, out: Ptr<U>) {
    let at = places();
    out.at(at).store(x.at(at).load().cast_saturating::<U>());
}

fn check_saturating<T: Int, U: Int>() {
    let x = samples(T::DTYPE, 51);
    let func = KernelFn::trace(saturating::<T, U>)
        .unwrap_or_else(|e| panic!("{e}"))
        .func;
    let data = bytes(&x, T::DTYPE);
    let found = values(
        &run_func(func, &[&data], LEN * U::DTYPE.bytes() as usize),
        U::DTYPE,
    );
    let bound = |value: U| value.constant_int();
    let (low, high) = (bound(U::MIN), bound(U::MAX));
    for (found, x) in found.into_iter().zip(x) {
        let [found, x] =
            [(found, U::DTYPE), (x, T::DTYPE)].map(|(bits, dtype)| decode_int(bits, dtype));
        assert_eq!(
            found,
            x.clamp(low, high),
            "{x} of {} as {}",
            T::DTYPE,
            U::DTYPE
        );
    }
}

trait ConstantInt {
    fn constant_int(self) -> i128;
}

impl<T: Int> ConstantInt for T {
    fn constant_int(self) -> i128 {
        Element::constant(self).as_int().unwrap()
    }
}

fn decode_int(bits: u64, dtype: DType) -> i128 {
    match decode(bits, dtype) {
        crate::values::Number::Int(int) => int,
        crate::values::Number::Float(_) => panic!("an integer"),
    }
}

#[test]
fn saturating_casts_keep_to_the_bounds_of_both_types() {
    check_saturating::<i32, i8>();
    check_saturating::<i32, u8>();
    check_saturating::<u32, i8>();
    check_saturating::<u32, i32>();
    check_saturating::<i64, u64>();
    check_saturating::<u64, i64>();
    check_saturating::<i16, u32>();
    check_saturating::<i8, i32>();
}

#[kernel(warps = 2)]
fn directed<T: Wide>(x: Ptr<T>, y: Ptr<T>, out: Ptr<T>) {
    let at = places();
    let (x, y) = (x.at(at).load(), y.at(at).load());
    let results = [
        x.add_rn(y),
        x.add_rz(y),
        x.add_rd(y),
        x.add_ru(y),
        x.sub_rn(y),
        x.sub_rz(y),
        x.sub_rd(y),
        x.sub_ru(y),
        x.mul_rn(y),
        x.mul_rz(y),
        x.mul_rd(y),
        x.mul_ru(y),
        x.div_rn(y),
        x.div_rz(y),
        x.div_rd(y),
        x.div_ru(y),
        x.fma_rn(y, x),
        x.fma_rz(y, x),
        x.fma_rd(y, x),
        x.fma_ru(y, x),
        x.sqrt_rn(),
        x.sqrt_rz(),
        x.sqrt_rd(),
        x.sqrt_ru(),
        x.rcp_rn(),
        x.rcp_rz(),
        x.rcp_rd(),
        x.rcp_ru(),
    ];
    for (number, result) in results.into_iter().enumerate() {
        out.at(places() + number * LEN).store(result);
    }
}

/// Rounded to f32 from the exact result, which an f64 comes near enough to say on which side of it an f32 lies.
#[test]
fn directions_of_rounding_enclose_the_exact_result() {
    let ordinary = |seed: u64| -> Vec<u64> {
        (0..LEN as u64)
            .map(|at| {
                let noise = (at * 0x9e37_79b9 + seed * 0x85eb_ca6b).wrapping_mul(0xc2b2_ae35) >> 9
                    & 0x7f_ffff;
                (120 + at % 16) << 23 | noise
            })
            .collect()
    };
    let (x, y) = (ordinary(1), ordinary(2));
    let func = KernelFn::trace(directed::<f32>)
        .unwrap_or_else(|e| panic!("{e}"))
        .func;
    let [a, b] = [&x, &y].map(|s| bytes(s, DType::F32));
    let found = values(&run_func(func, &[&a, &b], 28 * 4 * LEN), DType::F32);
    let float = |bits: u64| f32::from_bits(bits as u32);
    for at in 0..LEN {
        let (x, y) = (f64::from(float(x[at])), f64::from(float(y[at])));
        // Of sums, differences and products this is exact enough to be compared with; quotients and roots are never close
        // enough to an f32 to be on the wrong side.
        let exact = [
            x + y,
            x - y,
            x * y,
            x / y,
            x.mul_add(y, x),
            x.sqrt(),
            1.0 / x,
        ];
        for (op, exact) in exact.into_iter().enumerate() {
            let [nearest, zero, down, up] =
                std::array::from_fn(|d| float(found[(4 * op + d) * LEN + at]));
            let what = format!("operation {op} of {x:e} and {y:e}: {exact:e}");
            assert_eq!(nearest, exact as f32, "{what}");
            assert!(
                f64::from(down) <= exact && exact <= f64::from(up),
                "{what}: {down:e} to {up:e}"
            );
            let is_next =
                down.to_bits() == up.to_bits() || (down.next_up()).to_bits() == up.to_bits();
            assert!(is_next, "{what}: {down:e} to {up:e}");
            let towards = if exact < 0.0 { up } else { down };
            assert_eq!(zero.to_bits(), towards.to_bits(), "{what}: {zero:e}");
        }
    }
}

#[kernel(warps = 2)]
fn powers<const DEGREE: usize>(x: Ptr<f32>, out: Ptr<f32>) {
    let at = places();
    out.at(at).store(x.at(at).load().exp2_fma::<DEGREE>());
}

fn check_power<const DEGREE: usize>(bits: f64) {
    let x: Vec<f32> = (0..LEN as i32)
        .map(|at| (at - 128) as f32 * 0.993)
        .collect();
    let x: Vec<f32> = x.into_iter().map(|x| x.clamp(-125.0, 127.5)).collect();
    let data: Vec<u8> = x.iter().flat_map(|x| x.to_le_bytes()).collect();
    let func = KernelFn::trace(powers::<DEGREE>)
        .unwrap_or_else(|e| panic!("{e}"))
        .func;
    let found = values(&run_func(func, &[&data], 4 * LEN), DType::F32);
    for (found, x) in found.into_iter().zip(x) {
        let (found, exact) = (f64::from(f32::from_bits(found as u32)), f64::from(x).exp2());
        let error = (found / exact - 1.0).abs();
        assert!(
            error <= 2_f64.powf(-bits),
            "2^{x}: {found:e}, not {exact:e}: 2^{}",
            error.log2()
        );
    }
}

/// Floats of 16 bits round what becomes of NaN to infinity, or keep it.
#[test]
fn powers_of_two_on_the_fma_pipes_do_not_lose_nan() {
    let data: Vec<u8> = (0..LEN).flat_map(|_| f32::NAN.to_le_bytes()).collect();
    let func = KernelFn::trace(powers::<3>)
        .unwrap_or_else(|e| panic!("{e}"))
        .func;
    for found in values(&run_func(func, &[&data], 4 * LEN), DType::F32) {
        let found = f32::from_bits(found as u32);
        assert!(found.is_nan() || found == f32::MAX, "{found:e}");
    }
}

#[test]
fn powers_of_two_on_the_fma_pipes_are_as_exact_as_their_degree() {
    check_power::<2>(9.17);
    check_power::<3>(13.7);
    check_power::<4>(18.5);
    check_power::<5>(22.2);
}
