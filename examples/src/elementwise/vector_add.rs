//! The smallest kernel: load, add, store. Every element is read and written once, so memory sets the time.

use tilekit::prelude::*;

/// `out[i] = x[i] + y[i]` for `i < n`.
#[kernel(warps = 4, signature(x: [n], y: [n], out: [n], grid = cdiv(n, BLOCK)))]
pub fn vector_add<const BLOCK: usize>(x: Ptr<f32>, y: Ptr<f32>, out: Ptr<f32>, n: i32) {
    let at = program_id(0) * BLOCK + arange(0..BLOCK, Coalesced);
    let inside = at < n;
    // What is written leaves L2 before what is read: writes flow.
    let [x, y] = [x, y].map(|p| p.at(at).mask(inside).policy(L2Policy::EvictLast).load());
    out.at(at).mask(inside).store(x + y);
}

#[case(sizes(n = [1_000, 1 << 20, 1 << 28]))]
fn vector_add_case(case: &mut Case) -> CaseResult {
    let n = case.size("n");
    let (x, y) = (case.normal::<f32>("x", [n]), case.normal::<f32>("y", [n]));
    let out = case.output::<f32>("out", [n]);
    case.launch(
        vector_add::<1024>,
        grid(n.div_ceil(1024)),
        (&x, &y, &out, n as i32),
    )?;
    case.expect(&out, |[i]| f64::from(x[i]) + f64::from(y[i]), Exactly)?;
    case.moves_bytes(3 * 4 * n);
    Ok(())
}
