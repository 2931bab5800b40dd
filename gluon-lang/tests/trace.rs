//! Kernels as an author writes them, and the tile IR that tracing gives.

extern crate gluon_lang as tilekit;

use tilekit::lang::prelude::*;
use tilekit::text::print;

#[kernel(warps = 4, instances(<1024>))]
fn vector_add<const BLOCK: usize>(x: Ptr<f32>, y: Ptr<f32>, out: Ptr<f32>, n: i32) {
    let at = program_id(0) * BLOCK + arange(0..BLOCK, Coalesced);
    let inside = at < n;
    let sum = x.at(at).mask(inside).load() + y.at(at).mask(inside).load();
    out.at(at).mask(inside).store(sum);
}

#[kernel(warps = if COLS >= 4096 { 8 } else { 4 })]
fn softmax<T: Float, const COLS: usize>(
    x: Ptr<T>,
    out: Ptr<T>,
    #[multiple_of(8)] row_stride: i64,
    cols: i32,
) {
    let row = program_id(0).cast::<i64>() * row_stride;
    let col = arange(0..COLS, Coalesced);
    let inside = col < cols;
    let v = x
        .at(row + col)
        .mask(inside)
        .other(T::NEG_INFINITY)
        .load()
        .cast::<f32>();
    let e = ((v - v.max(0)) * LOG2_E).exp2();
    out.at(row + col)
        .mask(inside)
        .store((e / e.sum(0)).cast::<T>());
}

#[device]
fn twice(x: Tensor<f32>) -> Tensor<f32> {
    x + x
}

#[derive(Clone, Copy, Aggregate)]
struct State {
    sum: Tensor<f32>,
    count: Scalar<i32>,
}

#[kernel(warps = 1)]
fn control(x: Ptr<f32>, n: i32) {
    if n == 0 {
        return;
    }
    let at = arange(0..32, Blocked::new([1], [32], [1], [0]));
    let mut state = State {
        sum: zeros([32], at.layout()),
        count: scalar(0),
    };
    for i in range(0, n).step(2) {
        for k in 0..2 {
            state.sum += twice(x.at(at + i + k).load());
        }
        if i > 4 && n != 7 {
            state.count += 1;
        } else {
            state.count -= 2;
        }
    }
    let mut m = n;
    while m > 1 {
        m = m / 2;
        state.count += m;
    }
    x.at(at).store(state.sum * state.count.cast::<f32>());
}

#[test]
fn traces_kernels() {
    for traced in [
        vector_add::<1024>.trace(),
        softmax::<bf16, 512>.trace(),
        control.trace(),
    ] {
        match traced {
            Ok(traced) => println!("{}\n{}", traced.display, print(&traced.func)),
            Err(e) => panic!("{e}"),
        }
    }
}
