//! Random numbers against the known answers of Random123 and against what Triton's `tl.rand` computes, on the host.

use gluon_lang::lang::KernelFn;
use gluon_lang::lang::prelude::*;
use ir::elem::DType;

use crate::machine::{LEN, run_func};
use crate::values::{bytes, values};

fn places() -> Tensor<i32> {
    arange(0..LEN, Blocked::new([2], [32], [4], [0]))
}

/// Philox 4x32 with ten rounds, as its paper gives it.
fn on_host(mut key: [u32; 2], mut counter: [u32; 4]) -> [u32; 4] {
    for _ in 0..10 {
        let [c0, c1, c2, c3] = counter;
        let product0 = 0xd251_1f53_u64 * u64::from(c0);
        let product2 = 0xcd9e_8d57_u64 * u64::from(c2);
        counter = [
            (product2 >> 32) as u32 ^ c1 ^ key[0],
            product2 as u32,
            (product0 >> 32) as u32 ^ c3 ^ key[1],
            product0 as u32,
        ];
        key = [
            key[0].wrapping_add(0x9e37_79b9),
            key[1].wrapping_add(0xbb67_ae85),
        ];
    }
    counter
}

/// Random123's `kat_vectors` for philox4x32 with 10 rounds: counter, key, words.
const KNOWN: [([u32; 4], [u32; 2], [u32; 4]); 3] = [
    (
        [0; 4],
        [0; 2],
        [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8],
    ),
    (
        [!0; 4],
        [!0; 2],
        [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd],
    ),
    (
        [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
        [0xa409_3822, 0x299f_31d0],
        [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
    ),
];

#[test]
fn the_reference_gives_the_known_answers() {
    for (counter, key, words) in KNOWN {
        assert_eq!(on_host(key, counter), words);
    }
}

thread_local! {
    static SEED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

#[kernel(warps = 4)]
fn of_counters(counters: Ptr<u32>, out: Ptr<u32>) {
    let counter = [0, 1, 2, 3].map(|word| counters.at(places() + word * LEN).load());
    for (number, word) in philox(SEED.get(), counter).into_iter().enumerate() {
        out.at(places() + number * LEN).store(word);
    }
}

#[test]
fn philox_gives_the_known_answers() {
    for (counter, key, words) in KNOWN {
        SEED.set(u64::from(key[1]) << 32 | u64::from(key[0]));
        let func = KernelFn::trace(of_counters)
            .unwrap_or_else(|e| panic!("{e}"))
            .func;
        let data: Vec<u64> = counter
            .iter()
            .flat_map(|word| vec![u64::from(*word); LEN])
            .collect();
        let found = run_func(func, &[&bytes(&data, DType::U32)], 16 * LEN);
        let found = values(&found, DType::U32);
        for (number, word) in words.into_iter().enumerate() {
            assert!(
                found[number * LEN..][..LEN]
                    .iter()
                    .all(|f| *f == u64::from(word)),
                "{counter:x?}"
            );
        }
    }
}

#[kernel(warps = 4)]
fn draws<I: Index>(offsets: Ptr<I>, seed: Ptr<u64>, out: Ptr<f32>) {
    let offset = offsets.at(places()).load();
    let seed = seed.load();
    for (number, word) in randint4x(seed, offset).into_iter().enumerate() {
        out.at(places() + number * LEN).store(word.bitcast::<f32>());
    }
    for (number, value) in rand4x(seed, offset).into_iter().enumerate() {
        out.at(places() + (4 + number) * LEN).store(value);
    }
    for (number, value) in randn4x(seed, offset).into_iter().enumerate() {
        out.at(places() + (8 + number) * LEN).store(value);
    }
    out.at(places() + 12 * LEN)
        .store(randint(seed, offset).bitcast::<f32>());
    out.at(places() + 13 * LEN).store(rand(seed, offset));
    out.at(places() + 14 * LEN).store(randn(seed, offset));
}

/// Triton's `uint_to_uniform_float`.
fn uniform(word: u32) -> f32 {
    let x = word.cast_signed();
    let x = if x < 0 { -(x + 1) } else { x };
    x as f32 * 4.656_612_7e-10_f32
}

fn check_draws<I: Index>(offsets: &[u64], seed: u64) {
    let func = KernelFn::trace(draws::<I>)
        .unwrap_or_else(|e| panic!("{e}"))
        .func;
    let data = [bytes(offsets, I::DTYPE), seed.to_le_bytes().to_vec()];
    let found = run_func(func, &[&data[0], &data[1]], 15 * 4 * LEN);
    let found: Vec<u32> = values(&found, DType::F32)
        .into_iter()
        .map(|f| f as u32)
        .collect();
    let key = [seed as u32, (seed >> 32) as u32];
    for (at, &offset) in offsets.iter().enumerate() {
        let high = if I::DTYPE.bits() == 64 {
            (offset >> 32) as u32
        } else {
            0
        };
        let words = on_host(key, [offset as u32, high, 0, 0]);
        let what = format!("seed {seed:#x}, offset {offset:#x}");
        let row = |number: usize| found[number * LEN + at];
        let uniforms = words.map(uniform);
        for number in 0..4 {
            assert_eq!(row(number), words[number], "{what}");
            assert_eq!(row(4 + number), uniforms[number].to_bits(), "{what}");
            assert!((0.0..1.0).contains(&uniforms[number]), "{what}");
            let (a, b) = (uniforms[number & 2], uniforms[number | 1]);
            let radius = (-2.0 * f64::from(a.max(1e-7)).ln()).sqrt();
            let angle = f64::from(b * std::f32::consts::TAU);
            let exact = radius
                * if number & 1 == 0 {
                    angle.cos()
                } else {
                    angle.sin()
                };
            let normal = f64::from(f32::from_bits(row(8 + number)));
            assert!(
                (normal - exact).abs() < 4e-6,
                "{what}: {normal}, not {exact}"
            );
        }
        for (one, four) in [(12, 0), (13, 4), (14, 8)] {
            assert_eq!(row(one), row(four), "{what}");
        }
    }
}

#[test]
fn draws_are_those_of_triton() {
    let offsets: Vec<u64> = (0..LEN as u64).collect();
    check_draws::<i32>(&offsets, 42);
    check_draws::<u32>(&offsets, 0xdead_beef_1234_5678);
    let wide: Vec<u64> = (0..LEN as u64).map(|at| at << 28 | at).collect();
    check_draws::<i64>(&wide, u64::MAX);
    check_draws::<u64>(&wide, 7);
}

/// A word of all zeros or ones is 0, and the largest one is below 1.
#[test]
fn uniform_numbers_stay_below_one() {
    assert_eq!([0, u32::MAX].map(uniform), [0.0, 0.0]);
    assert!(uniform(0x7fff_ffff) < 1.0 && uniform(0x8000_0000) < 1.0);
}
