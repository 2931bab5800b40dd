//! Microscaling formats: every bit pattern, every rounding, and scaled products against f64.

use tilekit::prelude::*;

/// The numbers of the four bits of an e2m1.
const E2M1: [f32; 16] = [
    0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0,
];

#[kernel(warps = 4)]
fn unpacked<T: Element>(bytes: Ptr<u8>, out: Ptr<T>) {
    let line = Blocked::new([2], [32], [4], [0]);
    let both = bytes.at(arange(0..256, line)).load().unpack_e2m1::<T>();
    out.at(arange(0..512, both.layout())).store(both);
}

#[kernel(warps = 4)]
fn scales(bytes: Ptr<E8m0>, out: Ptr<f32>) {
    let at = arange(0..256, Blocked::new([2], [32], [4], [0]));
    out.at(at).store(bytes.at(at).load().cast::<f32>());
}

/// Runs `kernel(input, out)` on one CTA.
macro_rules! run {
    ($kernel:expr, $input:expr, $out:expr) => {{
        let device = Device::emulator();
        let compiled = $kernel
            .compile(&Compiler::default())
            .unwrap_or_else(|e| panic!("{e}"));
        crate::assemble(compiled.compiled().ptx());
        let kernel = compiled.load(&device).expect("the emulator has it");
        let input = Buffer::from_slice(&device, $input).expect("the emulator has it");
        let out = Buffer::from_slice(&device, &$out).expect("the emulator has it");
        let stream = Stream::new(&device).expect("the emulator has it");
        kernel
            .launch(&stream, grid(1), (&input, &out))
            .expect("the emulator has it");
        out.to_vec().expect("the emulator has it")
    }};
}

fn all_bytes() -> Vec<u8> {
    (0..=255).collect()
}

#[test]
fn all_bytes_of_two_e2m1() {
    let wanted: Vec<f32> = all_bytes()
        .into_iter()
        .flat_map(|b| [E2M1[usize::from(b & 15)], E2M1[usize::from(b >> 4)]])
        .collect();
    let bits = |x: &[f32]| x.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    assert_eq!(
        bits(&run!(unpacked::<f32>, &all_bytes(), [9.0_f32; 512])),
        bits(&wanted)
    );
    let found = run!(unpacked::<bf16>, &all_bytes(), [bf16::NAN; 512]);
    assert_eq!(
        bits(&found.iter().map(|v| v.to_f32()).collect::<Vec<_>>()),
        bits(&wanted)
    );
    let found = run!(unpacked::<f16>, &all_bytes(), [f16::NAN; 512]);
    assert_eq!(
        bits(&found.iter().map(|v| v.to_f32()).collect::<Vec<_>>()),
        bits(&wanted)
    );
}

#[test]
fn all_scales() {
    let bytes: Vec<E8m0> = all_bytes().into_iter().map(E8m0::from_bits).collect();
    for (byte, found) in run!(scales, &bytes, [9.0_f32; 256]).into_iter().enumerate() {
        let wanted = 2f64.powi(byte as i32 - 127);
        assert!(
            if byte == 255 {
                found.is_nan()
            } else {
                f64::from(found).total_cmp(&wanted).is_eq()
            },
            "{byte}: {found:e}"
        );
    }
}

#[kernel(warps = 1)]
fn packed(x: Ptr<f32>, out: Ptr<u8>) {
    let line = Blocked::new([2], [32], [1], [0]);
    let bytes = x.at(arange(0..256, line)).load().pack_e2m1();
    out.at(arange(0..128, bytes.layout())).store(bytes);
}

/// The nearest e2m1, of two the even one.
fn nearest(x: f32) -> u8 {
    let sign = u8::from(x.is_sign_negative()) << 3;
    if x.is_nan() {
        return 7;
    }
    let apart =
        |bits: &u8| (f64::from(E2M1[usize::from(*bits)]) - f64::from(x.abs().min(100.0))).abs();
    let best = (0..8_u8).min_by(|a, b| apart(a).total_cmp(&apart(b)).then((a & 1).cmp(&(b & 1))));
    best.expect("the emulator has it") | sign
}

#[test]
fn floats_become_the_nearest_e2m1() {
    // Every number, every half-way point and what lies next to it, beyond the largest, and what is no number.
    let ends = [
        0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 6.0, 7.5, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0,
    ];
    let around = |x: f32| {
        [
            x,
            f32::from_bits(x.to_bits() + 1),
            f32::from_bits(x.to_bits().saturating_sub(1)),
        ]
    };
    let mut inputs: Vec<f32> = ends
        .into_iter()
        .flat_map(around)
        .flat_map(|x| [x, -x])
        .collect();
    inputs.extend([
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::MAX,
        f32::MIN_POSITIVE,
        -1e-40,
    ]);
    inputs.extend((0..256 - inputs.len()).map(|i| (i as f32 - 70.0) / 11.0));
    let wanted: Vec<u8> = inputs
        .chunks(2)
        .map(|p| nearest(p[0]) | nearest(p[1]) << 4)
        .collect();
    assert_eq!(run!(packed, &inputs, [0xee_u8; 128]), wanted);
}

const M: usize = 32;
const N: usize = 16;
const K: usize = 128;

/// The product of `left`, in any layout, with `b`, whose K lies along its rows; both have scales for 32 elements of K.
#[device]
fn times<A: ScaledOperand, B: ScaledOperand>(
    left: Tensor<A>,
    a_scales: Ptr<E8m0>,
    b: Ptr<B>,
    b_scales: Ptr<E8m0>,
    out: Ptr<f32>,
) {
    let warps = Mma::new([2, 2], [16, 8]);
    let tile = Blocked::new([1, 4], [8, 4], [4, 1], [1, 0]);
    let (rows, cols) = (Slice::new(1, tile.clone()), Slice::new(0, tile.clone()));
    let row = arange(0..M, rows.clone()).expand_dims(1);
    let left = left.convert_layout(DotOperand::new(0, warps.clone(), 2));
    let groups = arange(0..K / 32, cols.clone()).expand_dims(0);
    let of_left = a_scales.at(row * (K as i32 / 32) + groups).load();

    let right = DotOperand::new(1, warps.clone(), 2);
    let depth = arange(0..K, Slice::new(1, right.clone())).expand_dims(1);
    let column = arange(0..N, Slice::new(0, right)).expand_dims(0);
    let y = b.at(depth * N as i32 + column).load();
    let group = arange(0..K / 32, rows).expand_dims(1);
    let column = arange(0..N, cols).expand_dims(0);
    let of_right = b_scales.at(group * N as i32 + column).load();

    let sum = mma_v2_scaled(
        left,
        of_left,
        y,
        of_right,
        zeros::<f32>([M, N], warps.clone()),
    );
    let row = arange(0..M, Slice::new(1, warps.clone())).expand_dims(1);
    let col = arange(0..N, Slice::new(0, warps)).expand_dims(0);
    out.at(row * N as i32 + col).store(sum);
}

/// `a` of fp4 in pairs along K.
#[kernel(warps = 4)]
fn packed_product(
    a: Ptr<u8>,
    a_scales: Ptr<E8m0>,
    b: Ptr<E4m3>,
    b_scales: Ptr<E8m0>,
    out: Ptr<f32>,
) {
    let tile = Blocked::new([1, 4], [8, 4], [4, 1], [1, 0]);
    let row = arange(0..M, Slice::new(1, tile.clone())).expand_dims(1);
    let pairs = a.at(row * (K as i32 / 2) + arange(0..K / 2, Slice::new(0, tile)).expand_dims(0));
    times(
        pairs.load().unpack_e2m1::<E2m1>(),
        a_scales,
        b,
        b_scales,
        out,
    );
}

/// A number of each element in memory.
#[kernel(warps = 4)]
fn scaled_product<A: ScaledOperand, B: ScaledOperand>(
    a: Ptr<A>,
    a_scales: Ptr<E8m0>,
    b: Ptr<B>,
    b_scales: Ptr<E8m0>,
    out: Ptr<f32>,
) {
    let tile = Blocked::new([1, 4], [8, 4], [4, 1], [1, 0]);
    let row = arange(0..M, Slice::new(1, tile.clone())).expand_dims(1);
    let at = row * K as i32 + arange(0..K, Slice::new(0, tile)).expand_dims(0);
    times(a.at(at).load(), a_scales, b, b_scales, out);
}

/// Numbers of a type, spread over its small ones.
fn operands<T: DeviceElement>(count: usize, by: usize) -> Vec<T> {
    let number = |i: usize| (i * by % 61) as f64 / 8.0 - 3.7;
    let numbers: Vec<Number> = (0..count).map(|i| Number::Float(number(i))).collect();
    T::nearest_all(&numbers)
}

fn near_one(count: usize, by: usize) -> Vec<E8m0> {
    let scale = |i: usize| E8m0::from_bits(120 + (i * by % 13) as u8);
    (0..count).map(scale).collect()
}

/// Judges a product of operands that are exact, as are their products with scales: what rounds is the sum in f32.
fn check_product(found: &[f32], x: &[f64], sa: &[E8m0], y: &[f64], sb: &[E8m0]) {
    for (at, found) in found.iter().enumerate() {
        let (row, col) = (at / N, at % N);
        let (mut sum, mut size) = (0.0, 0.0);
        for k in 0..K {
            let x = x[row * K + k] * sa[row * K / 32 + k / 32].to_f64();
            let y = y[k * N + col] * sb[k / 32 * N + col].to_f64();
            sum += x * y;
            size += (x * y).abs();
        }
        assert!(
            (f64::from(*found) - sum).abs() <= size * 2f64.powi(-20),
            "{at}: {found} for {sum}"
        );
    }
}

/// Runs a product of `a`, as memory has it and as numbers, and `b`.
macro_rules! check_product {
    ($kernel:expr, $a:expr, $x:expr, $b:expr) => {{
        let (a, b) = ($a, $b);
        let (sa, sb) = (near_one(M * K / 32, 5), near_one(K / 32 * N, 7));
        let device = Device::emulator();
        let compiled = $kernel
            .compile(&Compiler::default())
            .unwrap_or_else(|e| panic!("{e}"));
        crate::assemble(compiled.compiled().ptx());
        let kernel = compiled.load(&device).expect("the emulator has it");
        let scales = |x: &[E8m0]| Buffer::from_slice(&device, x).expect("the emulator has it");
        let of = (scales(&sa), scales(&sb));
        let left = Buffer::from_slice(&device, &a).expect("the emulator has it");
        let right = Buffer::from_slice(&device, &b).expect("the emulator has it");
        let out = Buffer::<f32>::zeros(&device, M * N).expect("the emulator has it");
        let stream = Stream::new(&device).expect("the emulator has it");
        kernel
            .launch(&stream, grid(1), (&left, &of.0, &right, &of.1, &out))
            .expect("the emulator has it");
        let y: Vec<f64> = b.iter().map(|v| f64::from(*v)).collect();
        check_product(
            &out.to_vec().expect("the emulator has it"),
            &$x,
            &sa,
            &y,
            &sb,
        );
    }};
}

#[test]
fn products_of_packed_numbers_with_scales() {
    let a: Vec<u8> = (0..M * K / 2).map(|i| (i * 37 % 251) as u8).collect();
    let x: Vec<f64> = a
        .iter()
        .flat_map(|&byte| E2m1::unpair(byte).map(E2m1::to_f64))
        .collect();
    check_product!(packed_product, a, x, operands::<E4m3>(K * N, 91));
}

macro_rules! check_operands {
    ($left:ty, $right:ty) => {{
        let a = operands::<$left>(M * K, 37);
        let x: Vec<f64> = a.iter().map(|v| f64::from(*v)).collect();
        check_product!(
            scaled_product::<$left, $right>,
            a,
            x,
            operands::<$right>(K * N, 91)
        );
    }};
}

#[test]
fn products_of_all_types_with_scales() {
    check_operands!(E2m1, E2m1);
    check_operands!(E2m1, bf16);
    check_operands!(E4m3, E5m2);
    check_operands!(E5m2, E2m1);
    check_operands!(bf16, E4m3);
}
