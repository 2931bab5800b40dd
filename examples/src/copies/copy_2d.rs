//! The same copy with four layouts: along rows, along columns, through strides, and transposed with a conversion between
//! two layouts, so that both sides are coalesced. Gluon's second tutorial shows what each costs.

use tilekit::prelude::*;

/// A tile of `[TILE, TILE]` with each warp along a row.
fn along_rows() -> Blocked {
    Blocked::new([1, 4], [2, 16], [4, 1], [1, 0])
}

/// A tile of `[TILE, TILE]` with each warp along a column.
fn along_columns() -> Blocked {
    Blocked::new([4, 1], [16, 2], [1, 4], [0, 1])
}

const TILE: usize = 64;

/// The coordinates of this program's tile.
#[device]
fn tile_coordinates(layout: &Blocked) -> (Tensor<i32>, Tensor<i32>) {
    let row = program_id(1) * TILE + arange(0..TILE, Slice::new(1, layout.clone())).expand_dims(1);
    let col = program_id(0) * TILE + arange(0..TILE, Slice::new(0, layout.clone())).expand_dims(0);
    (row, col)
}

/// `out[r, c] = x[r, c]`, both with the strides given, in elements; `ALONG_COLUMNS` picks the layout.
#[kernel(warps = 4)]
pub fn copy_2d<const ALONG_COLUMNS: bool>(
    x: Ptr<f32>,
    out: Ptr<f32>,
    rows: i32,
    cols: i32,
    x_row_stride: i32,
    x_col_stride: i32,
    out_row_stride: i32,
    out_col_stride: i32,
) {
    let layout = if ALONG_COLUMNS {
        along_columns()
    } else {
        along_rows()
    };
    let (row, col) = tile_coordinates(&layout);
    let inside = (row < rows) & (col < cols);
    let v = x
        .at(row * x_row_stride + col * x_col_stride)
        .mask(inside)
        .load();
    out.at(row * out_row_stride + col * out_col_stride)
        .mask(inside)
        .store(v);
}

/// `out[c, r] = x[r, c]`: read along rows, written along columns of `x`, converted between.
#[kernel(warps = 4)]
pub fn transpose_2d(
    x: Ptr<f32>,
    out: Ptr<f32>,
    rows: i32,
    cols: i32,
    #[multiple_of(4)] x_row_stride: i32,
    #[multiple_of(4)] out_row_stride: i32,
) {
    let (row, col) = tile_coordinates(&along_rows());
    let v = x
        .at(row * x_row_stride + col)
        .mask((row < rows) & (col < cols))
        .load();
    let v = v.convert_layout(along_columns());
    let (row, col) = tile_coordinates(&along_columns());
    out.at(col * out_row_stride + row)
        .mask((row < rows) & (col < cols))
        .store(v);
}

fn tiles(rows: usize, cols: usize) -> Grid {
    grid([cols.div_ceil(TILE), rows.div_ceil(TILE)])
}

/// Copies with the strides `(row, column)` of both sides.
fn copy<const ALONG_COLUMNS: bool>(
    case: &mut Case,
    x_strides: [usize; 2],
    out_strides: [usize; 2],
) -> CaseResult {
    let (rows, cols) = (case.size("rows"), case.size("cols"));
    let extent = |strides: [usize; 2]| (rows - 1) * strides[0] + (cols - 1) * strides[1] + 1;
    let x = case.normal::<f32>("x", [extent(x_strides)]);
    let out = case.output::<f32>("out", [extent(out_strides)]);
    let arguments = (
        &x,
        &out,
        rows as i32,
        cols as i32,
        x_strides[0] as i32,
        x_strides[1] as i32,
        out_strides[0] as i32,
        out_strides[1] as i32,
    );
    case.launch(copy_2d::<ALONG_COLUMNS>, tiles(rows, cols), arguments)?;
    let reference = |[at]: [usize; 1]| {
        let (r, c) = if out_strides[1] == 1 {
            (at / out_strides[0], at % out_strides[0])
        } else {
            (at % out_strides[1], at / out_strides[1])
        };
        x[r * x_strides[0] + c * x_strides[1]]
    };
    case.expect(&out, reference, Exactly)?;
    case.moves_bytes(2 * 4 * rows * cols);
    Ok(())
}

#[case(sizes(rows = [256, 100], cols = [256, 130]))]
fn copy_2d_row(case: &mut Case) -> CaseResult {
    let cols = case.size("cols");
    copy::<false>(case, [cols, 1], [cols, 1])
}

#[case(sizes(rows = [256, 100], cols = [256, 130]))]
fn copy_2d_column(case: &mut Case) -> CaseResult {
    let rows = case.size("rows");
    copy::<true>(case, [1, rows], [1, rows])
}

#[case(sizes(rows = [256, 100], cols = [256, 130]))]
fn copy_2d_strided(case: &mut Case) -> CaseResult {
    let cols = case.size("cols");
    copy::<false>(case, [2 * cols, 2], [cols, 1])
}

#[case(sizes(rows = [256, 100], cols = [256, 132]))]
fn copy_2d_transposed(case: &mut Case) -> CaseResult {
    let (rows, cols) = (case.size("rows"), case.size("cols"));
    let x = case.normal::<f32>("x", [rows, cols]);
    let out = case.output::<f32>("out", [cols, rows]);
    let arguments = (&x, &out, rows as i32, cols as i32, cols as i32, rows as i32);
    case.launch(transpose_2d, tiles(rows, cols), arguments)?;
    case.expect(&out, |[c, r]| x[[r, c]], Exactly)?;
    case.moves_bytes(2 * 4 * rows * cols);
    Ok(())
}
