//! What a stage of the ring holds: words, scales and activations.

use tilekit::prelude::*;

use super::decode::{Scales, Unquantised, decode, words_of};
use super::format::{LOADED, STEP, STRIP, WeightFormat, WeightGroup};

/// Packed weights in memory.
#[derive(Clone, Copy)]
pub(super) struct Packed<T> {
    pub(super) words: Ptr<u32>,
    pub(super) scales: Ptr<T>,
    /// Strips, and blocks of each.
    pub(super) strips: Scalar<i32>,
    pub(super) steps: Scalar<i32>,
}

/// Blocks of strips, their scales, and activations.
#[derive(Clone, Copy, Aggregate)]
pub(super) struct Operands<T> {
    words: Smem<u32>,
    /// None where they stand for rows.
    scales: Option<Smem<T>>,
    pub(super) x: Smem<T>,
}

/// What a stage holds of strips.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) format: WeightFormat,
    pub(super) groups: usize,
    /// Weights along K: a block, or half of it.
    pub(super) depth: usize,
    /// Weights along K that are decoded at a time, at most those of a load that share scales.
    pub(super) piece: usize,
}

impl Shape {
    /// Scales of a strip along K.
    fn scales(self) -> usize {
        (self.format.in_step() * self.depth).div_ceil(STEP)
    }

    fn chunks(self) -> usize {
        self.depth / self.format.values.chunk()
    }
}

impl<T: Unquantised> Operands<T> {
    /// So many stages.
    #[track_caller]
    pub(super) fn alloc(x: TensorMap<T>, shape: Shape, stages: usize) -> Self {
        let Shape { format, groups, .. } = shape;
        let words = [stages, groups, shape.chunks(), 2 * STRIP, LOADED];
        let scales = [stages, groups, shape.scales(), format.kinds(), STRIP];
        let plain = || Swizzled::plain([4, 3, 2, 1, 0]);
        Operands {
            words: Smem::alloc(words, plain()),
            scales: (format.in_step() > 0).then(|| Smem::alloc(scales, plain())),
            x: x.alloc(stages),
        }
    }

    /// Issues the bulk copies of what strips from `first` on have at `step`, which counts stages along K. What is beyond the last strip is loaded as that.
    #[device]
    pub(super) fn load(
        self,
        packed: Packed<T>,
        shape: Shape,
        [first, step]: [Scalar<i32>; 2],
        full: Mbarrier,
    ) {
        let Shape { format, depth, .. } = shape;
        let block = format.values.block_words();
        let count = block * depth / STEP;
        for group in 0..shape.groups {
            let strip = minimum(first + group, packed.strips - 1);
            let begin = strip * (packed.steps * block) + step * count;
            let words = self.words.index(group).reshape([count]);
            packed.words.bulk(begin).load(words, full);
            if let Some(scales) = self.scales {
                let kinds = format.kinds() * STRIP;
                // A group may reach beyond a stage.
                let along = step * depth / (STEP / format.in_step());
                let begin = strip * packed.steps * format.in_step() + along;
                let scales = scales.index(group).reshape([shape.scales() * kinds]);
                packed.scales.bulk(begin * kinds).load(scales, full);
            }
        }
    }

    /// Loads the words of a strip, and then decodes them one after the other: a piece of weights along K, and from which place on. Scales of whole rows are given, and those of groups are loaded for each load of
    /// words, or for the first of several pieces of one.
    pub(super) fn decoded(
        self,
        shape: Shape,
        group: usize,
        of_rows: Option<Scales<T>>,
        columns: usize,
    ) -> impl Iterator<Item = (usize, Tensor<T>)> {
        let format = shape.format;
        let mut held = None;
        self.pieces(shape, group).map(move |(along, words)| {
            if shape.piece == format.width() || format.begins_group(along) {
                held = self.scales_at(format, [group, along], columns);
            }
            let scales = held.or(of_rows).expect("groups or rows have scales");
            (along, decode(words, format.values, scales, columns))
        })
    }

    /// Loads the words of a strip: those of each piece, and from which place along K on.
    #[track_caller]
    pub(super) fn pieces(
        self,
        shape: Shape,
        group: usize,
    ) -> impl Iterator<Item = (usize, Tensor<u32>)> {
        let values = shape.format.values;
        let words = self.words.index(group);
        let chunks: Vec<_> = (0..shape.chunks())
            .map(|chunk| words_of(words.index(chunk), values))
            .collect();
        let words_of_k = move |k: usize| k / 16 * values.part_words();
        (0..shape.depth).step_by(shape.piece).map(move |along| {
            let first = words_of_k(along % values.chunk());
            let of_piece = first..first + words_of_k(shape.piece);
            (along, chunks[along / values.chunk()].slice(1, of_piece))
        })
    }

    /// The scales of a strip for the weights that begin at `k` of a step.
    #[track_caller]
    pub(super) fn scales_at(
        self,
        format: WeightFormat,
        [group, k]: [usize; 2],
        columns: usize,
    ) -> Option<Scales<T>> {
        let WeightGroup::Of(weights) = format.group else {
            return None;
        };
        let tile = self.scales?.index(group).index(k / weights);
        Some(Scales::load(tile, format.values.has_zeros(), columns))
    }
}

impl<T: Element> Payload for Operands<T> {
    type Stage = Operands<T>;

    #[track_caller]
    fn stages(self) -> usize {
        (self.words, self.x).stages()
    }

    #[track_caller]
    fn stage(self, index: Scalar<i32>) -> Operands<T> {
        let (words, x) = (self.words, self.x).stage(index);
        let scales = self.scales.map(|scales| scales.stage(index));
        Operands { words, scales, x }
    }

    #[track_caller]
    fn stage_bytes(self) -> usize {
        let of_scales = self.scales.map_or(0, |scales| scales.stage_bytes());
        (self.words, self.x).stage_bytes() + of_scales
    }
}
