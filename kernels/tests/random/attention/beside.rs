//! Dropout of weights, and masks of blocks, drawn at random and evaluated on the host.

use proptest::prelude::*;
use tilekit::Device;
use tilekit_kernels::attention::{BlockKind, BlockMask, BlockShape, Dropout};

use crate::numbers::noise;

/// What a call has beside its options for scores.
#[derive(Clone, Copy, Debug)]
pub(super) enum Beside {
    Nothing,
    Dropout(Dropout),
    Blocks(Blocks),
}

impl Beside {
    pub(super) fn any() -> impl Strategy<Value = Beside> {
        let dropout = (0.0_f32..0.6, any::<u64>());
        let dropout = dropout.prop_map(|(rate, seed)| Beside::Dropout(Dropout { rate, seed }));
        prop_oneof![
            3 => Just(Beside::Nothing),
            1 => dropout,
            1 => Blocks::any().prop_map(Beside::Blocks),
        ]
    }

    pub(super) fn dropout(self) -> Option<Dropout> {
        match self {
            Beside::Dropout(dropout) => Some(dropout),
            Beside::Nothing | Beside::Blocks(_) => None,
        }
    }

    pub(super) fn blocks(self) -> Option<Blocks> {
        match self {
            Beside::Blocks(blocks) => Some(blocks),
            Beside::Nothing | Beside::Dropout(_) => None,
        }
    }

    /// What weights are multiplied by that are kept.
    pub(super) fn kept(self) -> f64 {
        self.dropout()
            .map_or(1.0, |dropout| 1.0 / (1.0 - f64::from(dropout.rate)))
    }

    /// What the weight of a sequence, head, query and key is multiplied by.
    pub(super) fn factor(self, [sequence, head, query, key]: [usize; 4]) -> f64 {
        let Some(Dropout { rate, seed }) = self.dropout() else {
            return 1.0;
        };
        // Two queries, 8 apart, and two keys, 8 apart, have the words of a counter.
        let cell = |at: usize| (at / 16 * 8 + at % 8) as u32;
        let counter = [cell(query), cell(key), head as u32, sequence as u32];
        let word = philox(seed, counter)[query / 8 % 2 * 2 + key / 8 % 2];
        let is_dropped = f64::from(word) < (f64::from(rate) * 2_f64.powi(32)).floor();
        if is_dropped { 0.0 } else { self.kept() }
    }
}

/// Philox 4x32-10.
fn philox(seed: u64, mut counter: [u32; 4]) -> [u32; 4] {
    let mut key = [seed as u32, (seed >> 32) as u32];
    for _ in 0..10 {
        let product = |number: u32, factor: u64| {
            let product = u64::from(number) * factor;
            [(product >> 32) as u32, product as u32]
        };
        let [a, b] = [
            product(counter[0], 0xd251_1f53),
            product(counter[2], 0xcd9e_8d57),
        ];
        counter = [
            b[0] ^ counter[1] ^ key[0],
            b[1],
            a[0] ^ counter[3] ^ key[1],
            a[1],
        ];
        key[0] = key[0].wrapping_add(0x9e37_79b9);
        key[1] = key[1].wrapping_add(0xbb67_ae85);
    }
    counter
}

/// A mask of blocks, a quarter of them hidden.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blocks {
    block: [usize; 2],
    /// Whether batches and heads have lists of their own.
    has_own: [bool; 2],
    seed: u64,
}

impl Blocks {
    fn any() -> impl Strategy<Value = Blocks> {
        let side = || prop_oneof![Just(128_usize), Just(256), Just(384)];
        let all = ([side(), side()], any::<[bool; 2]>(), 0..1000_u64);
        all.prop_map(|(block, has_own, seed)| Blocks {
            block,
            has_own,
            seed,
        })
    }

    fn kind(self, at: [usize; 4]) -> BlockKind {
        let number = at.iter().fold(0, |number, at| number * 97 + at);
        let bits = noise(1, self.seed + 7 * number as u64).next().unwrap();
        match bits % 4 {
            0 => BlockKind::Hidden,
            1 => BlockKind::Full,
            _ => BlockKind::Partial,
        }
    }

    /// Batch and head as the lists have them.
    fn list(self, [batch, head]: [usize; 2]) -> [usize; 2] {
        let [of_batches, of_heads] = self.has_own;
        [
            if of_batches { batch } else { 0 },
            if of_heads { head } else { 0 },
        ]
    }

    /// How a query of a batch and head sees a key.
    pub(super) fn sees(self, [batch, head, query, key]: [usize; 4]) -> BlockKind {
        let [batch, head] = self.list([batch, head]);
        self.kind([batch, head, query / self.block[0], key / self.block[1]])
    }

    pub(super) fn mask(
        self,
        device: &Device,
        [batches, heads]: [usize; 2],
        tokens: [usize; 2],
    ) -> BlockMask {
        let [batch, heads] = self.list([batches - 1, heads - 1]).map(|last| last + 1);
        let shape = BlockShape {
            batch,
            heads,
            tokens,
            block: self.block,
        };
        let kind = |batch, head, query, key| self.kind([batch, head, query, key]);
        BlockMask::from_fn(device, shape, kind).unwrap()
    }
}
