//! The main loop of a consumer warpgroup of [`weight_only_few`](super::few::weight_only_few): the sums of a strip over its steps along K. Of few columns the sums are scaled instead of the weights, of which a thread has
//! more: how many instructions decode weights bounds these products (`bench/results/weight_only.md`).

use tilekit::prelude::*;

use super::decode::{self, Scales, Unquantised, meant, numbers};
use super::few::FewWeights;
use super::format::{STRIP, WeightFormat, WeightGroup};
use super::stage::{Operands, Shape};

/// The main loop of warpgroups.
#[derive(Clone, Copy)]
pub(super) struct Consumer<T> {
    pub(super) tile: FewWeights,
    pub(super) shape: Shape,
    pub(super) pipeline: Pipeline<Operands<T>>,
    /// Steps along K of the CTA.
    pub(super) steps: Scalar<i32>,
}

/// Whether sums of so many columns are scaled: a thread has fewer of them than pairs of weights that share a scale.
fn scales_sums(columns: usize, format: WeightFormat) -> bool {
    match format.group {
        WeightGroup::Of(weights) => 2 * columns < weights,
        WeightGroup::Row => true,
    }
}

impl<T: Unquantised> Consumer<T> {
    /// The sums of warpgroup `part` of those that share strip `group` of the tile. Scales of whole rows are given.
    #[device]
    pub(super) fn sums(self, [group, part]: [usize; 2], of_rows: Option<Scales<T>>) -> Tensor<f32> {
        if !scales_sums(self.tile.columns, self.shape.format) {
            self.accumulated([group, part], None)
        } else if let Some(of_rows) = of_rows {
            let sums = self.accumulated([group, part], Some(of_rows));
            sums * self.of_sums(of_rows).expand_dims(1)
        } else {
            self.scaled_sums([group, part])
        }
    }

    /// The sums of all weights, which are scaled, or lack scales that are the same for all of a row.
    #[device]
    fn accumulated(self, [group, part]: [usize; 2], of_rows: Option<Scales<T>>) -> Tensor<f32> {
        let (tile, shape, pipeline) = (self.tile, self.shape, self.pipeline);
        let in_flight = tile.in_flight(shape.format.values);
        let mut before = pipeline.nothing_held(&pipeline.start());
        let mut acc = self.blank();
        for fill in range(part, self.steps).step(tile.parts) {
            let stage = pipeline.consumer_wait(pipeline.of_fill(fill));
            let tiles = stage.tiles;
            let mut done = Some(std::mem::replace(&mut before, stage.hold()));
            let pieces = self.weights(tiles, group, of_rows);
            for (number, (along, weights)) in pieces.enumerate() {
                let x = tiles.x.slice(1, along..along + shape.piece);
                // Registers of weights are decoded into again when what is multiplied from them has completed.
                acc = acc.mma(weights, x.transpose()).wait(in_flight);
                // So has, in time, the last product of the stage before: held until this stage ends, it would leave few to be loaded, and none where there are twice as many as parts.
                let is_free = number + 1 == in_flight as usize;
                if let Some(done) = done.take_if(|_| is_free) {
                    pipeline.consumer_release_when(fill >= tile.parts, done);
                }
            }
        }
        acc.wait_all()
    }

    /// Decodes the weights of a step piece by piece, each from a place along K on: without their scales where those are of rows.
    #[track_caller]
    fn weights(
        self,
        tiles: Operands<T>,
        group: usize,
        of_rows: Option<Scales<T>>,
    ) -> Box<dyn Iterator<Item = (usize, Tensor<T>)>> {
        let (shape, columns) = (self.shape, self.tile.columns);
        let Some(of_rows) = of_rows else {
            return Box::new(tiles.decoded(shape, group, None, columns));
        };
        let values = shape.format.values;
        Box::new(tiles.pieces(shape, group).map(move |(along, words)| {
            let numbers = numbers(words, values, columns);
            (along, meant(numbers, values, of_rows.offsets))
        }))
    }

    /// The sums of groups along K, each scaled and added before the first product of the next one, which is decoded meanwhile.
    #[device]
    fn scaled_sums(self, [group, part]: [usize; 2]) -> Tensor<f32> {
        let (tile, shape, pipeline) = (self.tile, self.shape, self.pipeline);
        let (format, values) = (shape.format, shape.format.values);
        let mut before = pipeline.nothing_held(&pipeline.start());
        let mut pending = self.blank();
        let mut sums = zeros([STRIP, tile.columns], decode::sums(tile.columns));
        let mut scales = zeros([STRIP], Slice::new(1, decode::sums(tile.columns)));
        for fill in range(part, self.steps).step(tile.parts) {
            let stage = pipeline.consumer_wait(pipeline.of_fill(fill));
            let tiles = stage.tiles;
            let mut done = Some(std::mem::replace(&mut before, stage.hold()));
            let mut offsets = None;
            for (along, words) in tiles.pieces(shape, group) {
                let x = tiles.x.slice(1, along..along + shape.piece).transpose();
                let begins = format.begins_group(along);
                let of_group =
                    begins.then(|| tiles.scales_at(format, [group, along], tile.columns));
                let of_group = of_group.flatten();
                offsets = of_group.map_or(offsets, |scales| scales.offsets);
                let weights = meant(numbers(words, values, tile.columns), values, offsets);
                if let Some(of_group) = of_group {
                    sums = pending.wait_all().fma(scales.expand_dims(1), sums);
                    scales = self.of_sums(of_group);
                    pending = self.blank().mma(weights, x);
                } else {
                    pending = pending.mma(weights, x).wait(1);
                }
                if let Some(done) = done.take() {
                    pipeline.consumer_release_when(fill >= tile.parts, done);
                }
            }
        }
        pending.wait_all().fma(scales.expand_dims(1), sums)
    }

    /// An accumulator of zeros.
    #[track_caller]
    fn blank(self) -> Accumulator<f32> {
        T::zeros([STRIP, self.tile.columns], self.tile.columns)
    }

    /// The scales of rows as threads have their sums.
    #[track_caller]
    fn of_sums(self, scales: Scales<T>) -> Tensor<f32> {
        let of_rows = Slice::new(1, decode::sums(self.tile.columns));
        scales.scales.convert_layout_trivial(of_rows).cast::<f32>()
    }
}
