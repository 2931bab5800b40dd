//! What a stage of the ring holds: words, scales and activations.

use tilekit::prelude::*;

use super::decode::{Scales, Unquantised};
use super::format::{BLOCK_WORDS, CHUNK, STEP, STRIP, WeightFormat, WeightGroup};

/// Packed weights in memory.
#[derive(Clone, Copy)]
pub(super) struct Packed<T> {
    pub(super) words: Ptr<u32>,
    pub(super) scales: Ptr<T>,
    pub(super) format: WeightFormat,
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

impl<T: Unquantised> Operands<T> {
    /// Stages of blocks of `groups` strips.
    #[track_caller]
    pub(super) fn alloc(
        x: TensorMap<T>,
        format: WeightFormat,
        groups: usize,
        stages: usize,
    ) -> Self {
        let words = [stages, groups, STEP / CHUNK, 2 * STRIP, CHUNK / 16];
        let scales = [stages, groups, format.in_step(), format.kinds(), STRIP];
        let plain = || Swizzled::plain([4, 3, 2, 1, 0]);
        Operands {
            words: Smem::alloc(words, plain()),
            scales: (format.in_step() > 0).then(|| Smem::alloc(scales, plain())),
            x: x.alloc(stages),
        }
    }

    /// Issues the bulk copies of the blocks at `step` of strips from `first` on into a stage. What is beyond the last strip is loaded as that.
    #[device]
    pub(super) fn load(
        self,
        packed: Packed<T>,
        groups: usize,
        [first, step]: [Scalar<i32>; 2],
        full: Mbarrier,
    ) {
        let format = packed.format;
        for group in 0..groups {
            let strip = minimum(first + group, packed.strips - 1);
            let block = strip * packed.steps + step;
            let words = self.words.index(group).reshape([BLOCK_WORDS]);
            packed.words.bulk(block * BLOCK_WORDS).load(words, full);
            if let Some(scales) = self.scales {
                let count = format.in_step() * format.kinds() * STRIP;
                let scales = scales.index(group).reshape([count]);
                packed.scales.bulk(block * count).load(scales, full);
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
