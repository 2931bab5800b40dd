//! How weights of few bits lie in memory: in blocks whose words a thread takes as they are.

use std::fmt;

/// Rows of weights that a warpgroup multiplies by one instruction.
pub const STRIP: usize = 64;

/// Weights along K of a block, which a stage of the ring holds.
pub const STEP: usize = 128;

/// Words that a thread loads at a time, 16 bytes.
pub(super) const LOADED: usize = 4;

/// What the codes of weights stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WeightValues {
    /// 4 bits: `q - 8`, q from 0 to 15.
    Int4,
    /// 4 bits: `q - zero`, each group with a zero from 0 to 15.
    Int4Zeros,
    /// 4 bits of e2m1: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives. With groups of 32 and powers of two as scales this is MXFP4.
    E2m1,
    /// 8 bits of e4m3; the codes of NaN stand for 480.
    E4m3,
}

impl WeightValues {
    /// Of a code.
    pub const fn bits(self) -> usize {
        match self {
            WeightValues::Int4 | WeightValues::Int4Zeros | WeightValues::E2m1 => 4,
            WeightValues::E4m3 => 8,
        }
    }

    /// The code that stands for 0 in a group with this zero.
    pub(super) const fn nothing(self, zero: u8) -> u8 {
        match self {
            WeightValues::Int4 => 8,
            WeightValues::Int4Zeros => zero,
            WeightValues::E2m1 | WeightValues::E4m3 => 0,
        }
    }

    /// Whether groups have a zero.
    pub const fn has_zeros(self) -> bool {
        matches!(self, WeightValues::Int4Zeros)
    }

    /// Words of a block of [`STRIP`] by [`STEP`].
    pub(super) const fn block_words(self) -> usize {
        STRIP * STEP * self.bits() / 32
    }

    /// Weights along K that a thread loads as 16 bytes.
    pub(super) const fn chunk(self) -> usize {
        256 / self.bits()
    }

    /// Words of a thread for 16 along K.
    pub(super) const fn part_words(self) -> usize {
        self.bits() / 4
    }
}

/// Which word has the weight at `row` and `k` of rows of `depth`, and its lowest bit there.
pub(super) fn place_of(values: WeightValues, [row, k]: [usize; 2], depth: usize) -> (usize, usize) {
    let (strip, block) = (row / STRIP, k / STEP);
    let (chunk, part) = (k % STEP / values.chunk(), k % values.chunk() / 16);
    let (warp, half, lane_row) = (row % STRIP / 16, row % 16 / 8, row % 8);
    let (along, pair, second) = (k % 16 / 8, k % 8 / 2, k % 2);
    let thread = 32 * warp + 4 * lane_row + pair;
    let (in_part, in_word) = (along % values.part_words(), along / values.part_words());
    let of_block = (chunk * 128 + thread) * LOADED + part * values.part_words() + in_part;
    let word = (strip * depth.div_ceil(STEP) + block) * values.block_words() + of_block;
    (word, values.bits() * (half + 2 * in_word) + 16 * second)
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
    /// Groups of a row of `k` weights; none where a group has none.
    pub fn count(self, k: usize) -> usize {
        match self {
            WeightGroup::Of(0) => 0,
            WeightGroup::Of(weights) => k.div_ceil(weights),
            WeightGroup::Row => 1,
        }
    }
}

/// How weights `[N, K]` are packed. The weight that is meant is its scale times what its code stands for.
///
/// Rows are cut into strips of 64, and those into blocks of 128 along K; rows and groups that are missing of the last ones have scales of 0, and codes that are missing stand for 0. Blocks of a strip follow each other, and strips. A block has
/// chunks along K, of 64 weights of 4 bits or 32 of 8, a chunk 4 words of 32 bits for each of 128 threads: those of thread 0, those of thread 1, and so on. Thread
/// `32 w + 4 g + c` has rows `16 w + g` and 8 more, and of 16 along K those at `2 c`, `2 c + 1`, and 8 more: what the tensor cores take of it as operand A. A word of 4-bit weights is of 16
/// along K; that of row `8 i`, place `8 j + l` beyond its first is bits `4 (i + 2 j) + 16 l` and on. One of 8-bit weights is of one `j`, and they are bits `8 i + 16 l` and on. So two
/// neighbours along K are 16 bits apart, in the halves of a register.
///
/// Scales are those of a strip and group after the other, groups of the last block included that K does not reach: 64 numbers, that of row `16 w + 8 i + g` at `16 w + 2 g + i`. With
/// zeros, 64 numbers follow that are subtracted, zeros with what the decoding adds: [`Unquantised::BASE`](super::Unquantised::BASE).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WeightFormat {
    /// What codes stand for.
    pub values: WeightValues,
    /// Weights that share a scale.
    pub group: WeightGroup,
}

impl WeightFormat {
    /// Blocks along K, and strips.
    pub(super) fn blocks([n, k]: [usize; 2]) -> [usize; 2] {
        [k.div_ceil(STEP), n.div_ceil(STRIP)]
    }

    /// Words of packed weights `[n, k]`; `usize::MAX` where there are more.
    pub fn words(self, [n, k]: [usize; 2]) -> usize {
        let blocks = n.div_ceil(STRIP).saturating_mul(k.div_ceil(STEP));
        blocks.saturating_mul(self.values.block_words())
    }

    /// Numbers of their packed scales and zeros; `usize::MAX` where there are more.
    pub fn scales(self, [n, k]: [usize; 2]) -> usize {
        let groups = n.div_ceil(STRIP).saturating_mul(self.groups(k));
        groups.saturating_mul(self.kinds() * STRIP)
    }

    /// Scales of a row as they are packed.
    pub(super) fn groups(self, k: usize) -> usize {
        match self.group {
            WeightGroup::Of(_) => k.div_ceil(STEP).saturating_mul(self.in_step()),
            WeightGroup::Row => 1,
        }
    }

    /// Groups of a block, none where one reaches beyond it.
    pub(super) fn in_step(self) -> usize {
        match self.group {
            WeightGroup::Of(weights) => STEP.checked_div(weights).unwrap_or(0),
            WeightGroup::Row => 0,
        }
    }

    /// Weights along K of a chunk that share a scale.
    pub(super) fn width(self) -> usize {
        match self.group {
            WeightGroup::Of(weights) => weights.min(self.values.chunk()),
            WeightGroup::Row => self.values.chunk(),
        }
    }

    /// Whether the weights from `k` on, of a step, have other scales than those before.
    pub(super) fn begins_group(self, k: usize) -> bool {
        match self.group {
            WeightGroup::Of(weights) => k.is_multiple_of(weights),
            WeightGroup::Row => k == 0,
        }
    }

    /// Scales, and zeros.
    pub(super) fn kinds(self) -> usize {
        1 + usize::from(self.values.has_zeros())
    }

    /// Which number is the scale of `row` and `group` of rows of `depth`; its zero is [`STRIP`] further.
    pub(super) fn scale_place(self, [row, group]: [usize; 2], depth: usize) -> usize {
        let strip = row / STRIP * self.groups(depth) + group;
        let (warp, half, lane_row) = (row % STRIP / 16, row % 16 / 8, row % 8);
        strip * self.kinds() * STRIP + 16 * warp + 2 * lane_row + half
    }
}

impl fmt::Display for WeightValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WeightValues::Int4 => "int4",
            WeightValues::Int4Zeros => "int4_zeros",
            WeightValues::E2m1 => "e2m1",
            WeightValues::E4m3 => "e4m3",
        })
    }
}

impl fmt::Display for WeightFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group {
            WeightGroup::Of(weights) => write!(f, "{}_of_{weights}", self.values),
            WeightGroup::Row => write!(f, "{}_of_rows", self.values),
        }
    }
}
