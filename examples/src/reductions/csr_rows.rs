//! A sparse matrix times a vector, by compressed rows (CSR): each thread adds up a row of its own, and takes the elements of the vector
//! wherever the row's columns say. Rows have different lengths: a warp goes on as long as its longest row, and threads whose row has ended
//! are masked. So a program is one warp, and no warp waits for the rows of another.

use tilekit::prelude::*;

/// Rows of a program, one for each lane.
const ROWS: usize = 32;

/// `out[r]` is the sum of `values[i] * x[columns[i]]` over the elements `i` of row `r`, from `starts[r]` to `starts[r + 1]`.
#[kernel(warps = 1)]
pub fn csr_rows(
    #[readonly] values: Ptr<f32>,
    #[readonly] columns: Ptr<i32>,
    #[readonly] starts: Ptr<i32>,
    #[readonly] x: Ptr<f32>,
    out: Ptr<f32>,
    rows: i32,
) {
    let row = program_id(0) * ROWS + arange(0..ROWS, Blocked::new([1], [32], [1], [0]));
    let inside = row < rows;
    let first = starts.at(row).mask(inside).load();
    let length = starts.at(row + 1).mask(inside).load() - first;
    let mut sum = zeros_like(length).cast::<f32>();
    for step in range(0, length.max(0).scalar()) {
        // Lanes whose row has ended load nothing, and add 0.
        let goes_on = step < length;
        let column = columns.at(first + step).mask(goes_on).load();
        let value = values.at(first + step).mask(goes_on).load();
        sum += value * x.at(column).mask(goes_on).load();
    }
    out.at(row).mask(inside).store(sum);
}

/// Where rows begin: most have a few elements, some none, and every 37th as many as there are columns.
fn row_starts(rows: usize, cols: usize) -> Vec<usize> {
    let length = |row: usize| {
        if row % 37 == 5 {
            cols
        } else {
            (row * 11 % 14).min(cols)
        }
    };
    let mut starts = vec![0];
    for row in 0..rows {
        starts.push(starts[row] + length(row));
    }
    starts
}

#[case(sizes(rows = [500, 64, 1], cols = [300, 1, 8]))]
fn csr_rows_f32(case: &mut Case) -> CaseResult {
    let (rows, cols) = (case.size("rows"), case.size("cols"));
    let starts = row_starts(rows, cols);
    let count = starts[rows].max(1);
    let column = move |at: usize| (at * 7919 + at / 13) % cols;
    let values = case.normal::<f32>("values", [count]);
    let x = case.normal::<f32>("x", [cols]);
    let columns = case.input::<i32>("columns", [count], move |at| column(at) as i32);
    let of_rows = starts.clone();
    let begins = case.input::<i32>("starts", [rows + 1], move |at| of_rows[at] as i32);
    let out = case.output::<f32>("out", [rows]);
    let arguments = (&values, &columns, &begins, &x, &out, rows as i32);
    case.launch(csr_rows, rows.div_ceil(ROWS), arguments)?;
    let sum = |[row]: [usize; 1]| {
        let elements = starts[row]..starts[row + 1];
        let term = |at: usize| f64::from(values[[at]]) * f64::from(x[[column(at)]]);
        elements.map(term).sum::<f64>()
    };
    // Sums of normals that cancel: what rounding of the largest partial sums costs.
    let tolerance = Close {
        relative: 1e-5,
        absolute: 1e-6 * (cols as f64).sqrt(),
    };
    case.expect(&out, sum, tolerance)?;
    case.moves_bytes(4 * (3 * starts[rows] + 2 * rows));
    Ok(())
}
