//! Arguments of attention, drawn at random.

use proptest::prelude::*;

use crate::calls::{extent, is_on_gpu};
use crate::numbers::noise;
use crate::tensor::MemoryLayout;

/// Which keys a query sees.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mask {
    pub(super) causal: bool,
    pub(super) window: [Option<usize>; 2],
    pub(super) chunk: Option<usize>,
    pub(super) from_first: bool,
}

impl Mask {
    fn any() -> impl Strategy<Value = Mask> {
        let side = || prop_oneof![2 => Just(None), 1 => (0..200_usize).prop_map(Some)];
        let chunk = prop_oneof![4 => Just(None), 1 => (1..200_usize).prop_map(Some)];
        (any::<bool>(), [side(), side()], chunk, any::<bool>()).prop_map(
            |(causal, window, chunk, from_first)| Mask {
                causal,
                // Causality is a window of no keys behind.
                window: if causal { [window[0], None] } else { window },
                chunk,
                // Chunks count from the first key.
                from_first: from_first && chunk.is_none(),
            },
        )
    }

    /// Whether a query at a position sees a key.
    pub(super) fn sees(&self, place: i64, key: i64) -> bool {
        let [left, right] = self.window;
        let right = if self.causal { Some(0) } else { right };
        let same_chunk = |chunk: usize| place.max(0) / chunk as i64 == key / chunk as i64;
        left.is_none_or(|left| key >= place - left as i64)
            && right.is_none_or(|right| key <= place + right as i64)
            && self.chunk.is_none_or(same_chunk)
    }
}

/// The change of scores.
#[derive(Clone, Copy, Debug)]
pub(super) enum Scores {
    Plain,
    Softcap(f32),
    Alibi,
}

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
    /// Of what is as Q, as K, as V and as the output.
    pub(super) places: [MemoryLayout<4>; 4],
}

impl Call {
    pub(super) fn any() -> impl Strategy<Value = Call> {
        let [most, products] = if is_on_gpu() {
            [4000, 1 << 28]
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
        let scores = prop_oneof![
            2 => Just(Scores::Plain),
            1 => (1.0_f32..30.0).prop_map(Scores::Softcap),
            1 => Just(Scores::Alibi),
        ];
        let scale = prop_oneof![2 => Just(None), 1 => (0.01_f32..0.8).prop_map(Some)];
        let sizes = (1..4_usize, 1..4_usize, group, tokens, depths);
        let rare = || prop_oneof![3 => Just(false), 1 => Just(true)];
        let flags = (rare(), rare(), any::<bool>());
        let places = [place(), place(), place(), place()];
        let all = (sizes, Mask::any(), scores, scale, flags, places);
        let call = all.prop_map(|(sizes, mask, scores, scale, flags, places)| {
            let (batches, kv_heads, group, tokens, depths) = sizes;
            let (has_sinks, is_ragged, deterministic) = flags;
            // Of several lengths, and by the positions of slopes, the last query has the last key's.
            let counts_from_last =
                is_ragged || matches!(scores, Scores::Alibi) && tokens[0] != tokens[1];
            let from_first = mask.from_first && !counts_from_last;
            let mask = Mask { from_first, ..mask };
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
                places,
            }
        });
        call.prop_filter("too long on the host", move |call| {
            let [queries, keys] = call.tokens;
            call.batches * call.heads() * queries * keys * call.depths[0] <= products
        })
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

/// Rows are contiguous; everything else is a multiple of 16 bytes.
fn place() -> impl Strategy<Value = MemoryLayout<4>> {
    let order = prop_oneof![Just([0, 1, 2, 3]), Just([0, 2, 1, 3])];
    let gap = prop_oneof![3 => Just(0_usize), 1 => (1..5_usize).prop_map(|eights| 8 * eights)];
    let offset = prop_oneof![3 => Just(0_usize), 1 => Just(8_usize), 1 => Just(64_usize)];
    (order, gap, offset).prop_map(|(order, gap, offset)| MemoryLayout {
        order,
        step: 1,
        gap,
        offset,
    })
}
