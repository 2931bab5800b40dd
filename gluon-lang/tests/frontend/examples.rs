//! The kernels of the language page.

use gluon_lang::lang::prelude::*;

use crate::support::ir;

/// `out[i] = x[i] + y[i]` for `i < n`.
#[kernel(warps = 4)]
pub(crate) fn vector_add<const BLOCK: usize>(x: Ptr<f32>, y: Ptr<f32>, out: Ptr<f32>, n: i32) {
    let at = program_id(0) * BLOCK + arange(0..BLOCK, Coalesced);
    let inside = at < n;
    let sum = x.at(at).mask(inside).load() + y.at(at).mask(inside).load();
    out.at(at).mask(inside).store(sum);
}

/// Row softmax; one program per row, the whole row in registers.
#[kernel(warps = 8)]
pub(crate) fn softmax<T: Float, const COLS: usize>(
    x: Ptr<T>,
    out: Ptr<T>,
    row_stride: i64,
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

#[test]
fn vector_add_is_what_it_says() {
    insta::assert_snapshot!(ir(vector_add::<1024>));
}

#[test]
fn softmax_is_what_it_says() {
    insta::assert_snapshot!(ir(softmax::<f16, 512>));
}
