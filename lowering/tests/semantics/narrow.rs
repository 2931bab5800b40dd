//! Floats of a byte or less: every code into every float, every f16 and bf16 and the neighbours of every middle into every code.

use gluon_lang::lang::prelude::*;
use gluon_lang::lang::{CastTo, KernelFn};
use ir::elem::DType;

use crate::machine::run_func;
use crate::values::{Number, bytes, decode, encode, values};

/// Elements of one iteration.
const LEN: usize = 1024;

thread_local! {
    static ITERATIONS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    static ROUNDING: std::cell::Cell<Rounding> = const { std::cell::Cell::new(Rounding::Default) };
}

#[kernel(warps = 4)]
fn converted<T: CastTo, U: CastTo>(x: Ptr<T>, out: Ptr<U>) {
    for iteration in range(0, ITERATIONS.get()) {
        let at = arange(0..LEN, Blocked::new([8], [32], [4], [0])) + iteration * LEN;
        let result = x.at(at).load().cast_rounded::<U>(ROUNDING.get());
        out.at(at).store(result);
    }
}

fn results<T: CastTo, U: CastTo>(x: &[u64], rounding: Rounding) -> Vec<u64> {
    let whole = x.len().next_multiple_of(LEN);
    ITERATIONS.set(whole / LEN);
    ROUNDING.set(rounding);
    let traced = KernelFn::trace(converted::<T, U>);
    let func = traced.unwrap_or_else(|e| panic!("{e}")).func;
    let mut input = x.to_vec();
    input.resize(whole, 0);
    let input = bytes(&input, T::DTYPE);
    let out = run_func(func, &[&input], whole * U::DTYPE.bytes() as usize);
    values(&out, U::DTYPE).into_iter().take(x.len()).collect()
}

/// Every code of a type, the upper half of a byte ignored.
fn check_from<T: CastTo, U: CastTo>() {
    let codes: Vec<u64> = (0..256).collect();
    let found = results::<T, U>(&codes, Rounding::Default);
    for (code, found) in codes.into_iter().zip(found) {
        let number = decode(code, T::DTYPE);
        let wanted = encode(number, U::DTYPE);
        let is_nan = number.float().is_nan() && decode(found, U::DTYPE).float().is_nan();
        assert!(
            found == wanted || is_nan,
            "{code:#x} of {} to {}: {found:#x}, not {wanted:#x}",
            T::DTYPE,
            U::DTYPE
        );
    }
}

fn check_all_from<T: CastTo>() {
    check_from::<T, f16>();
    check_from::<T, bf16>();
    check_from::<T, f32>();
    check_from::<T, f64>();
    check_from::<T, i32>();
    check_from::<T, E4m3>();
}

#[test]
fn every_code_is_its_number() {
    check_all_from::<E2m1>();
    check_all_from::<E8m0>();
    check_all_from::<E4m3b15>();
    check_all_from::<E4m3>();
    check_all_from::<E5m2>();
}

/// Codes of a type that are no NaN.
fn magnitudes(dtype: DType) -> std::ops::RangeInclusive<u64> {
    match dtype {
        DType::E2m1 => 0..=7,
        DType::E8m0 => 0..=254,
        DType::E4m3b15 => 0..=0x7f,
        DType::E4m3 => 0..=0x7e,
        _ => 0..=0x7b,
    }
}

/// The last code that is no larger than the magnitude, or the first one.
fn cut(value: f64, dtype: DType) -> u64 {
    let below = |code: &u64| decode(*code, dtype).float() <= value.abs();
    let code = magnitudes(dtype).rfind(below).unwrap_or(0);
    let sign = encode(Number::Float(-1.0), dtype) ^ encode(Number::Float(1.0), dtype);
    if value.is_sign_negative() {
        code | sign
    } else {
        code
    }
}

fn check_into<T: CastTo, U: CastTo>(x: &[u64]) {
    for rounding in [Rounding::Default, Rounding::Zero] {
        let found = results::<T, U>(x, rounding);
        for (&bits, found) in x.iter().zip(found) {
            let number = decode(bits, T::DTYPE);
            let is_nearest = rounding == Rounding::Default || number.float().is_nan();
            let wanted = if is_nearest {
                encode(number, U::DTYPE)
            } else {
                cut(number.float(), U::DTYPE)
            };
            assert_eq!(
                found,
                wanted,
                "{number:?} ({bits:#x} of {}) to {}, {rounding}",
                T::DTYPE,
                U::DTYPE
            );
        }
    }
}

/// Each number of `U`, each middle of two, what lies next to them, and the ends, with both signs.
fn near<U: CastTo>() -> Vec<f64> {
    let number = |code| decode(code, U::DTYPE).float();
    let codes = magnitudes(U::DTYPE);
    let middles = codes
        .clone()
        .skip(1)
        .map(|code| f64::midpoint(number(code - 1), number(code)));
    let places = middles.chain(codes.map(number));
    let past = number(*magnitudes(U::DTYPE).end()) * 1.5;
    places
        .chain([past, f64::MAX, f64::INFINITY, f64::NAN, 1e-300])
        .flat_map(|x| [x.next_down(), x, x.next_up()])
        .flat_map(|x| [x, -x])
        .collect()
}

fn check_all_into<U: CastTo>() {
    let all: Vec<u64> = (0..1 << 16).collect();
    check_into::<f16, U>(&all);
    check_into::<bf16, U>(&all);
    let around = |x: &f64| {
        let near = *x as f32;
        [near.next_down(), near, near.next_up()].map(|x| u64::from(x.to_bits()))
    };
    let doubles = near::<U>();
    let singles: Vec<u64> = doubles.iter().flat_map(around).collect();
    check_into::<f32, U>(&singles);
    let doubles: Vec<u64> = doubles.iter().map(|x| x.to_bits()).collect();
    check_into::<f64, U>(&doubles);
}

#[test]
fn every_short_float_becomes_the_nearest_code() {
    check_all_into::<E2m1>();
    check_all_into::<E8m0>();
    check_all_into::<E4m3b15>();
    check_all_into::<E4m3>();
    check_all_into::<E5m2>();
}

/// The code of the power of two nearest to an integer, by integers alone.
fn nearest_power(x: i128) -> u64 {
    let size = x.unsigned_abs();
    let exponent = u64::from(size.ilog2());
    let code = exponent + 127;
    let is_up = match (2 * size).cmp(&(3 << exponent)) {
        std::cmp::Ordering::Equal => code % 2 == 1,
        order => order.is_gt(),
    };
    code + u64::from(is_up)
}

fn check_powers<T: CastTo>(x: &[i128]) {
    let bits: Vec<u64> = x
        .iter()
        .map(|x| *x as u64 & crate::values::mask(T::DTYPE))
        .collect();
    let found = results::<T, E8m0>(&bits, Rounding::Default);
    for (x, found) in x.iter().zip(found) {
        assert_eq!(found, nearest_power(*x), "{x} of {}", T::DTYPE);
    }
}

/// Integers that f32 would round onto the middle of two powers of two.
#[test]
fn wide_integers_are_rounded_once() {
    let near_middles = |bits: u32| {
        (1..bits).flat_map(|at| {
            let middle = 3_i128 << (at - 1);
            [middle - 1, middle, middle + 1]
        })
    };
    let negative = |bits: u32| near_middles(bits).map(|x| -x);
    check_powers::<i32>(&near_middles(31).chain(negative(31)).collect::<Vec<_>>());
    check_powers::<u32>(&near_middles(32).collect::<Vec<_>>());
    check_powers::<i64>(&near_middles(63).chain(negative(63)).collect::<Vec<_>>());
    check_powers::<u64>(&near_middles(64).collect::<Vec<_>>());
}
