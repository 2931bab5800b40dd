//! Rows of a table by their numbers.

use tilekit::library::rows::{row_coordinates, row_warps, rows_per_program};
use tilekit::prelude::*;
use tilekit::row_instance;

use super::rows_case::RowsCase;

/// `out[row, :] = table[index[row], :]` for rows of `cols <= COLS` elements. A number outside of `0..entries` gives a row of zeros.
#[kernel(warps = row_warps::<T>(COLS), instances(<bf16, 1024, 8>, <bf16, 4096, 8>, <bf16, 8192, 8>, <f32, 1024, 8>, <f32, 4096, 8>), signature(
    table: [entries, cols],
    index: [rows],
    out: [rows, cols],
    table_stride = table.stride(0),
    row_stride = out.stride(0),
    grid = cdiv(rows, rows_per_program::<T>(COLS)),
    requires(cols <= COLS),
))]
pub fn embedding<T: Float, const COLS: usize, const DIVISOR: usize>(
    table: Ptr<T>,
    index: Ptr<i64>,
    out: Ptr<T>,
    #[multiple_of(8)] table_stride: i64,
    #[multiple_of(8)] row_stride: i64,
    entries: i64,
    rows: i32,
    #[multiple_of(DIVISOR)] cols: i32,
) {
    launch_dependents();
    launch_wait();
    let (row, col) = row_coordinates::<T>(COLS);
    let inside = (row < rows) & (col < cols);
    let entry = index.at(row).mask(row < rows).other(-1).load();
    let exists = (entry >= 0) & (entry < entries);
    let source = table.at(entry * table_stride + col);
    let v = source.mask(inside & exists).other(0).load();
    let at = row.cast::<i64>() * row_stride + col;
    out.at(at).mask(inside).store(v);
}

/// Entries of a case; every fifth row has the same number, and some have none that exists.
pub(super) const ENTRIES: usize = 50;

/// The entry of a row of a case.
pub(super) fn number_of(row: usize) -> i64 {
    match row % 10 {
        3 => -1,
        7 => ENTRIES as i64 + 3,
        0 | 5 => 11,
        _ => (row as i64 * 7919) % ENTRIES as i64,
    }
}

fn embedding_of<T: Float + DeviceElement>(case: &mut Case) -> CaseResult {
    let matrix = RowsCase::new(case);
    let (stride, rows, cols) = matrix.extents();
    let table = case.normal::<T>("table", [ENTRIES, matrix.shape()[1]]);
    let index = case.input::<i64>("index", [matrix.rows], number_of);
    let out = case.output::<T>("out", matrix.shape());
    let arguments = (
        &table,
        &index,
        &out,
        stride,
        stride,
        ENTRIES as i64,
        rows,
        cols,
    );
    row_instance!(COLS, DIVISOR for matrix.cols, in [256, 1024, 4096] {
        let programs = grid(matrix.rows.div_ceil(rows_per_program::<T>(COLS)));
        case.launch_programmatic(embedding::<T, COLS, DIVISOR>, programs, arguments)
    })?;
    let reference = || {
        let of_row = |row| match usize::try_from(number_of(row)) {
            Ok(entry) if entry < ENTRIES => matrix.row(&table, entry),
            _ => vec![0.0; matrix.cols],
        };
        (0..matrix.rows).flat_map(of_row).collect::<Vec<f64>>()
    };
    case.expect_part(&out, [matrix.rows, matrix.cols], reference, Exactly)?;
    case.moves_bytes(2 * matrix.rows * matrix.cols * size_of::<T>());
    Ok(())
}

#[case(sizes(rows = [33], cols = [1024, 4096, 77]))]
fn embedding_bf16(case: &mut Case) -> CaseResult {
    embedding_of::<bf16>(case)
}

#[case(sizes(rows = [9], cols = [1024, 200]))]
fn embedding_f32(case: &mut Case) -> CaseResult {
    embedding_of::<f32>(case)
}
