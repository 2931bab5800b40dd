//! Many steps of a stencil in one launch: a barrier of all CTAs (`GridBarrier`) between two steps, where a launch a step would load and start
//! everything again.

use std::cell::LazyCell;

use tilekit::prelude::*;

/// At most so many programs: all of them run at a time on every Hopper GPU.
const PROGRAMS: usize = 132;
const BLOCK: usize = 1024;
/// What flows to a neighbour in a step.
const FLOW: f32 = 0.25;

/// `word[0] = 0`: what [`grid_stencil`] finds at its first launch.
#[kernel(warps = 1)]
pub fn reset_barrier(word: Ptr<u64>) {
    word.store(0);
}

/// Heat along a rod of `n` points whose ends keep theirs: in each of `steps` steps, `u[i] += FLOW · (u[i - 1] - 2 · u[i] + u[i + 1])`. The steps
/// begin with `x` and take turns in two buffers: that of the last step is `even` where `steps` is even, and the other has the step before.
#[kernel(warps = 4, cooperative)]
pub fn grid_stencil(
    #[readonly] x: Ptr<f32>,
    even: Ptr<f32>,
    odd: Ptr<f32>,
    word: Ptr<u64>,
    steps: i32,
    n: i32,
) {
    let barrier = GridBarrier::new(word);
    let lane = arange(0..BLOCK, Coalesced);
    let blocks = || range(program_id(0), cdiv(n, BLOCK)).step(num_programs(0));
    for block in blocks() {
        let at = lane + block * BLOCK;
        even.at(at).mask(at < n).store(x.at(at).mask(at < n).load());
    }
    let (mut from, mut to) = (even, odd);
    for _ in range(0, steps) {
        // What the neighbours stored is there, and none of them reads any more what is overwritten now.
        barrier.sync();
        for block in blocks() {
            let at = lane + block * BLOCK;
            let u = from.at(at).mask(at < n).other(0).load();
            let is_inner = (at > 0) & (at < n - 1);
            let left = from.at(at - 1).mask(is_inner).other(0).load();
            let right = from.at(at + 1).mask(is_inner).other(0).load();
            let next = u + select(is_inner, left - u * 2.0 + right, 0.0) * FLOW;
            to.at(at).mask(at < n).store(next);
        }
        std::mem::swap(&mut from, &mut to);
    }
}

/// `u` after so many steps.
fn after(u: &[f64], steps: usize) -> Vec<f64> {
    let mut u = u.to_vec();
    for _ in 0..steps {
        let old = u.clone();
        for i in 1..u.len().saturating_sub(1) {
            u[i] += f64::from(FLOW) * (old[i - 1] - 2.0 * old[i] + old[i + 1]);
        }
    }
    u
}

#[case(sizes(n = [150_001, 4096, 5], steps = [6, 31, 2]))]
fn grid_stencil_f32(case: &mut Case) -> CaseResult {
    let (n, steps) = (case.size("n"), case.size("steps"));
    let x = case.normal::<f32>("x", [n]);
    let [even, odd] = ["even", "odd"].map(|name| case.output::<f32>(name, [n]));
    let word = case.output::<u64>("word", [1]);
    case.launch(reset_barrier, 1, (&word,))?;
    case.launch(
        grid_stencil,
        n.div_ceil(BLOCK).min(PROGRAMS),
        (&x, &even, &odd, &word, steps as i32, n as i32),
    )?;
    // Cases are listed for each command: only one that runs pays for its reference.
    let begin = LazyCell::new(|| -> Vec<f64> { x.host().iter().map(|x| f64::from(*x)).collect() });
    // Each step rounds a few times, and adds up to what is there.
    let tolerance = Close {
        relative: 1e-6,
        absolute: 1e-6 * steps as f64,
    };
    let [last, before] = if steps.is_multiple_of(2) {
        [&even, &odd]
    } else {
        [&odd, &even]
    };
    case.expect_all(last, || after(&begin, steps), tolerance)?;
    case.expect_all(before, || after(&begin, steps - 1), tolerance)?;
    case.moves_bytes(2 * 4 * n * (steps + 1));
    Ok(())
}
