//! Kernels of 12 and 6 warps, from the language to bytes: what sets of warps divide, what each of them holds, and products.

use gluon_lang::lang::KernelFn;
use gluon_lang::lang::prelude::*;
use half::f16;
use ir::Func;
use ir::elem::DType;
use lowering::{Options, compile};

use crate::machine::run_func;
use crate::values::{bytes, values};

fn traced<Args>(kernel: impl KernelFn<Args>) -> Func {
    kernel.trace().unwrap_or_else(|e| panic!("{e}")).func
}

#[kernel(warps = 12)]
fn doubled(x: Ptr<f32>, out: Ptr<f32>) {
    for part in range(0, 2) {
        let at = arange(0..1536, Coalesced) + part * 1536;
        let inside = at < 2000;
        let v = x.at(at).mask(inside).load();
        out.at(at).mask(inside).store(v + v);
    }
}

#[test]
fn elementwise_kernels_access_16_bytes_a_thread() {
    let func = traced(doubled);
    let compiled = compile(func.clone(), &Options::default()).unwrap_or_else(|e| panic!("{e}"));
    let ptx = compiled.module.to_text();
    assert!(ptx.contains(".reqntid 384"), "{ptx}");
    assert!(ptx.contains("ld.global.v4"), "{ptx}");
    let x: Vec<u64> = (0..2000).map(|i| u64::from((i as f32).to_bits())).collect();
    let out = values(&run_func(func, &[&bytes(&x, DType::F32)], 8000), DType::F32);
    for (at, bits) in out.into_iter().enumerate() {
        assert_eq!(f32::from_bits(bits as u32), 2.0 * at as f32, "element {at}");
    }
}

/// The owner of each element sets its counter to 0 and adds 1: were there several, the emulator would see them race.
#[kernel(warps = 12)]
fn counted(out: Ptr<i32>) {
    let rows = Blocked::new([1, 4], [4, 8], [12, 1], [1, 0]);
    let lost = Slice::new(0, rows.clone());
    let places = [
        arange(
            0..64,
            Slice::new(1, Blocked::new([1, 1], [32, 1], [4, 3], [1, 0])),
        ),
        arange(0..128, lost.clone()),
        arange(0..256, lost),
        arange(0..192, Slice::new(1, rows)),
        arange(0..128, Coalesced),
        arange(0..96, Coalesced),
    ];
    for (first, place) in [0, 64, 192, 448, 640, 768].into_iter().zip(places) {
        out.at(place + first).store(0);
        out.at(place + first).atomic_add(1);
    }
}

#[test]
fn copies_of_sets_have_one_owner() {
    let out = values(&run_func(traced(counted), &[], 4 * 864), DType::I32);
    assert_eq!(out, vec![1; 864]);
}

/// `A · B` by three warpgroups, one beside the other along the columns or the rows.
#[kernel(warps = 12, instances(<64, 192, 4, 3>, <192, 32, 12, 1>, <192, 48, 12, 1>))]
fn product<const M: usize, const N: usize, const DOWN: usize, const ACROSS: usize>(
    a: Ptr<f16>,
    b: Ptr<f16>,
    out: Ptr<f32>,
) {
    let tile = |rows: usize, columns: usize, layout: Layout| {
        let row = arange(0..rows, Slice::new(1, layout.clone())).expand_dims(1);
        row * columns + arange(0..columns, Slice::new(0, layout)).expand_dims(0)
    };
    let by_rows = Blocked::new([1, 1], [2, 16], [DOWN, ACROSS], [1, 0]);
    let square = |rows: usize, columns: usize| -> Layout {
        let whole = Blocked::new([1, 1, 1], [1, 2, 16], [3, 4, 1], [2, 1, 0]);
        if rows == 192 || columns == 192 {
            by_rows.clone().into()
        } else {
            Slice::new(0, whole).into()
        }
    };
    let a_tile = Smem::alloc_with(a.at(tile(M, 64, square(M, 64))).load(), Nvmma::B128.of(16));
    let row_bytes = 2 * N as u32;
    let swizzle = [128, 64]
        .into_iter()
        .find(|swizzle| row_bytes % swizzle == 0);
    let b_layout = Nvmma::new(swizzle.unwrap_or(32), 16);
    let b_tile = Smem::alloc_with(b.at(tile(64, N, square(64, N))).load(), b_layout);
    fence_async_shared();
    let sums = Wgmma::new([DOWN, ACROSS], [64, N / ACROSS, 16]);
    let acc = Accumulator::<f32>::zeros([M, N], sums.clone());
    let acc = acc.mma(a_tile, b_tile).wait_all();
    out.at(tile(M, N, sums.into())).store(acc);
}

fn check_product(func: Func, m: usize, n: usize) {
    let number = |at: usize| ((at * 7 + at / 5 + at / 64) % 5) as f64 - 2.0;
    let data = |count: usize| -> Vec<u64> {
        (0..count)
            .map(|at| f16::from_f64(number(at)).to_bits().into())
            .collect()
    };
    let (a, b) = (
        bytes(&data(m * 64), DType::F16),
        bytes(&data(64 * n), DType::F16),
    );
    let out = values(&run_func(func, &[&a, &b], 4 * m * n), DType::F32);
    for (at, bits) in out.into_iter().enumerate() {
        let (row, column) = (at / n, at % n);
        let terms = (0..64).map(|k| number(row * 64 + k) * number(k * n + column));
        let found = f64::from(f32::from_bits(bits as u32));
        assert_eq!(found, terms.sum::<f64>(), "[{row}, {column}] of [{m}, {n}]");
    }
}

#[test]
fn three_warpgroups_multiply() {
    check_product(traced(product::<64, 192, 4, 3>), 64, 192);
    check_product(traced(product::<192, 32, 12, 1>), 192, 32);
    check_product(traced(product::<192, 48, 12, 1>), 192, 48);
}

/// Six warps: three sets of two along what `Coalesced` chooses, and a sum over all of them.
#[kernel(warps = 6)]
fn sums(x: Ptr<i32>, out: Ptr<i32>) {
    let row = arange(0..48, Coalesced).expand_dims(1);
    let at = row * 32 + arange(0..32, Coalesced).expand_dims(0);
    let v = x.at(at).load();
    let of_rows = v.sum(1);
    out.at(0).store(of_rows.sum(0));
    let one = arange(0..192, Blocked::new([1], [32], [6], [0]));
    out.at(one + 1).store(x.at(one).load().cumsum(0));
}

#[test]
fn six_warps_sum_up() {
    let x: Vec<u64> = (0..48 * 32).map(|i| (i * 7 + i / 3) % 11).collect();
    let out = values(
        &run_func(traced(sums), &[&bytes(&x, DType::I32)], 4 * 193),
        DType::I32,
    );
    assert_eq!(out[0], x.iter().sum::<u64>());
    let mut sum = 0;
    for (at, value) in x[..192].iter().enumerate() {
        sum += value;
        assert_eq!(out[at + 1], sum, "prefix {at}");
    }
}
