//! The transpose through shared memory: 16 bytes a thread from and to global memory, along rows on both sides, and a tile
//! between them whose layout lets both sides through without bank conflicts.

use tilekit::divided_instance;
use tilekit::prelude::*;

use crate::matrix::row_stride;

/// Warps of a program.
const WARPS: usize = 4;
/// Rows of a tile.
const ROWS: usize = 128;

/// Columns of a tile, so that its rows are 512 bytes: long stretches in both matrices are what memory likes.
const fn columns<T>() -> usize {
    512 / size_of::<T>()
}

/// A tile on its way in: the threads along its rows.
fn along_rows<T>() -> Blocked {
    let per_thread = 16 / size_of::<T>();
    Blocked::new([1, per_thread], [1, 32], [WARPS, 1], [1, 0])
}

/// A tile on its way out: the threads along its columns, which become rows.
fn along_columns<T>() -> Blocked {
    match size_of::<T>() {
        // Four lanes along a column are what `ldmatrix.trans` gives.
        2 => Blocked::new([8, 1], [4, 8], [1, WARPS], [0, 1]),
        _ => Blocked::new([4, 1], [8, 4], [1, WARPS], [0, 1]),
    }
}

/// The tile between. Where a warp reads a column it has 16 bytes in each of eight rows at once; their 16 bytes are
/// exchanged so that these lie in different banks.
fn between<T>() -> SharedLayout {
    if size_of::<T>() == 4 {
        // Rows 0, 4, 8, ... are read at once.
        return Swizzled::new(4, 4, 8, [1, 0]).into();
    }
    // Rows 0, 1, 8, 9, 16, 17, 24, 25 are one matrix.
    let columns = [1, 2, 4, 8, 16, 32, 64, 128].map(|col| [0, col]);
    let rows = [[1, 8], [2, 0], [4, 0], [8, 16], [16, 32], [32, 0], [64, 0]];
    SharedLinear::new(columns.into_iter().chain(rows)).into()
}

/// The rows and columns of a tile. Programs of neighbouring numbers have tiles of neighbouring rows, so that what runs at
/// the same time writes whole rows of the output.
#[device]
fn coordinates<T>(layout: &Blocked) -> (Tensor<i32>, Tensor<i32>) {
    let row = program_id(0) * ROWS + arange(0..ROWS, Slice::new(1, layout.clone()));
    let columns = columns::<T>();
    let col = program_id(1) * columns + arange(0..columns, Slice::new(0, layout.clone()));
    (row.expand_dims(1), col.expand_dims(0))
}

/// `out[c, r] = x[r, c]`, one tile per program. Rows of both begin at multiples of 16 bytes; `DIVISOR` divides `rows` and
/// `cols`.
#[kernel(warps = WARPS, deny(bank_conflicts), instances(<bf16, 8>, <f32, 8>))]
pub fn transpose<T: Numeric, const DIVISOR: usize>(
    x: Ptr<T>,
    out: Ptr<T>,
    #[multiple_of(8)] x_row_stride: i64,
    #[multiple_of(8)] out_row_stride: i64,
    #[multiple_of(DIVISOR)] rows: i32,
    #[multiple_of(DIVISOR)] cols: i32,
) {
    launch_dependents();
    launch_wait();
    let tile = Smem::<T>::alloc([ROWS, columns::<T>()], between::<T>());
    let (row, col) = coordinates::<T>(&along_rows::<T>());
    let inside = (row < rows) & (col < cols);
    // What is written leaves L2 before what is read: writes flow.
    let v = x.at(row.cast::<i64>() * x_row_stride + col);
    tile.store(v.mask(inside).policy(L2Policy::EvictLast).load());
    let (row, col) = coordinates::<T>(&along_columns::<T>());
    let inside = (row < rows) & (col < cols);
    let to = out.at(col.cast::<i64>() * out_row_stride + row);
    to.mask(inside).store(tile.load(along_columns::<T>()));
}

fn transpose_of<T: Float + DeviceElement>(case: &mut Case) -> CaseResult {
    let (rows, cols) = (case.size("rows"), case.size("cols"));
    let (x_stride, out_stride) = (row_stride(cols), row_stride(rows));
    let x = case.normal::<T>("x", [rows, x_stride]);
    let out = case.output::<T>("out", [cols, out_stride]);
    let arguments = (
        &x,
        &out,
        x_stride as i64,
        out_stride as i64,
        rows as i32,
        cols as i32,
    );
    let tiles = grid([rows.div_ceil(ROWS), cols.div_ceil(columns::<T>())]);
    divided_instance!(DIVISOR for (rows | cols), {
        case.launch_programmatic(transpose::<T, DIVISOR>, tiles, arguments)
    })?;
    let moved = || {
        let places = (0..cols).flat_map(|c| (0..rows).map(move |r| [r, c]));
        places.map(|at| x[at]).collect()
    };
    case.expect_part(&out, [cols, rows], moved, Exactly)?;
    case.moves_bytes(2 * rows * cols * size_of::<T>());
    Ok(())
}

#[case(sizes(rows = [256, 200, 61], cols = [128, 136, 131]))]
fn transpose_bf16(case: &mut Case) -> CaseResult {
    transpose_of::<bf16>(case)
}

#[case(sizes(rows = [256, 200, 61], cols = [128, 136, 131]))]
fn transpose_f32(case: &mut Case) -> CaseResult {
    transpose_of::<f32>(case)
}
