//! The raster of launches without clusters: the order in which CTAs have the tiles of a product.
//!
//! The hardware gives such a launch to GPCs in runs of neighbours in the grid, as many to each, and pairs of neighbours to the two multiprocessors of a TPC. Requests of a GPC for the same lines at about the same time become one
//! request to L2, so that its CTAs share what they read without multicast where their tiles make a square: 1000 x 1000 x 8192 by 64x128 takes 0.73 of the time of columns of all 16 tiles (`bench/results/products/launches.md`).

use tilekit::prelude::*;

use super::dense;
use super::factor::MULTIPROCESSORS;

/// GPCs of the GPU, and CTAs that one has of a launch which fills the GPU.
const GPCS: usize = 8;
const OF_GPC: usize = 16;

/// CTAs of a grid along z.
const MOST_GROUPS: usize = tilekit::target::SM_90A.grid[2] as usize;

/// How the tiles of a grid follow each other: columns of so many tiles, so many columns until the next group of rows.
#[derive(Clone, Copy)]
struct Raster {
    rows: usize,
    columns: usize,
}

impl Raster {
    /// Rows and columns of a matrix that a run of so many neighbours reads in tiles of this shape, in the mean of where it begins in a column.
    fn read_by(self, run: usize, shape: [usize; 2]) -> f64 {
        let (run, rows, columns) = (run as f64, self.rows as f64, self.columns as f64);
        let along = 1.0 + (run - 1.0) / rows;
        let (down, along) = if along > columns {
            // It goes on in the next group.
            let groups = (run / (rows * columns)).max(1.0);
            (groups * rows, columns)
        } else {
            (rows.min(run), along)
        };
        down * shape[0] as f64 + along * shape[1] as f64
    }
}

/// CTAs that a GPC has at a time of so many.
fn of_gpc(ctas: usize) -> usize {
    ctas.div_ceil(GPCS).clamp(1, OF_GPC)
}

/// A grid of so many rows and columns of tiles as groups of rows, each column by column: rows of a group, columns, groups. The last group may have more rows than there are, where all CTAs are resident at a time nonetheless.
pub(super) fn grouped([along_m, along_n]: [usize; 2], shape: [usize; 2]) -> [usize; 3] {
    if along_m * along_n == 0 {
        return [along_m, along_n, 1];
    }
    let run = of_gpc(along_m * along_n);
    // Rows with those of the last group that are not there: CTAs without a tile idle.
    let all = |rows: usize| along_m.next_multiple_of(rows);
    let fits = |&rows: &usize| {
        let is_whole = all(rows) == along_m || all(rows) * along_n <= MULTIPROCESSORS;
        is_whole && all(rows) / rows <= MOST_GROUPS
    };
    let cost = |rows: usize| {
        let raster = Raster {
            rows,
            columns: along_n,
        };
        let read = raster.read_by(run, shape) + raster.read_by(2, shape);
        read * all(rows) as f64 / along_m as f64
    };
    let rows = (1..=along_m.min(OF_GPC)).chain([along_m]).filter(fits);
    let rows = rows.map(|rows| (rows, cost(rows)));
    let least = rows.min_by(|(_, x), (_, y)| x.total_cmp(y));
    let rows = least.map_or(along_m, |(rows, _)| rows);
    [rows, along_n, along_m.div_ceil(rows)]
}

/// Rows of tiles of a group where a kernel orders its tiles by itself, however many there are.
pub(super) fn rows_of_group(shape: [usize; 2]) -> usize {
    let read = |rows: usize| {
        let columns = usize::MAX;
        let raster = Raster { rows, columns };
        raster.read_by(OF_GPC, shape) + raster.read_by(2, shape)
    };
    let rows = [2, 4, 8, 16].into_iter();
    let least = rows.min_by(|&x, &y| read(x).total_cmp(&read(y)));
    least.unwrap_or(OF_GPC)
}

/// The order of tiles, or of clusters of them, of a kernel that has them by itself: groups of which a wave reads the fewest rows. CTAs without clusters whose tiles are twice as high as wide have them in blocks of a GPC, since one above the other they read rows of X that
/// no neighbour reads; for squarer ones blocks gain nothing.
#[device]
pub(super) fn ordered(size: [Scalar<i32>; 2], shape: [usize; 2], ctas: usize) -> GroupedRows {
    let order = GroupedRows::new(size, shape, dense::rows_of_group(shape));
    let [rows, columns] = shape;
    if ctas > 1 || rows < 2 * columns {
        return order;
    }
    let of_block = rows_of_group(shape);
    order.in_blocks([of_block, OF_GPC / of_block])
}

/// The share of what the CTAs of a grid of groups read that is asked of L2.
pub(super) fn asked_of_l2([rows, columns, groups]: [usize; 3], shape: [usize; 2]) -> f64 {
    if rows * columns * groups == 0 {
        return 1.0;
    }
    let run = of_gpc(rows * columns * groups);
    let raster = Raster { rows, columns };
    let by_itself = run * (shape[0] + shape[1]);
    raster.read_by(run, shape) / by_itself as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(tiles: [usize; 2], shape: [usize; 2], expected: [usize; 3]) {
        assert_eq!(grouped(tiles, shape), expected, "{tiles:?} of {shape:?}");
    }

    /// 16 CTAs of a GPC read as many elements along M as along N.
    #[test]
    fn tiles_of_a_gpc_are_a_square() {
        check([16, 8], [64, 128], [4, 8, 4]);
        check([8, 16], [128, 64], [2, 16, 4]);
    }

    /// What no group divides gets rows without tiles while all CTAs are resident, and stays one column after the other beyond that.
    #[test]
    fn groups_are_whole_where_more_ctas_would_be_a_second_wave() {
        check([13, 9], [64, 128], [7, 9, 2]);
        check([11, 12], [64, 128], [11, 12, 1]);
    }

    #[test]
    fn few_rows_are_one_group() {
        check([1, 100], [64, 128], [1, 100, 1]);
        check([3, 40], [64, 128], [3, 40, 1]);
    }

    /// Ranks of a product over several GPUs may have no rows.
    #[test]
    fn nothing_is_a_grid_of_no_ctas() {
        for tiles @ [rows, columns] in [[0, 4], [4, 0], [0, 0]] {
            check(tiles, [64, 128], [rows, columns, 1]);
            assert!(asked_of_l2([rows, columns, 1], [64, 128]).is_finite());
        }
    }

    /// A grid has 65535 CTAs along z at most.
    #[test]
    fn no_grid_has_more_groups_than_a_launch() {
        check([1 << 20, 1], [64, 16], [1 << 20, 1, 1]);
    }

    /// The share is that of brute force over all runs of 16.
    #[test]
    fn the_share_of_l2_is_that_of_all_runs() {
        for (rows, columns, groups) in [(4, 8, 4), (8, 16, 1), (2, 16, 4), (16, 8, 1), (3, 4, 11)] {
            let place = |cta: usize| {
                let within = cta % (rows * columns);
                let first = cta / (rows * columns) * rows;
                [first + within % rows, within / rows]
            };
            let shape = [64, 128];
            let runs = rows * columns * groups - OF_GPC;
            let read = |first: usize| {
                let of_axis = |axis: usize| {
                    let tiles = (first..first + OF_GPC).map(|cta| place(cta)[axis]);
                    let distinct = tiles.collect::<std::collections::BTreeSet<_>>().len();
                    distinct * shape[axis]
                };
                of_axis(0) + of_axis(1)
            };
            let mean = (0..=runs).map(read).sum::<usize>() as f64 / (runs + 1) as f64;
            let share = asked_of_l2([rows, columns, groups], shape) * (OF_GPC * 192) as f64;
            assert!(
                (0.75..1.25).contains(&(share / mean)),
                "{rows}x{columns}x{groups}: {share} for {mean}"
            );
        }
    }
}
