//! The gradient of a table whose rows were gathered: sums of rows of equal number, with long runs divided among CTAs.

use tilekit::library::rows::warps_per_row;
use tilekit::prelude::*;
use tilekit::row_instance;

use super::embedding::{ENTRIES, number_of};
use super::rows_case::{RowsCase, clear, close};

/// Sorted rows of a CTA.
const PLACES: usize = 32;

/// Rows that are in flight at a time.
const AT_ONCE: usize = 4;

/// Rows of `partial` of a CTA: the sum of a run that began before it, and of one that it begins and another CTA goes on with.
const PARTS: usize = 2;

/// Sorted numbers of rows.
#[derive(Clone, Copy)]
struct Sorted {
    numbers: Ptr<i64>,
    rows: Scalar<i32>,
    entries: Scalar<i64>,
}

impl Sorted {
    /// The number at a place, -1 outside of the rows.
    #[device]
    fn at(self, place: Scalar<i32>) -> Scalar<i64> {
        let inside = (place >= 0) & (place < self.rows);
        self.numbers.at(place).mask(inside).other(-1).load()
    }

    #[device]
    fn names_entry(self, number: Scalar<i64>) -> Scalar<bool> {
        (number >= 0) & (number < self.entries)
    }
}

/// The gradient of the table of [`embedding`](super::embedding()), with [`embedding_backward_join`] after it: `dtable[sorted[i], :]` is the sum of
/// `dout[order[j], :]` over all `j` with `sorted[j] == sorted[i]`, in f32, for rows of `cols <= COLS` elements. `sorted` has the numbers of rows ascending, `order`
/// the rows in this order. Entries that have no row are not written.
///
/// A CTA adds up the runs of equal numbers in 32 rows of this order. It stores a run that lies between its first and last row to `dtable`; of one that
/// other CTAs have a part in, its own part goes to `partial`: row `2 * i` of CTA `i` has the part of a run that began before, row
/// `2 * i + 1` that of one that goes on behind.
#[kernel(warps = warps_per_row::<T>(COLS), instances(<bf16, 1024, 8>, <bf16, 4096, 8>, <bf16, 8192, 8>, <f32, 1024, 8>, <f32, 4096, 8>), signature(
    dout: [rows, cols],
    sorted: [rows],
    order: [rows],
    dtable: [entries, cols],
    partial: [parts, cols],
    row_stride = dout.stride(0),
    table_stride = dtable.stride(0),
    partial_stride = partial.stride(0),
    grid = cdiv(rows, PLACES),
    requires(cols <= COLS, parts == cdiv(rows, PLACES) * PARTS),
))]
pub fn embedding_backward<T: Float, const COLS: usize, const DIVISOR: usize>(
    dout: Ptr<T>,
    sorted: Ptr<i64>,
    order: Ptr<i64>,
    dtable: Ptr<T>,
    partial: Ptr<f32>,
    #[multiple_of(8)] row_stride: i64,
    #[multiple_of(8)] table_stride: i64,
    #[multiple_of(8)] partial_stride: i64,
    entries: i64,
    rows: i32,
    #[multiple_of(DIVISOR)] cols: i32,
) {
    launch_dependents();
    launch_wait();
    let line = Blocked::new([16 / size_of::<T>()], [32], [warps_per_row::<T>(COLS)], [0]);
    let col = arange(0..COLS, line.clone());
    let sorted = Sorted {
        numbers: sorted,
        rows,
        entries,
    };
    // Where a row's elements lie is known a step before they are loaded, which hides two loads that wait for each other.
    let ahead = |first: Scalar<i32>| -> [(Scalar<i64>, Scalar<i64>); AT_ONCE] {
        std::array::from_fn(|i| {
            let number = sorted.at(first + i);
            let row = order.at(first + i).mask(sorted.names_entry(number));
            (number, row.other(0).load())
        })
    };
    let store =
        |number: Scalar<i64>, sum: Tensor<f32>, is_whole: Scalar<bool>, part: Scalar<i32>| {
            let inside = (col < cols) & sorted.names_entry(number);
            let target = dtable.at(number * table_stride + col);
            target.mask(inside & is_whole).store(sum.cast::<T>());
            let row = program_id(0) * PARTS + part;
            let target = partial.at(row.cast::<i64>() * partial_stride + col);
            target.mask(inside & !is_whole).store(sum);
        };
    let first = program_id(0) * PLACES;
    let mut next = ahead(first);
    let mut number = next[0].0;
    let mut begins = sorted.at(first - 1) != number;
    let mut sum = full([COLS], 0.0, line);
    for place in range(first, first + PLACES).step(AT_ONCE) {
        let rows = next;
        let parts = rows.map(|(number, row)| {
            let inside = (col < cols) & sorted.names_entry(number);
            let source = dout.at(row * row_stride + col).mask(inside);
            source.other(0).load()
        });
        next = ahead(place + AT_ONCE);
        for ((of_row, _), part) in rows.into_iter().zip(parts) {
            if of_row != number {
                store(number, sum, begins, scalar(0));
                sum = zeros_like(sum);
                number = of_row;
                begins = scalar(true);
            }
            sum += part.cast::<f32>();
        }
    }
    let goes_on = sorted.at(first + PLACES) == number;
    let part = select(begins, 1, 0);
    store(number, sum, begins & !goes_on, part);
}

/// Columns of a program of the join.
const STRIP: usize = 512;

/// Warps of a program of the join, and parts of a run that are in flight at a time.
const WARPS: usize = 8;
const PARTS_AT_ONCE: usize = 16;

/// The second launch of [`embedding_backward`]: the sums of the runs that several CTAs had a part in, from `partial` to `dtable`. The order of the
/// additions depends on `sorted` alone.
#[kernel(warps = WARPS, instances(<bf16, 8>, <f32, 8>), signature(
    sorted: [rows],
    partial: [parts, cols],
    dtable: [entries, cols],
    partial_stride = partial.stride(0),
    table_stride = dtable.stride(0),
    grid = [cdiv(rows, PLACES), cdiv(cols, STRIP)],
    requires(parts == cdiv(rows, PLACES) * PARTS),
))]
pub fn embedding_backward_join<T: Float, const DIVISOR: usize>(
    sorted: Ptr<i64>,
    partial: Ptr<f32>,
    dtable: Ptr<T>,
    #[multiple_of(8)] partial_stride: i64,
    #[multiple_of(8)] table_stride: i64,
    entries: i64,
    rows: i32,
    #[multiple_of(DIVISOR)] cols: i32,
) {
    launch_dependents();
    launch_wait();
    let sorted = Sorted {
        numbers: sorted,
        rows,
        entries,
    };
    let behind = (program_id(0) + 1) * PLACES;
    let number = sorted.at(behind - 1);
    let begins = sorted.at(behind - PLACES - 1) != number;
    let goes_on = sorted.at(behind) == number;
    if sorted.names_entry(number) & begins & goes_on {
        let tile = Blocked::new([1, 4], [1, 32], [WARPS / 4, 4], [1, 0]);
        let col = program_id(1) * STRIP + arange(0..STRIP, Slice::new(0, tile.clone()));
        let line = arange(0..PARTS_AT_ONCE, Slice::new(1, tile.clone()));
        let of_row = |row: Tensor<i64>, is_of_run: Tensor<bool>| {
            let at = row.expand_dims(1) * partial_stride + col.expand_dims(0);
            let inside = is_of_run.expand_dims(1) & (col < cols).expand_dims(0);
            partial.at(at).mask(inside).other(0).load()
        };
        let own = program_id(0) * PARTS + 1;
        let mut sum = of_row(full_like(line, own).cast::<i64>(), line == 0);
        let mut first = program_id(0) + 1;
        let mut has_more = goes_on;
        while has_more {
            let cta = first + line;
            let place = cta * PLACES;
            let here = sorted.numbers.at(place).mask(place < rows).other(-1).load();
            sum += of_row((cta * PARTS).cast::<i64>(), here == number);
            first += PARTS_AT_ONCE;
            has_more = sorted.at(first * PLACES) == number;
        }
        let target = dtable.at(number * table_stride + col);
        target.mask(col < cols).store(sum.sum(0).cast::<T>());
    }
}

/// Rows of a case in the order of their numbers.
struct InOrder {
    sorted: Input<i64>,
    order: Input<i64>,
}

impl InOrder {
    fn new(case: &mut Case, rows: usize) -> Self {
        let mut in_order: Vec<usize> = (0..rows).collect();
        in_order.sort_by_key(|&row| number_of(row));
        let of_order = in_order.clone();
        InOrder {
            sorted: case.input("sorted", [rows], move |at| number_of(in_order[at])),
            order: case.input("order", [rows], move |at| of_order[at] as i64),
        }
    }
}

/// The gradient of the table, in f64.
fn sums_of_rows<T: Float + DeviceElement>(matrix: RowsCase, dout: &Input<T>) -> Vec<f64> {
    let mut sums = vec![0.0; ENTRIES * matrix.cols];
    for row in 0..matrix.rows {
        let entry = usize::try_from(number_of(row)).unwrap_or(ENTRIES);
        if entry >= ENTRIES {
            continue;
        }
        let of_entry = &mut sums[entry * matrix.cols..][..matrix.cols];
        let of_row = matrix.row(dout, row);
        of_entry
            .iter_mut()
            .zip(of_row)
            .for_each(|(sum, v)| *sum += v);
    }
    sums
}

fn embedding_backward_of<T: Float + DeviceElement>(case: &mut Case) -> CaseResult {
    let matrix = RowsCase::new(case);
    let (stride, rows, cols) = matrix.extents();
    let dout = case.normal::<T>("dout", matrix.shape());
    let InOrder { sorted, order } = InOrder::new(case, matrix.rows);
    let dtable = case.output::<T>("dtable", [ENTRIES, matrix.shape()[1]]);
    let ctas = matrix.rows.div_ceil(PLACES);
    let partial = case.output::<f32>("partial", [ctas * PARTS, matrix.shape()[1]]);
    case.launch(clear::<T>, grid(ENTRIES), (&dtable, stride as i32, cols))?;
    let entries = ENTRIES as i64;
    let of_rows = (
        &dout, &sorted, &order, &dtable, &partial, stride, stride, stride, entries, rows, cols,
    );
    row_instance!(COLS, DIVISOR for matrix.cols, in [256, 1024, 4096] {
        case.launch_programmatic(embedding_backward::<T, COLS, DIVISOR>, grid(ctas), of_rows)
    })?;
    let strips = grid([ctas, matrix.cols.div_ceil(STRIP)]);
    let of_parts = (
        &sorted, &partial, &dtable, stride, stride, entries, rows, cols,
    );
    if matrix.cols.is_multiple_of(8) {
        case.launch_programmatic(embedding_backward_join::<T, 8>, strips, of_parts)?;
    } else {
        case.launch_programmatic(embedding_backward_join::<T, 1>, strips, of_parts)?;
    }
    let shape = [ENTRIES, matrix.cols];
    case.expect_part(
        &dtable,
        shape,
        || sums_of_rows(matrix, &dout),
        close::<T>(1e-5),
    )?;
    case.moves_bytes(2 * matrix.rows * matrix.cols * size_of::<T>());
    Ok(())
}

// Entry 11 has a fifth of all rows: a part of one CTA's at 33 rows, of four CTAs' at 431, and of more than the join takes at once at 3001.
#[case(sizes(rows = [33, 1, 431], cols = [1024, 77, 264]))]
fn embedding_backward_bf16(case: &mut Case) -> CaseResult {
    embedding_backward_of::<bf16>(case)
}

#[case(sizes(rows = [50, 3001], cols = [200]))]
fn embedding_backward_f32(case: &mut Case) -> CaseResult {
    embedding_backward_of::<f32>(case)
}
