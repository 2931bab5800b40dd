//! Products of matrices in rows, `A[M, K] · B[N, K]ᵀ` in bf16.

use tilekit::prelude::*;
use tilekit_kernels::products::Products;

use super::normal::normal;
use super::timing::{Times, sets, time};

/// M, N and K.
const SHAPES: [[usize; 3]; 12] = [
    [1, 4096, 4096],
    [16, 4096, 14336],
    [64, 8192, 8192],
    [200, 1024, 8192],
    [512, 512, 16384],
    [107, 208, 9040],
    [1000, 1000, 1000],
    [2048, 2048, 2048],
    [3000, 5000, 4096],
    [4096, 4096, 4096],
    [4800, 256, 8384],
    [8192, 8192, 8192],
];

struct Set {
    a: Buffer<bf16>,
    b: Buffer<bf16>,
    c: Buffer<bf16>,
}

pub(crate) fn run(device: &Device, filter: &str) {
    let products = Products::new(device);
    let stream = Stream::new(device).unwrap();
    for [m, n, k] in SHAPES {
        let name = format!("product {m}x{n}x{k}");
        if !name.contains(filter) {
            continue;
        }
        let sets: Vec<Set> = (0..sets(2 * (m * k + n * k + m * n)))
            .map(|number| {
                let seed = 2 * number as u64;
                let of = |data: Vec<bf16>| Buffer::from_slice(device, &data).unwrap();
                Set {
                    a: of(normal(m * k, seed + 1)),
                    b: of(normal(n * k, seed + 2)),
                    c: Buffer::new(device, m * n).unwrap(),
                }
            })
            .collect();
        let call = |set: &Set, stream: &Stream| {
            let (a, c) = (set.a.view([m, k]), set.c.view([m, n]));
            let b = set.b.view([k, n]).with_strides([1, k]);
            products.multiply_into(stream, &a, &b, &c).unwrap();
        };
        for set in &sets {
            call(set, &stream);
        }
        stream.synchronize().unwrap();
        check(&sets[0], [m, n, k]);
        let Times {
            single,
            back_to_back,
            host,
        } = time(device, &stream, &sets, call);
        let flops = 2.0 * (m * n * k) as f64;
        println!(
            "{name:24} single {single:8.1} us {:6.1} TFLOP/s  back to back {back_to_back:8.1} us {:6.1} TFLOP/s  host {host:5.1} us",
            flops / single / 1e6,
            flops / back_to_back / 1e6,
        );
    }
}

/// Some rows and columns, against f64.
fn check(set: &Set, [m, n, k]: [usize; 3]) {
    let (a, b, c) = (
        set.a.to_vec().unwrap(),
        set.b.to_vec().unwrap(),
        set.c.to_vec().unwrap(),
    );
    for row in [0, m / 2, m - 1] {
        for column in [0, n / 3, n - 1] {
            let (x, y) = (&a[row * k..][..k], &b[column * k..][..k]);
            let expected: f64 = x.iter().zip(y).map(|(x, y)| x.to_f64() * y.to_f64()).sum();
            let found = c[row * n + column].to_f64();
            assert!(
                (expected - found).abs() < 1e-2 * expected.abs() + 1e-3 * (k as f64).sqrt(),
                "{row}, {column}: {found}, expected {expected}"
            );
        }
    }
}
