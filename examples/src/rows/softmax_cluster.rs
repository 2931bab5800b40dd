//! Rows too long for the registers of one CTA: the CTAs of a cluster split a row, so that it is still read once and
//! written once. The kernel is that of `softmax`, but for its layout: the maximum and the sum of a row go from CTA to CTA
//! because the layout says that the row lies in several.

use tilekit::prelude::*;
use tilekit::row_instance;

use crate::matrix::rounding;
use crate::rows::row_case::RowCase;
use crate::rows::softmax::reference;
use tilekit::library::rows::warps_per_row;

/// CTAs of a cluster for rows of `cols` elements: some 32 KiB in the registers of each, as long as 8 CTAs will do.
pub(crate) const fn row_ctas<T>(cols: usize) -> usize {
    match cols * size_of::<T>() {
        0..=65_536 => 2,
        65_537..=131_072 => 4,
        _ => 8,
    }
}

/// `out[row, :] = softmax(x[row, :])` for rows of `cols <= COLS` elements; a cluster for each row. A row of `x` begins every
/// `row_stride` elements; `out` is dense if `cols` is a multiple of 8.
#[kernel(warps = warps_per_row::<T>(COLS / row_ctas::<T>(COLS)), cluster = row_ctas::<T>(COLS), instances(<bf16, 32768, 8>, <bf16, 65536, 8>))]
pub fn softmax_cluster<T: Float, const COLS: usize, const DIVISOR: usize>(
    x: Ptr<T>,
    out: Ptr<T>,
    #[multiple_of(8)] row_stride: i64,
    #[multiple_of(DIVISOR)] cols: i32,
) {
    let ctas = row_ctas::<T>(COLS);
    let at_once = 16 / size_of::<T>();
    let warps = warps_per_row::<T>(COLS / ctas);
    let line = Blocked::new([at_once], [32], [warps], [0]).split_over_ctas([ctas]);
    let row = cluster_id(0).cast::<i64>() * row_stride;
    let col = arange(0..COLS, line);
    let inside = col < cols;
    // What is written leaves L2 before what is read: writes flow.
    let v = x
        .at(row + col)
        .policy(L2Policy::EvictLast)
        .mask(inside)
        .other(T::NEG_INFINITY)
        .load()
        .cast::<f32>();
    let e = ((v - v.max(0)) * LOG2_E).exp2();
    out.at(row + col)
        .mask(inside)
        .store((e / e.sum(0)).cast::<T>());
}

fn softmax_cluster_of<T: Float + DeviceElement>(case: &mut Case) -> CaseResult {
    let matrix = RowCase::<T>::new(case);
    let (rows, cols) = (matrix.rows, matrix.cols);
    let (stride, _, width) = matrix.extents();
    let arguments = (&matrix.x, &matrix.out, stride, width);
    row_instance!(COLS, DIVISOR for cols, in [1024, 16_384, 32_768, 65_536, 131_072, 262_144] {
        let clusters = grid(rows * row_ctas::<T>(COLS));
        case.launch(softmax_cluster::<T, COLS, DIVISOR>, clusters, arguments)
    })?;
    matrix.expect(case, reference, rounding::<T>())
}

#[case(sizes(rows = [3], cols = [1024, 781, 32_768, 50_001, 200_008]))]
fn softmax_cluster_bf16(case: &mut Case) -> CaseResult {
    softmax_cluster_of::<bf16>(case)
}

#[case(sizes(rows = [2], cols = [50, 16_384]))]
fn softmax_cluster_f32(case: &mut Case) -> CaseResult {
    softmax_cluster_of::<f32>(case)
}
