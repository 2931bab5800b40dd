//! A cluster of CTAs shares the work on one row: each sums a part of it, and reads the sums of the others from their shared
//! memory, without a trip through global memory and a second kernel.

use tilekit::prelude::*;

/// CTAs of a cluster.
const CTAS: usize = 4;

/// `out[r] = sum of x[r, c]` over `c < cols`; a cluster for each row.
#[kernel(warps = 4, cluster = CTAS, instances(<1024>))]
pub fn cluster_sum<const BLOCK: usize>(
    x: Ptr<f32>,
    out: Ptr<f32>,
    cols: i32,
    #[multiple_of(4)] row_stride: i64,
) {
    let line = Blocked::new([4], [32], [4], [0]);
    let (rank, row) = (cluster_rank(), program_id(0) / CTAS);
    let row_at = row.cast::<i64>() * row_stride;
    let mut sums = zeros::<f32>([BLOCK], line.clone());
    for block in range(0, cdiv(cols, CTAS * BLOCK)) {
        let col = (block * CTAS + rank) * BLOCK + arange(0..BLOCK, line.clone());
        sums += x.at(row_at + col).mask(col < cols).other(0.0).load();
    }
    let one = Blocked::new([1], [32], [4], [0]);
    let own = full([1], sums.sum(0).scalar(), one.clone());
    let part = Smem::alloc_with(own, Swizzled::plain([0]));
    cluster_barrier();
    let mut total = scalar(0.0_f32);
    for cta in 0..CTAS {
        total += part.in_cta(cta).load(one.clone()).sum(0).scalar();
    }
    if rank == 0 {
        out.at(row).store(total);
    }
    // No CTA ends while another one still reads its part.
    cluster_barrier_relaxed();
}

#[case(sizes(rows = [1, 5, 4096], cols = [1, 5_003, 65_536]))]
fn cluster_sum_case(case: &mut Case) -> CaseResult {
    let (rows, cols) = (case.size("rows"), case.size("cols"));
    let stride = cols.next_multiple_of(4);
    // Whole numbers, whose sum is the same in every order.
    let x = case.integers::<f32>("x", [rows, stride], -8..9);
    let out = case.output::<f32>("out", [rows]);
    case.launch(
        cluster_sum::<1024>,
        grid(rows * CTAS),
        (&x, &out, cols as i32, stride as i64),
    )?;
    case.expect(
        &out,
        |[r]| (0..cols).map(|c| f64::from(x[[r, c]])).sum::<f64>(),
        Exactly,
    )?;
    case.moves_bytes(4 * rows * (cols + 1));
    Ok(())
}
