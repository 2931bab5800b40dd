//! The main loop: products of 128 of K into accumulators of zeros, scaled and added in f32.

use std::ops::Range;

use tilekit::prelude::*;

use super::factors::{BlockScales, Factors};
use super::tile::{Overlap, ScaledTile};
use crate::products::factor::{BLOCK, INSTRUCTION_ROWS, Operand};

/// The main loop of warpgroups.
#[derive(Clone, Copy)]
pub(super) struct Mainloop<T> {
    pub(super) pipeline: Pipeline<Factors<T>>,
    pub(super) steps: Scalar<i32>,
    pub(super) tile: ScaledTile,
    /// CTAs of a cluster that share all steps along K.
    ctas: usize,
    all_steps: Scalar<i32>,
    turns: Option<NamedTurns<2>>,
}

/// The sums of a warpgroup, part by part and chunk by chunk.
pub(super) type Sums = Vec<Tensor<f32>>;

impl<T: Operand<Sum = f32>> Mainloop<T> {
    #[track_caller]
    pub(super) fn new(factors: Factors<T>, steps: Scalar<i32>, tile: ScaledTile) -> Self {
        let consumers = Consumers::warpgroups(tile.groups).of_ctas(tile.ctas());
        let pipeline = Pipeline::new(factors, Producers::Tma, consumers);
        if tile.ctas() > 1 {
            // The other arrives at its mbarriers.
            cluster_barrier_relaxed();
        }
        let in_turns = matches!(tile.overlap, Overlap::Turns(_));
        Mainloop {
            pipeline,
            steps,
            tile,
            ctas: 1,
            all_steps: steps,
            turns: in_turns.then(|| NamedTurns::new(128)),
        }
    }

    /// The same of so many steps.
    pub(super) fn with_steps(self, steps: Scalar<i32>) -> Self {
        Mainloop { steps, ..self }
    }

    /// The steps of this CTA among `ctas` of a cluster, at least one: a step behind the last multiplies zeros.
    #[track_caller]
    pub(super) fn divided(self, ctas: usize) -> Self {
        if ctas == 1 {
            return self;
        }
        let steps = maximum((self.steps + (ctas - 1) - cluster_rank()) / ctas, 1);
        Mainloop {
            steps,
            ctas,
            ..self
        }
    }

    /// The step along K of that number.
    #[track_caller]
    pub(super) fn step(self, number: Scalar<i32>) -> Scalar<i32> {
        if self.ctas == 1 {
            number
        } else {
            number * self.ctas + cluster_rank()
        }
    }

    /// The step along K whose scales count for the products of that number.
    #[track_caller]
    fn step_of_scales(self, number: Scalar<i32>) -> Scalar<i32> {
        if self.ctas == 1 {
            number
        } else {
            minimum(self.step(number), self.all_steps - 1)
        }
    }

    /// Before the first tile of a warpgroup.
    #[track_caller]
    pub(super) fn begin(self, group: usize) {
        if let Some(turns) = self.turns {
            turns.begin(group);
        }
    }

    /// After the last tile of a warpgroup: the turn that nobody takes.
    #[track_caller]
    pub(super) fn end(self, group: usize) {
        if let Some(turns) = self.turns.filter(|_| group == 0) {
            turns.wait(0);
        }
    }

    /// Behind the last load: a CTA does not end before the other has released what both loaded.
    #[track_caller]
    pub(super) fn end_of_loads(self, at: PipelineState) {
        if self.tile.ctas() > 1 {
            self.pipeline.producer_tail(at);
        }
    }

    fn layout(self) -> Wgmma {
        Wgmma::new([4, 1], [INSTRUCTION_ROWS, self.tile.width, 32])
    }

    /// Starts the products of `depth` along K of one part of a warpgroup's rows and columns, from zero where `depth` begins at 0.
    #[track_caller]
    fn start(
        self,
        sums: Accumulator<f32>,
        stage: Factors<T>,
        group: usize,
        [row, column]: [usize; 2],
        depth: Range<usize>,
    ) -> Accumulator<f32> {
        let first = group * self.tile.rows + row;
        let a = stage.a.slice(0, first..first + INSTRUCTION_ROWS);
        // One matrix of several is `[1, columns, 128]`.
        let b = match *stage.b.shape() {
            [_, rows, depth] => stage.b.reshape([rows, depth]),
            _ => stage.b,
        };
        let b = b.slice(0, column..column + self.tile.width);
        let adds = scalar(depth.start > 0);
        if depth == (0..BLOCK) {
            return sums.mma_if(adds, a, b.transpose());
        }
        let [a, b] = [a, b].map(|tile| tile.slice(1, depth.clone()));
        sums.mma_if(adds, a, b.transpose())
    }

    fn blank(self) -> Accumulator<f32> {
        Accumulator::zeros([INSTRUCTION_ROWS, self.tile.width], self.layout())
    }

    /// Starts the products of a part in these registers, where warpgroups take turns in the turn of its own.
    #[track_caller]
    fn start_part(
        self,
        over: Accumulator<f32>,
        stage: Factors<T>,
        group: usize,
        part: [usize; 2],
    ) -> Accumulator<f32> {
        let Some(turns) = self.turns else {
            return self.start(over, stage, group, part, 0..BLOCK);
        };
        turns.wait(group);
        // Where each commit group ends along K; the turn is passed when all but the last have completed.
        let ends: &[usize] = match self.tile.overlap {
            Overlap::Turns(64) => &[64, BLOCK],
            Overlap::Turns(96) => &[64, 96, BLOCK],
            _ => &[BLOCK],
        };
        let (mut product, mut first) = (over, 0);
        for &end in ends {
            product = self.start(product, stage, group, part, first..end);
            first = end;
        }
        if ends.len() > 1 {
            product = product.wait(1);
        }
        turns.pass(group);
        product
    }

    /// Scales of rows of A, 64 at a time.
    #[track_caller]
    fn scales_of_rows(self, stage: Factors<T>, group: usize) -> Vec<Tensor<f32>> {
        let rows = self.tile.rows;
        let all = stage.a_scales.reshape([self.tile.groups * rows]);
        let own = group * rows..(group + 1) * rows;
        let firsts = own.step_by(INSTRUCTION_ROWS);
        let of = |first| all.slice(0, first..first + INSTRUCTION_ROWS);
        firsts
            .map(|first| of(first).load(Slice::new(1, self.layout())))
            .collect()
    }

    /// Adds the products of a part, times their scales.
    #[track_caller]
    fn promote(
        self,
        sums: &mut [Tensor<f32>],
        products: Tensor<f32>,
        of_rows: Tensor<f32>,
        of_blocks: &[Scalar<f32>],
    ) {
        let chunk = self.tile.chunk();
        for (number, (sum, scale)) in sums.iter_mut().zip(of_blocks).enumerate() {
            let part = products.slice(1, number * chunk..(number + 1) * chunk);
            let scale = (of_rows * *scale).expand_dims(1);
            *sum = part.fma(scale, *sum);
        }
    }

    fn zeros(self) -> Sums {
        let count = self.tile.parts().len() * self.tile.chunks();
        let shape = [INSTRUCTION_ROWS, self.tile.chunk()];
        (0..count).map(|_| zeros(shape, self.layout())).collect()
    }

    /// The sums of the rows of warpgroup `group` of a tile that begins at `column`, where B has a scale for each block.
    #[track_caller]
    pub(super) fn of_blocks(
        self,
        group: usize,
        at: PipelineState,
        blocks: BlockScales,
        column: Scalar<i32>,
    ) -> (Sums, PipelineState) {
        match self.tile.overlap {
            Overlap::Ahead => self.ahead(group, at, blocks, column),
            Overlap::Others | Overlap::Turns(_) => self.one_by_one(group, at, blocks, column),
        }
    }

    /// The products of a step whose first part has been started: those of the last part, and those of the parts before added to the sums.
    #[track_caller]
    fn all_but_last(
        self,
        sums: &mut [Tensor<f32>],
        first: Accumulator<f32>,
        stage: Factors<T>,
        group: usize,
        scales: (&[Tensor<f32>], &[Scalar<f32>]),
    ) -> Tensor<f32> {
        let parts = self.tile.parts();
        let mut products = first.wait_all();
        for (before, &part) in parts[1..].iter().enumerate() {
            self.add_part(sums, before, products, scales);
            // In the registers of the part before, so that ptxas starts it when that has been added: there are none for both.
            let over = Accumulator::from_tensor(products);
            products = self.start_part(over, stage, group, part).wait_all();
        }
        products
    }

    /// Adds the products of a part.
    #[track_caller]
    fn add_part(
        self,
        sums: &mut [Tensor<f32>],
        number: usize,
        products: Tensor<f32>,
        (of_rows, of_blocks): (&[Tensor<f32>], &[Scalar<f32>]),
    ) {
        let chunks = self.tile.chunks();
        let [row, column] = self.tile.parts()[number];
        let first = column / self.tile.chunk();
        self.promote(
            &mut sums[number * chunks..(number + 1) * chunks],
            products,
            of_rows[row / INSTRUCTION_ROWS],
            &of_blocks[first..first + chunks],
        );
    }

    #[device]
    fn one_by_one(
        self,
        group: usize,
        at: PipelineState,
        blocks: BlockScales,
        column: Scalar<i32>,
    ) -> (Sums, PipelineState) {
        let parts = self.tile.parts();
        let last = parts.len() - 1;
        let places = blocks.of_tile(column, self.tile);
        let mut sums = self.zeros();
        let mut of_blocks = blocks.load(&places, scalar(0));
        let mut stage = self.pipeline.consumer_wait(at);
        let mut of_rows = self.scales_of_rows(stage.tiles, group);
        for step in range(1, self.steps) {
            let scales = (&of_rows[..], &of_blocks[..]);
            let first = self.start_part(self.blank(), stage.tiles, group, parts[0]);
            // While the tensor cores multiply: behind the product, its additions would wait for L2.
            let next_blocks = blocks.load(&places, step);
            let products = self.all_but_last(&mut sums, first, stage.tiles, group, scales);
            let next = self.pipeline.consumer_release(stage).advance();
            // What the next product needs is there before this one is added, so that it follows at once.
            stage = self.pipeline.consumer_wait(next);
            let next_rows = self.scales_of_rows(stage.tiles, group);
            self.add_part(&mut sums, last, products, scales);
            (of_rows, of_blocks) = (next_rows, next_blocks);
        }
        let scales = (&of_rows[..], &of_blocks[..]);
        let first = self.start_part(self.blank(), stage.tiles, group, parts[0]);
        let products = self.all_but_last(&mut sums, first, stage.tiles, group, scales);
        let at = self.pipeline.consumer_release(stage).advance();
        self.add_part(&mut sums, last, products, scales);
        (sums, at)
    }

    #[device]
    fn ahead(
        self,
        group: usize,
        at: PipelineState,
        blocks: BlockScales,
        column: Scalar<i32>,
    ) -> (Sums, PipelineState) {
        let places = blocks.of_tile(column, self.tile);
        let begin = |at: PipelineState, number: Scalar<i32>| {
            let of_blocks = blocks.load(&places, self.step_of_scales(number));
            let stage = self.pipeline.consumer_wait(at);
            let of_rows = self.scales_of_rows(stage.tiles, group);
            let product = self.start(self.blank(), stage.tiles, group, [0, 0], 0..BLOCK);
            (product, stage.hold(), of_rows, of_blocks)
        };
        let mut sums = self.zeros();
        let (mut pending, mut held, mut of_rows, mut of_blocks) = begin(at, scalar(0));
        for step in range(1, self.steps) {
            let (next, next_held, next_rows, next_blocks) = begin(held.next(), step);
            let products = pending.wait_older_than(1);
            self.pipeline.consumer_release(held);
            self.promote(&mut sums, products, of_rows[0], &of_blocks);
            (pending, held, of_rows, of_blocks) = (next, next_held, next_rows, next_blocks);
        }
        let products = pending.wait_all();
        let at = self.pipeline.consumer_release(held).advance();
        self.promote(&mut sums, products, of_rows[0], &of_blocks);
        (sums, at)
    }

    /// The sums of the rows of warpgroup `group`, where each row of B has scales of its own, which the stages hold.
    #[device]
    pub(super) fn of_columns(
        self,
        group: usize,
        at: PipelineState,
    ) -> (Tensor<f32>, PipelineState) {
        let (columns, mut at) = (self.tile.columns, at);
        let mut sums = zeros([INSTRUCTION_ROWS, columns], self.layout());
        for _ in range(0, self.steps) {
            let stage = self.pipeline.consumer_wait(at);
            let tiles = stage.tiles;
            let of_rows = self.scales_of_rows(tiles, group)[0].expand_dims(1);
            let of_columns = tiles
                .b_scales
                .expect("rows of B have scales")
                .reshape([columns]);
            let of_columns = of_columns.load(Slice::new(0, self.layout())).expand_dims(0);
            let products = self
                .start_part(self.blank(), tiles, group, [0, 0])
                .wait_all();
            at = self.pipeline.consumer_release(stage).advance();
            sums = products.fma(of_rows * of_columns, sums);
        }
        (sums, at)
    }

    /// Stores the sums of a warpgroup to a buffer.
    #[track_caller]
    pub(super) fn store<O: Element>(self, sums: &Sums, buffer: Smem<O>) {
        let (tile, chunk) = (self.tile, self.tile.chunk());
        for (number, sum) in sums.iter().enumerate() {
            let [row, column] = tile.parts()[number / tile.chunks()];
            let column = column + number % tile.chunks() * chunk;
            let part = buffer.slice(0, row..row + INSTRUCTION_ROWS);
            let part = part.slice(1, column..column + chunk);
            part.store(sum.cast::<O>());
        }
    }
}
