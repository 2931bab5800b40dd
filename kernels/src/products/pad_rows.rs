//! Copies of matrices whose rows begin anywhere to rows that begin where tensor maps want them.

use tilekit::prelude::*;

use super::factor::Stored;

/// The tile of a program.
pub(super) const ROWS: usize = 16;
pub(super) const COLUMNS: usize = 256;

/// How many tiles a matrix has.
pub(super) fn tiles([rows, columns]: [usize; 2]) -> usize {
    rows.div_ceil(ROWS) * columns.div_ceil(COLUMNS)
}

/// A matrix in rows, and where its copy is.
#[derive(Clone, Copy)]
struct Padded<T> {
    source: Ptr<T>,
    pitch: Scalar<i64>,
    target: Ptr<T>,
    target_pitch: Scalar<i64>,
    rows: Scalar<i32>,
    columns: Scalar<i32>,
}

impl<T: Stored> Padded<T> {
    /// Copies a tile. A lane has the element beside that of the lane before: rows begin at no multiple of more than an element, so that elements are loaded one by one.
    #[device]
    fn copy(self, tile: Scalar<i32>) {
        let across = cdiv(self.columns, COLUMNS);
        let layout = Blocked::new([1, 1], [1, 32], [4, 1], [1, 0]);
        let row = rows_of(layout.clone(), tile / across * ROWS, ROWS);
        let column = columns_of(layout, tile % across * COLUMNS, COLUMNS);
        let inside = (row < self.rows) & (column < self.columns);
        let (source, target) = (self.source.cast::<T::Bits>(), self.target.cast::<T::Bits>());
        let (row, column) = (row.cast::<i64>(), column.cast::<i64>());
        let from = row * self.pitch + column;
        let elements = source.at(from).mask(inside).other(0).load();
        let to = row * self.target_pitch + column;
        target.at(to).mask(inside).store(elements);
    }
}

/// Copies a matrix X in rows, and a matrix Y: the first `tiles_of_x` programs have a tile of X each, the others one of Y. Elements behind the last column of a copy are left as they are.
#[kernel(warps = 4, instances(<bf16>))]
pub fn pad_rows<T: Stored>(
    #[align(size_of::<T>())] x: Ptr<T>,
    x_pitch: i64,
    x_target: Ptr<T>,
    x_target_pitch: i64,
    x_rows: i32,
    x_columns: i32,
    #[align(size_of::<T>())] y: Ptr<T>,
    y_pitch: i64,
    y_target: Ptr<T>,
    y_target_pitch: i64,
    y_rows: i32,
    y_columns: i32,
    tiles_of_x: i32,
) {
    launch_dependents();
    let x = Padded {
        source: x,
        pitch: x_pitch,
        target: x_target,
        target_pitch: x_target_pitch,
        rows: x_rows,
        columns: x_columns,
    };
    let y = Padded {
        source: y,
        pitch: y_pitch,
        target: y_target,
        target_pitch: y_target_pitch,
        rows: y_rows,
        columns: y_columns,
    };
    launch_wait();
    let tile = program_id(0);
    if tile < tiles_of_x {
        x.copy(tile);
    } else {
        y.copy(tile - tiles_of_x);
    }
}

/// A row more and a row less than a tile has, and columns beyond one.
#[case(sizes(x_rows = [17, 1], y_rows = [15, 33], columns = [259, 27]))]
fn pad_rows_bf16(case: &mut Case) -> CaseResult {
    let [m, n, k] = ["x_rows", "y_rows", "columns"].map(|name| case.size(name));
    let pitch = k.next_multiple_of(8);
    let [x, y] = [("x", m), ("y", n)].map(|(name, rows)| case.normal::<bf16>(name, [rows, k]));
    let [to_x, to_y] = [("x_target", m), ("y_target", n)]
        .map(|(name, rows)| case.output::<bf16>(name, [rows, pitch]));
    let [of_x, of_y] = [m, n].map(|rows| tiles([rows, k]));
    let (from, to) = (k as i64, pitch as i64);
    let [m_, n_, k_, of_x_] = [m, n, k, of_x].map(|count| count as i32);
    case.launch_programmatic(
        pad_rows::<bf16>,
        [of_x + of_y, 1, 1],
        (
            &x, from, &to_x, to, m_, k_, &y, from, &to_y, to, n_, k_, of_x_,
        ),
    )?;
    for (source, target, rows) in [(&x, &to_x, m), (&y, &to_y, n)] {
        let want = || {
            (0..rows * k)
                .map(|at| source[[at / k, at % k]].to_f64())
                .collect()
        };
        case.expect_part_in_units(target, [rows, k], want, Exactly)?;
    }
    Ok(())
}
