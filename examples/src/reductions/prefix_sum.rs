//! Prefix sums of a whole array in one pass over it: each program sums its tile, and looks back for the sum of all tiles before.

use tilekit::prelude::*;

use crate::reductions::row_sum::sum_tolerance;

/// Tiles that a program of [`clear_tiles`] clears.
const CLEARED: usize = 1024;

/// `words[:] = 0` and `ticket[0] = 0`, as [`LookBack`] wants them before each launch.
#[kernel(warps = 4)]
pub fn clear_tiles(words: Ptr<u64>, ticket: Ptr<i32>, tiles: i32) {
    launch_dependents();
    let at = program_id(0) * CLEARED + arange(0..CLEARED, Coalesced);
    words.at(at).mask(at < tiles).store(0_u64);
    if program_id(0) == 0 {
        ticket.store(0);
    }
}

/// `out[i] = x[0] + .. + x[i]`, by tiles of `BLOCK` elements, one for each program.
#[kernel(warps = WARPS, min_ctas_per_sm = CTAS, instances(<f32, 4096, 4, 8>))]
pub fn prefix_sum<T: Numeric, const BLOCK: usize, const WARPS: usize, const CTAS: usize>(
    x: Ptr<T>,
    words: Ptr<u64>,
    ticket: Ptr<i32>,
    out: Ptr<T>,
    n: i32,
) {
    launch_wait();
    let look_back = LookBack::new(words, ticket, WARPS);
    let tile = look_back.tile();
    let at = tile * BLOCK + arange(0..BLOCK, Coalesced);
    let inside = at < n;
    let x = x.at(at).mask(inside).other(0).load();
    let (sums, total) = x.cumsum_with_total(0);
    let before = look_back.exclusive(tile, total.scalar());
    out.at(at).mask(inside).store(sums + before);
}

const BLOCK: usize = 4096;

/// Clears the tiles and launches; the sums.
fn prefix_sum_of<T: Numeric + DeviceElement>(
    case: &mut Case,
    x: &Input<T>,
) -> tilekit::Result<Output<T>> {
    let n = case.size("n");
    let tiles = n.div_ceil(BLOCK);
    let words = case.output::<u64>("words", [tiles]);
    let ticket = case.output::<i32>("ticket", [1]);
    let out = case.output::<T>("out", [n]);
    let of_tiles = (&words, &ticket, tiles as i32);
    case.launch(clear_tiles, grid(tiles.div_ceil(CLEARED)), of_tiles)?;
    case.launch_programmatic(
        prefix_sum::<T, BLOCK, 4, 8>,
        grid(tiles),
        (x, &words, &ticket, &out, n as i32),
    )?;
    case.moves_bytes(2 * n * size_of::<T>());
    Ok(out)
}

#[case(sizes(n = [5, 300_001, 1 << 27]))]
fn prefix_sum_f32(case: &mut Case) -> CaseResult {
    let n = case.size("n");
    let x = case.normal::<f32>("x", [n]);
    let out = prefix_sum_of(case, &x)?;
    let reference = || {
        let sums = x.host().iter().scan(0.0, |sum, &x| {
            *sum += f64::from(x);
            Some(*sum)
        });
        sums.collect::<Vec<f64>>()
    };
    case.expect_all(&out, reference, sum_tolerance(n))
}

#[case(sizes(n = [8191, 20_011]))]
fn prefix_sum_i32(case: &mut Case) -> CaseResult {
    let n = case.size("n");
    let x = case.integers::<i32>("x", [n], -9..10);
    let out = prefix_sum_of(case, &x)?;
    let reference = || {
        let sums = x.host().iter().scan(0, |sum, &x| {
            *sum += i64::from(x);
            Some(*sum)
        });
        sums.collect::<Vec<i64>>()
    };
    case.expect_all(&out, reference, Exactly)
}
