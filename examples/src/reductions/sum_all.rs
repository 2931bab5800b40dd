//! The sum of all numbers in one launch: each program stores the sum of its share and takes a ticket by an atomic; the one
//! with the last ticket observes all shares, and adds them up. The order of addition does not depend on who comes last.

use tilekit::prelude::*;

use crate::reductions::row_sum::sum_tolerance;

/// At most so many programs.
const SHARES: usize = 256;

/// `ticket[0] = 0`.
#[kernel(warps = 1)]
pub fn reset(ticket: Ptr<i32>) {
    ticket.store(0);
}

/// `out[0] = sum(x)`, added in `f32`. `ticket` is 0 before, and 0 again afterwards; `shares` has a place per program.
#[kernel(warps = WARPS, instances(<bf16, 8192, 8>))]
pub fn sum_all<T: Float, const BLOCK: usize, const WARPS: usize>(
    x: Ptr<T>,
    shares: Ptr<f32>,
    ticket: Ptr<i32>,
    out: Ptr<f32>,
    n: i32,
) {
    let lane = arange(0..BLOCK, Coalesced);
    let mut sum = zeros([BLOCK], Coalesced);
    for block in range(program_id(0), cdiv(n, BLOCK)).step(num_programs(0)) {
        let at = lane + block * BLOCK;
        sum += x.at(at).mask(at < n).other(0).load().cast::<f32>();
    }
    shares.at(program_id(0)).store(sum.sum(0).scalar());
    // Releases this share, and acquires those of all who drew before.
    let drawn = ticket.at(0).acq_rel().atomic_add(1).old();
    if drawn == num_programs(0) - 1 {
        let at = arange(0..SHARES, Coalesced);
        let all = shares.at(at).mask(at < num_programs(0)).other(0).load();
        out.store(all.sum(0).scalar());
        ticket.at(0).relaxed().atomic_store(0);
    }
}

fn sum_all_of<T: Float + DeviceElement>(case: &mut Case) -> CaseResult {
    let n = case.size("n");
    let x = case.normal::<T>("x", [n]);
    let shares = case.output::<f32>("shares", [SHARES]);
    let ticket = case.output::<i32>("ticket", [1]);
    let out = case.output::<f32>("out", [1]);
    case.launch(reset, grid(1), (&ticket,))?;
    case.launch(
        sum_all::<T, 8192, 8>,
        grid(n.div_ceil(8192).min(SHARES)),
        (&x, &shares, &ticket, &out, n as i32),
    )?;
    let sum = || vec![x.host().iter().map(|v| v.number().to_f64()).sum::<f64>()];
    case.expect_all(&out, sum, sum_tolerance(n))?;
    case.expect(&ticket, |[_]| 0_i64, Exactly)?;
    case.moves_bytes(n * size_of::<T>());
    Ok(())
}

#[case(sizes(n = [1 << 17, 50_001, 5]))]
fn sum_all_bf16(case: &mut Case) -> CaseResult {
    sum_all_of::<bf16>(case)
}

#[case(sizes(n = [1 << 17, 50_001]))]
fn sum_all_f32(case: &mut Case) -> CaseResult {
    sum_all_of::<f32>(case)
}
