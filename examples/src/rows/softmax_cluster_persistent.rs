//! The softmax of [`softmax_cluster`](crate::rows::softmax_cluster) by as many clusters as run at a time, each
//! with one row after the other. The next row is loaded while this one is reduced, so that memory is not idle while CTAs wait for each other.

use tilekit::prelude::*;
use tilekit::row_instance;

use crate::matrix::rounding;
use crate::rows::row_case::RowCase;
use crate::rows::softmax::reference;
use crate::rows::softmax_cluster::row_ctas;

/// Warps of a CTA; a thread holds a row twice, as loaded and as computed.
const WARPS: usize = 8;

/// CTAs that run at a time: two on each of 132 SMs.
const RESIDENT_CTAS: usize = 264;

/// `out[row, :] = softmax(x[row, :])` for rows of `cols <= COLS` elements. A row of `x` begins every `row_stride` elements;
/// `out` is dense if `cols` is a multiple of 8.
#[kernel(warps = WARPS, cluster = row_ctas::<T>(COLS), min_ctas_per_sm = 2, instances(<bf16, 32768, 8>))]
pub fn softmax_cluster_persistent<T: Float, const COLS: usize, const DIVISOR: usize>(
    x: Ptr<T>,
    out: Ptr<T>,
    #[multiple_of(8)] row_stride: i64,
    #[multiple_of(DIVISOR)] cols: i32,
    rows: i32,
) {
    let at_once = 16 / size_of::<T>();
    let line = Blocked::new([at_once], [32], [WARPS], [0]).split_over_ctas([cluster_size()]);
    let col = arange(0..COLS, line);
    let inside = col < cols;
    let load = |row: Scalar<i32>| {
        let at = row.cast::<i64>() * row_stride + col;
        x.at(at)
            .policy(L2Policy::EvictLast)
            .mask(inside)
            .other(T::NEG_INFINITY)
            .load()
    };
    let mut next = load(cluster_id(0));
    for row in range(cluster_id(0), rows).step(num_clusters(0)) {
        let v = next.cast::<f32>();
        // After the last row of a cluster there is nothing left to load, and the very last row is loaded again.
        next = load(minimum(row + num_clusters(0), rows - 1));
        let e = ((v - v.max(0)) * LOG2_E).exp2();
        let at = row.cast::<i64>() * row_stride + col;
        out.at(at).mask(inside).store((e / e.sum(0)).cast::<T>());
    }
}

fn softmax_cluster_persistent_of<T: Float + DeviceElement>(case: &mut Case) -> CaseResult {
    let matrix = RowCase::<T>::new(case);
    let (rows, cols) = (matrix.rows, matrix.cols);
    let (stride, all, width) = matrix.extents();
    let arguments = (&matrix.x, &matrix.out, stride, width, all);
    row_instance!(COLS, DIVISOR for cols, in [1024, 32_768, 65_536, 131_072] {
        let ctas = row_ctas::<T>(COLS);
        // Fewer clusters than rows, at small sizes too, so that each takes several.
        let clusters = (RESIDENT_CTAS / ctas).min(rows.div_ceil(3));
        case.launch(
            softmax_cluster_persistent::<T, COLS, DIVISOR>,
            grid(clusters * ctas),
            arguments,
        )
    })?;
    matrix.expect(case, reference, rounding::<T>())
}

#[case(sizes(rows = [7], cols = [1024, 781, 20_001, 65_536]))]
fn softmax_cluster_persistent_bf16(case: &mut Case) -> CaseResult {
    softmax_cluster_persistent_of::<bf16>(case)
}
