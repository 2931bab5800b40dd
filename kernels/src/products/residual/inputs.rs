//! What the network sees of a plan.

use super::super::factor::{INSTRUCTION_ROWS, MULTIPROCESSORS};
use super::super::instances::Instance;
use super::super::need::Need;
use super::super::plan::{Plan, resident, step_cycles};

/// How many inputs there are.
pub(super) const COUNT: usize = KERNELS + 44;

/// Kernels that were fitted.
const KERNELS: usize = 10;

/// Bytes a microsecond that DRAM and L2 give at most, and cycles a microsecond: what times of the model are divided by to become shares.
const DRAM: f64 = 4.3e6;
const L2: f64 = 5.5e6;
const CLOCK: f64 = 1.755e3;
/// Bytes of L2.
const L2_BYTES: f64 = 50e6;
/// Elements along K of a step.
const DEPTH: usize = 64;

/// The tile of an instance, whatever its kernel.
struct Tile {
    kernel: usize,
    shape: [usize; 2],
    stages: usize,
    /// Tiles of a cluster along rows and along columns.
    along: [usize; 2],
    /// CTAs of a cluster that share the steps along K.
    parts: usize,
    /// CTAs that share columns, of kernels with pairs.
    paired: usize,
    turned: bool,
    every_other_row: bool,
    /// Elements of which lines begin at multiples.
    units: [usize; 3],
    /// CTAs that are resident at a time.
    resident: usize,
}

impl Tile {
    fn new(kernel: usize, shape: [usize; 2], stages: usize) -> Tile {
        Tile {
            kernel,
            shape,
            stages,
            along: [1; 2],
            parts: 1,
            paired: 1,
            turned: false,
            every_other_row: false,
            units: [8; 3],
            resident: MULTIPROCESSORS,
        }
    }

    /// None of kernels that were not fitted.
    fn of(instance: Instance) -> Option<Tile> {
        let narrow = |columns: usize| if columns <= 32 { 2 } else { 1 };
        let rows_of = |groups: usize| groups * INSTRUCTION_ROWS;
        let of_groups = |groups: usize| match groups {
            1 => 5,
            2 => 8,
            _ => 9,
        };
        Some(match instance {
            Instance::Many(tile) => Tile {
                paired: tile.ctas,
                ..Tile::new(0, tile.shape(), tile.stages)
            },
            Instance::Wave(tile) => Tile {
                paired: tile.ctas,
                ..Tile::new(1, tile.shape(), tile.stages)
            },
            Instance::Few(tile) => Tile {
                parts: tile.ctas,
                turned: tile.turned,
                resident: narrow(tile.columns) * resident(tile.ctas),
                ..Tile::new(2, [rows_of(tile.groups), tile.columns], tile.stages)
            },
            Instance::Split(tile) => Tile {
                along: tile.along,
                turned: tile.turned,
                ..Tile::new(3, tile.shape(), tile.stages)
            },
            Instance::Cluster(tile) => Tile {
                along: tile.along,
                parts: tile.parts,
                turned: tile.turned,
                resident: resident(tile.ctas()),
                ..Tile::new(4, tile.shape(), tile.stages)
            },
            Instance::Persistent(tile) => Tile {
                along: tile.along,
                turned: tile.turned,
                every_other_row: tile.every_other_row,
                resident: resident(tile.ctas()),
                ..Tile::new(of_groups(tile.groups), tile.shape(), tile.stages)
            },
            Instance::Any(tile) => Tile {
                units: tile.units,
                resident: tile.resident() * MULTIPROCESSORS,
                ..Tile::new(6, tile.shape(), 1)
            },
            Instance::Copied(tile) => Tile {
                parts: tile.tile.ctas,
                turned: tile.tile.turned,
                units: tile.units,
                resident: narrow(tile.tile.columns) * resident(tile.tile.ctas),
                ..Tile::new(7, tile.shape(), tile.tile.stages)
            },
            Instance::Precise(_) | Instance::PreciseParts(_) => return None,
        })
    }
}

/// The inputs of a plan whose time is that of the model; none of kernels that were not fitted.
pub(crate) fn inputs(plan: &Plan, need: &Need) -> Option<[f32; COUNT]> {
    let tile = Tile::of(plan.instance)?;
    let mut inputs = [0.0; COUNT];
    inputs[tile.kernel] = 1.0;
    let others = of_tile(&tile).into_iter();
    let others = others.chain(of_grid(&tile, plan, need));
    let others = others
        .chain(of_size(need))
        .chain(of_time(&tile, plan, need));
    for (place, value) in inputs[KERNELS..].iter_mut().zip(others) {
        *place = value as f32;
    }
    Some(inputs)
}

fn ln(count: usize) -> f64 {
    (count.max(1) as f64).ln()
}

/// How much of the last of several blocks is there.
fn rest(extent: usize, block: usize) -> f64 {
    (extent % block) as f64 / block as f64
}

fn of_tile(tile: &Tile) -> [f64; 16] {
    let [rows, columns] = tile.shape;
    let [a, b, c] = tile.units.map(ln);
    [
        ln(rows),
        ln(columns),
        rest(columns, 32),
        ln(tile.stages),
        ln(stage_bytes(tile) as usize * tile.stages),
        ln(tile.along[0]),
        ln(tile.along[1]),
        ln(tile.parts),
        ln(tile.paired),
        f64::from(u8::from(tile.turned)),
        a,
        b,
        c,
        f64::from(u8::from(tile.along != [1; 2])),
        f64::from(u8::from(tile.parts > 1)),
        f64::from(u8::from(tile.every_other_row)),
    ]
}

/// Bytes of a stage that L2 is asked for, of a CTA in the mean.
fn stage_bytes(tile: &Tile) -> f64 {
    let [rows, columns] = tile.shape.map(|extent| extent as f64);
    let [along_rows, along_columns] = tile.along.map(|count| count as f64);
    (rows / along_columns + columns / (along_rows * tile.paired as f64)) * 2.0 * DEPTH as f64
}

/// Rows and columns of a product as tiles divide them.
fn divided(tile: &Tile, need: &Need) -> [usize; 2] {
    let [m, n, _] = need.size;
    let m = if tile.every_other_row {
        m.div_ceil(2)
    } else {
        m
    };
    if tile.turned { [n, m] } else { [m, n] }
}

fn of_grid(tile: &Tile, plan: &Plan, need: &Need) -> [f64; 11] {
    let extents = divided(tile, need);
    let counts = [0, 1].map(|axis| extents[axis].div_ceil(tile.shape[axis]));
    let waves = plan.tiles(need) as f64 / tile.resident as f64;
    let area = |[x, y]: [usize; 2]| x as f64 * y as f64;
    [
        ln(plan.tiles(need)),
        waves.max(1e-3).ln(),
        waves.fract(),
        ln(plan.waves(need)),
        ln(plan.grid.iter().product()),
        area(extents) / area(counts) / area(tile.shape),
        ln(counts[0]),
        ln(counts[1]),
        rest(extents[0], tile.shape[0]),
        rest(extents[1], tile.shape[1]),
        rest(counts[0], tile.along[0]) + rest(counts[1], tile.along[1]),
    ]
}

fn of_size(need: &Need) -> [f64; 8] {
    let [m, n, k] = need.size;
    let twos = |extent: usize| f64::from(extent.trailing_zeros().min(6));
    [
        ln(m),
        ln(n),
        ln(k),
        ln(m * n),
        rest(k, DEPTH),
        twos(k),
        twos(n),
        twos(m),
    ]
}

/// Logarithms of times and of work, and shares of the time that each of what bounds a plan takes.
fn of_time(tile: &Tile, plan: &Plan, need: &Need) -> [f64; 9] {
    let [m, n, k] = need.size.map(|extent| extent as f64);
    let steps = need.steps().div_ceil(tile.parts);
    let tiles = plan.tiles(need) as f64;
    let waves = (tiles / tile.resident as f64).ceil();
    let cycles = waves * steps as f64 * step_cycles(tile.shape).max(128.0);
    let us = plan.microseconds;
    [
        us.max(0.1).ln(),
        (us / waves.max(1.0)).max(0.1).ln(),
        ln(need.steps()),
        ln(steps),
        need.bytes() / DRAM / us,
        2.0 * m * n / DRAM / us,
        tiles * steps as f64 * stage_bytes(tile) / L2 / us,
        cycles / CLOCK / us,
        (m * n * k / us).max(1.0).ln() + need.bytes().min(L2_BYTES) / L2_BYTES,
    ]
}
