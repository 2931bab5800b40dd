//! Order along extents that are no powers of two, of every element type.

use std::cmp::Ordering;
use std::fmt::Debug;

use tilekit::prelude::*;

/// Sorts both ways, and the largest with where they stood: some, and all.
#[kernel(warps = WARPS)]
fn orders<T: Numeric, const N: usize, const K: usize, const WARPS: usize>(
    x: Ptr<T>,
    sorted: Ptr<T>,
    largest: Ptr<T>,
    places: Ptr<i32>,
) {
    let line = arange(0..N, Blocked::new([1], [32], [WARPS], [0]));
    let v = x.at(line).load();
    sorted.at(line).store(v.sort(0));
    sorted.at(line + N).store(v.sort_descending(0));
    let (all, place) = v.top_k(N, 0);
    largest.at(line).store(all);
    places.at(line).store(place);
    let (some, place) = v.top_k(K, 0);
    let first = arange(0..K, some.layout());
    largest.at(first + N).store(some);
    places.at(first + N).store(place);
}

fn check<T, const N: usize, const K: usize, const WARPS: usize>(
    x: &[T],
    order: impl Fn(&T, &T) -> Ordering,
) where
    T: DeviceElement + Numeric + Debug + Copy,
{
    let device = Device::emulator();
    let compiled = orders::<T, N, K, WARPS>
        .compile(&Compiler::default())
        .unwrap_or_else(|e| panic!("{e}"));
    crate::assemble(compiled.compiled().ptx());
    let kernel = compiled.load(&device).expect("the emulator takes it");
    let input = Buffer::from_slice(&device, x).expect("memory of the host");
    let sorted = Buffer::<T>::zeros(&device, 2 * N).expect("memory of the host");
    let largest = Buffer::<T>::zeros(&device, N + K).expect("memory of the host");
    let places = Buffer::<i32>::zeros(&device, N + K).expect("memory of the host");
    let stream = Stream::new(&device).expect("the emulator has streams");
    let arguments = (&input, &sorted, &largest, &places);
    kernel
        .launch(&stream, grid(1u32), arguments)
        .expect("it runs");
    // Of equal elements the one with the lower coordinate comes first.
    let mut from_largest: Vec<usize> = (0..N).collect();
    from_largest.sort_by(|&a, &b| order(&x[b], &x[a]).then(a.cmp(&b)));
    let down: Vec<T> = from_largest.iter().map(|&at| x[at]).collect();
    let up: Vec<T> = down.iter().rev().copied().collect();
    let text = |list: &[T]| format!("{list:?}");
    let sorted = sorted.to_vec().expect("it has run");
    assert_eq!(text(&sorted[..N]), text(&up), "{N} ascending");
    assert_eq!(text(&sorted[N..]), text(&down), "{N} descending");
    let largest = largest.to_vec().expect("it has run");
    assert_eq!(text(&largest[..N]), text(&down), "all of {N}");
    assert_eq!(text(&largest[N..]), text(&down[..K]), "{K} of {N}");
    let wanted: Vec<i32> = from_largest.iter().map(|&at| at as i32).collect();
    let places = places.to_vec().expect("it has run");
    assert_eq!(places[..N], wanted, "all of {N}");
    assert_eq!(places[N..], wanted[..K], "{K} of {N}");
}

/// Numbers of which many are equal, and the extremes among them.
macro_rules! integers {
    ($($ty:ty)*) => {$({
        let number = |i: usize| match i % 17 {
            3 => <$ty>::MAX,
            9 => <$ty>::MIN,
            _ => (i * 7919 % 23) as $ty,
        };
        let list: Vec<$ty> = (0..192).map(number).collect();
        check::<$ty, 192, 64, 2>(&list, Ord::cmp);
        check::<$ty, 96, 4, 1>(&list[..96], Ord::cmp);
        check::<$ty, 160, 16, 1>(&list[..160], Ord::cmp);
    })*};
}

#[test]
fn integers() {
    integers!(i8 i16 i32 i64 u8 u16 u32 u64);
}

/// -0 comes before 0, and NaN beyond the infinity of its sign.
fn floats<T: DeviceElement + Float + Debug + Copy>(
    of: impl Fn(f64) -> T,
    order: fn(&T, &T) -> Ordering,
) {
    let special = [
        f64::INFINITY,
        -f64::INFINITY,
        0.0,
        -0.0,
        f64::NAN,
        -f64::NAN,
    ];
    let number = |i: usize| match special.get(i % 13) {
        Some(special) => of(*special),
        None => of((i * 7919 % 31) as f64 / 4.0 - 3.0),
    };
    let list: Vec<T> = (0..192).map(number).collect();
    check::<T, 192, 64, 2>(&list, order);
    check::<T, 96, 32, 1>(&list[..96], order);
    check::<T, 160, 128, 1>(&list[..160], order);
}

#[test]
fn floats_of_every_width() {
    floats(f16::from_f64, f16::total_cmp);
    floats(bf16::from_f64, bf16::total_cmp);
    floats(|x| x as f32, f32::total_cmp);
    floats(|x| x, f64::total_cmp);
}
