//! The model of times: cycles of one multiprocessor, beside what memory takes. Its constants are least squares over 2500 measured pairs of product and instance on an H200, of the geometric mean of single launches and those back to back
//! (`bench/results/products.md`); below 3 % it does not tell two plans apart.

use std::sync::OnceLock;

use super::factor::{INSTRUCTION_ROWS, MULTIPROCESSORS, STAGE_BYTES};
use super::few_tiles::FewTile;
use super::plan::{Division, Need};
use super::split_k::SplitTile;

/// Rows of a tile in instructions of `wgmma`, and its columns in units of 8, at most.
const MOST_INSTRUCTIONS: usize = 4;
const MOST_UNITS: usize = 32;

/// Cycles of a step of 64 along K of one tile. A choice takes those of all tiles, and powers take longer than all else of it, so that they are kept.
pub(crate) fn step_cycles([rows, columns]: [usize; 2]) -> f64 {
    static KEPT: OnceLock<[[f64; MOST_UNITS + 1]; MOST_INSTRUCTIONS + 1]> = OnceLock::new();
    let kept = KEPT.get_or_init(|| {
        std::array::from_fn(|instructions| {
            std::array::from_fn(|units| step_of([instructions * INSTRUCTION_ROWS, units * 8]))
        })
    });
    let of_rows = kept.get(rows / INSTRUCTION_ROWS);
    let found = of_rows.and_then(|of_rows| of_rows.get(columns / 8));
    found.copied().unwrap_or_else(|| step_of([rows, columns]))
}

/// The same, computed.
fn step_of([rows, columns]: [usize; 2]) -> f64 {
    let (rows, columns) = (rows as f64, columns as f64);
    // Bytes of shared memory a cycle that products at their full rate would take, of which there are 128.
    let wanted = 64.0 + 4096.0 / columns + 4096.0 * (1.0 / rows + 1.0 / columns);
    let few_rows = if rows <= 64.0 { 1.05 } else { 1.0 };
    rows * columns / 32.0 * 1.032 * (wanted / 128.0).max(1.0).powf(0.45) * few_rows
}

/// Microseconds that memory takes at least: DRAM, and L2. TMA asks L2 for lines of 128 bytes, two for each row of a stage that does not begin at one.
fn memory_microseconds(need: &Need, l2_bytes: f64) -> f64 {
    let begins_at_lines = (need.size[2] * need.element_bytes[0]).is_multiple_of(STAGE_BYTES);
    let l2_bytes = if begins_at_lines {
        l2_bytes
    } else {
        2.2 * l2_bytes
    };
    (need.bytes() / 3.3e6).max(l2_bytes / 12.0e6) + 2.25
}

/// Microseconds of a product whose cycles and whose memory take so long by themselves: more than the longer of the two, by which of them they do not overlap.
fn together(cycles: f64, memory: f64) -> f64 {
    (cycles.powi(3) + memory.powi(3)).cbrt()
}

/// The clock, in cycles a microsecond, at this share of full use of the tensor cores: power sets it.
fn clock(share: f64) -> f64 {
    (1.66e3 * (0.918 / share.max(0.01)).cbrt()).min(1.98e3)
}

pub(super) fn many_microseconds(
    tile: [usize; 2],
    [programs, waves, tiles]: [usize; 3],
    need: &Need,
) -> f64 {
    let ([m, n, _], steps) = (need.size, need.steps() as f64);
    let area = (tile[0] * tile[1]) as f64;
    let step = step_cycles(tile);
    let end = 350.0 + 1270.0 * area / 32768.0;
    let cycles = 12000.0 + waves as f64 * (steps * step + end);
    let use_in_wave = steps * area / 32.0 / (steps * step + end);
    let share = use_in_wave * programs as f64 / MULTIPROCESSORS as f64;
    let l2_bytes = tiles as f64 * steps * (tile[0] + tile[1]) as f64 * 128.0;
    // Loads of the next tile overlap with the end of this one: the longer of the two counts.
    let memory = memory_microseconds(need, l2_bytes) + 1.5;
    let time = (cycles / clock(share)).max(memory);
    // TMA loads of boxes that are mostly outside of a matrix are slow: 128x128 for 16 columns took twice as long.
    let is_mostly_outside = 2 * m < tile[0] || 2 * n < tile[1];
    if is_mostly_outside { 2.0 * time } else { time }
}

pub(super) fn wave_microseconds([rows, columns]: [usize; 2], grid: [usize; 3], need: &Need) -> f64 {
    let ([m, n, _], steps) = (need.size, need.steps() as f64);
    let all: usize = grid.iter().product();
    let (area, stage) = ((rows * columns) as f64, (rows + columns) as f64 * 128.0);
    let waves = all.div_ceil(MULTIPROCESSORS) as f64;
    // The products of a tile, the latency of a ring of loads, or the bytes that one CTA gets from L2.
    let step = step_cycles([rows, columns]).max(190.0).max(stage / 70.0);
    let of_wave = steps * step + 1370.0 + area * 0.124;
    let cycles = 3400.0 + waves * of_wave;
    let share = steps * area / 32.0 / of_wave * all as f64 / (waves * MULTIPROCESSORS as f64);
    let l2_bytes = all as f64 * steps * stage;
    let memory = memory_microseconds(need, l2_bytes);
    let time = together(cycles / clock(share).min(1.85e3), memory);
    let is_mostly_outside = 2 * m < rows || 2 * n < columns;
    if is_mostly_outside { 2.0 * time } else { time }
}

/// CTAs that run at a time in clusters of `ctas`, one on a multiprocessor: those of a cluster are in one GPC.
pub(crate) fn resident(ctas: usize) -> usize {
    match ctas {
        8 => 112,
        4 => 120,
        _ => MULTIPROCESSORS,
    }
}

pub(super) fn few_microseconds(tile: FewTile, grid: [usize; 3], need: &Need) -> f64 {
    let FewTile {
        ctas,
        groups,
        columns,
        stages,
        ..
    } = tile;
    let rows = groups * INSTRUCTION_ROWS;
    let steps = need.steps().div_ceil(ctas) as f64;
    let all: usize = grid.iter().product();
    let area = (rows * columns) as f64;
    let stage = (rows + columns) as f64 * 128.0;
    // Stages of narrow tiles leave room for a second CTA.
    let shared = if columns <= 32 { 2 } else { 1 };
    let waves = all.div_ceil(resident(ctas) * shared) as f64;
    // A step takes the products of a tile, its share of the latency of a ring of loads, or the bytes that one CTA gets from L2.
    let alone = if all > resident(ctas) && shared == 2 {
        20.7
    } else {
        44.0
    };
    let step = step_cycles([rows, columns]).max(190.0).max(stage / alone);
    let exchange = if ctas > 1 {
        1170.0 + area * 0.25
    } else {
        210.0 + area * 0.084
    };
    let cycles = 2400.0 + waves * (steps * step + exchange + 1050.0);
    let l2_bytes = all as f64 * steps * stage;
    // The exchange begins when the last loads have completed.
    let memory = memory_microseconds(need, l2_bytes) + exchange / 1.9e3;
    let time = together(cycles / 1.9e3, memory);
    // Rings of three stages took so much longer than that.
    if stages <= 3 { 1.17 * time } else { time }
}

pub(super) fn split_microseconds(tile: SplitTile, divided: Division, need: &Need) -> f64 {
    let [rows, columns] = tile.shape();
    let Division { tiles, parts, each } = divided;
    let (area, step) = ((rows * columns) as f64, step_cycles([rows, columns]));
    // Parts go to L2 in f32. Programs of a tile wait for each other, and each reads its share of all parts at once.
    let exchange = 7000.0 + area / 4.0;
    let cycles = 3800.0 + each as f64 * step + exchange;
    let l2_bytes = (tiles * parts * each * (rows + columns)) as f64 * 128.0;
    let memory = memory_microseconds(need, l2_bytes) + exchange / 1.9e3;
    together(cycles / 1.8e3, memory)
}
