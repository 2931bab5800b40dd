//! The model of times: cycles of one multiprocessor, beside what memory takes. Its constants are fitted to 20000 measured pairs of product and instance on H100s and H200s, of the geometric mean of single launches and those back to back
//! (`bench/results/products/choice.md`), those of tiles of one wave, of clusters and of L2 again to 219 more sizes on H100s beside the records of the H200, and to 245 on H200s, what CTAs without clusters get from L2 to 86 in the order that they have since; below 3 % it does not tell two plans apart.

use std::sync::OnceLock;

use super::cluster_tiles::ClusterTile;
use super::division::Division;
use super::ending::adders;
use super::factor::{INSTRUCTION_ROWS, MULTIPROCESSORS, STAGE_BYTES, UNIT_BYTES};
use super::few_tiles::FewTile;
use super::need::Need;
use super::persistent_tile::PersistentTile;
use super::precise::PreciseTile;
use super::raster::asked_of_l2;
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

/// How results of a tile leave.
#[derive(Clone, Copy)]
enum Stores {
    /// By TMA, of tiles of so many columns, in boxes as wide as the swizzle.
    Bulk(usize),
    /// The same in boxes that begin at units of 32 bytes wherever rows begin.
    Whole(usize),
    /// By threads.
    Direct,
}

/// Bytes of all matrices, of which those of results count for how much longer memory takes them: in boxes whose rows begin between units of 32 bytes, most of those as wide as a swizzle, and in boxes that are narrower than a line.
fn moved_bytes(stores: Stores, need: &Need) -> f64 {
    let ([m, n, _], element) = (need.size, need.element_bytes[1]);
    let results = (m * n * element * need.batches) as f64;
    let begin_at_sectors = (n * element)
        .next_multiple_of(UNIT_BYTES)
        .is_multiple_of(32);
    let unit_of = |columns: usize| columns * element % STAGE_BYTES;
    let of_results = match stores {
        Stores::Direct if begin_at_sectors => 1.0,
        Stores::Direct => 2.363,
        Stores::Whole(columns) | Stores::Bulk(columns) if unit_of(columns) == 64 => 1.081,
        _ => 1.0,
    };
    let of_rows = match stores {
        Stores::Bulk(columns) if !begin_at_sectors => match unit_of(columns) {
            0 | 64 => 1.914,
            _ => 1.5,
        },
        _ => 1.0,
    };
    need.bytes() + (of_results * of_rows - 1.0) * results
}

/// Bytes that DRAM gives in a microsecond in the mean of single launches and those back to back: of an H200, which has records of its own. An H100 gives 2.9e6 at most, to all plans alike.
const DRAM: f64 = 3.6e6;

/// Bytes that all multiprocessors together get from L2 in a microsecond: least where many small tiles ask for the same rows apart from each other, most where tiles of one wave ask for them at the same time.
const L2_OF_FEW: f64 = 8.7e6;
const L2_OF_MANY: f64 = 12.4e6;
const L2_OF_PARTS: f64 = 13.7e6;
const L2_OF_TURNS: f64 = 11.7e6;
const L2_OF_WAVE: f64 = 18e6;
const L2_OF_CLUSTERS: f64 = 14e6;
/// The same of what GPCs ask for, each once for its CTAs, of kernels of one wave without clusters.
const L2_OF_GPCS: f64 = 8e6;
/// Steps along K in which CTAs do not ask at the same time yet: those of a ring that is filled.
const APART: f64 = 8.0;

/// So many steps of which GPCs ask L2 for a share, in steps of which L2 gives all at `rate`.
fn steps_of_l2(steps: f64, share: f64, rate: f64) -> f64 {
    let apart = steps.min(APART);
    apart + (steps - apart) * share * rate / L2_OF_GPCS
}

/// Microseconds that memory takes at least: DRAM, and L2 at this rate. TMA asks L2 for lines of 128 bytes, two for each row of a stage that does not begin at one, which costs most where it begins between units of 32 bytes.
fn memory_microseconds(bytes: f64, (l2_bytes, l2_rate): (f64, f64), need: &Need) -> f64 {
    (bytes / DRAM).max(lines(need) * l2_bytes / l2_rate) + 2.136
}

/// [`lines`] of rows that begin at multiples of 32 bytes.
const HALF_LINES: f64 = 1.559;

/// How much longer a multiprocessor gets its stages than if all rows began at lines.
fn lines(need: &Need) -> f64 {
    // Copies of rows that begin anywhere have pitches of 16 bytes.
    let pitch = (need.size[2] * need.element_bytes[0]).next_multiple_of(UNIT_BYTES);
    if pitch.is_multiple_of(STAGE_BYTES) {
        1.0
    } else if pitch.is_multiple_of(32) {
        HALF_LINES
    } else {
        2.055
    }
}

/// The share of [`lines`] that counts for programs of many tiles without pairs, by what 5166 x 952 x 8720, 15342 x 912 x 3104 and 1163 x 4624 x 1760 took.
fn repeated(ctas: usize, need: &Need) -> f64 {
    if ctas == 1 && lines(need) == HALF_LINES {
        0.772
    } else {
        1.0
    }
}

/// What pairs of CTAs take beside what the model says of them: they gain where L2 is asked for two lines a row, and nowhere else. Pairs of 256x160 save a fifth of the bytes: for rows that
/// begin at multiples of 32 bytes too little to gain by it.
fn of_pairs([rows, columns]: [usize; 2], ctas: usize, need: &Need) -> f64 {
    let is_little = 5 * columns / 2 < rows + columns;
    if ctas == 1 {
        1.0
    } else if lines(need) == HALF_LINES && is_little {
        1.07
    } else if lines(need) == HALF_LINES {
        0.998
    } else if lines(need) > 1.0 {
        0.964
    } else {
        1.011
    }
}

/// Microseconds of a product whose cycles and whose memory take so long by themselves: more than the longer of the two, by which of them they do not overlap.
pub(crate) fn together(cycles: f64, memory: f64) -> f64 {
    (cycles.powi(3) + memory.powi(3)).cbrt()
}

/// The clock, in cycles a microsecond, at this share of full use of the tensor cores: power sets it.
pub(crate) fn clock(share: f64) -> f64 {
    (1.66e3 * (0.918 / share.max(0.01)).cbrt()).min(1.98e3)
}

/// Rows outside of a matrix that TMA fills with zeros in a microsecond, on all multiprocessors together: the most that recorded times show, 16, 8 and 6 a cycle, and 8 by clusters. L2 gives some 50, so that tiles of which little is
/// inside take several times as long as their products and loads.
pub(crate) const FILLED_BY_FEW: f64 = 26.8e3;
const FILLED_BY_WAVE: f64 = 13.4e3;
pub(crate) const FILLED_BY_MANY: f64 = 10.06e3;
const FILLED_BY_CLUSTERS: f64 = 14e3;

/// Rows outside of the operands of a product of M by N that its tiles load in all their steps. CTAs of a cluster share columns, and load none of a tile that is outside as a whole.
fn rows_outside(
    [m, n]: [usize; 2],
    ([rows, columns], ctas): ([usize; 2], usize),
    need: &Need,
) -> f64 {
    let below = (m.next_multiple_of(rows) - m) * n.div_ceil(columns);
    let beside = (n.next_multiple_of(columns) - n) * m.div_ceil(ctas * rows);
    // Counts of the largest products that have a plan leave 64 bits.
    (below + beside) as f64 * need.steps() as f64 * need.batches as f64
}

/// The same of tiles of clusters, which load each row once, and none of a tile that is outside as a whole.
fn partly_outside(tile: ClusterTile, need: &Need) -> f64 {
    let [m, n, _] = need.size;
    let size = if tile.turned { [n, m] } else { [m, n] };
    let tiles = |axis: usize| size[axis].div_ceil(tile.shape()[axis]);
    let loaded = |axis: usize| tiles(axis).div_ceil(tile.along[axis]);
    let outside = |axis: usize| tiles(axis) * tile.shape()[axis] - size[axis];
    (outside(0) * loaded(1) + outside(1) * loaded(0)) as f64 * need.steps() as f64
}

pub(super) fn many_microseconds(
    (tile, ctas): ([usize; 2], usize),
    [programs, waves, tiles]: [usize; 3],
    need: &Need,
) -> f64 {
    let ([m, n, _], steps) = (need.size, need.steps() as f64);
    let area = (tile[0] * tile[1]) as f64;
    let stage = (tile[0] + tile[1] / ctas) as f64 * 128.0;
    let step = step_cycles(tile).max(lines(need) * stage / 58.5);
    let end = 111.0 + 3710.0 * area / 32768.0;
    let cycles = 9110.0 + waves as f64 * (steps * step + end);
    let use_in_wave = steps * area / 32.0 / (steps * step + end);
    let in_use = use_in_wave * programs as f64 / MULTIPROCESSORS as f64;
    let l2_bytes = tiles as f64 * steps * stage;
    // Loads of the next tile overlap with the end of this one: the longer of the two counts. Nothing overlaps with the end of the last one, which is short of a small tile; but memory takes results of
    // small tiles slower.
    let share = (area / 32768.0).min(1.0);
    let results = (m * n * need.element_bytes[1] * need.batches) as f64;
    let small = 0.111 * (1.0 / share - 1.0) * results / 3.3e6;
    let bytes = moved_bytes(Stores::Bulk(tile[1]), need);
    let memory = memory_microseconds(bytes, (repeated(ctas, need) * l2_bytes, L2_OF_MANY), need);
    let memory = memory + small + 2.291 * share;
    let time = of_pairs(tile, ctas, need) * (cycles / clock(in_use).min(1.8e3)).max(memory);
    let outside = rows_outside([m, n], (tile, ctas), need);
    together(time, outside / FILLED_BY_MANY)
}

/// What persistent tiles take, so many of all programs. Warpgroups in turns take the products of a tile or what is stored of the one before, whichever takes longer: fitted to 147 measured pairs of product and tile on an H200. Cooperative ones
/// take both, by the constants of `dense`, and were not fitted: the network corrects them.
pub(super) fn persistent_microseconds(
    tile: PersistentTile,
    [programs, waves, tiles]: [usize; 3],
    need: &Need,
) -> f64 {
    let ([m, n, _], steps) = (need.size, need.steps() as f64);
    let (shape @ [rows, columns], ctas) = (tile.shape(), tile.ctas());
    let [along_rows, along_columns] = tile.along;
    let area = (rows * columns) as f64;
    let stage = (rows / along_columns + columns / along_rows) as f64 * 128.0;
    let step = step_cycles(shape).max(lines(need) * stage / 70.3);
    let end = 3710.0 * area / 32768.0;
    // A tile ends slower beside the products of another.
    let of_tile = if tile.groups == 1 {
        (steps * step).max(1.25 * end)
    } else {
        steps * step + 111.0 + end
    };
    let cycles = 6840.0 + waves as f64 * of_tile + end;
    let share = steps * step / of_tile * programs as f64 / MULTIPROCESSORS as f64;
    let l2_bytes = tiles as f64 * steps * stage;
    let stores = if tile.every_other_row {
        Stores::Whole
    } else {
        Stores::Bulk
    };
    let bytes = moved_bytes(stores(tile.stored()[1]), need);
    let of_l2 = (repeated(ctas, need) * l2_bytes, L2_OF_TURNS);
    let memory = memory_microseconds(bytes, of_l2, need) + 1.78;
    let alone = (cycles / clock(share)).max(memory);
    let time = of_pairs(shape, ctas, need) * alone;
    // Four stages are few for one warpgroup that multiplies without a break.
    let of_stages = if tile.stages <= 4 && tile.groups == 1 {
        1.029
    } else {
        1.0
    };
    let time = of_stages * time;
    let outside = rows_outside(tile.divided([m, n]), (shape, ctas), need);
    let outside = tile.rows_apart() as f64 * outside;
    together(time, outside / FILLED_BY_MANY)
}

pub(super) fn wave_microseconds(
    ([rows, columns], ctas): ([usize; 2], usize),
    grid: [usize; 3],
    need: &Need,
) -> f64 {
    let ([m, n, _], steps) = (need.size, need.steps() as f64);
    let all: usize = grid.iter().product();
    let (area, stage) = (
        (rows * columns) as f64,
        (rows + columns / ctas) as f64 * 128.0,
    );
    let waves = all.div_ceil(MULTIPROCESSORS) as f64;
    // CTAs without clusters get more, since those of a GPC ask L2 once.
    let (received, l2_steps) = if ctas == 1 {
        let share = asked_of_l2(grid, [rows, columns]);
        (75.0, steps_of_l2(steps, share, L2_OF_WAVE))
    } else {
        (65.0, steps)
    };
    // The products of a tile, the latency of a ring of loads, or the bytes that one CTA gets from L2.
    let step = step_cycles([rows, columns])
        .max(210.0)
        .max(lines(need) * stage / received);
    let of_wave = steps * step + 633.0 + area * 0.164;
    // CTAs of the waves after the first begin their rings anew.
    let cycles = 3700.0 + waves * of_wave + (waves - 1.0) * 683.0;
    let share = steps * area / 32.0 / of_wave * all as f64 / (waves * MULTIPROCESSORS as f64);
    let l2_bytes = all as f64 * l2_steps * stage;
    let bytes = moved_bytes(Stores::Bulk(columns), need);
    let memory = memory_microseconds(bytes, (l2_bytes, L2_OF_WAVE), need);
    let alone = together(cycles / clock(share).min(1.85e3), memory);
    // A launch of clusters begins later.
    let begun = if ctas > 1 { 0.15 } else { 0.0 };
    let time = of_pairs([rows, columns], ctas, need) * alone + begun;
    let outside = rows_outside([m, n], ([rows, columns], ctas), need);
    together(time, outside / FILLED_BY_WAVE)
}

/// CTAs that run at a time in clusters of `ctas`, one on a multiprocessor: those of a cluster are in one GPC. 15 clusters of 8 took the time of 14 on four H100s, and 16 that of two waves.
pub(crate) fn resident(ctas: usize) -> usize {
    match ctas {
        4 | 8 => 120,
        _ => MULTIPROCESSORS,
    }
}

pub(super) fn few_microseconds(tile: FewTile, grid: [usize; 3], need: &Need) -> f64 {
    let FewTile {
        ctas,
        groups,
        columns,
        stages,
        turned,
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
    let alone = match ctas {
        _ if all > resident(ctas) && shared == 2 => 27.9,
        1 => 75.0,
        _ => 81.3,
    };
    let step = step_cycles([rows, columns])
        .max(210.0)
        .max(lines(need) * stage / alone);
    let exchange = if ctas > 1 {
        793.0 + area * 0.201
    } else {
        46.8 + area * 0.104
    };
    let cycles = 2710.0 + waves * (steps * step + exchange + 1510.0);
    let l2_steps = if ctas == 1 {
        steps_of_l2(steps, asked_of_l2(grid, [rows, columns]), L2_OF_FEW)
    } else {
        steps
    };
    let l2_bytes = all as f64 * l2_steps * stage;
    // The exchange begins when the last loads have completed.
    let bytes = moved_bytes(Stores::Direct, need);
    let memory = memory_microseconds(bytes, (l2_bytes, L2_OF_FEW), need) + exchange / 1.9e3;
    let time = together(cycles / 1.9e3, memory);
    // Of 64x16 by eight CTAs two add what all have multiplied, and the others wait for them.
    let time = if ctas > 2 * adders(columns, ctas) {
        time + 0.2
    } else {
        time
    };
    // Rings of three stages took so much longer than that.
    let time = if stages <= 3 { 1.211 * time } else { time };
    let [m, n, _] = need.size;
    let size = if turned { [n, m] } else { [m, n] };
    together(
        time,
        rows_outside(size, ([rows, columns], 1), need) / FILLED_BY_FEW,
    )
}

/// CTAs of a cluster share the operands of their tiles. Products, L2 and DRAM each slow the others down, so that the time is more than the longest of the three. CTAs that divide K send their parts and add them.
pub(super) fn cluster_microseconds(tile: ClusterTile, grid: [usize; 3], need: &Need) -> f64 {
    let ([rows, columns], ctas) = (tile.shape(), tile.ctas());
    let steps = need.steps().div_ceil(tile.parts) as f64;
    let all: usize = grid.iter().product();
    let area = (rows * columns) as f64;
    let [along_rows, along_columns] = tile.along;
    // What L2 gives for a stage, of each CTA in the mean.
    let loaded = rows as f64 / along_columns as f64 + columns as f64 / along_rows as f64;
    let stage = loaded * 128.0;
    let clusters = resident(ctas) / ctas;
    let waves = (all / ctas).div_ceil(clusters) as f64;
    // Multicast or not, a multiprocessor takes so many bytes a cycle, and fewer of rows that begin within lines.
    let received = lines(need).powf(0.4) * (rows + columns) as f64 * 128.0;
    let (from_l2, l2_steps) = if ctas == 1 {
        let share = asked_of_l2(grid, [rows, columns]);
        (81.0, steps_of_l2(steps, share, L2_OF_CLUSTERS))
    } else {
        (96.8, steps)
    };
    let step = step_cycles([rows, columns])
        .max(200.0)
        .max(lines(need) * stage / from_l2)
        .max(received / 80.0);
    let end = if tile.parts > 1 {
        5150.0 + area * 0.255
    } else {
        544.0 + area * 0.222
    };
    // Each wave begins anew: its clusters wait for all CTAs of those before.
    let of_wave = 3380.0 + steps * step + end;
    let cycles = waves * of_wave;
    let share =
        steps * area / 32.0 / (steps * step + end) * all as f64 / (waves * MULTIPROCESSORS as f64);
    let l2_bytes = lines(need) * all as f64 * l2_steps * stage;
    let parts = [
        cycles / clock(share).min(1.85e3) / 1.05,
        moved_bytes(Stores::Direct, need) / DRAM + 2.045,
        l2_bytes / L2_OF_CLUSTERS + 2.024,
        partly_outside(tile, need) / FILLED_BY_CLUSTERS,
    ];
    let time = parts.map(|part| part.powi(3)).iter().sum::<f64>().cbrt();
    // CTAs of later waves that share nothing come apart along K: 44 pairs took 1.04 to 1.1 times as long.
    let time = if ctas == 1 && waves >= 4.0 {
        1.08 * time
    } else {
        time
    };
    // What is so short gains nothing by sharing and waits for other CTAs: six products of 4 to 5 us took 2 to 25 % longer than by what they had been planned for.
    if time < 5.0 { 1.02 * time } else { time }
}

pub(super) fn split_microseconds(tile: SplitTile, divided: Division, need: &Need) -> f64 {
    let ([rows, columns], ctas) = (tile.shape(), tile.ctas());
    let Division {
        tiles, parts, each, ..
    } = divided;
    let area = (rows * columns) as f64;
    let stage = tile.shares().iter().sum::<usize>() as f64 * 128.0;
    let exchange = exchange_cycles(area);
    let cycles = 4110.0 + each as f64 * step_cycles([rows, columns]) + exchange;
    let l2_bytes = (tiles * parts * each) as f64 * stage;
    let bytes = moved_bytes(Stores::Direct, need);
    let memory = memory_microseconds(bytes, (l2_bytes, L2_OF_PARTS), need) + exchange / 1.9e3;
    // Pairs took 6.7 % longer than the fit without this factor said. 3 % more of all choose better among other kernels on 120 sizes that the fit had not seen.
    let coupled = if ctas > 1 { 1.1 } else { 1.03 };
    coupled * of_pairs([rows, columns], ctas, need) * together(cycles / 1.79e3, memory)
}

/// Cycles in which programs add parts of tiles of so many elements through memory: parts go to L2 in f32, programs of a tile wait for each other, and each reads its share of all parts at once. Fitted, as all of `split_k`, to 1325 measured pairs of product and tile on
/// H200s.
fn exchange_cycles(area: f64) -> f64 {
    3390.0 + area * 0.25
}

/// Cycles of a step of 32 along K of a tile of three products: those of the tensor cores, of which each of two warpgroups has half while the other splits A and adds, what a warpgroup takes for that
/// and its own products, or what shared memory moves, 128 bytes a cycle: B for each of the products of 64 rows, A once, what TMA stores, and B and its small parts once. Fitted to what 1001 x 1003 x 1007 by three tiles
/// and 16 x 4096 x 4096 took on an H100.
fn precise_step(tile: PreciseTile, need: &Need) -> f64 {
    let [rows, columns] = tile.shape();
    let (products, stage) = (
        step_cycles([rows, columns]),
        (rows + columns) as f64 * 128.0,
    );
    let of_b = columns as f64 * 128.0;
    let moved = 3.0 * tile.groups as f64 * of_b + rows as f64 * 128.0 + stage + 2.0 * of_b;
    let of_group = 1.5 * products + 580.0 + 7.8 * columns as f64;
    let step = (3.0 * products)
        .max(of_group)
        .max(moved / 128.0)
        .max(lines(need) * stage / 95.0);
    // Named barriers order the products of the two warpgroups, so that neither stalls on the other's: 5 to 8 % at 4096 x 4096 x 4096, 3000 x 5000 x 4096 and in 64 tiles of 1001 x 1003 x 1007.
    if tile.turns { 0.93 * step } else { step }
}

/// Microseconds that memory takes at least of products of f32, whose constants are of their own fit.
fn precise_memory(l2_bytes: f64, need: &Need) -> f64 {
    (need.bytes() / 3.3e6).max(lines(need) * l2_bytes / 10.5e6) + 2.25
}

/// Of so many tiles of each program, and so many programs of each product.
pub(super) fn precise_microseconds(
    tile: PreciseTile,
    [tiles, programs]: [usize; 2],
    need: &Need,
) -> f64 {
    let ([rows, columns], steps) = (tile.shape(), need.steps() as f64);
    let (area, stage) = ((rows * columns) as f64, (rows + columns) as f64 * 128.0);
    let all = programs * need.batches;
    let waves = (tiles * all.div_ceil(MULTIPROCESSORS)) as f64;
    let step = precise_step(tile, need);
    let cycles = 12000.0 + waves * (steps * step + 1500.0 + area * 0.1);
    let in_use = 3.0 * step_cycles([rows, columns]) / step;
    let share = in_use * all.min(MULTIPROCESSORS) as f64 / MULTIPROCESSORS as f64;
    let l2_bytes = (tiles * all) as f64 * steps * stage;
    let memory = precise_memory(l2_bytes, need) + 3.4;
    (cycles / clock(share)).max(memory)
}

pub(super) fn precise_parts_microseconds(tile: PreciseTile, divided: Division, need: &Need) -> f64 {
    let [rows, columns] = tile.shape();
    let Division {
        tiles, parts, each, ..
    } = divided;
    let (area, stage) = ((rows * columns) as f64, (rows + columns) as f64 * 128.0);
    // As many cycles as were fitted to it before its parts lay in lines, but for what an element takes less since: its own times were not measured again.
    let exchange = 1850.0 + exchange_cycles(area);
    let cycles = 6000.0 + each as f64 * precise_step(tile, need) + exchange;
    let l2_bytes = (tiles * parts * each) as f64 * stage;
    let memory = precise_memory(l2_bytes, need) + exchange / 1.9e3;
    together(cycles / 1.8e3, memory)
}
