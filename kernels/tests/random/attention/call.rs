//! Arguments of attention, drawn at random.

use proptest::prelude::*;
use tilekit_kernels::attention::BlockKind;

use super::beside::Beside;
use super::mask::{Mask, Scores, scale};
use super::modified;
use crate::calls::{extent, is_on_gpu};
use crate::numbers::noise;
use crate::tensor::{MemoryLayout, rows};

/// A call.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) batches: usize,
    pub(super) kv_heads: usize,
    /// Query heads for each head of keys and values.
    pub(super) group: usize,
    /// Tokens of the longest sequence, of queries and of keys.
    pub(super) tokens: [usize; 2],
    pub(super) depths: [usize; 2],
    pub(super) mask: Mask,
    pub(super) scores: Scores,
    pub(super) scale: Option<f32>,
    pub(super) has_sinks: bool,
    pub(super) is_ragged: bool,
    pub(super) deterministic: bool,
    pub(super) beside: Beside,
    /// Of what is as Q, as K, as V and as the output.
    pub(super) places: [MemoryLayout<4>; 4],
}

impl Call {
    pub(super) fn any() -> impl Strategy<Value = Call> {
        let [most, products] = if is_on_gpu() {
            [4000, 1 << 25]
        } else {
            [300, 1 << 22]
        };
        let depths = prop_oneof![
            Just([64; 2]),
            Just([96; 2]),
            Just([128; 2]),
            Just([192, 128]),
            Just([256; 2])
        ];
        let group = prop_oneof![3 => Just(1_usize), 1 => Just(8_usize), 1 => 2..9_usize];
        let tokens = prop_oneof![
            one_or_more(most).prop_map(|tokens| [tokens; 2]),
            [one_or_more(most), one_or_more(most)],
        ];
        let sizes = (1..4_usize, 1..4_usize, group, tokens, depths);
        let rare = || prop_oneof![3 => Just(false), 1 => Just(true)];
        let flags = (rare(), rare(), any::<bool>(), Beside::any());
        let places = [rows(8), rows(8), rows(8), rows(8)];
        let all = (
            sizes,
            Mask::any(),
            Scores::any_or_modified(),
            scale(),
            flags,
            places,
        );
        let call = all.prop_map(|(sizes, mask, scores, scale, flags, places)| {
            let (batches, kv_heads, group, tokens, depths) = sizes;
            let (has_sinks, is_ragged, deterministic, beside) = flags;
            // Beside a mask of blocks scores are changed by modifiers alone.
            let has_blocks = beside.blocks().is_some();
            let is_ragged = is_ragged && !has_blocks;
            let scores = match scores {
                Scores::Biased(_) => scores,
                _ if has_blocks => Scores::Plain,
                _ => scores,
            };
            let chunk = mask.chunk.filter(|_| !has_blocks);
            // Of several lengths, and by the positions of slopes, the last query has the last key's.
            let counts_from_last = is_ragged || scores.has_positions() && tokens[0] != tokens[1];
            let from_first = mask.from_first && !counts_from_last;
            let mask = Mask {
                chunk,
                from_first,
                ..mask
            };
            Call {
                batches,
                kv_heads,
                group,
                tokens,
                depths,
                mask,
                scores,
                scale,
                has_sinks,
                is_ragged,
                deterministic,
                beside,
                places,
            }
        });
        call.prop_filter("too long on the host", move |call| {
            let [queries, keys] = call.tokens;
            call.batches * call.heads() * queries * keys * call.depths[0] <= products
        })
    }

    /// Whether a query of a sequence and head, at a place among the keys, sees a key.
    pub(super) fn sees(&self, at: [usize; 4], place: i64) -> bool {
        let key = at[3] as i64;
        let by_modifier =
            !matches!(self.scores, Scores::Biased(true)) || modified::sees(place, key);
        let by_mask = || self.mask.sees(place, key) && by_modifier;
        match self.beside.blocks().map(|blocks| blocks.sees(at)) {
            Some(BlockKind::Hidden) => false,
            Some(BlockKind::Full) => true,
            Some(BlockKind::Partial) | None => by_mask(),
        }
    }

    /// The factor of scores.
    pub(super) fn scale(&self) -> f64 {
        let of_depth = || 1.0 / (self.depths[0] as f64).sqrt();
        self.scale.map_or_else(of_depth, f64::from)
    }

    pub(super) fn heads(&self) -> usize {
        self.kv_heads * self.group
    }

    /// Where each sequence of queries (0) or keys (1) begins, and where the last one ends.
    pub(super) fn offsets(&self, side: usize) -> Vec<i32> {
        let longest = self.tokens[side];
        let shorter =
            noise(self.batches, side as u64 + 9).map(|bits| bits as usize % (longest + 1));
        // The first one is the longest.
        let lengths = shorter.enumerate().map(|(at, short)| {
            if at == 0 || !self.is_ragged {
                longest
            } else {
                short
            }
        });
        let ends = lengths.scan(0, |end, length| {
            *end += length as i32;
            Some(*end)
        });
        std::iter::once(0).chain(ends).collect()
    }

    pub(super) fn longest(&self, side: usize) -> usize {
        self.tokens[side]
    }

    /// The shape of Q (0), K (1), V (2) or the output (3).
    pub(super) fn shape(&self, at: usize) -> [usize; 4] {
        let side = usize::from(at == 1 || at == 2);
        let heads = [self.heads(), self.kv_heads][side];
        let depth = self.depths[usize::from(at >= 2)];
        if self.is_ragged {
            let tokens = self.offsets(side)[self.batches];
            [1, heads, tokens as usize, depth]
        } else {
            [self.batches, heads, self.tokens[side], depth]
        }
    }
}

/// Only a sequence of several may be empty.
fn one_or_more(most: usize) -> impl Strategy<Value = usize> {
    extent(most).prop_map(|tokens| tokens.max(1))
}
