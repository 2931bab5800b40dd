//! Softmax of rows that no register file holds: bulk copies load a row into the shared memory of a cluster, in chunks that
//! are reduced as they complete, and the row is read a second time from there. It moves through memory once each way.

use tilekit::prelude::*;
use tilekit::{divided_instance, smallest_instance};

use crate::matrix::rounding;
use crate::rows::row_case::RowCase;
use crate::rows::softmax::reference;
use tilekit::library::bulk_row::BulkRow;

/// `out[row, :] = softmax(x[row, :])` for rows of `cols <= CTAS * PART` elements, a cluster of `CTAS` for each row. A row of
/// both begins every `row_stride` elements, and what lies between two rows of `x` may be read. `DIVISOR` divides `cols`.
#[kernel(warps = WARPS, cluster = CTAS, instances(<bf16, 32768, 1, 8, 8>, <bf16, 32768, 2, 8, 8>, <bf16, 32768, 8, 8, 8>))]
pub fn softmax_bulk<
    T: Float,
    const PART: usize,
    const CTAS: usize,
    const WARPS: usize,
    const DIVISOR: usize,
>(
    x: Ptr<T>,
    out: Ptr<T>,
    #[multiple_of(8)] row_stride: i64,
    #[multiple_of(DIVISOR)] cols: i32,
) {
    let row = (program_id(0) / CTAS).cast::<i64>() * row_stride;
    let held = BulkRow::load::<PART, CTAS>(x, row, cols, WARPS, DIVISOR);
    let (most, total) = held.statistics::<CTAS>();
    // exp2(v - most) / total in one exponential per element.
    let shift = most + total.log2();
    for (at, v) in held.chunks() {
        let share = (v - shift).exp2().cast::<T>();
        out.at(row + at).mask(at < cols).store(share);
    }
}

fn softmax_bulk_of<T: Float + DeviceElement, const PART: usize>(case: &mut Case) -> CaseResult {
    let matrix = RowCase::<T>::new(case);
    let (rows, cols) = (matrix.rows, matrix.cols);
    let (stride, _, width) = matrix.extents();
    let arguments = (&matrix.x, &matrix.out, stride, width);
    divided_instance!(DIVISOR for cols, {
        smallest_instance!(CTAS >= cols.div_ceil(PART), in [1, 2, 4, 8] {
            case.launch(softmax_bulk::<T, PART, CTAS, 8, DIVISOR>, grid(rows * CTAS), arguments)
        })
    })?;
    matrix.expect(case, reference, rounding::<T>())
}

#[case(sizes(rows = [2, 2, 1, 1], cols = [32768, 5003, 65536, 100_001]))]
fn softmax_bulk_bf16(case: &mut Case) -> CaseResult {
    softmax_bulk_of::<bf16, 32768>(case)
}

#[case(sizes(rows = [2], cols = [16384, 20_005]))]
fn softmax_bulk_f32(case: &mut Case) -> CaseResult {
    softmax_bulk_of::<f32, 16384>(case)
}
