//! Rows of a table by their numbers, and the gradient of the table.

use tilekit::library::rows::{row_coordinates, row_warps, rows_per_program, warps_per_row};
use tilekit::prelude::*;
use tilekit::row_instance;

use super::rows_case::{RowsCase, clear, close};

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

/// Rows that are in flight at a time where one entry of the table has several.
const AT_ONCE: usize = 4;

/// The gradient of the table of [`embedding`]: `dtable[sorted[i], :]` is the sum of `dout[order[j], :]` over all `j` with `sorted[j] == sorted[i]`, in f32 and
/// in this order, for rows of `cols <= COLS` elements. `sorted` has the numbers of rows ascending, `order` the rows in this order. Entries that have
/// no row are not written.
#[kernel(warps = warps_per_row::<T>(COLS), instances(<bf16, 1024, 8>, <bf16, 4096, 8>, <bf16, 8192, 8>, <f32, 1024, 8>, <f32, 4096, 8>), signature(
    dout: [rows, cols],
    sorted: [rows],
    order: [rows],
    dtable: [entries, cols],
    row_stride = dout.stride(0),
    table_stride = dtable.stride(0),
    grid = rows,
    requires(cols <= COLS),
))]
pub fn embedding_backward<T: Float, const COLS: usize, const DIVISOR: usize>(
    dout: Ptr<T>,
    sorted: Ptr<i64>,
    order: Ptr<i64>,
    dtable: Ptr<T>,
    #[multiple_of(8)] row_stride: i64,
    #[multiple_of(8)] table_stride: i64,
    entries: i64,
    rows: i32,
    #[multiple_of(DIVISOR)] cols: i32,
) {
    launch_dependents();
    launch_wait();
    let first = program_id(0);
    let entry = sorted.at(first).load();
    let before = sorted.at(first - 1).mask(first > 0).other(-1).load();
    let is_first = (first == 0) | (before != entry);
    if is_first & (entry >= 0) & (entry < entries) {
        let line = Blocked::new([16 / size_of::<T>()], [32], [warps_per_row::<T>(COLS)], [0]);
        let col = arange(0..COLS, line.clone());
        let mut sum = full([COLS], 0.0, line);
        let mut next = first;
        let mut has_more = first >= 0;
        while has_more {
            let parts: [Tensor<f32>; AT_ONCE] = std::array::from_fn(|ahead| {
                let place = next + ahead;
                let is_of_entry = sorted.at(place).mask(place < rows).other(-1).load() == entry;
                let row = order.at(place).mask(is_of_entry).other(0).load();
                let source = dout.at(row * row_stride + col);
                let inside = (col < cols) & is_of_entry;
                source.mask(inside).other(0).load().cast::<f32>()
            });
            for part in parts {
                sum += part;
            }
            next += AT_ONCE;
            has_more = sorted.at(next).mask(next < rows).other(-1).load() == entry;
        }
        let target = dtable.at(entry * table_stride + col);
        target.mask(col < cols).store(sum.cast::<T>());
    }
}

/// Entries of a case; every fifth row has the same number, and some have none that exists.
const ENTRIES: usize = 50;

fn number_of(row: usize) -> i64 {
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

fn embedding_backward_of<T: Float + DeviceElement>(case: &mut Case) -> CaseResult {
    let matrix = RowsCase::new(case);
    let (stride, rows, cols) = matrix.extents();
    let dout = case.normal::<T>("dout", matrix.shape());
    let mut in_order: Vec<usize> = (0..matrix.rows).collect();
    in_order.sort_by_key(|&row| number_of(row));
    let of_order = in_order.clone();
    let sorted = case.input::<i64>("sorted", [matrix.rows], move |at| number_of(in_order[at]));
    let order = case.input::<i64>("order", [matrix.rows], move |at| of_order[at] as i64);
    let dtable = case.output::<T>("dtable", [ENTRIES, matrix.shape()[1]]);
    case.launch(clear::<T>, grid(ENTRIES), (&dtable, stride as i32, cols))?;
    let arguments = (
        &dout,
        &sorted,
        &order,
        &dtable,
        stride,
        stride,
        ENTRIES as i64,
        rows,
        cols,
    );
    row_instance!(COLS, DIVISOR for matrix.cols, in [256, 1024, 4096] {
        case.launch_programmatic(embedding_backward::<T, COLS, DIVISOR>, grid(matrix.rows), arguments)
    })?;
    let reference = || {
        let mut sums = vec![0.0; ENTRIES * matrix.cols];
        for row in 0..matrix.rows {
            let Some(entry) = usize::try_from(number_of(row))
                .ok()
                .filter(|at| *at < ENTRIES)
            else {
                continue;
            };
            let of_entry = &mut sums[entry * matrix.cols..][..matrix.cols];
            let of_row = matrix.row(&dout, row);
            of_entry
                .iter_mut()
                .zip(of_row)
                .for_each(|(sum, v)| *sum += v);
        }
        sums
    };
    let shape = [ENTRIES, matrix.cols];
    case.expect_part(&dtable, shape, reference, close::<T>(1e-5))?;
    case.moves_bytes(2 * matrix.rows * matrix.cols * size_of::<T>());
    Ok(())
}

#[case(sizes(rows = [33, 1], cols = [1024, 77]))]
fn embedding_backward_bf16(case: &mut Case) -> CaseResult {
    embedding_backward_of::<bf16>(case)
}

#[case(sizes(rows = [50], cols = [200]))]
fn embedding_backward_f32(case: &mut Case) -> CaseResult {
    embedding_backward_of::<f32>(case)
}
