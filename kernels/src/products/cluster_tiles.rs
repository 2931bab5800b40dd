//! Products of few rows and many columns, or the other way round, that one wave of tiles computes: a cluster of CTAs shares the operands of its tiles along both dimensions.
//! Tiles may be exchanged, so that their columns, in steps of 16, are rows of C. Where there are fewer tiles than multiprocessors, the cluster has each of its tiles several times, and the
//! CTAs of one share the steps along K and add their parts (`ending.rs`).

use std::fmt;

use tilekit::prelude::*;

use super::ending::{Ending, adders, part_of_tile};
use super::epilogue::{DataOf, Epilogue};
use super::factor::{INSTRUCTION_ROWS, Operand, ResultOf, STAGE_BYTES, SWIZZLED_ROWS, depth, unit};
use super::form::{Form, inside, steps_of_tile};
use super::registers::{columns_of_instruction, registers_of};
use super::ring::overlapped;
use super::settled::{are_settled, load_steps};

/// A tile of [`cluster_tiles`]: `[groups * 64, columns]`, beside others of its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClusterTile {
    /// Tiles of a cluster along rows and along columns, powers of two.
    pub along: [usize; 2],
    /// CTAs that share the steps along K of a tile.
    pub parts: usize,
    /// Consumer warpgroups.
    pub groups: usize,
    /// Columns.
    pub columns: usize,
    /// Stages of the ring.
    pub stages: usize,
    /// A and B are exchanged: rows of the tile are columns of C.
    pub turned: bool,
}

impl ClusterTile {
    /// Of tiles of a cluster along rows and along columns, and of warpgroups, columns and stages.
    ///
    /// # Panics
    /// If CTAs that share columns or rows are more than there are times 8 of them: each loads some.
    pub const fn of(along: [usize; 2], [groups, columns, stages]: [usize; 3]) -> Self {
        let [along_rows, along_columns] = along;
        assert!(
            columns >= along_rows * SWIZZLED_ROWS,
            "too few columns to share"
        );
        assert!(
            groups * INSTRUCTION_ROWS >= along_columns * SWIZZLED_ROWS,
            "too few rows to share"
        );
        ClusterTile {
            along,
            parts: 1,
            groups,
            columns,
            stages,
            turned: false,
        }
    }

    /// The same of A and B exchanged.
    #[must_use]
    pub const fn exchanged(self) -> Self {
        ClusterTile {
            turned: true,
            ..self
        }
    }

    /// The same tile of `parts` CTAs, which share the steps along K.
    #[must_use]
    pub const fn in_parts(self, parts: usize) -> Self {
        ClusterTile { parts, ..self }
    }

    /// Rows and columns.
    pub fn shape(self) -> [usize; 2] {
        [self.groups * INSTRUCTION_ROWS, self.columns]
    }

    /// The grid for results of M by N.
    pub fn grid(self, [m, n]: [usize; 2]) -> [usize; 2] {
        let size = if self.turned { [n, m] } else { [m, n] };
        // Rows and columns of clusters.
        let clusters = |axis: usize| size[axis].div_ceil(self.shape()[axis] * self.along[axis]);
        [clusters(0) * self.ctas(), clusters(1)]
    }

    /// The same with as many of its stages as shared memory has room for, where elements of operands and of results have so many bytes.
    pub(crate) fn fitted(self, element_bytes: [usize; 2]) -> Self {
        let [rows, columns] = self.shape();
        // What 16 columns become rows through, of sums of 4 bytes or in exchanged tiles of results of 16 bits, or parts that are sent and received, and mbarriers.
        let bytes = if self.turned && element_bytes == [2, 2] {
            2
        } else {
            4
        };
        let others = match self.parts {
            1 => rows * 16 * bytes + 1024,
            parts => rows * (columns + parts * columns / adders(columns, parts)) * 4 + 1024,
        };
        let room = tilekit::target::SM_90A.cta.shared_bytes as usize - others;
        ClusterTile {
            stages: self.stages.min(room / ((rows + columns) * STAGE_BYTES)),
            ..self
        }
    }

    /// The same beside an epilogue, which takes sums of 4 bytes as rows.
    pub(crate) fn fitted_beside(self, is_plain: bool, operand_bytes: usize) -> Self {
        if is_plain {
            self
        } else {
            self.fitted([operand_bytes, 4])
        }
    }

    /// Registers of a consumer thread and of one of the producer's warpgroup, where those of a launch, which all have, do not hold the sums.
    fn registers(self) -> Option<[u32; 2]> {
        self.is_large().then_some(registers_of(self.groups))
    }

    /// Columns of an instruction.
    pub(super) fn columns_of_instruction(self) -> usize {
        columns_of_instruction(self.groups, self.columns)
    }

    /// Whether 128 registers, what each of 512 threads is launched with, do not hold the sums.
    fn is_large(self) -> bool {
        self.columns_of_instruction() < self.columns
    }

    /// CTAs of a cluster.
    pub(crate) fn ctas(self) -> usize {
        self.tiles() * self.parts
    }

    /// Which of the steps along K this CTA has.
    #[track_caller]
    fn part(self) -> Scalar<i32> {
        if self.parts > 1 {
            part_of_tile(self.tiles())
        } else {
            scalar(0)
        }
    }

    /// Tiles of a cluster.
    fn tiles(self) -> usize {
        self.along[0] * self.along[1]
    }

    /// Rows of either operand that a TMA load takes.
    pub(crate) fn boxes(self) -> [usize; 2] {
        let ([rows, columns], [along_rows, along_columns]) = (self.shape(), self.along);
        [box_of(rows, along_columns), box_of(columns, along_rows)]
    }
}

/// Rows of the boxes in which CTAs of a cluster load what all of them read: a share each, or where no multiple of a swizzle's rows divides it 16 or 8, of which some CTAs load one more than others. Each loads one at least,
/// for it is by what it receives that a CTA knows that the others have read the stage before.
const fn box_of(rows: usize, ctas: usize) -> usize {
    if rows.is_multiple_of(ctas * SWIZZLED_ROWS) {
        rows / ctas
    } else if rows >= 2 * SWIZZLED_ROWS * ctas {
        2 * SWIZZLED_ROWS
    } else {
        SWIZZLED_ROWS
    }
}

impl fmt::Display for ClusterTile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([rows, columns], [x, y]) = (self.shape(), self.along);
        write!(f, "{x}x{y}x{rows}x{columns}x{}", self.stages)?;
        if self.parts > 1 {
            write!(f, "+{}_parts", self.parts)?;
        }
        f.write_str(if self.turned { "+turned" } else { "" })
    }
}

/// `D[M, N] = X[M, K] · Y[N, K]ᵀ`, a tile for each CTA, or for each `parts` of a cluster, which share the steps along K. CTAs of a cluster with the same steps whose tiles are beside each other load a share of
/// their rows of X each and multicast it, and those whose tiles are one above the other the same of Y; without clusters rows of tiles go on along z. Element `[i, j]` of the result is at `out + i * stride + j`, or in a turned tile at `out + j * stride + i`: the product with X and Y exchanged.
#[kernel(warps = 4, cluster = form.tile.ctas(), min_ctas_per_sm = 1)]
pub fn cluster_tiles<T: Operand, O: ResultOf<T>, E: Epilogue<O>>(
    #[fixed] form: Form<ClusterTile, E>,
    #[block([form.tile.boxes()[0], depth::<T>()], Nvmma::B128)] x: TensorMap<T>,
    #[block([form.tile.boxes()[1], depth::<T>()], Nvmma::B128)] y: TensorMap<T>,
    out: Ptr<O>,
    #[multiple_of(unit::<O>())] stride: i32,
    m: i32,
    n: i32,
    k: i32,
    data: DataOf<O, E>,
) {
    launch_dependents();
    let tile = form.tile;
    let ([rows, columns], [along_rows, along_columns]) = (tile.shape(), tile.along);
    let buffers = (
        Smem::<T>::alloc([tile.stages, rows, depth::<T>()], x.layout()),
        Smem::<T>::alloc([tile.stages, columns, depth::<T>()], y.layout()),
    );
    let mut consumers = Consumers::warpgroups(tile.groups);
    if tile.tiles() > 1 {
        consumers = consumers.of_grid(tile.along);
    }
    let pipeline = Pipeline::new(buffers, Producers::Tma, consumers);
    if tile.tiles() > 1 && tile.parts == 1 {
        // Others arrive at its mbarriers.
        cluster_barrier_relaxed();
    }
    let part = tile.part();
    let rank = if tile.parts > 1 {
        cluster_rank() % tile.tiles()
    } else {
        cluster_rank()
    };
    let [cta_row, cta_column] = [rank / along_columns, rank % along_columns];
    let row = (form.row_of_cluster(tile.ctas()) * along_rows + cta_row) * rows;
    let column = (program_id(1) * along_columns + cta_column) * columns;
    let steps = steps_of_tile::<T>(k, [row, m], tile.ctas());
    let ending = Ending {
        epilogue: form.epilogue,
        columns,
        ctas: tile.parts,
        turned: tile.turned,
        is_batched: false,
        out,
        stride,
        batch_stride: scalar(0_i64),
        size: [m, n],
        batch: scalar(0),
        data,
    };
    let exchange = ending.exchange_among::<T::Sum>(tile.groups, tile.tiles());
    // Those of this CTA.
    let own_steps = || range(part, steps).step(tile.parts);

    let multiply = |group: usize| {
        let ending = ending.begun();
        let first = group * INSTRUCTION_ROWS;
        let at = pipeline.start();
        let acc = T::zeros([INSTRUCTION_ROWS, columns], tile.columns_of_instruction());
        let multiply = |acc: Accumulator<T::Sum>, (of_x, of_y): (Smem<T>, Smem<T>)| {
            let of_x = of_x.slice(0, first..first + INSTRUCTION_ROWS);
            acc.mma(of_x, of_y.transpose())
        };
        let own = (own_steps, |step: Scalar<i32>| step >= tile.parts);
        let (acc, before, _) = overlapped(pipeline, at, own, (acc, multiply));
        let sums = acc.wait_all();
        if tile.tiles() > 1 {
            // The producers of all CTAs wait for all stages before they end.
            pipeline.consumer_release_when(steps > part, before);
        }
        if are_settled(form.sides) {
            // What it writes, launches in front may read or write.
            launch_wait();
        }
        ending.store(exchange, group, [row + first, column], sums);
    };
    let load = || {
        // Ranks of a row of the cluster are neighbours, and those of a column `along_columns` apart; tiles of one part follow those of another.
        let of_row = scalar((1 << along_columns) - 1) << (cta_row * along_columns);
        let below = (0..along_rows).fold(0, |all, row| all | 1 << (row * along_columns));
        let of_column = scalar(below) << cta_column;
        let [of_row, of_column] = [of_row, of_column].map(|mask| mask << (part * tile.tiles()));
        let load_x = |step, stage: &Filling<(Smem<T>, Smem<T>)>| {
            let shares = (along_columns, cta_column, of_row);
            load_share((x, stage.tiles.0), shares, [row, step], m, stage.full);
        };
        let load_y = |step, stage: &Filling<(Smem<T>, Smem<T>)>| {
            let shares = (along_rows, cta_row, of_column);
            load_share((y, stage.tiles.1), shares, [column, step], n, stage.full);
        };
        let own = (part, steps, tile.parts);
        let at = load_steps((pipeline, tile.stages), form.sides, own, [&load_x, &load_y]);
        if tile.tiles() > 1 {
            pipeline.producer_tail(at); // mutate: equivalent(mbarrier.wait): warps release stages in their order, so that the wait for the last stage suffices here
        }
    };
    // The TMA loads come first in the code too: all warps wait for them, and the first instructions miss the instruction cache.
    let warps = warp_specialize(); // mutate: equivalent(bar.sync): a barrier of the cluster stands in front
    let (warps, consumers) = match tile.registers() {
        Some([of_consumers, of_producer]) => (
            warps.registers(of_producer),
            Warps(4).registers(of_consumers),
        ),
        None => (warps, Warps(4)),
    };
    warps
        .main(load)
        .workers(0..tile.groups, consumers, multiply)
        .run();
    if tile.parts > 1 {
        // Copies read this CTA's shared memory until they have arrived.
        cluster_barrier_relaxed();
    }
}

/// Loads this CTA's share of a stage's tile, that of CTA `rank` among `ctas`, to all CTAs of `mask`. Instead of a box that begins behind the `end` of the matrix another one is loaded, which others wait for.
#[device]
fn load_share<T: Operand>(
    (map, tile): (TensorMap<T>, Smem<T>),
    (ctas, rank, mask): (usize, Scalar<i32>, Scalar<i32>),
    [first, step]: [Scalar<i32>; 2],
    end: Scalar<i32>,
    full: Mbarrier,
) {
    let along_k = step * depth::<T>();
    let rows = map.block()[0] as usize;
    if ctas == 1 {
        map.load([inside(first, rows, end), along_k], tile, full);
    } else {
        let boxes = tile.shape()[0] as usize / rows;
        let of_rows = tile.reinterpret::<T>([boxes, rows, depth::<T>()], map.layout());
        let load = |number: Scalar<i32>| {
            let to_all = map.copy().multicast(mask);
            let first = inside(first + number * rows, rows, end);
            to_all.load([first, along_k], of_rows.index(number), full);
        };
        let rounds = boxes / ctas;
        for round in 0..rounds {
            load(rank + round * ctas);
        }
        if boxes % ctas > 0 {
            if rank < boxes % ctas {
                load(rank + rounds * ctas);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::products::epilogue::{Activation, Plain, Standard};
    use crate::products::tiles::CLUSTER;

    /// The first error of the tiles, compiled for operands of `T`, results of `O` and an epilogue.
    fn errors<T: Operand, O: ResultOf<T>, E: Epilogue<O>>(epilogue: E) -> Vec<String> {
        let compiler = Compiler::default();
        // Products of i8 have multiples of 16 columns.
        let multiplies = |tile: &ClusterTile| {
            size_of::<T>() > 1 || tile.columns_of_instruction().is_multiple_of(16)
        };
        let compiled = CLUSTER.into_iter().filter(multiplies).map(|tile| {
            let tile = tile.fitted([size_of::<T>(), size_of::<O>()]);
            let tile = tile.fitted_beside(epilogue.is_plain(), size_of::<T>());
            let form = Form::new(tile, epilogue);
            let compiled = fixed(cluster_tiles::<T, O, E>, form).compile(&compiler);
            compiled.err().map(|error| format!("{tile}: {error}"))
        });
        compiled.flatten().collect()
    }

    /// 80 columns of four CTAs are five boxes of 16, 48 six of 8.
    #[test]
    fn boxes_are_whole_swizzles_and_each_cta_loads_one() {
        assert_eq!(
            [80, 48, 96, 144].map(|columns| box_of(columns, 4)),
            [16, 8, 24, 16]
        );
        for tile in CLUSTER {
            let (shape, sharing) = (tile.shape(), [tile.along[1], tile.along[0]]);
            for ((rows, of_box), ctas) in shape.into_iter().zip(tile.boxes()).zip(sharing) {
                assert!(
                    rows.is_multiple_of(of_box) && of_box.is_multiple_of(SWIZZLED_ROWS),
                    "{tile}"
                );
                assert!(rows / of_box >= ctas, "{tile}");
            }
        }
    }

    /// Beside stages lies what sums become rows through.
    #[test]
    fn tiles_fit_shared_memory_for_all_types() {
        let relu = Standard {
            activation: Activation::Relu,
            ..Standard::default()
        };
        let all = [
            errors::<bf16, bf16, _>(Plain),
            errors::<bf16, bf16, _>(relu),
            errors::<bf16, f32, _>(Plain),
            errors::<f32, f32, _>(Plain),
            errors::<i8, i32, _>(Plain),
            errors::<E4m3, bf16, _>(Plain),
            errors::<E5m2, f16, _>(Plain),
        ];
        assert_eq!(all.concat(), Vec::<String>::new());
    }
}
