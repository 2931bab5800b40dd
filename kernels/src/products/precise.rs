//! Products of f32 by three products of tf32 (3xtf32), with an error near that of f32: a persistent kernel, warp-specialized.
//!
//! Each operand is a large part of 11 bits and a small one, what is left of it: large times large is added to small times large and large times small. Only
//! the small part of B costs shared memory. The tensor cores read the upper 19 bits of what they are given, so that B as TMA loads it is the large part of B; a warpgroup
//! subtracts that and stores what is left, as the third tile of a stage. A goes through registers, where each warpgroup splits its own rows.
//!
//! The products of a step begin at zero and are added in f32: the tensor cores round each sum towards 0, which over many steps would cost what the small parts gain.

use std::fmt;

use tilekit::prelude::*;

use super::dense::{Tiles, rows_of_group};
use super::ending::Ending;
use super::epilogue::{DataOf, Epilogue};
use super::factor::{INSTRUCTION_ROWS, Operand, ResultOf, depth, unit};
use super::form::{Form, Source};

/// A tile of [`precise`]: `[groups * 64, columns]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PreciseTile {
    /// Consumer warpgroups.
    pub groups: usize,
    /// Columns.
    pub columns: usize,
    /// Stages of the ring of A and B.
    pub stages: usize,
    /// Stages of the ring of small parts of B.
    pub rests: usize,
    /// Both warpgroups take turns: one adds its products and splits A while the other multiplies.
    pub turns: bool,
    /// A and B are exchanged: rows of the tile are columns of C.
    pub turned: bool,
}

impl PreciseTile {
    /// Of warpgroups, columns, stages of A and B and stages of small parts.
    pub const fn of([groups, columns, stages, rests]: [usize; 4]) -> Self {
        PreciseTile {
            groups,
            columns,
            stages,
            rests,
            turns: false,
            turned: false,
        }
    }

    /// The same of two warpgroups in turns.
    #[must_use]
    pub const fn in_turns(self) -> Self {
        PreciseTile {
            turns: true,
            ..self
        }
    }

    /// The same of A and B exchanged.
    #[must_use]
    pub const fn exchanged(self) -> Self {
        PreciseTile {
            turned: true,
            ..self
        }
    }

    /// Tiles that results of M by N have along rows and columns of a tile.
    pub(super) fn count(self, [m, n]: [usize; 2]) -> [usize; 2] {
        let (size, shape) = (if self.turned { [n, m] } else { [m, n] }, self.shape());
        [0, 1].map(|axis| size[axis].div_ceil(shape[axis]))
    }

    /// Rows and columns.
    pub fn shape(self) -> [usize; 2] {
        [self.groups * INSTRUCTION_ROWS, self.columns]
    }

    /// Registers of a thread that multiplies, of one that splits B, and of one that loads.
    pub(super) fn registers(self) -> [u32; 3] {
        if self.columns > 128 {
            [208, 56, 40]
        } else {
            [200, 72, 40]
        }
    }

    /// Parts of a stage of B that are split one after the other, each stored behind a barrier: as few as fit the registers.
    fn splits(self) -> usize {
        if self.columns > 128 { 2 } else { 1 }
    }
}

impl fmt::Display for PreciseTile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PreciseTile {
            groups,
            columns,
            stages,
            rests,
            turns,
            turned,
        } = self;
        let turns = if *turns { "+turns" } else { "" };
        let turned = if *turned { "+turned" } else { "" };
        write!(f, "{groups}x{columns}x{stages}x{rests}{turns}{turned}")
    }
}

/// Columns that are stored at a time: what an epilogue reads for all of a tile does not fit the registers beside the sums.
const STORED: usize = 32;

/// What the upper 19 bits leave of each element, as tf32. NaN of infinities and of NaN.
#[track_caller]
fn rest(x: Tensor<f32>) -> Tensor<f32> {
    let read = (x.bitcast::<u32>() & 0xffff_e000_u32).bitcast::<f32>();
    let (rest, _) = (x - read).tf32_parts();
    rest
}

/// Rings of what is multiplied, and where it comes from.
#[derive(Clone, Copy)]
pub(super) struct Rings<T> {
    tile: PreciseTile,
    a: Source<T>,
    b: Source<T>,
    loaded: Pipeline<(Smem<T>, Smem<T>)>,
    /// Small parts of B.
    rests: Pipeline<Smem<f32>>,
    turns: Option<NamedTurns<2>>,
}

impl<T: Operand> Rings<T> {
    #[track_caller]
    pub(super) fn new(tile: PreciseTile, a: Source<T>, b: Source<T>) -> Self {
        let tiles = (a.alloc(tile.stages), b.alloc(tile.stages));
        // Those that multiply, and the one that splits B.
        let readers = Consumers::warpgroups(tile.groups + 1);
        let loaded = Pipeline::new(tiles, Producers::Tma, readers);
        let small = Smem::alloc([tile.rests, tile.columns, depth::<f32>()], Nvmma::B128);
        let stores = Producers::Stores { warps: 4 };
        let rests = Pipeline::new(small, stores, Consumers::warpgroups(tile.groups));
        Rings {
            tile,
            a,
            b,
            loaded,
            rests,
            turns: tile.turns.then(|| NamedTurns::new(128)),
        }
    }

    /// The first stages of the rings that a warpgroup reads or writes.
    #[track_caller]
    pub(super) fn start(self) -> [PipelineState; 2] {
        [self.loaded.start(), self.rests.start()]
    }

    /// Before the first tile of a warpgroup.
    #[track_caller]
    fn begin(self, group: usize) {
        if let Some(turns) = self.turns {
            turns.begin(group);
        }
    }

    /// After the last tile of a warpgroup: the turn that nobody takes.
    #[track_caller]
    fn end(self, group: usize) {
        if let Some(turns) = self.turns.filter(|_| group == 0) {
            turns.wait(0);
        }
    }

    /// A tile of B as it was loaded, `[columns, K]`.
    #[track_caller]
    fn columns(self, of_b: Smem<T>) -> Smem<f32> {
        T::as_f32(self.b.by_rows(of_b))
    }

    /// The sums of the rows of warpgroup `group` over these steps along K, and the first stages of the next tile.
    #[device]
    pub(super) fn sums(
        self,
        group: usize,
        steps: impl FnOnce() -> Range<i32>,
        [mut at, mut from]: [PipelineState; 2],
    ) -> (Tensor<f32>, [PipelineState; 2]) {
        let own = group * INSTRUCTION_ROWS..(group + 1) * INSTRUCTION_ROWS;
        let columns = self.tile.columns;
        let layout = Wgmma::new([4, 1], [INSTRUCTION_ROWS, columns, 8]);
        let mut sums = zeros::<f32>([INSTRUCTION_ROWS, columns], layout.clone());
        for _ in steps() {
            let whole = self.loaded.consumer_wait(at);
            let (of_a, of_b) = whole.tiles;
            let of_a = T::as_f32(self.a.by_rows(of_a)).slice(0, own.clone());
            let large_b = self.columns(of_b).transpose();
            let (large, small) = of_a
                .load(DotOperand::new(0, layout.clone(), 1))
                .tf32_parts();
            if let Some(turns) = self.turns {
                turns.wait(group);
            }
            let products = Accumulator::from_tensor(zeros_like(sums)).tf32();
            let products = products.mma(small, large_b);
            // The small parts are there a little later.
            let rest = self.rests.consumer_wait(from);
            let products = products.mma(large, rest.tiles.transpose());
            let products = products.mma(large, large_b);
            if let Some(turns) = self.turns {
                turns.pass(group);
            }
            sums += products.wait_all();
            from = self.rests.consumer_release(rest).advance();
            at = self.loaded.consumer_release(whole).advance();
        }
        (sums, [at, from])
    }

    /// Stores the small parts of B of a tile over these steps, and gives the first stages of the next.
    #[device]
    pub(super) fn split(
        self,
        steps: impl FnOnce() -> Range<i32>,
        [mut from, mut to]: [PipelineState; 2],
    ) -> [PipelineState; 2] {
        let along_rows = Blocked::new([1, 4], [4, 8], [4, 1], [1, 0]);
        for _ in steps() {
            let whole = self.loaded.consumer_wait(from);
            let small = self.rests.producer_acquire(to);
            let (_, of_b) = whole.tiles;
            let of_b = self.columns(of_b);
            let rows = self.tile.columns / self.tile.splits();
            for first in (0..self.tile.columns).step_by(rows) {
                let part = of_b.slice(0, first..first + rows).load(along_rows.clone());
                let place = small.tiles.slice(0, first..first + rows);
                place.store(rest(part));
            }
            to = self.rests.commit(small).advance();
            from = self.loaded.consumer_release(whole).advance();
        }
        [from, to]
    }

    /// Loads a tile over these steps, which begins at the row and column of a product of a batch, and gives the first stage of the next.
    #[device]
    pub(super) fn load(
        self,
        [batch, row, column]: [Scalar<i32>; 3],
        steps: impl FnOnce() -> Range<i32>,
        mut at: PipelineState,
    ) -> PipelineState {
        for step in steps() {
            let stage = self.loaded.producer_acquire(at);
            let (of_a, of_b) = stage.tiles;
            self.a.load([batch, row, step], of_a, stage.full);
            self.b.load([batch, column, step], of_b, stage.full);
            at = self.loaded.commit(stage).advance();
        }
        at
    }
}

/// `D[M, N] = A[M, K] · B[N, K]ᵀ` of each product of a batch, of which the grid has one along z. Operands are f32, contiguous along K. Element
/// `[i, j]` of the result is at `out + i * stride + j`, or in a turned tile at `out + j * stride + i`: the product with A and B exchanged. A row with an infinity comes out infinite or as NaN, a column with one as NaN.
#[kernel(warps = 4, min_ctas_per_sm = 1)]
pub fn precise<T: Operand, O: ResultOf<T>, E: Epilogue<O>>(
    #[fixed] form: Form<PreciseTile, E>,
    #[block(form.sides[0].block::<T>(form.tile.shape()[0]), form.sides[0].swizzle::<T>(form.tile.shape()[0]))]
    a: TensorMap<T>,
    #[block(form.sides[1].block::<T>(form.tile.columns), form.sides[1].swizzle::<T>(form.tile.columns))]
    b: TensorMap<T>,
    out: Ptr<O>,
    #[multiple_of(unit::<O>())] stride: i32,
    #[multiple_of(unit::<O>())] batch_stride: i64,
    m: i32,
    n: i32,
    k: i32,
    data: DataOf<O, E>,
) {
    launch_dependents();
    let tile = form.tile;
    let [rows, columns] = tile.shape();
    let a = Source::new(a, form.sides[0], rows);
    let b = Source::new(b, form.sides[1], columns);
    let rings = Rings::new(tile, a, b);
    let steps = steps_along(k, depth::<f32>());
    let tiles = Tiles {
        of_product: GroupedRows::new([m, n], tile.shape(), rows_of_group(tile.shape())),
        batches: scalar(1),
        is_batched: false,
        ctas: 1,
    };
    let batch = form.batch();
    let ending = Ending {
        epilogue: form.epilogue,
        columns,
        ctas: 1,
        turned: tile.turned,
        is_batched: form.is_batched,
        out,
        stride,
        batch_stride,
        size: [m, n],
        batch,
        data,
    };

    let multiply = |group: usize| {
        rings.begin(group);
        let mut at = rings.start();
        for number in tiles.of_program() {
            let (sums, next) = rings.sums(group, || range(0, steps), at);
            at = next;
            let [_, row, column] = tiles.place(number);
            let [row, column] = [row * rows + group * INSTRUCTION_ROWS, column * columns];
            let width = columns.min(STORED);
            for first in (0..columns).step_by(width) {
                let part = sums.slice(1, first..first + width);
                ending.store_rows([row, column + first], part);
            }
        }
        rings.end(group);
    };
    let split = || {
        let mut at = rings.start();
        for _ in tiles.of_program() {
            at = rings.split(|| range(0, steps), at);
        }
    };
    let load = || {
        launch_wait();
        let [mut at, _] = rings.start();
        for number in tiles.of_program() {
            let [_, row, column] = tiles.place(number);
            let place = [batch, row * rows, column * columns];
            at = rings.load(place, || range(0, steps), at);
        }
    };
    let [of_consumers, of_splitters, of_others] = tile.registers();
    warp_specialize()
        .registers(of_consumers)
        .main(|| multiply(0))
        .workers(1..tile.groups, Warps(4).registers(of_consumers), multiply)
        .worker(Warps(4).registers(of_splitters), split)
        .worker(Warps(1).registers(of_others), load)
        .run();
}
