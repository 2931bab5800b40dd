//! Rows wider than a CTA, split over a cluster: each CTA sends the sum of its part to all others by `st.async`, which
//! completes on their mbarriers, so that no cluster barrier is needed per row.

use tilekit::prelude::*;

use crate::matrix::{by_row, rounding};

/// CTAs of a cluster, and the elements that each has of a row.
const CTAS: usize = 4;
const PART: usize = 2048;

/// `out[r, :] = x[r, :] / sqrt(mean(x[r, :]²) + eps)` for rows of `CTAS * PART` elements.
#[kernel(warps = 4, cluster = 4)]
pub fn cluster_norm(#[readonly] x: Ptr<f32>, out: Ptr<f32>, rows: i32, eps: f32) {
    let single = Blocked::new([1, 1], [1, 32], [1, 4], [1, 0]);
    // A CTA that is ahead writes the numbers of the next row while others still read those of this one.
    let sums = Smem::<f32>::alloc([2, CTAS, 1], Swizzled::plain([1, 0]));
    let told = Mbarriers::alloc(2, Arrivals(1));
    // All CTAs have started, and observe the initialized mbarriers.
    cluster_barrier_relaxed();
    let rank = cluster_rank();
    let at = rank * PART + arange(0..PART, Coalesced);
    let mut turn = scalar(0);
    let mut phase = scalar(0);
    for row in range(program_id(0) / CTAS, rows).step(num_programs(0) / CTAS) {
        let start = row.cast::<i64>() * (CTAS * PART) as i64;
        let part = (x + start).at(at).load();
        let sum = (part * part).sum(0).scalar();
        let sum = full([1], sum, Slice::new(0, single.clone()));
        let (sums, told) = (sums.index(turn), told.index(turn));
        told.expect(CTAS * 4);
        for cta in 0..CTAS {
            sums.index(rank).in_cta(cta).store_async(sum, told);
        }
        told.wait(phase);
        let all = sums.load(single.clone()).sum(0).sum(0).scalar();
        let scale = (all / (CTAS * PART) as f32 + eps).rsqrt();
        (out + start).at(at).store(part * scale);
        phase ^= turn;
        turn ^= 1;
    }
    // No CTA exits while others may still write to its shared memory.
    cluster_barrier_relaxed();
}

#[case(sizes(rows = [1, 7, 8192]))]
fn cluster_norm_case(case: &mut Case) -> CaseResult {
    let (rows, cols) = (case.size("rows"), CTAS * PART);
    let x = case.normal::<f32>("x", [rows, cols]);
    let out = case.output::<f32>("out", [rows, cols]);
    let clusters = rows.min(99);
    let arguments = (&x, &out, rows as i32, 1e-5);
    case.launch(cluster_norm, grid(clusters * CTAS), arguments)?;
    let norm = |x: &[f64]| -> Vec<f64> {
        let mean = x.iter().map(|v| v * v).sum::<f64>() / x.len() as f64;
        x.iter().map(|v| v / (mean + 1e-5).sqrt()).collect()
    };
    case.expect_part(
        &out,
        [rows, cols],
        || by_row(&x, cols, norm),
        rounding::<f32>(),
    )?;
    case.moves_bytes(2 * 4 * rows * cols);
    Ok(())
}
