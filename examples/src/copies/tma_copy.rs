//! A copy by TMA alone: one elected thread issues the load of a block into shared memory and its store. No thread computes
//! an address, and elements outside of the tensor need no mask.

use tilekit::prelude::*;

/// `out = x`, a block of `ROWS` by `COLS` for each program.
#[kernel(warps = 1, instances(<64, 64>))]
pub fn tma_copy<const ROWS: usize, const COLS: usize>(
    #[block([ROWS, COLS], Nvmma::B128)] x: TensorMap<bf16>,
    #[block([ROWS, COLS], Nvmma::B128)] out: TensorMap<bf16>,
) {
    let at = [program_id(1) * ROWS, program_id(0) * COLS];
    let tile = Smem::<bf16>::alloc([ROWS, COLS], x.layout());
    let full = Mbarrier::alloc(1);
    full.expect(x.block_bytes());
    x.load(at, tile, full);
    full.wait(0);
    out.store(at, tile);
    // Shared memory must stay valid until the TMA store has read it.
    tma_store_wait_read(0);
}

#[case(sizes(rows = [1, 100, 8192], cols = [8, 200, 8192]))]
fn tma_copy_case(case: &mut Case) -> CaseResult {
    const BLOCK: usize = 64;
    let (rows, cols) = (case.size("rows"), case.size("cols"));
    let x = case.normal::<bf16>("x", [rows, cols]);
    let out = case.output::<bf16>("out", [rows, cols]);
    let blocks = grid([cols.div_ceil(BLOCK), rows.div_ceil(BLOCK)]);
    case.launch(tma_copy::<BLOCK, BLOCK>, blocks, (x.view(), out.view()))?;
    case.expect(&out, |[r, c]| x[[r, c]], Exactly)?;
    case.moves_bytes(2 * 2 * rows * cols);
    Ok(())
}

/// Rows that end inside a unit of 16 bytes, of which a TMA store writes all, and nothing of the two units after it.
#[case(sizes(rows = [3, 3, 70], cols = [1, 9, 71]))]
fn tma_copy_odd(case: &mut Case) -> CaseResult {
    const BLOCK: usize = 64;
    let (rows, cols) = (case.size("rows"), case.size("cols"));
    let stride = cols.next_multiple_of(8) + 16;
    let x = case.normal::<bf16>("x", [rows, stride]);
    let out = case.output::<bf16>("out", [rows, stride]);
    let from = x.view().with_shape([rows, cols]).with_strides([stride, 1]);
    let to = out
        .view()
        .with_shape([rows, cols])
        .with_strides([stride, 1]);
    let blocks = grid([cols.div_ceil(BLOCK), rows.div_ceil(BLOCK)]);
    case.launch(tma_copy::<BLOCK, BLOCK>, blocks, (from, to))?;
    let places = (0..rows).flat_map(|r| (0..cols).map(move |c| [r, c]));
    let copied = || places.map(|at| x[at]).collect();
    case.expect_part_in_units(&out, [rows, cols], copied, Exactly)?;
    case.moves_bytes(2 * 2 * rows * cols);
    Ok(())
}
