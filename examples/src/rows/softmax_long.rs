//! Softmax of rows that no program can hold: one pass for the largest element and the sum, in which every thread keeps its
//! own, and a second one that reads the row again from its end, where it is still in L2.

use tilekit::divided_instance;
use tilekit::prelude::*;

use crate::matrix::rounding;
use crate::rows::row_case::RowCase;
use crate::rows::softmax::reference;
use tilekit::library::span::{LOW, Span};

/// `out[row, :] = softmax(x[row, :])` for rows of any length, one row per program. `DIVISOR` divides `cols`.
#[kernel(warps = WARPS, instances(<bf16, 4, 16, 8>, <bf16, 4, 32, 8>))]
pub fn softmax_long<T: Float, const TILES: usize, const WARPS: usize, const DIVISOR: usize>(
    x: Ptr<T>,
    out: Ptr<T>,
    #[multiple_of(8)] row_stride: i64,
    #[multiple_of(DIVISOR)] cols: i32,
) {
    let offset = program_id(0).cast::<i64>() * row_stride;
    let (row, to) = (x + offset, out + offset);
    let span = Span::of::<T>(WARPS);
    let step = TILES * span.elements();
    let (mut largest, mut sum) = (span.per_thread(LOW), span.per_thread(0.0));
    for start in range(0, cols).step(step) {
        let tiles = span.load::<T, TILES>(row, start, cols, L2Policy::EvictLast);
        let new = tiles.iter().fold(largest, |m, v| m.maximum(v.max(1)));
        sum *= (largest - new).exp2();
        for v in tiles {
            sum += (v - new.expand_dims(1)).exp2().sum(1);
        }
        largest = new;
    }
    let most = largest.max(0).scalar();
    let total = (sum * (largest - most).exp2()).sum(0).scalar();
    // exp2(v - most) / total in one exponential per element.
    let shift = most + total.log2();
    let steps = cdiv(cols, step);
    for back in range(0, steps) {
        let start = (steps - 1 - back) * step;
        let tiles = span.load::<T, TILES>(row, start, cols, L2Policy::EvictFirst);
        for (tile, v) in tiles.into_iter().enumerate() {
            let at = span.places(start + tile * span.elements());
            let e = (v - shift).exp2().cast::<T>();
            to.at(at).mask(at < cols).cache(CacheOp::Cs).store(e);
        }
    }
}

fn softmax_long_of<T: Float + DeviceElement>(case: &mut Case) -> CaseResult {
    let matrix = RowCase::<T>::new(case);
    let (rows, cols) = (matrix.rows, matrix.cols);
    let (stride, _, width) = matrix.extents();
    let arguments = (&matrix.x, &matrix.out, stride, width);
    divided_instance!(DIVISOR for cols, {
        if cols <= 65536 {
            case.launch(softmax_long::<T, 4, 16, DIVISOR>, grid(rows), arguments)
        } else {
            case.launch(softmax_long::<T, 4, 32, DIVISOR>, grid(rows), arguments)
        }
    })?;
    matrix.expect(case, reference, rounding::<T>())
}

#[case(sizes(rows = [2, 2, 1], cols = [65536, 5003, 100_001]))]
fn softmax_long_bf16(case: &mut Case) -> CaseResult {
    softmax_long_of::<bf16>(case)
}

#[case(sizes(rows = [2], cols = [32768, 5003]))]
fn softmax_long_f32(case: &mut Case) -> CaseResult {
    softmax_long_of::<f32>(case)
}
