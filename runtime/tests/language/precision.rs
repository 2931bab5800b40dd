//! Products of f32 by parts of narrower types, against f64; operands rounded to tf32 as they are loaded.

use tilekit::prelude::*;

const SIZE: usize = 64;

fn warps() -> Mma {
    Mma::new([2, 2], [16, 8])
}

/// A row-major matrix in a layout.
#[device]
fn matrix(from: Ptr<f32>, layout: impl Into<Layout>) -> Tensor<f32> {
    let layout = layout.into();
    let row = arange(0..SIZE, Slice::new(1, layout.clone())).expand_dims(1);
    let col = arange(0..SIZE, Slice::new(0, layout)).expand_dims(0);
    from.at(row * SIZE as i32 + col).load()
}

#[kernel(warps = 4)]
fn products(a: Ptr<f32>, b: Ptr<f32>, out: Ptr<f32>, by: i32) {
    let x = matrix(a, DotOperand::new(0, warps(), 2));
    let y = matrix(b, DotOperand::new(1, warps(), 2));
    let zero = zeros::<f32>([SIZE, SIZE], warps());
    let mut sum = zero;
    if by == 0 {
        sum = mma_v2_tf32(x, y, zero);
    } else if by == 1 {
        sum = mma_v2_tf32x3(x, y, zero);
    } else {
        sum = mma_v2_bf16x3(x, y, zero);
    }
    let row = arange(0..SIZE, Slice::new(1, warps())).expand_dims(1);
    let col = arange(0..SIZE, Slice::new(0, warps())).expand_dims(0);
    out.at(row * SIZE as i32 + col).store(sum);
}

/// The product by one of the three ways, on the emulator.
fn product(a: &[f32], b: &[f32], by: i32) -> Vec<f32> {
    let device = Device::emulator();
    let compiled = products
        .compile(&Compiler::default())
        .expect("the emulator has it");
    crate::assemble(compiled.compiled().ptx());
    let kernel = compiled.load(&device).expect("the emulator has it");
    let (a, b) = (
        Buffer::from_slice(&device, a).expect("the emulator has it"),
        Buffer::from_slice(&device, b).expect("the emulator has it"),
    );
    let out = Buffer::<f32>::zeros(&device, SIZE * SIZE).expect("the emulator has it");
    let stream = Stream::new(&device).expect("the emulator has it");
    kernel
        .launch(&stream, grid(1), (&a, &b, &out, by))
        .expect("the emulator has it");
    out.to_vec().expect("the emulator has it")
}

/// Numbers of about 1 whose lower bits are all in use.
fn scattered(seed: u32) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(state >> 1) / f64::from(1_u32 << 30) - 1.0
    };
    (0..SIZE * SIZE).map(|_| next() as f32).collect()
}

/// The largest error, as a part of the sum of the magnitudes that are added up.
fn error(a: &[f32], b: &[f32], found: &[f32]) -> f64 {
    let mut largest: f64 = 0.0;
    for row in 0..SIZE {
        for col in 0..SIZE {
            let terms =
                (0..SIZE).map(|k| f64::from(a[row * SIZE + k]) * f64::from(b[k * SIZE + col]));
            let (sum, size) = terms.fold((0.0, 0.0), |(s, n), t| (s + t, n + t.abs()));
            let apart = (f64::from(found[row * SIZE + col]) - sum).abs();
            largest = largest.max(apart / size);
        }
    }
    largest
}

#[test]
fn three_products_are_as_exact_as_said() {
    let (a, b) = (scattered(1), scattered(7));
    let of = |by: i32| error(&a, &b, &product(&a, &b, by));
    let (plain, tf32, bf16) = (of(0), of(1), of(2));
    assert!(plain > 2f64.powi(-14), "one product alone: {plain:e}");
    assert!(tf32 < 2f64.powi(-21), "tf32x3: {tf32:e}");
    assert!(
        bf16 < 2f64.powi(-15) && bf16 > 2f64.powi(-21),
        "bf16x3: {bf16:e}"
    );
}

#[test]
fn infinities_and_nan_come_out_as_in_f32() {
    let (mut a, mut b) = (scattered(3), scattered(5));
    a[0] = f32::INFINITY;
    a[SIZE + 3] = f32::NEG_INFINITY;
    a[2 * SIZE + 5] = f32::NAN;
    b[9] = f32::INFINITY;
    // An operand of infinity that is 0.
    b[17] = 0.0;
    for by in [1, 2] {
        let found = product(&a, &b, by);
        for row in 0..SIZE {
            for col in 0..SIZE {
                let wanted: f32 = (0..SIZE)
                    .map(|k| a[row * SIZE + k] * b[k * SIZE + col])
                    .sum();
                let found = found[row * SIZE + col];
                let is_alike = if wanted.is_finite() {
                    found.is_finite()
                } else {
                    found.to_bits() == wanted.to_bits() || found.is_nan() && wanted.is_nan()
                };
                assert!(is_alike, "({row}, {col}) by {by}: {found} for {wanted}");
            }
        }
    }
}

/// Copies a block of 16 x 32 through a map of the host, and one through a map that the kernel makes.
#[kernel(warps = 1)]
fn loaded(
    #[block([16, 32], Nvmma::B128)] x: TensorMap<f32>,
    raw: Ptr<f32>,
    place: Ptr<u64>,
    out: Ptr<f32>,
) {
    let own = raw
        .tensor([16, 32], [32_i64])
        .rounded_to_tf32()
        .map([16, 32], Nvmma::B128, place);
    let layout = Blocked::new([1, 4], [4, 8], [1, 1], [1, 0]);
    let row = arange(0..16, Slice::new(1, layout.clone())).expand_dims(1);
    let col = arange(0..32, Slice::new(0, layout.clone())).expand_dims(0);
    let (first, second) = (
        Smem::<f32>::alloc(x.block(), x.layout()),
        Smem::<f32>::alloc(x.block(), x.layout()),
    );
    let ready = Mbarrier::alloc(1);
    ready.expect(2 * 16 * 32 * 4);
    x.load([0, 0], first, ready);
    own.load([0, 0], second, ready);
    ready.wait(0);
    out.at(row * 32 + col).store(first.load(layout.clone()));
    out.at(512 + row * 32 + col).store(second.load(layout));
}

/// The nearest tf32, ties to even, by arithmetic in f64.
fn nearest_tf32(x: f32) -> f32 {
    if x == 0.0 || !x.is_finite() {
        return x;
    }
    // Subnormal numbers have the step of the smallest normal ones.
    let exponent = (x.abs().to_bits() >> 23).max(1) as i32 - 127;
    let step = 2f64.powi(exponent - 10);
    let steps = (f64::from(x) / step).round_ties_even();
    (steps * step) as f32
}

#[test]
fn loads_round_to_tf32() {
    let mut numbers = scattered(11)[..496].to_vec();
    let ties = [
        0x3f80_1000,
        0x3f80_3000,
        0x3f80_1001,
        0x3f80_0fff,
        0xbf80_5000,
        0x0000_1000,
        0x007f_f000,
        0x7f7f_efff,
    ];
    numbers.extend(ties.map(f32::from_bits));
    numbers.extend([
        0.0,
        -0.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        1.0,
        -2.5,
        f32::MIN_POSITIVE,
        1e-42,
    ]);
    // A GPU says how it rounds, where there is one.
    let devices = [Some(Device::emulator()), Device::cuda(0).ok()];
    for device in devices.into_iter().flatten() {
        check_loads(&device, &numbers);
    }
}

fn check_loads(device: &Device, numbers: &[f32]) {
    let kernel = loaded
        .compile(&Compiler::default())
        .unwrap_or_else(|e| panic!("{e}"));
    crate::assemble(kernel.compiled().ptx());
    let kernel = kernel.load(device).expect("the emulator has it");
    let x = Buffer::from_slice(device, numbers).expect("the emulator has it");
    let place = Buffer::<u64>::zeros(device, 16).expect("the emulator has it");
    let stream = Stream::new(device).expect("the emulator has it");
    let bits = |x: &[f32]| x.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    let rounded: Vec<f32> = numbers.iter().map(|x| nearest_tf32(*x)).collect();
    for (is_rounded, wanted) in [(true, &rounded[..]), (false, numbers)] {
        let out = Buffer::<f32>::zeros(device, 1024).expect("the emulator has it");
        let view = x.view([16, 32]);
        let view = if is_rounded {
            view.rounded_to_tf32()
        } else {
            view
        };
        kernel
            .launch(&stream, grid(1), (view, &x, &place, &out))
            .expect("the emulator has it");
        let found = out.to_vec().expect("the emulator has it");
        assert_eq!(bits(&found[..512]), bits(wanted), "rounded: {is_rounded}");
        assert_eq!(bits(&found[512..]), bits(&rounded));
    }
}

#[kernel(warps = 1)]
fn integers(#[block([16, 32], Nvmma::B128)] x: TensorMap<i32>) {
    x.prefetch([0, 0]);
}

#[test]
fn only_f32_is_rounded() {
    let device = Device::emulator();
    let kernel = integers
        .compile(&Compiler::default())
        .expect("the emulator has it");
    let kernel = kernel.load(&device).expect("the emulator has it");
    let x = Buffer::<i32>::zeros(&device, 512).expect("the emulator has it");
    let stream = Stream::new(&device).expect("the emulator has it");
    let found = kernel.launch(&stream, grid(1), (x.view([16, 32]).rounded_to_tf32(),));
    let message = found.unwrap_err().to_string();
    assert!(message.contains("only f32 can be"), "{message}");
}
