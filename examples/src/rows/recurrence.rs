//! A recurrence along rows, `y[t] = decay * y[t - 1] + x[t]`, whose steps wait for each other: each thread has a row of its own in registers.
//! So that memory is still read along rows, a block goes through shared memory, where 32 lanes read 32 rows at once. In
//! unswizzled rows what they read lies in the same banks; one element of padding after each row puts it in 32 different ones.

use tilekit::prelude::*;

/// Rows of a program, one for each thread, and columns of a block.
const ROWS: usize = 128;
const COLS: usize = 32;

/// The block in shared memory.
fn block_layout(is_padded: bool) -> SharedLayout {
    if is_padded {
        Padded::new([[COLS as u32, 1]], [1, 0]).into()
    } else {
        Swizzled::plain([1, 0]).into()
    }
}

/// `out[r, t] = decay * out[r, t - 1] + x[r, t]`, with 0 before the first; rows of both are `row_stride` elements apart.
#[kernel(warps = 4, instances(<true>))]
pub fn recurrence<const IS_PADDED: bool>(
    #[readonly] x: Ptr<f32>,
    out: Ptr<f32>,
    decay: f32,
    row_stride: i32,
    rows: i32,
    cols: i32,
) {
    let block = Smem::<f32>::alloc([ROWS, COLS], block_layout(IS_PADDED));
    // Lanes along a row, for memory, and along a column, for the steps.
    let along_rows = Blocked::new([1, 1], [1, 32], [4, 1], [1, 0]);
    let by_row = Blocked::new([1, COLS], [32, 1], [4, 1], [1, 0]);
    let row = rows_of(along_rows.clone(), program_id(0) * ROWS, ROWS);
    let col = columns_of(along_rows.clone(), scalar(0), COLS);
    let at = row * row_stride + col;
    let inside = |first: Scalar<i32>| (row < rows) & (first + col < cols);

    let mut y = zeros::<f32>([ROWS, 1], by_row.clone());
    // The next block is on its way while one is walked along.
    let mut next = x.at(at).mask(inside(scalar(0))).load();
    for first in range(0, cols).step(COLS) {
        block.store(next);
        let after = first + COLS;
        next = x.at(at + after).mask(inside(after)).load();
        let steps = block.load(by_row.clone()).chunks::<COLS>(1);
        let made = steps.map(|x| {
            y = decay * y + x;
            y
        });
        block.store(cat(made, 1));
        let result = block.load(along_rows.clone());
        out.at(at + first).mask(inside(first)).store(result);
    }
}

#[case(sizes(rows = [256, 130, 1], cols = [128, 75, 1]))]
fn recurrence_f32(case: &mut Case) -> CaseResult {
    const DECAY: f32 = 0.9375;
    let (rows, cols) = (case.size("rows"), case.size("cols"));
    let x = case.normal::<f32>("x", [rows, cols]);
    let out = case.output::<f32>("out", [rows, cols]);
    let extents = [cols, rows, cols].map(|extent| extent as i32);
    let arguments = (&x, &out, DECAY, extents[0], extents[1], extents[2]);
    case.launch(recurrence::<true>, rows.div_ceil(ROWS), arguments)?;
    let reference = || {
        let mut reference = Vec::with_capacity(rows * cols);
        for row in x.host().chunks(cols) {
            let mut y = 0.0;
            for &x in row {
                y = f64::from(DECAY) * y + f64::from(x);
                reference.push(y);
            }
        }
        reference
    };
    // Errors of earlier steps decay: some 16 roundings of sums of about 3.
    let tolerance = Close {
        relative: 1e-5,
        absolute: 4e-6,
    };
    case.expect_part(&out, [rows, cols], reference, tolerance)?;
    case.moves_bytes(2 * 4 * rows * cols);
    Ok(())
}
