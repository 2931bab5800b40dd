//! Products whose epilogue stores more than the result, beside the product alone: `A[M, K] · B[N, K]ᵀ` in bf16.

use tilekit::library::epilogue::{gelu, silu};
use tilekit::prelude::*;
use tilekit_kernels::products::{Activation, Axis, Options, Outputs, Products, Reduction};

use super::normal::normal;
use super::timing::{sets, time};

/// M, N and K.
const SHAPES: [[usize; 3]; 5] = [
    [8192, 8192, 4096],
    [4096, 14336, 4096],
    [8192, 4096, 1024],
    [1024, 4096, 4096],
    [64, 14336, 4096],
];

/// What each row calls, by its name.
const CALLS: [&str; 13] = [
    "alone",
    "bias_relu",
    "residual",
    "gelu",
    "gelu_and_sums",
    "largest",
    "squares_of_rows",
    "sums_of_columns",
    "swiglu",
    "swiglu_and_sums",
    "swiglu_e4m3_with_scales",
    "e4m3",
    "e4m3_with_scales",
];

struct Set {
    size: [usize; 3],
    a: Buffer<bf16>,
    b: Buffer<bf16>,
    bias: Buffer<bf16>,
    c: Buffer<bf16>,
    second: Buffer<bf16>,
    bytes: Buffer<E4m3>,
    scales: Buffer<f32>,
    /// A number for each row, for each column, and one.
    numbers: [Buffer<f32>; 3],
}

impl Set {
    fn new(device: &Device, [m, n, k]: [usize; 3], seed: u64) -> Set {
        let of = |data: Vec<bf16>| Buffer::from_slice(device, &data).unwrap();
        Set {
            size: [m, n, k],
            a: of(normal(m * k, seed + 1)),
            b: of(normal(n * k, seed + 2)),
            bias: of(normal(n, seed + 3)),
            c: Buffer::new(device, m * n).unwrap(),
            second: of(normal(m * n, seed + 4)),
            bytes: Buffer::new(device, m * n).unwrap(),
            scales: Buffer::new(device, m * n.div_ceil(128)).unwrap(),
            numbers: [m, n, 1].map(|len| Buffer::zeros(device, len).unwrap()),
        }
    }

    fn call(&self, products: &Products, stream: &Stream, name: &str) {
        let [m, n, k] = self.size;
        let (a, b) = (
            self.a.view([m, k]),
            self.b.view([k, n]).with_strides([1, k]),
        );
        let (c, bytes) = (self.c.view([m, n]), self.bytes.view([m, n]));
        let (second, pairs) = (self.second.view([m, n]), self.second.view([m, n / 2]));
        let scales = self.scales.view([m, n.div_ceil(128)]).with_strides([1, m]);
        let half_scales = self.scales.view([m, n / 2 / 128]).with_strides([1, m]);
        let half_bytes = self.bytes.view([m, n / 2]);
        let (none, of_bytes) = (Options::default(), Options::default());
        let [rows, columns, all] = self.numbers.each_ref().map(Some);
        let outputs = Outputs::<bf16>::default();
        match name {
            "alone" => products.multiply_into(stream, &a, &b, &c),
            "bias_relu" => {
                let options = Options {
                    bias: Some((&self.bias, Axis::Columns)),
                    activation: Activation::Relu,
                    ..none
                };
                products.call(stream, &a, &b, &c, &options)
            }
            "residual" => {
                let options = Options {
                    beta: 1.0,
                    source: Some(&second),
                    ..none
                };
                products.call(stream, &a, &b, &c, &options)
            }
            "gelu" => {
                let activation = Activation::Gelu;
                let options = Options { activation, ..none };
                products.call(stream, &a, &b, &c, &options)
            }
            "gelu_and_sums" => {
                let second = Some(&second);
                let call = products.storing(Outputs { second, ..outputs });
                call.call_with(stream, &a, &b, &c, &none, |sums, at| {
                    at.store(sums);
                    gelu(sums)
                })
            }
            "largest" => {
                let call = products.storing(Outputs { all, ..outputs });
                call.call_with(stream, &a, &b, &c, &none, |sums, at| {
                    at.reduce_all(Reduction::Max, sums.abs());
                    sums
                })
            }
            "squares_of_rows" => {
                let call = products.storing(Outputs { rows, ..outputs });
                call.call_with(stream, &a, &b, &c, &none, |sums, at| {
                    at.reduce(Axis::Rows, Reduction::Sum, sums * sums);
                    sums
                })
            }
            "sums_of_columns" => {
                let call = products.storing(Outputs { columns, ..outputs });
                call.call_with(stream, &a, &b, &c, &none, |sums, at| {
                    at.reduce(Axis::Columns, Reduction::Sum, sums);
                    sums
                })
            }
            "swiglu" => products.call_with(stream, &a, &b, &pairs, &none, |sums, at| {
                let [gate, up] = at.pairs(sums);
                silu(gate) * up
            }),
            "swiglu_e4m3_with_scales" => {
                let call = products.storing(Outputs {
                    scales: Some(&half_scales),
                    ..outputs
                });
                call.call_with(stream, &a, &b, &half_bytes, &of_bytes, |sums, at| {
                    let [gate, up] = at.pairs(sums);
                    silu(gate) * up
                })
            }
            "swiglu_and_sums" => {
                let second = Some(&pairs);
                let call = products.storing(Outputs { second, ..outputs });
                call.call_with(stream, &a, &b, &c, &none, |sums, at| {
                    let [gate, up] = at.pairs(sums);
                    at.store_pairs(silu(gate) * up);
                    sums
                })
            }
            "e4m3" => products.call(stream, &a, &b, &bytes, &of_bytes),
            "e4m3_with_scales" => {
                let call = products.storing(Outputs {
                    scales: Some(&scales),
                    ..outputs
                });
                call.call_with(stream, &a, &b, &bytes, &of_bytes, |sums, _| sums)
            }
            _ => unreachable!("rows have these names"),
        }
        .unwrap();
    }
}

impl Set {
    /// What one call stored, some rows and columns of it, against f64.
    fn check(&self, name: &str) {
        let [m, n, k] = self.size;
        let (a, b) = (self.a.to_vec().unwrap(), self.b.to_vec().unwrap());
        let sum = |i: usize, j: usize| -> f64 {
            let (x, y) = (&a[i * k..][..k], &b[j * k..][..k]);
            x.iter().zip(y).map(|(x, y)| x.to_f64() * y.to_f64()).sum()
        };
        let (c, second) = (self.c.to_vec().unwrap(), self.second.to_vec().unwrap());
        let bias = self.bias.to_vec().unwrap();
        let (bytes, scales) = (self.bytes.to_vec().unwrap(), self.scales.to_vec().unwrap());
        let gelu = |x: f64| {
            let inner = (2.0 / PI).sqrt() * (x + 0.044_715 * x.powi(3));
            0.5 * x * (1.0 + inner.tanh())
        };
        let near = |found: f64, expected: f64, relative: f64| {
            let off = relative * expected.abs() + 1e-3 * (k as f64).sqrt();
            let is_near = (expected - found).abs() < off;
            assert!(is_near, "{name}: {found}, expected {expected}");
        };
        for i in [0, m / 2, m - 1] {
            for j in [0, n / 3, n - 1] {
                let (x, at) = (sum(i, j), i * n + j);
                match name {
                    "bias_relu" => near(c[at].to_f64(), (x + bias[j].to_f64()).max(0.0), 1e-2),
                    "residual" => near(c[at].to_f64(), x + second[at].to_f64(), 1e-2),
                    "gelu" => near(c[at].to_f64(), gelu(x), 1e-2),
                    "gelu_and_sums" => {
                        near(c[at].to_f64(), gelu(x), 1e-2);
                        near(second[at].to_f64(), x, 1e-2);
                    }
                    "swiglu" | "swiglu_e4m3_with_scales" => {
                        let [gate, up] = [j / 2 * 2, j / 2 * 2 + 1].map(|j| sum(i, j));
                        let wanted = gate / (1.0 + (-gate).exp()) * up;
                        if name == "swiglu" {
                            near(second[i * (n / 2) + j / 2].to_f64(), wanted, 2e-2);
                        } else {
                            let scale = f64::from(scales[j / 256 * m + i]);
                            // The smallest numbers of a block have few bits.
                            let off = wanted.abs() * 0.07 + scale / 512.0;
                            let found = bytes[i * (n / 2) + j / 2].to_f64() * scale;
                            assert!(
                                (found - wanted).abs() < off,
                                "{name}: {found}, expected {wanted}"
                            );
                        }
                    }
                    "swiglu_and_sums" => {
                        let [gate, up] = [j / 2 * 2, j / 2 * 2 + 1].map(|j| sum(i, j));
                        let found = second[i * (n / 2) + j / 2].to_f64();
                        near(found, gate / (1.0 + (-gate).exp()) * up, 2e-2);
                        near(c[at].to_f64(), x, 1e-2);
                    }
                    "e4m3" => near(bytes[at].to_f64(), x.clamp(-448.0, 448.0), 0.07),
                    "e4m3_with_scales" => {
                        let scale = f64::from(scales[j / 128 * m + i]);
                        near(bytes[at].to_f64() * scale, x, 0.07);
                    }
                    _ => near(c[at].to_f64(), x, 1e-2),
                }
            }
        }
        let [rows, columns, all] = self.numbers.each_ref().map(|of| of.to_vec().unwrap());
        match name {
            "largest" => {
                let largest = c.iter().fold(0.0_f64, |all, x| all.max(x.to_f64().abs()));
                near(f64::from(all[0]), largest, 1e-2);
            }
            "squares_of_rows" => {
                let squares: f64 = (0..n).map(|j| sum(m / 2, j).powi(2)).sum();
                near(f64::from(rows[m / 2]), squares, 1e-4);
            }
            "sums_of_columns" => {
                let total: f64 = (0..m).map(|i| sum(i, n / 3)).sum();
                let off = 1e-5 * (m * k) as f64;
                let found = f64::from(columns[n / 3]);
                assert!(
                    (total - found).abs() < off,
                    "{name}: {found}, expected {total}"
                );
            }
            _ => {}
        }
    }
}

pub(crate) fn run(device: &Device, filter: &str) {
    let products = Products::new(device);
    let stream = Stream::new(device).unwrap();
    for size @ [m, n, k] in SHAPES {
        let name = |call: &str| format!("outputs {m}x{n}x{k} {call}");
        if !CALLS.iter().any(|call| name(call).contains(filter)) {
            continue;
        }
        let count = sets(2 * (m * k + n * k + m * n));
        let sets: Vec<Set> = (0..count)
            .map(|number| Set::new(device, size, 2 * number as u64))
            .collect();
        let mut alone = None;
        for call in CALLS {
            if call != "alone" && !name(call).contains(filter) {
                continue;
            }
            let call_set = |set: &Set, stream: &Stream| set.call(&products, stream, call);
            for set in &sets {
                call_set(set, &stream);
            }
            stream.synchronize().unwrap();
            sets[0].check(call);
            let times = time(device, &stream, &sets, call_set);
            let now = [times.single, times.back_to_back];
            let of_alone = *alone.get_or_insert(now);
            println!(
                "{:44} single {:8.1} us {:5.3} of the product alone  back to back {:8.1} us {:5.3}",
                name(call),
                now[0],
                now[0] / of_alone[0],
                now[1],
                now[1] / of_alone[1],
            );
        }
    }
}
