//! Cumulative sums along rows: a scan within each stretch of a row, and the sum so far carried on to the next.

use tilekit::prelude::*;

use crate::rows::row_case::RowCase;

/// `out[row, j] = x[row, 0] + ... + x[row, j]`, added in `f32`, `BLOCK` elements at a time.
#[kernel(warps = WARPS, instances(<bf16, 4096, 8>))]
pub fn cumsum_rows<T: Float, const BLOCK: usize, const WARPS: usize>(
    x: Ptr<T>,
    out: Ptr<T>,
    #[multiple_of(8)] row_stride: i64,
    cols: i32,
) {
    let offset = program_id(0).cast::<i64>() * row_stride;
    let (row, to) = (x + offset, out + offset);
    let lane = arange(0..BLOCK, Coalesced);
    let mut carry = scalar(0.0_f32);
    for start in range(0, cols).step(BLOCK) {
        let at = lane + start;
        let v = row.at(at).mask(at < cols).other(0).load().cast::<f32>();
        let sums = v.cumsum(0) + carry;
        to.at(at).mask(at < cols).store(sums.cast::<T>());
        carry += v.sum(0).scalar();
    }
}

fn cumsum_rows_of<T: Float + DeviceElement>(case: &mut Case) -> CaseResult {
    let matrix = RowCase::<T>::new(case);
    let (stride, _, cols) = matrix.extents();
    let arguments = (&matrix.x, &matrix.out, stride, cols);
    case.launch(cumsum_rows::<T, 4096, 8>, grid(matrix.rows), arguments)?;
    let reference = |x: &[f64]| {
        let mut sum = 0.0;
        x.iter()
            .map(|v| {
                sum += v;
                sum
            })
            .collect()
    };
    // A sum near 0 is within the rounding of what was added up to get there.
    let tolerance = Close {
        relative: if size_of::<T>() == 2 { 8e-3 } else { 2e-6 },
        absolute: 1e-4,
    };
    matrix.expect(case, reference, tolerance)
}

#[case(sizes(rows = [8], cols = [8192, 5001, 7]))]
fn cumsum_rows_bf16(case: &mut Case) -> CaseResult {
    cumsum_rows_of::<bf16>(case)
}

#[case(sizes(rows = [8], cols = [8192, 999]))]
fn cumsum_rows_f32(case: &mut Case) -> CaseResult {
    cumsum_rows_of::<f32>(case)
}
