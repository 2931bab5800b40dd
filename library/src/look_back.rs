//! Prefix sums over tiles in one pass.

use gluon_lang::lang::prelude::*;

/// The word of a tile holds its sum alone, or the sum of all tiles up to it.
const HAS_SUM: u32 = 1;
const HAS_PREFIX: u32 = 2;

/// Tiles that are looked at in a step, at least: as many as arrive while one is read.
const LEAST_WINDOW: usize = 128;

/// Tiles of other programs that a persistent one looks at in a step, at least: with a program to each of 132 SMs, those between two of its own.
const LEAST_ADVANCE: usize = 256;

/// Prefix sums over tiles in one pass, by decoupled look-back (Merrill and Garland, 2016). Each program publishes the sum of its tile, adds
/// up the sums of the tiles before until it finds one whose prefix is known, and publishes its own prefix.
///
/// ```text
/// let look_back = LookBack::new(words, ticket, WARPS);
/// let tile = look_back.tile();
/// let sums = x.at(tile * BLOCK + lane).load().cumsum(0);
/// let before = look_back.exclusive(tile, total);
/// out.at(..).store(sums + before);
/// ```
///
/// `words` has a u64 for each tile and `ticket` one i32; all are 0 before each launch, which overwrites them. A program takes its
/// tile by the ticket, so that it waits for tiles of running programs only: a grid of any size makes progress. One program makes one tile, and all
/// threads of it call each function.
///
/// Persistent programs take several tiles each, by [`OrderedTiles`](crate::schedule::OrderedTiles) instead of the ticket. One of their partitions publishes
/// sums as tiles arrive ([`publish_sum`](LookBack::publish_sum)) and waits for no other program. Another one adds the sums of the tiles between the
/// program's last one and this one to the prefix of that ([`advance`](LookBack::advance)). No prefix is published: a program knows its own.
///
/// State and sum of a tile are one word, accessed atomically, so that relaxed atomics suffice; other accesses are not ordered. Sums are i32,
/// u32 or f32. Those of f32 depend in their last bits on which prefixes were known, or which tiles a program took, so they differ from run to run.
#[derive(Clone, Copy, Aggregate)]
pub struct LookBack {
    words: Ptr<u64>,
    ticket: Ptr<i32>,
    warps: usize,
}

/// The sum of all tiles before one tile, which a persistent program carries from tile to tile.
#[derive(Clone, Copy, Aggregate, Debug)]
pub struct SumBefore<T: Numeric> {
    tile: Scalar<i32>,
    sum: Scalar<T>,
}

impl<T: Numeric> SumBefore<T> {
    /// The sum.
    pub fn sum(self) -> Scalar<T> {
        self.sum
    }
}

impl LookBack {
    /// For a kernel, or partition, of `warps` warps.
    pub fn new(words: Ptr<u64>, ticket: Ptr<i32>, warps: usize) -> Self {
        LookBack {
            words,
            ticket,
            warps,
        }
    }

    /// The tile of this program, from 0.
    #[track_caller]
    pub fn tile(self) -> Scalar<i32> {
        self.ticket.at(0).relaxed().atomic_add(1).old()
    }

    /// The sum of all tiles before `tile`, of which `sum` is the sum.
    #[device]
    pub fn exclusive<T: Numeric>(self, tile: Scalar<i32>, sum: Scalar<T>) -> Scalar<T> {
        self.publish_sum(tile, sum);
        let before = self.before(tile);
        self.publish(tile, HAS_PREFIX, before + sum);
        before
    }

    /// Publishes the sum of `tile` alone. Programs of later tiles wait for it.
    #[device]
    pub fn publish_sum<T: Numeric>(self, tile: Scalar<i32>, sum: Scalar<T>) {
        self.publish(tile, HAS_SUM, sum);
    }

    /// No tile is before the first one.
    #[track_caller]
    pub fn start<T: Numeric>(self) -> SumBefore<T> {
        SumBefore {
            tile: scalar(0),
            sum: scalar(0).cast::<T>(),
        }
    }

    /// The sum of all tiles before `tile`, from that before an earlier tile: adds the sums of the tiles from that one on. Waits until they are published.
    #[device]
    pub fn advance<T: Numeric>(self, known: SumBefore<T>, tile: Scalar<i32>) -> SumBefore<T> {
        holds_a_sum::<T>();
        let window = LEAST_ADVANCE.max(32 * self.warps);
        let lane = arange(0..window, Blocked::new([1], [32], [self.warps], [0]));
        let mut sum = known.sum;
        let mut first = known.tile;
        while first < tile {
            let at = first + lane;
            let is_between = at < tile;
            let words = self.words.at(at).mask(is_between).relaxed();
            let words = words.atomic_poll(|word| (word >> 32) != 0).seen(); // mutate: equivalent(bar.warp.sync): relaxed loads order nothing, and each lane uses what it has seen itself
            let sums = words.cast::<u32>().bitcast::<T>();
            sum += select(is_between, sums, scalar(0).cast::<T>())
                .sum(0)
                .scalar();
            first += window as i32;
        }
        SumBefore { tile, sum }
    }

    /// The sum of all tiles before `tile`. Waits until their sums are published.
    #[device]
    fn before<T: Numeric>(self, tile: Scalar<i32>) -> Scalar<T> {
        holds_a_sum::<T>();
        // Each thread reads the words of other tiles: as many as run at a time take few steps.
        let window = LEAST_WINDOW.max(32 * self.warps);
        let lane = arange(0..window, Blocked::new([1], [32], [self.warps], [0]));
        let mut before = scalar(0).cast::<T>();
        let mut last = tile - 1;
        let mut is_found = tile == 0;
        while !is_found {
            let at = last - lane;
            let is_tile = at >= 0;
            let words = self.words.at(at).mask(is_tile).relaxed();
            let words = words.atomic_poll(|word| (word >> 32) != 0).seen(); // mutate: equivalent(bar.warp.sync): relaxed loads order nothing, and each lane uses what it has seen itself
            // The nearest tile with a prefix, which has the sums of all before.
            let is_prefix = is_tile & ((words >> 32) == u64::from(HAS_PREFIX));
            let nearest = select(is_prefix, lane, window as i32).min(0).scalar();
            let sums = words.cast::<u32>().bitcast::<T>();
            before += select(is_tile & (lane <= nearest), sums, scalar(0).cast::<T>())
                .sum(0)
                .scalar();
            // Or the window reaches the first tile: its sum is its prefix.
            is_found = (nearest < window as i32) | (last < window as i32);
            last -= window as i32;
        }
        before
    }

    #[device]
    fn publish<T: Numeric>(self, tile: Scalar<i32>, state: u32, sum: Scalar<T>) {
        let bits = sum.bitcast::<u32>().cast::<u64>();
        let word = bits | (u64::from(state) << 32);
        self.words.at(tile).relaxed().atomic_store(word);
    }
}

#[track_caller]
fn holds_a_sum<T: Numeric>() {
    static_assert!(
        T::DTYPE.bits() == 32,
        "the sum of a tile shares a word with its state: expected 32 bits"
    );
}
