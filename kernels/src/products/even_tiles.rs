//! Tiles of clusters, of warpgroups in turns and in parts along K that no list has, as wide as a matrix divides into them without waste: 280 rows are two tiles of 144, and none of the list is between 112 and 160. The list has what gains most over many
//! products; for one in fifteen a width of its own is 5 % faster by the model, for one in forty 8 %.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use super::cluster_tiles::ClusterTile;
use super::every_other_row::begins_between_sectors;
use super::factor::INSTRUCTION_ROWS;
use super::instances::Instance;
use super::need::{MOST, Need};
use super::persistent_tile::PersistentTile;
use super::plan::{Plan, resident};
use super::split_k::SplitTile;
use super::tiles::{ALTERNATING, COOPERATIVE, EVERY_OTHER_ROW, SPLIT, SPLIT_BY_CLUSTERS};

/// Tiles along one axis, at most: of more of them, listed widths waste little.
const MOST_TILES: usize = 8;

/// Stages that a ring has at least.
const LEAST_STAGES: usize = 4;

/// Tiles of a cluster along rows and along columns.
const ALONG: [[usize; 2]; 9] = [
    [1, 1],
    [2, 1],
    [1, 2],
    [2, 2],
    [4, 1],
    [1, 4],
    [4, 2],
    [2, 4],
    [8, 1],
];

/// Plans of the tiles that can compute a product, by what bounds them alone.
pub(super) fn by_model(need: &Need) -> impl Iterator<Item = Plan> {
    let of_rows = begins_between_sectors(need).then(|| of_every_other_row(need.size));
    let tiles = tiles(need.size).chain(of_rows.into_iter().flatten());
    let plans = tiles.filter_map(|instance| Plan::by_model(instance, need));
    plans.filter(has_ring)
}

/// The one of a product that is displayed so.
pub(super) fn named(name: &str, size: [usize; 3]) -> Option<Instance> {
    let mut tiles = tiles(size).chain(of_every_other_row(size));
    tiles.find(|instance| instance.to_string() == name)
}

fn has_ring(plan: &Plan) -> bool {
    match plan.instance {
        Instance::Cluster(tile) => tile.stages >= LEAST_STAGES,
        // Cooperative ones of three stages, as 256x184 has, are among the fastest that were timed.
        Instance::Persistent(tile) => tile.stages + usize::from(tile.groups > 1) >= LEAST_STAGES,
        Instance::Split(tile) => tile.stages >= LEAST_STAGES,
        _ => false,
    }
}

/// The tiles that divide M or N evenly, or of which whole waves are as many as there are.
fn tiles([m, n, _]: [usize; 3]) -> impl Iterator<Item = Instance> {
    [false, true].into_iter().flat_map(move |turned| {
        let size = if turned { [n, m] } else { [m, n] };
        let persistent = [1, 2, 3].into_iter();
        of_clusters(size, turned)
            .chain(in_parts(size, turned))
            .chain(persistent.flat_map(move |groups| of_warpgroups(groups, size, turned)))
    })
}

/// Those of clusters that have no tile outside of the matrix as a whole.
fn of_clusters([rows, columns]: [usize; 2], turned: bool) -> impl Iterator<Item = Instance> {
    (1..=3).flat_map(move |groups| {
        let along_rows = rows.div_ceil(groups * INSTRUCTION_ROWS);
        let widths = Widths::of_clusters(groups).of([along_rows, columns]);
        widths.into_iter().flat_map(move |width| {
            let tile = move |along| {
                let tile = ClusterTile::of(along, [groups, width, usize::MAX]);
                Instance::Cluster(if turned { tile.exchanged() } else { tile })
            };
            let along_columns = columns.div_ceil(width);
            let fits = move |[x, y]: &[usize; 2]| {
                *x <= along_rows && *y <= along_columns && width >= 8 * x
            };
            ALONG.into_iter().filter(fits).map(tile)
        })
    })
}

/// Those whose CTAs divide the steps along K through memory.
fn in_parts([rows, columns]: [usize; 2], turned: bool) -> impl Iterator<Item = Instance> {
    (1..=2).flat_map(move |groups| {
        let along_rows = rows.div_ceil(groups * INSTRUCTION_ROWS);
        let widths = Widths::in_parts().of([along_rows, columns]);
        let widths = widths.into_iter();
        let tiles = widths.flat_map(move |width| {
            let tile = SplitTile::filled([groups, width]);
            let tile = if turned { tile.exchanged() } else { tile };
            let along_columns = columns.div_ceil(width);
            let fits = move |[x, y]: &[usize; 2]| *x <= along_rows && *y <= along_columns;
            let along = ALONG.into_iter().filter(fits);
            along.map(move |along| tile.by_clusters(along))
        });
        let is_listed = |tile: &SplitTile| SPLIT.contains(tile) || SPLIT_BY_CLUSTERS.contains(tile);
        let tiles = tiles.filter(move |tile| tile.is_divided() && !is_listed(tile));
        tiles.map(Instance::Split)
    })
}

/// Those of persistent kernels: of one warpgroup, of two or of three.
fn of_warpgroups(
    groups: usize,
    [rows, columns]: [usize; 2],
    turned: bool,
) -> impl Iterator<Item = Instance> {
    let instructions = match groups {
        1 => 2..=3,
        2 => 1..=2,
        _ => 1..=1,
    };
    instructions.flat_map(move |instructions| {
        let along_rows = rows.div_ceil(groups * instructions * INSTRUCTION_ROWS);
        let widths = Widths::of_warpgroups(groups, instructions).into_iter();
        let widths = widths.flat_map(move |widths| widths.of([along_rows, columns]));
        let tiles = widths.flat_map(move |width| {
            let sizes = [groups, instructions, width];
            by_any_cluster(PersistentTile::filled(sizes, turned))
        });
        unlisted(tiles)
    })
}

/// Those of every other row.
fn of_every_other_row([m, n, _]: [usize; 3]) -> impl Iterator<Item = Instance> {
    let shapes = [[1, 2], [1, 3], [2, 1], [2, 2], [3, 1]].into_iter();
    let both = shapes.flat_map(|shape| [(shape, false), (shape, true)]);
    both.flat_map(move |([groups, instructions], turned)| {
        let m = m.div_ceil(2);
        let [rows, columns] = if turned { [n, m] } else { [m, n] };
        let along_rows = 2 * rows.div_ceil(groups * instructions * INSTRUCTION_ROWS);
        let widths = Widths::of_warpgroups(groups, instructions).into_iter();
        let widths = widths.flat_map(move |widths| {
            // Columns of C are whole sectors.
            let unit = widths.unit.max(if turned { 8 } else { 16 });
            Widths { unit, ..widths }.of([along_rows, columns])
        });
        let tiles = widths.flat_map(move |width| {
            let tile = PersistentTile::filled([groups, instructions, width], turned);
            by_any_cluster(tile.of_every_other_row())
        });
        unlisted(tiles)
    })
}

/// A tile by clusters; those of 8x1 were not timed.
fn by_any_cluster(tile: PersistentTile) -> impl Iterator<Item = PersistentTile> {
    let timed = ALONG.into_iter().filter(|[x, _]| *x < 8);
    timed.map(move |along| tile.by_clusters(along))
}

fn unlisted(tiles: impl Iterator<Item = PersistentTile>) -> impl Iterator<Item = Instance> {
    let is_listed = |tile: &PersistentTile| {
        let mut listed = ALTERNATING
            .iter()
            .chain(&COOPERATIVE)
            .chain(&EVERY_OTHER_ROW);
        listed.any(|listed| listed.is_as_large(*tile))
    };
    let tiles = tiles.filter(move |tile| tile.has_registers() && !is_listed(tile));
    tiles.map(Instance::Persistent)
}

/// What widths of tiles there are.
struct Widths {
    /// Least and most columns. The sums of a warpgroup are in registers.
    range: RangeInclusive<usize>,
    /// Columns are multiples of so many.
    unit: usize,
    /// Whole waves, at most: of more of them the last one counts for little.
    waves: usize,
    /// CTAs of a wave.
    ctas: [usize; 2],
}

impl Widths {
    fn of_clusters(groups: usize) -> Widths {
        let most = if groups == 2 { 208 } else { 224 };
        Widths {
            range: 32..=most,
            // What exchanged tiles store at a time.
            unit: 16,
            waves: 4,
            ctas: [1, 8].map(resident),
        }
    }

    /// Of those that fill less than a wave, whose sums are added so many columns at a time.
    fn in_parts() -> Widths {
        Widths {
            range: 48..=256,
            unit: 16,
            waves: 0,
            ctas: [1; 2],
        }
    }

    /// Those of an instruction's columns, and those of two instructions beside each other.
    fn of_warpgroups(groups: usize, instructions: usize) -> Vec<Widths> {
        let of = |range: RangeInclusive<usize>, unit: usize| Widths {
            range,
            unit,
            waves: 8,
            ctas: [1, if groups == 1 { 1 } else { 8 }].map(resident),
        };
        match [groups, instructions] {
            [1, _] => vec![of(64..=384 / instructions, 8)],
            [2, 1] => vec![of(128..=256, 8), of(272..=352, 16)],
            [2, _] => vec![of(80..=192, 8)],
            // 160 registers hold 104 sums of a thread beside what leaves of them; those of more than 192 columns have two instructions beside each other.
            _ => vec![of(96..=208, 16)],
        }
    }

    /// The least columns of each number of tiles along a matrix of so many, beside so many along its rows.
    fn of(&self, [along_rows, columns]: [usize; 2]) -> BTreeSet<usize> {
        let of_wave = |waves: usize| self.ctas.map(|ctas| waves * ctas / along_rows.max(1));
        let counts = (1..=MOST_TILES).chain((1..=self.waves).flat_map(of_wave));
        let least = |count: usize| {
            let least = columns.div_ceil(count).min(MOST);
            least.next_multiple_of(self.unit)
        };
        let widths = counts.filter(|&count| count > 0).map(least);
        widths.filter(|width| self.range.contains(width)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(widths: &Widths, size: [usize; 2], expected: &[usize]) {
        let found = widths.of(size);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_matrix_is_divided_into_tiles_of_about_the_same_width() {
        check(
            &Widths::of_clusters(3),
            [48, 280],
            &[32, 48, 64, 80, 96, 144],
        );
        check(&Widths::of_clusters(1), [200, 1000], &[128, 144, 176, 208]);
        check(&Widths::of_clusters(1), [1, 10], &[]);
        check(&Widths::of_clusters(1), [1, 0], &[]);
    }

    /// 9408 columns are 118 tiles of 80, in one wave.
    #[test]
    fn long_matrices_are_divided_into_whole_waves() {
        check(&Widths::of_clusters(2), [1, 9408], &[32, 48, 80]);
        check(&Widths::of_clusters(2), [1, 1 << 20], &[]);
    }

    /// 24 by 11 tiles of 192x112 are two waves of 132.
    #[test]
    fn tiles_in_turns_fill_whole_waves() {
        check(&Widths::of_warpgroups(1, 3)[0], [24, 1224], &[80, 112]);
    }
}
