//! The two-stage double buffer: while the threads add one tile, the copies of the next are in flight. The copies
//! are the threads' own (`cp.async`), in groups; a wait for all but one group leaves the newest in flight.

use tilekit::prelude::*;

const STAGES: usize = 2;

/// `out[i] = x[i] + y[i]` for `i < n`; each program takes `tiles` tiles in a row.
#[kernel(warps = 4, instances(<2048>))]
pub fn async_copy_pipeline<const BLOCK: usize>(
    x: Ptr<f32>,
    y: Ptr<f32>,
    out: Ptr<f32>,
    n: i32,
    tiles: i32,
) {
    let layout = Blocked::new([4], [32], [4], [0]);
    let lane = arange(0..BLOCK, layout.clone());
    let first = program_id(0) * tiles;
    let xs = Smem::<f32>::alloc([STAGES, BLOCK], Swizzled::plain([0]));
    let ys = Smem::<f32>::alloc([STAGES, BLOCK], Swizzled::plain([0]));
    fetch(x, y, xs.index(0), ys.index(0), first * BLOCK + lane, n);
    for i in range(0, tiles) {
        let (stage, next) = (i % STAGES, i + 1);
        let end = select(next < tiles, n, 0);
        let at_next = (first + next) * BLOCK + lane;
        let stage_next = next % STAGES;
        fetch(
            x,
            y,
            xs.index(stage_next),
            ys.index(stage_next),
            at_next,
            end,
        );
        async_copy_wait(1);
        let sum = xs.index(stage).load(layout.clone()) + ys.index(stage).load(layout.clone()); // mutate: equivalent(bar.sync): each thread loads what it has copied
        let at = (first + i) * BLOCK + lane;
        out.at(at).mask(at < n).store(sum);
    }
    async_copy_wait(0);
}

/// Issues the copies of one tile of both inputs, as one group; what lies at `end` and after it becomes zero.
#[device]
fn fetch(
    x: Ptr<f32>,
    y: Ptr<f32>,
    x_tile: Smem<f32>,
    y_tile: Smem<f32>,
    at: Tensor<i32>,
    end: Scalar<i32>,
) {
    x.at(at).mask(at < end).copy_to(x_tile); // mutate: equivalent(bar.sync): each thread copies to where it has loaded
    y.at(at).mask(at < end).copy_to(y_tile); // mutate: equivalent(bar.sync): the same
    async_copy_commit();
}

#[case(sizes(n = [1, 4_099, 100_000, 1 << 26], programs = [1, 1, 7, 16 * 132]))]
fn async_copy_pipeline_case(case: &mut Case) -> CaseResult {
    const BLOCK: usize = 2048;
    let n = case.size("n");
    let (x, y) = (case.normal::<f32>("x", [n]), case.normal::<f32>("y", [n]));
    let out = case.output::<f32>("out", [n]);
    // At most sixteen programs for each SM, so that each has tiles to overlap.
    let tiles = n.div_ceil(BLOCK).div_ceil(case.size("programs"));
    let programs = n.div_ceil(BLOCK * tiles);
    case.launch(
        async_copy_pipeline::<BLOCK>,
        grid(programs),
        (&x, &y, &out, n as i32, tiles as i32),
    )?;
    case.expect(&out, |[i]| x[i] + y[i], Exactly)?;
    case.moves_bytes(3 * 4 * n);
    Ok(())
}
