//! How weights of few bits lie in memory: in blocks whose words a thread takes as they are.

use std::fmt;

/// Rows of weights that a warpgroup multiplies by one instruction.
pub const STRIP: usize = 64;

/// Weights along K of a block, which a stage of the ring holds.
pub const STEP: usize = 128;

/// Weights along K that a thread loads as 16 bytes.
pub(super) const CHUNK: usize = 64;

/// Weights of 4 bits in a word.
const IN_WORD: usize = 8;

/// Words of a block of [`STRIP`] by [`STEP`].
pub(super) const BLOCK_WORDS: usize = STRIP * STEP / IN_WORD;

/// Which word has the weight at `row` and `k` of rows of `depth`, and its lowest bit there.
pub(super) fn place_of([row, k]: [usize; 2], depth: usize) -> (usize, usize) {
    let (strip, block) = (row / STRIP, k / STEP);
    let (chunk, part) = (k % STEP / CHUNK, k % CHUNK / 16);
    let (warp, half, lane_row) = (row % STRIP / 16, row % 16 / 8, row % 8);
    let (along, pair, second) = (k % 16 / 8, k % 8 / 2, k % 2);
    let thread = 32 * warp + 4 * lane_row + pair;
    let of_block = (chunk * 128 + thread) * 4 + part;
    let word = (strip * depth.div_ceil(STEP) + block) * BLOCK_WORDS + of_block;
    (word, 4 * (half + 2 * along + 4 * second))
}

/// Which weights along K share a scale, and a zero if they have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WeightGroup {
    /// So many that follow each other: 32, 64 or 128.
    Of(usize),
    /// All of a row.
    Row,
}

impl WeightGroup {
    /// Groups of a row of `k` weights.
    pub fn count(self, k: usize) -> usize {
        match self {
            WeightGroup::Of(weights) => k.div_ceil(weights),
            WeightGroup::Row => 1,
        }
    }
}

/// How weights `[N, K]` of 4 bits are packed. The weight that is meant is `scale · (q - zero)`, q from 0 to 15.
///
/// Rows are cut into strips of 64, and those into blocks of 128 along K; what is missing of the last ones has scales of 0. Blocks of a strip follow each other, and strips. A block has
/// 2 chunks of 64 along K, a chunk a word of 32 bits for each of 4 · 128 places: the 4 words of thread 0, which are of 16 along K each, those of thread 1, and so on. Thread
/// `32 w + 4 g + c` has rows `16 w + g` and 8 more, and of 16 along K those at `2 c`, `2 c + 1`, and 8 more: what the tensor cores take of it as operand A. The weight of row `8 i`, place
/// `8 j + l` beyond its first is bits `4 (i + 2 j + 4 l)` and on: so two neighbours along K are 16 bits apart, in the halves of a register.
///
/// Scales are those of a strip and group after the other, groups of the last block included that K does not reach: 64 numbers, that of row `16 w + 8 i + g` at `16 w + 2 g + i`. With
/// zeros, 64 numbers follow that are subtracted, zeros with what the decoding adds: [`Unquantised::BASE`](super::Unquantised::BASE).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WeightFormat {
    /// Weights that share a scale.
    pub group: WeightGroup,
    /// Groups have a zero; else that is 8.
    pub has_zeros: bool,
}

impl WeightFormat {
    /// Blocks along K, and strips.
    pub(super) fn blocks([n, k]: [usize; 2]) -> [usize; 2] {
        [k.div_ceil(STEP), n.div_ceil(STRIP)]
    }

    /// Words of packed weights `[n, k]`.
    pub fn words(self, [n, k]: [usize; 2]) -> usize {
        n.div_ceil(STRIP) * k.div_ceil(STEP) * BLOCK_WORDS
    }

    /// Numbers of their packed scales and zeros.
    pub fn scales(self, [n, k]: [usize; 2]) -> usize {
        n.div_ceil(STRIP) * self.groups(k) * self.kinds() * STRIP
    }

    /// Scales of a row as they are packed.
    pub(super) fn groups(self, k: usize) -> usize {
        match self.group {
            WeightGroup::Of(_) => k.div_ceil(STEP) * self.in_step(),
            WeightGroup::Row => 1,
        }
    }

    /// Groups of a block, none where one reaches beyond it.
    pub(super) fn in_step(self) -> usize {
        match self.group {
            WeightGroup::Of(weights) => STEP / weights,
            WeightGroup::Row => 0,
        }
    }

    /// Weights along K of a chunk that share a scale.
    pub(super) fn width(self) -> usize {
        match self.group {
            WeightGroup::Of(weights) => weights.min(CHUNK),
            WeightGroup::Row => CHUNK,
        }
    }

    /// Scales, and zeros.
    pub(super) fn kinds(self) -> usize {
        1 + usize::from(self.has_zeros)
    }

    /// Which number is the scale of `row` and `group` of rows of `depth`; its zero is [`STRIP`] further.
    pub(super) fn scale_place(self, [row, group]: [usize; 2], depth: usize) -> usize {
        let strip = row / STRIP * self.groups(depth) + group;
        let (warp, half, lane_row) = (row % STRIP / 16, row % 16 / 8, row % 8);
        strip * self.kinds() * STRIP + 16 * warp + 2 * lane_row + half
    }
}

impl fmt::Display for WeightFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "int4")?;
        match self.group {
            WeightGroup::Of(weights) => write!(f, "_of_{weights}")?,
            WeightGroup::Row => write!(f, "_of_rows")?,
        }
        if self.has_zeros {
            write!(f, "_zeros")
        } else {
            Ok(())
        }
    }
}
