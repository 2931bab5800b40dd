//! TMA reduction: `cp.reduce.async.bulk.tensor` adds a tile of shared memory to a block of a tensor, each element
//! atomically, so that several CTAs may add to one block. Here several CTAs share the columns of one sum.

use tilekit::prelude::*;

/// `out = 0`.
#[kernel(warps = 4)]
pub fn clear_row(out: Ptr<f32>, n: i32) {
    let at = program_id(0) * 1024 + arange(0..1024, Coalesced);
    out.at(at).mask(at < n).store(0.0);
}

/// `out[0, c] += sum of x[r, c]` over the rows of this program, a block of `ROWS` by `COLS`.
#[kernel(warps = 4, instances(<64, 32>))]
pub fn tma_add<const ROWS: usize, const COLS: usize>(
    #[block([ROWS, COLS], Nvmma::B128)] x: TensorMap<f32>,
    #[block([1, COLS], Nvmma::PLAIN)] out: TensorMap<f32>,
) {
    let layout = Blocked::new([1, 4], [4, 8], [4, 1], [1, 0]);
    let col = program_id(0) * COLS;
    let tile = Smem::<f32>::alloc([ROWS, COLS], x.layout());
    let full = Mbarrier::alloc(1);
    full.expect(x.block_bytes());
    // Elements outside of the tensor are loaded as zero, and add nothing.
    x.load([program_id(1) * ROWS, col], tile, full);
    full.wait(0);
    let sum = tile.load(layout).sum(0).expand_dims(0);
    let row = Smem::alloc_with(sum, out.layout());
    out.store_add((0, col), row);
    tma_store_wait_read(0);
}

#[case(sizes(rows = [1, 130, 16_384], cols = [4, 100, 4096]))]
fn tma_add_case(case: &mut Case) -> CaseResult {
    const ROWS: usize = 64;
    const COLS: usize = 32;
    let (rows, cols) = (case.size("rows"), case.size("cols"));
    // Whole numbers, whose sum is the same in every order.
    let x = case.integers::<f32>("x", [rows, cols], -8..9);
    let out = case.output::<f32>("out", [1, cols]);
    case.launch(clear_row, grid(cols.div_ceil(1024)), (&out, cols as i32))?;
    let blocks = grid([cols.div_ceil(COLS), rows.div_ceil(ROWS)]);
    case.launch(tma_add::<ROWS, COLS>, blocks, (x.view(), out.view()))?;
    case.expect(
        &out,
        |[_, c]| (0..rows).map(|r| f64::from(x[[r, c]])).sum::<f64>(),
        Exactly,
    )?;
    case.moves_bytes(4 * rows * cols);
    Ok(())
}
