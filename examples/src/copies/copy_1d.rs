//! How many elements a thread holds side by side decides how wide its accesses are: with one `f32` a warp moves 128 bytes
//! at a time, with four 512. This is the layout sweep of Gluon's second tutorial.

use tilekit::prelude::*;

/// `out[i] = x[i]` for `i < n`, with `R` neighbouring elements in each thread.
#[kernel(warps = 4)]
pub fn copy_1d<const BLOCK: usize, const R: usize>(x: Ptr<f32>, out: Ptr<f32>, n: i32) {
    let layout = Blocked::new([R], [32], [4], [0]);
    let at = program_id(0) * BLOCK + arange(0..BLOCK, layout);
    let inside = at < n;
    out.at(at).mask(inside).store(x.at(at).mask(inside).load());
}

fn copy<const R: usize>(case: &mut Case) -> CaseResult {
    let n = case.size("n");
    let x = case.normal::<f32>("x", [n]);
    let out = case.output::<f32>("out", [n]);
    case.launch(
        copy_1d::<2048, R>,
        grid(n.div_ceil(2048)),
        (&x, &out, n as i32),
    )?;
    case.expect(&out, |[i]| f64::from(x[i]), Exactly)?;
    case.moves_bytes(2 * 4 * n);
    Ok(())
}

#[case(sizes(n = [1_021, 1 << 20]))]
fn copy_1d_r1(case: &mut Case) -> CaseResult {
    copy::<1>(case)
}

#[case(sizes(n = [1_021, 1 << 20]))]
fn copy_1d_r2(case: &mut Case) -> CaseResult {
    copy::<2>(case)
}

#[case(sizes(n = [1_021, 1 << 20]))]
fn copy_1d_r4(case: &mut Case) -> CaseResult {
    copy::<4>(case)
}

#[case(sizes(n = [1_021, 1 << 20]))]
fn copy_1d_r8(case: &mut Case) -> CaseResult {
    copy::<8>(case)
}
