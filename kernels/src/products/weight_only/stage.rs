//! What a stage of the ring holds: words, scales and activations.

use tilekit::prelude::*;

use super::decode::{Scales, Unquantised};
use super::format::{BLOCK_WORDS, CHUNK, STEP, STRIP, WeightFormat, WeightGroup};

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

/// What a stage holds: chunks along K of strips.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) format: WeightFormat,
    pub(super) groups: usize,
    /// Chunks of 64 along K: a block, or one of its two.
    pub(super) chunks: usize,
}

impl Shape {
    /// Scales of a strip along K.
    fn scales(self) -> usize {
        (self.format.in_step() * self.chunks).div_ceil(STEP / CHUNK)
    }
}

impl<T: Unquantised> Operands<T> {
    /// So many stages.
    #[track_caller]
    pub(super) fn alloc(x: TensorMap<T>, shape: Shape, stages: usize) -> Self {
        let Shape {
            format,
            groups,
            chunks,
        } = shape;
        let words = [stages, groups, chunks, 2 * STRIP, CHUNK / 16];
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
        let Shape { format, chunks, .. } = shape;
        let count = BLOCK_WORDS * chunks / (STEP / CHUNK);
        for group in 0..shape.groups {
            let strip = minimum(first + group, packed.strips - 1);
            let begin = strip * (packed.steps * BLOCK_WORDS) + step * count;
            let words = self.words.index(group).reshape([count]);
            packed.words.bulk(begin).load(words, full);
            if let Some(scales) = self.scales {
                let kinds = format.kinds() * STRIP;
                // A group may reach beyond a chunk.
                let along = step * chunks * CHUNK / (STEP / format.in_step());
                let begin = strip * packed.steps * format.in_step() + along;
                let scales = scales.index(group).reshape([shape.scales() * kinds]);
                packed.scales.bulk(begin * kinds).load(scales, full);
            }
        }
    }

    /// The words of a chunk of a strip.
    #[track_caller]
    pub(super) fn chunk(self, group: usize, chunk: usize) -> Smem<u32> {
        self.words.index(group).index(chunk)
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
        Some(Scales::load(tile, format.has_zeros, columns))
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
