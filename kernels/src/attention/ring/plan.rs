//! From the sizes of a call to what the kernel is launched with, as data.

use super::send::{LEAST_SEGMENT, MOST_SEGMENTS, PIECE_ROWS};
use crate::attention::plan::{Sizes, Tile, section_of};
use crate::parallel::mail::MOST_RANKS;
use crate::parallel::plan::Shared;

/// What a call computes. `sizes` are those of a rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct Need {
    pub(super) sizes: Sizes,
    pub(super) ranks: usize,
    /// Chunks of contiguous tokens that a rank has, as the kernel takes them.
    pub(super) chunks: usize,
    pub(super) is_causal: bool,
    pub(super) element_bytes: usize,
}

/// What a launch passes for [`Seen`](super::shards::Seen).
pub(super) type SeenArguments = (i32, [i32; 2], [i32; 2], [i32; 2], [i32; 2]);

/// The numbers that a launch passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Numbers {
    /// Tokens of a chunk.
    pub(super) tokens: usize,
    pub(super) section: usize,
    pub(super) segment: usize,
    pub(super) together: usize,
    /// Nanoseconds for which a warp that sends rests behind each piece.
    pub(super) pause: i32,
    /// Tiles of all heads.
    pub(super) tiles: usize,
}

impl Need {
    /// Heads of K and V of all batches.
    pub(super) fn lines(&self) -> usize {
        self.sizes.batch * self.sizes.kv_heads
    }

    /// The extents of K, and of V, that other ranks send. A tensor map has no extent of 0.
    pub(super) fn received(&self, side: usize) -> [usize; 4] {
        let tokens = self.sizes.keys / self.chunks;
        let of_others = (self.ranks - 1).max(1) * tokens;
        [
            self.lines(),
            self.chunks,
            of_others,
            self.sizes.depths[side],
        ]
    }

    /// Memory that all ranks access, of each of them.
    pub(super) fn shared(&self, segment: usize) -> Shared {
        let elements = [0, 1].map(|side| self.received(side).iter().product::<usize>());
        let segments = (self.sizes.keys / self.chunks).div_ceil(segment);
        Shared {
            elements: elements[0] + elements[1],
            flags: MOST_RANKS + (self.ranks - 1) * self.lines() * self.chunks * segments,
        }
    }

    /// The numbers for a tile on `ctas` CTAs of each rank.
    pub(super) fn numbers(&self, tile: Tile, ctas: usize) -> Numbers {
        let Sizes {
            batch,
            heads,
            kv_heads,
            keys,
            depths,
            ..
        } = self.sizes;
        let tokens = keys / self.chunks;
        let row_bytes = (depths[0] + depths[1]) * self.element_bytes;
        let section = section_of(batch * heads, self.ranks * keys, row_bytes, self.is_causal);
        let of_head = self.chunks * tokens.div_ceil(tile.rows);
        // Heads that the first tiles of all CTAs belong to.
        let begun = ctas.div_ceil(of_head).max(section);
        let together = begun.div_ceil(heads / kv_heads).min(self.lines());
        Numbers {
            tokens,
            section,
            segment: tokens
                .div_ceil(MOST_SEGMENTS)
                .next_multiple_of(PIECE_ROWS)
                .max(LEAST_SEGMENT),
            together,
            pause: self.pause(ctas),
            tiles: of_head * batch * heads,
        }
    }

    /// The keys that tiles of a rank see, as a launch passes them for [`Seen`](super::shards::Seen).
    pub(super) fn seen(&self, tile: Tile, rank: usize) -> SeenArguments {
        let tokens = self.sizes.keys / self.chunks;
        let all = self.ranks - 1;
        let before = if self.is_causal { rank } else { all };
        let of = |chunks: usize| {
            let keys = chunks * tokens;
            [(keys / tile.keys) as i32, (keys % tile.keys) as i32]
        };
        let [own, all, before, behind] = [1, all, before, all - rank].map(of);
        let of_chunk = tokens.div_ceil(tile.keys) as i32;
        (of_chunk, own, all, before, behind)
    }

    /// Tiles of a chunk of queries, of a head and of all heads.
    pub(super) fn tiles(&self, tile: Tile) -> [i32; 3] {
        let of_chunk = (self.sizes.queries / self.chunks).div_ceil(tile.rows);
        let of_head = self.chunks * of_chunk;
        [
            of_chunk,
            of_head,
            of_head * self.sizes.batch * self.sizes.heads,
        ]
        .map(|tiles| tiles as i32)
    }

    /// A link that is full holds up the multiprocessors beside it, so that what is sent is spread over a part of the time: less than that until the first tiles need it.
    fn pause(&self, ctas: usize) -> i32 {
        /// Of the time of the launch, the part over which it is spread.
        const SENDING: f64 = 0.6;
        /// Of the time until the first tiles need it.
        const OF_FIRST: f64 = 0.8;
        /// Operations of a multiprocessor in a nanosecond.
        const SPEED: f64 = 4900.0;
        let Sizes {
            batch,
            heads,
            keys,
            depths,
            ..
        } = self.sizes;
        let seen = if self.is_causal { 0.5 } else { 1.0 };
        let pairs = (batch * heads * keys) as f64 * (self.ranks * keys) as f64 * seen;
        let time = 2.0 * pairs * (depths[0] + depths[1]) as f64 / (SPEED * ctas as f64);
        let others = self.ranks - 1;
        let pieces = 2 * others * self.lines() * keys.div_ceil(PIECE_ROWS);
        if pieces == 0 {
            return 0;
        }
        let share = SENDING.min(OF_FIRST * others as f64 / self.ranks as f64);
        (time * share / pieces.div_ceil(ctas) as f64) as i32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TILE: Tile = Tile {
        rows: 128,
        keys: 128,
        pack: 1,
    };

    fn need(tokens: usize, ranks: usize, chunks: usize, is_causal: bool) -> Need {
        Need {
            sizes: Sizes {
                batch: 1,
                heads: 32,
                kv_heads: 8,
                queries: tokens,
                keys: tokens,
                depths: [128, 128],
            },
            ranks,
            chunks,
            is_causal,
            element_bytes: 2,
        }
    }

    #[test]
    fn a_head_is_sent_by_about_all_ctas_and_those_that_begin_first_without_rests() {
        let numbers = need(16384, 2, 1, false).numbers(TILE, 132);
        assert_eq!((numbers.segment, numbers.together), (128, 1));
        let numbers = need(2048, 2, 1, false).numbers(TILE, 132);
        assert_eq!((numbers.segment, numbers.together), (128, 3));
        // A section of 4 heads of Q at a time, of 1 of K and V.
        let numbers = need(8192, 2, 2, true).numbers(TILE, 132);
        assert_eq!((numbers.tokens, numbers.section), (4096, 4));
        assert_eq!((numbers.segment, numbers.together), (128, 1));
        assert_eq!(need(40, 2, 2, true).numbers(TILE, 4).tiles, 64);
    }

    #[test]
    fn what_is_sent_takes_a_part_of_the_time() {
        // 4 · 32 · 16384 · 32768 · 128 operations are 13.6 ms on 132 multiprocessors; 8 heads of 2 · 16384 rows are 63 pieces for each.
        let numbers = need(16384, 2, 1, false).numbers(TILE, 132);
        assert!(
            (80_000..90_000).contains(&numbers.pause),
            "{}",
            numbers.pause
        );
        assert_eq!(need(16384, 1, 1, false).numbers(TILE, 132).pause, 0);
    }

    #[test]
    fn ranks_have_room_for_all_others() {
        let shared = need(96, 3, 2, true).shared(128);
        assert_eq!(shared.elements, 2 * 8 * 2 * 2 * 48 * 128);
        assert_eq!(shared.flags, MOST_RANKS + 8 * 2 * 2);
        assert_eq!(need(96, 1, 1, false).received(0), [8, 1, 96, 128]);
    }
}
