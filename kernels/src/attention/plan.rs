//! From the sizes of a call to what a kernel is launched with, as data.

/// Sizes of a call. Of sequences of several lengths, `queries` and `keys` are those of the longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    pub(super) batch: usize,
    /// Heads of Q and of the output.
    pub(super) heads: usize,
    /// Heads of K and V.
    pub(super) kv_heads: usize,
    pub(super) queries: usize,
    pub(super) keys: usize,
    /// Elements of a row of Q and K, and of one of V and the output.
    pub(super) depths: [usize; 2],
}

/// Which keys a query sees, from so many before its place to so many behind it, and only those of its own chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mask {
    pub(super) left: Option<usize>,
    pub(super) right: Option<usize>,
    pub(super) chunk: Option<usize>,
    /// Whether the first query's place is that of the first key, and not the last one's that of the last.
    pub(super) from_first: bool,
}

impl Mask {
    /// Whether a query sees every key.
    pub(super) fn is_full(self) -> bool {
        (self.left, self.right, self.chunk) == (None, None, None)
    }

    /// Whether a query sees every key up to a place.
    pub(super) fn is_causal(self) -> bool {
        self.right.is_some() && (self.left, self.chunk) == (None, None)
    }
}

/// The tile of an instance: its rows, the keys of a block, and the query heads that stand side by side in a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tile {
    pub(super) rows: usize,
    pub(super) keys: usize,
    pub(super) pack: usize,
}

/// The numbers that a launch of `forward_masked` passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Numbers {
    pub(super) batch: i32,
    pub(super) heads: i32,
    pub(super) query_heads: i32,
    pub(super) queries: i32,
    pub(super) keys: i32,
    pub(super) left: i32,
    pub(super) right: i32,
    pub(super) chunk: i32,
    pub(super) section: i32,
    /// Tiles of all heads.
    pub(super) tiles: usize,
}

/// Further than any key is, while sums of two such numbers are still an i32.
pub(super) const FAR: i32 = 1 << 29;

/// Bytes of K and V of the heads of a section: what stays in the 50 MiB of L2 beside everything else.
pub(super) const SECTION_BYTES: usize = 32 << 20;

/// The most bytes of K and V of a section, and the most heads, where a row of K and one of V have so many bytes. A block of long rows is computed for as long as L2 has to wait for memory; what costs more is
/// that the tiles of a section end one after the other, and few long ones last. But with more heads than this too few CTAs read the same K and V at a time.
pub(super) const fn limits_of_section(row_bytes: usize) -> [usize; 2] {
    if row_bytes >= 1024 {
        [4 * SECTION_BYTES, 16]
    } else {
        [SECTION_BYTES, i32::MAX as usize]
    }
}

/// Heads of a section, which have `keys` rows of K and of V, of `row_bytes` together. Without a mask all tiles take the same time, and those of one head follow each other.
pub(super) fn section_of(heads: usize, keys: usize, row_bytes: usize, is_masked: bool) -> usize {
    let [bytes, most] = limits_of_section(row_bytes);
    if is_masked {
        (bytes / (keys * row_bytes).max(1))
            .min(most)
            .clamp(1, heads.max(1))
    } else {
        1
    }
}

/// How far a query sees, moved by `shift`.
pub(super) fn reach(reach: Option<usize>, shift: i32) -> i32 {
    reach.map_or(FAR, |reach| {
        (reach.min(FAR as usize) as i32 + shift).min(FAR)
    })
}

/// Into how many parts the `blocks` of keys of each tile are split, so that `tiles` of them take the least time on `programs` that run at a time.
///
/// Times are in units of a block's while all programs load: a tile costs `OF_TILE` more, fewer programs load faster until each has
/// reached its own limit, and the merge begins when all are done and reads what each split gave. A split has at least 2 blocks.
pub(super) fn splits_of(tiles: usize, programs: usize, blocks: usize, most: usize) -> usize {
    /// Before the first block of a tile has come, and after its last one.
    const OF_TILE: f64 = 0.8;
    /// A block's time where few programs load.
    const ALONE: f64 = 0.55;
    const OF_MERGE: f64 = 1.3;
    const OF_MERGED_SPLIT: f64 = 0.01;
    let time = |splits: usize| {
        let (work, share) = (tiles * splits, blocks.div_ceil(splits) as f64);
        let whole = work.saturating_sub(1) / programs.max(1);
        let last = (work - whole * programs) as f64 / programs.max(1) as f64;
        let rounds = whole as f64 * (share + OF_TILE) + share * last.max(ALONE) + OF_TILE;
        let merge = if splits > 1 { OF_MERGE } else { 0.0 };
        rounds + merge + OF_MERGED_SPLIT * (splits - 1) as f64
    };
    let most = (blocks / 2).clamp(1, most);
    let by_time = |a: &usize, b: &usize| time(*a).total_cmp(&time(*b));
    (1..=most).min_by(by_time).unwrap_or(1)
}

impl Numbers {
    /// Those of a call with a tile; elements have `element_bytes`.
    pub(super) fn new(sizes: Sizes, mask: Mask, tile: Tile, element_bytes: usize) -> Numbers {
        let Sizes {
            batch,
            heads,
            kv_heads,
            queries,
            keys,
            depths,
        } = sizes;
        let packs = heads / tile.pack;
        let shift = if mask.from_first {
            keys as i32 - queries as i32
        } else {
            0
        };
        let row_bytes = (depths[0] + depths[1]) * element_bytes;
        Numbers {
            batch: batch as i32,
            heads: packs as i32,
            query_heads: (heads / kv_heads / tile.pack) as i32,
            queries: queries as i32,
            keys: keys as i32,
            left: reach(mask.left, shift),
            right: reach(mask.right, -shift),
            chunk: mask
                .chunk
                .map_or(FAR, |chunk| chunk.min(FAR as usize) as i32),
            section: section_of(packs * batch, keys, row_bytes, !mask.is_full()) as i32,
            tiles: (queries * tile.pack).div_ceil(tile.rows) * packs * batch,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: Sizes = Sizes {
        batch: 2,
        heads: 16,
        kv_heads: 2,
        queries: 100,
        keys: 300,
        depths: [128, 128],
    };
    const TILE: Tile = Tile {
        rows: 128,
        keys: 128,
        pack: 8,
    };

    #[test]
    fn packed_heads_are_counted_as_one() {
        let numbers = Numbers::new(SIZES, Mask::default(), TILE, 2);
        assert_eq!((numbers.heads, numbers.query_heads), (2, 1));
        assert_eq!(numbers.tiles, 7 * 2 * 2);
        assert_eq!(
            (numbers.left, numbers.right, numbers.chunk),
            (FAR, FAR, FAR)
        );
        let single = Tile { pack: 1, ..TILE };
        let numbers = Numbers::new(SIZES, Mask::default(), single, 2);
        assert_eq!((numbers.heads, numbers.query_heads), (16, 8));
        assert_eq!(numbers.tiles, 16 * 2);
    }

    #[test]
    fn places_count_from_the_first_key_or_from_the_last() {
        let mask = Mask {
            left: Some(10),
            right: Some(0),
            ..Mask::default()
        };
        let numbers = Numbers::new(SIZES, mask, TILE, 2);
        assert_eq!((numbers.left, numbers.right), (10, 0));
        let mask = Mask {
            from_first: true,
            ..mask
        };
        let numbers = Numbers::new(SIZES, mask, TILE, 2);
        assert_eq!((numbers.left, numbers.right), (210, -200));
    }

    #[test]
    fn splits_are_those_that_take_the_least_time() {
        // Of 132 CTAs at a time.
        let splits = |tiles, blocks| splits_of(tiles, 132, blocks, 256);
        assert_eq!(splits(8, 1024), 16, "128 of 132 work");
        assert_eq!(splits(8, 16), 8, "2 blocks a split");
        assert_eq!(splits(8, 1), 1);
        assert_eq!(splits(132, 1024), 1);
        assert_eq!(splits(128, 64), 1, "the 4 that idle cost less than a merge");
        assert_eq!(splits(1024, 1024), 1, "8 rounds, the last one of 100");
        assert_eq!(splits(1, 8192), 82);
    }

    #[test]
    fn sections_fit_l2_if_tiles_differ() {
        let long = Sizes {
            keys: 16384,
            ..SIZES
        };
        let causal = Mask {
            right: Some(0),
            ..Mask::default()
        };
        let section = |mask| Numbers::new(long, mask, Tile { pack: 1, ..TILE }, 2).section;
        assert_eq!(section(causal), 4);
        assert_eq!(section(Mask::default()), 1);
        assert_eq!(section_of(16, 16384, 512, true), 4);
        assert_eq!(section_of(16, 16384, 1024, true), 8);
        assert_eq!(section_of(16, 16384, 1024, false), 1);
        // K and V of 128 heads do not fit L2, and each CTA would have a head of its own.
        assert_eq!(section_of(128, 1000, 1024, true), 16);
        assert_eq!(section_of(128, 1000, 512, true), 65);
        assert_eq!(section_of(128, 0, 512, true), 128);
    }
}
