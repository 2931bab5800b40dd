//! The largest elements of each row and where they stand: one row per program, the whole row in registers.

use tilekit::prelude::*;
use tilekit::smallest_instance;

use crate::matrix::row_stride;
use tilekit::library::rows::row_warps;

/// `values[row, :]` are the `K` largest of `x[row, :]` in descending order, `places[row, :]` their columns; of equal
/// elements the one in the lower column comes first. Rows have `cols <= COLS` elements.
#[kernel(warps = row_warps::<T>(COLS), instances(<bf16, 4096, 16>))]
pub fn top_k<T: Float, const COLS: usize, const K: usize>(
    x: Ptr<T>,
    values: Ptr<T>,
    places: Ptr<i32>,
    #[multiple_of(8)] row_stride: i64,
    cols: i32,
) {
    let row = program_id(0).cast::<i64>() * row_stride;
    let per_thread = 16 / size_of::<T>();
    let layout = Blocked::new([per_thread], [32], [row_warps::<T>(COLS)], [0]);
    let col = arange(0..COLS, layout.clone());
    let v = x
        .at(row + col)
        .mask(col < cols)
        .other(T::NEG_INFINITY)
        .load();
    let (largest, place) = v.top_k(K, 0);
    let to = program_id(0) * K + arange(0..K, layout);
    values.at(to).store(largest);
    places.at(to).store(place);
}

const K: usize = 16;

fn top_k_of<T: Float + DeviceElement>(case: &mut Case) -> CaseResult {
    let (rows, cols) = (case.size("rows"), case.size("cols"));
    let stride = row_stride(cols);
    let x = case.normal::<T>("x", [rows, stride]);
    let values = case.output::<T>("values", [rows, K]);
    let places = case.output::<i32>("places", [rows, K]);
    smallest_instance!(COLS >= cols, in [256, 1024, 4096, 16384] {
        let arguments = (&x, &values, &places, stride as i64, cols as i32);
        case.launch(top_k::<T, COLS, K>, grid(rows), arguments)
    })?;
    expect_largest(case, (&x, cols), &values, &places)?;
    case.moves_bytes(rows * cols * size_of::<T>());
    Ok(())
}

/// Compares the largest of the first `cols` elements of each row, from the largest down, and their columns; of equal ones the
/// first comes first.
pub(super) fn expect_largest<T: DeviceElement>(
    case: &mut Case,
    (x, cols): (&Input<T>, usize),
    values: &Output<T>,
    places: &Output<i32>,
) -> CaseResult {
    let (rows, k) = (x.shape()[0], values.shape()[1]);
    let largest = |row: usize| -> Vec<(f64, usize)> {
        let element = |column: usize| (x[[row, column]].number().to_f64(), column);
        let mut all: Vec<(f64, usize)> = (0..cols).map(element).collect();
        all.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        all.truncate(k);
        all
    };
    let of_rows = || (0..rows).flat_map(largest);
    case.expect_all(values, || of_rows().map(|(v, _)| v).collect(), Exactly)?;
    let columns = || of_rows().map(|(_, c)| c as i64).collect();
    case.expect_all(places, columns, Exactly)
}

#[case(sizes(rows = [16], cols = [1024, 3001, 20]))]
fn top_k_bf16(case: &mut Case) -> CaseResult {
    top_k_of::<bf16>(case)
}

#[case(sizes(rows = [8], cols = [1024, 777]))]
fn top_k_f32(case: &mut Case) -> CaseResult {
    top_k_of::<f32>(case)
}
