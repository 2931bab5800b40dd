//! The model of times of products of matrices whose rows begin anywhere: of copies to rows that tensor maps take, and of kernels that need none.

use super::any_rows::AnyTile;
use super::copied_tiles::CopiedTile;
use super::factor::{MULTIPROCESSORS, STAGE_BYTES};
use super::need::{Loose, Need};
use super::times::{resident, together};

/// Bytes of operands that a copy leaves in L2 at most, beside what it reads.
const COPIED_IN_L2: f64 = 18e6;

/// Microseconds of copies that an instance which stores by TMA, or does not, asks for: one launch for both operands, and one for the result.
pub(super) fn copy_microseconds(stores_by_tma: bool, need: &Need) -> f64 {
    let [of_a, of_b, of_c] = need
        .loose
        .map_or([false; 3], |Loose { are_copied, .. }| are_copied);
    let ([m, n, k], [of_operands, of_result]) = (need.size, need.element_bytes);
    // Counts of the largest products that have a plan leave 64 bits.
    let bytes = |rows: usize, columns: usize, element: usize, is_copied: bool| {
        let elements = if is_copied {
            rows as f64 * columns as f64
        } else {
            0.0
        };
        elements * (element * need.batches) as f64
    };
    let operands = bytes(m, k, of_operands, of_a) + bytes(n, k, of_operands, of_b);
    let result = bytes(m, n, of_result, of_c || (stores_by_tma && need.ends_early));
    let launch = |bytes: f64, microseconds: f64| if bytes > 0.0 { microseconds } else { 0.0 };
    // Copies that DRAM takes, and gives back to the product, are slower.
    let in_l2 = operands.min(COPIED_IN_L2);
    let copied = in_l2 / 1.7e6 + (operands - in_l2) / 1.385e6;
    launch(operands, 1.43) + copied + launch(result, 1.78) + result / 0.9e6
}

/// Fitted to 334 pairs of product and tile on an H200, of which the root mean square error is 8 %.
pub(super) fn copied_microseconds(copied: CopiedTile, grid: [usize; 3], need: &Need) -> f64 {
    let (tile, [rows, columns]) = (copied.tile, copied.shape());
    let ([of_x, of_y, _], depth) = (copied.units, STAGE_BYTES / need.element_bytes[0]);
    // Instructions of warps that copy so many elements a lane.
    let copies = |rows: usize, unit: usize| (rows * depth) as f64 / (32 * unit) as f64;
    let copies = copies(rows, of_x) + copies(columns, of_y);
    let step = if copied.copiers() > 4 {
        515.0 + 2.458 * copies
    } else {
        303.0 + 3.072 * copies
    };
    let exchange = if tile.ctas > 1 { 12.9 } else { 0.0 };
    let steps = need.steps().div_ceil(tile.ctas) as f64;
    let all: usize = grid.iter().product();
    // Rings of narrow tiles leave room for a second CTA, which takes as long as one behind the first: 144 to 464 CTAs of 64x32 by 8.
    let waves = all.div_ceil(resident(tile.ctas)) as f64;
    let cycles = waves * (steps * step + 3748.0 + exchange * columns as f64);
    1.055 + together(cycles / 1.9e3, need.bytes() / 3.27e6)
}

/// Cycles from a load to its elements where DRAM has them: in the first step along K, and in others, of which L2 has fetched parts of lines before.
const FIRST_LATENCY: f64 = 3600.0;
const NEXT_LATENCY: f64 = 1530.0;
/// Bytes of all matrices of which half of the latency is that of DRAM: what is smaller stays in L2 from one product to the next.
const NEAR_BYTES: f64 = 0.2e6;

/// Fitted to 249 pairs of product and tile of 114 sizes on four H100s: those near the fastest are 8 % off in the root mean square.
pub(super) fn any_microseconds(tile: AnyTile, grid: [usize; 3], need: &Need) -> f64 {
    let ([rows, columns], [of_a, of_b, of_c]) = (tile.shape(), tile.units);
    let all = grid.iter().product::<usize>();
    let steps = need.size[2].div_ceil(tile.depth) as f64;
    // Instructions of warps that load or store so many elements.
    let accesses = |elements: usize, unit: usize| elements as f64 / (32 * unit) as f64;
    let loads = accesses(rows * tile.depth, of_a) + accesses(columns * tile.depth, of_b);
    let stores = accesses(rows * columns, of_c);
    let at_a_time = tile.resident() * MULTIPROCESSORS;
    let waves = all.div_ceil(at_a_time) as f64;
    // CTAs of a multiprocessor take turns; each waits for its loads in each step.
    let shared = (all as f64 / MULTIPROCESSORS as f64).clamp(1.0, tile.resident() as f64);
    let far = need.bytes() / (need.bytes() + NEAR_BYTES);
    let step = |latency: f64| (loads * 4.6 * shared).max(loads * 2.84 + far * latency);
    let end = stores * 2.45 * shared;
    // The registers of loads ahead of 128 columns do not all fit beside the sums.
    let again = if columns >= 128 { 1.95 } else { 1.0 };
    let others = (steps - 1.0).max(0.0) * again * step(NEXT_LATENCY);
    let cycles = waves * (step(FIRST_LATENCY) + others + end);
    let l2_bytes =
        all as f64 * steps * ((rows + columns) * tile.depth * need.element_bytes[0]) as f64;
    let memory = (need.bytes() / 1.62e6).max(l2_bytes / 4.6e6);
    let time = 2.3 + together(cycles / 1.9e3, memory);
    // What a step loads does not fit the registers beside the sums: 1.27 to 1.8 times as long as the fastest tile in nine products, 1.17 as 128x64 in two more.
    if [rows, columns] == [128, 128] {
        1.3 * time
    } else {
        time
    }
}
