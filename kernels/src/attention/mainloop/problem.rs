//! What attention forward asks of its kinds: dense heads, masked spans of sequences, a cache.

use tilekit::prelude::*;

use super::softmax::Softmax;

/// Rows of a warpgroup: M of one `wgmma`.
pub(in crate::attention) const ROWS: usize = 64;

/// The key blocks of a tile, which are computed in descending order.
#[derive(Clone, Copy)]
pub(in crate::attention) struct Blocks {
    /// One past the last block.
    pub(in crate::attention) top: Scalar<i32>,
    /// How many there are, at least 1.
    pub(in crate::attention) count: Scalar<i32>,
}

/// The steps in which a warpgroup's rows need a mask. Step 0, the first block, is always masked.
#[derive(Clone, Copy)]
pub(in crate::attention) struct Edges {
    /// Steps from 1 up to here are masked; `None` where only step 0 is.
    pub(in crate::attention) high: Option<Scalar<i32>>,
    /// Steps from here on are masked; `None` where none is.
    pub(in crate::attention) low: Option<Scalar<i32>>,
    /// Whether every step is masked.
    pub(in crate::attention) all: bool,
}

impl Edges {
    /// Every step is masked.
    pub(in crate::attention) fn every() -> Edges {
        Edges {
            high: None,
            low: None,
            all: true,
        }
    }

    /// Those of rows of which the first sees the keys before `high`, and the last the keys from `low` on; blocks have `keys`.
    #[device]
    pub(in crate::attention) fn of(
        blocks: Blocks,
        [low, high]: [Scalar<i32>; 2],
        keys: usize,
    ) -> Edges {
        let high = minimum(maximum(blocks.top - high / keys, 1), blocks.count);
        let low = minimum(maximum(blocks.top - cdiv(low, keys), high), blocks.count);
        Edges {
            high: Some(high),
            low: Some(low),
            all: false,
        }
    }
}

/// The buffers that a producer loads into.
pub(in crate::attention) type Loads<T> = Pipeline<Smem<T>>;

/// A kind of attention: its tiles, the keys that their rows see, and the copies between memory and the CTA.
pub(in crate::attention) trait Problem<T: Element>: Copy {
    /// A tile.
    type Tile: Copy;
    /// The rows of a warpgroup in a tile.
    type Rows: Copy;
    /// The element type of the output.
    type Output: Element;
    /// The element type of K and V in memory: that of the products, or another, which [`convert`](Problem::convert) turns into it.
    type Loaded: Element;

    /// How many tiles there are.
    fn count(self) -> Scalar<i32>;
    /// The tile with this index.
    fn tile(self, number: Scalar<i32>) -> Self::Tile;
    /// The key blocks that the rows of a tile see.
    fn blocks(self, tile: Self::Tile) -> Blocks;
    /// The key block of step `number`.
    #[device]
    fn block(self, _tile: Self::Tile, blocks: Blocks, number: Scalar<i32>) -> Scalar<i32> {
        blocks.top - 1 - number
    }
    /// The first key of the block of step `number`; blocks have `keys`.
    #[device]
    fn first_key(
        self,
        tile: Self::Tile,
        blocks: Blocks,
        number: Scalar<i32>,
        keys: usize,
    ) -> Scalar<i32> {
        self.block(tile, blocks, number) * keys
    }
    /// Whether a tile has rows at all; `None` where every tile has.
    fn has_rows(self, tile: Self::Tile) -> Option<Scalar<bool>>;
    /// The rows of warpgroup `group`, in this layout.
    fn rows(self, tile: Self::Tile, group: usize, layout: Slice) -> Self::Rows;
    /// The rows at step `number`, which is masked.
    fn at(self, rows: Self::Rows, _number: Scalar<i32>) -> Self::Rows {
        rows
    }
    /// Whether rows see keys `[1, keys]`.
    fn sees(self, rows: Self::Rows, key: Tensor<i32>) -> Tensor<bool>;
    /// The scores from which P is computed, given Q · K.
    fn scores(self, rows: Self::Rows, key: Tensor<i32>, scores: Tensor<f32>) -> Tensor<f32>;
    /// The weights of a block of keys from `first` on that are kept; their factor is [`store`](Problem::store)'s.
    fn kept(self, _rows: Self::Rows, _first: Scalar<i32>, weights: Tensor<f32>) -> Tensor<f32> {
        weights
    }
    /// How many of the first steps have no key that a row of warpgroup `group` sees; `None` where each has one. The next one is masked, so [`edges`](Problem::edges) end behind it.
    fn unseen(self, _rows: Self::Rows, _blocks: Blocks, _group: usize) -> Option<Scalar<i32>> {
        None
    }
    /// How many keys of the first block, from its first one on, rows of warpgroup `group` may see, of so many; fewer than all only if each step has a key that a row sees.
    fn first_keys(self, _group: usize, keys: usize) -> usize {
        keys
    }
    /// The steps that need a mask.
    fn edges(self, rows: Self::Rows, blocks: Blocks) -> Edges;
    /// The factor of scores in an exponent of 2.
    fn log2_scale(self, rows: Self::Rows) -> Scalar<f32>;
    /// The maximum of a row that has seen no key yet.
    fn least(self) -> f32;
    /// Readies a warpgroup's queries, which have arrived, and may change its rows' factors.
    fn ready(self, rows: Self::Rows, _queries: Smem<T>) -> Self::Rows {
        rows
    }
    /// Issues the TMA load of a warpgroup's queries, as fill `count`.
    fn load_queries(self, tile: Self::Tile, group: usize, to: Loads<T>, count: Scalar<i32>);
    /// Issues the TMA loads of the blocks of K and V, the last block first, as fills from `base` on. V of a block follows K of the next
    /// one; `load_queries` is called behind the first block of K.
    fn load_blocks(
        self,
        tile: Self::Tile,
        blocks: Blocks,
        to: [Loads<Self::Loaded>; 2],
        base: Scalar<i32>,
        load_queries: impl FnOnce(),
    );
    /// What [`convert`](Problem::convert) needs of memory for block `number` of K (side 0) or V (side 1).
    fn factors(self, _tile: Self::Tile, _side: usize, _number: Scalar<i32>) -> Vec<Tensor<f32>> {
        Vec::new()
    }
    /// Converts a block of K or V, by a partition of four warps.
    fn convert(self, _factors: &[Tensor<f32>], _from: Smem<Self::Loaded>, _to: Smem<T>) {}
    /// Whether the kernel may begin beside the launch in front of it, and the next one beside this one.
    const OVERLAPS: bool = false;
    /// Whether [`clear`](Problem::clear) does anything.
    const CLEARS: bool = false;
    /// Clears the rows of the last block of V, `number`, past the last key, which a P of 0 multiplies. Only one warpgroup reads V then.
    fn clear(self, _rows: Self::Rows, _number: Scalar<i32>, _values: Smem<T>) {}
    /// Whether a warp of each CTA calls [`send`](Problem::send), beside those that load and multiply.
    const SENDS: bool = false;
    /// Sends what other devices need.
    fn send(self) {}
    /// Bytes of shared memory that the problem takes besides, for rows of so many elements of Q and K, and of V.
    fn bytes_beside(_columns: [usize; 2]) -> usize {
        0
    }
    /// Stores the output, staged in `place` in shared memory, and LSE. `sums` is the accumulator of P · V.
    fn store(
        self,
        rows: Self::Rows,
        sums: Tensor<f32>,
        softmax: Softmax,
        place: Smem<Self::Output>,
    );
}

/// Issues the TMA load of the block at `at`, as fill `count` of its pipeline.
#[device]
pub(in crate::attention) fn load<T: Element, const RANK: usize>(
    to: Loads<T>,
    count: Scalar<i32>,
    map: TensorMap<T>,
    at: [Scalar<i32>; RANK],
) {
    let stage = to.producer_acquire(to.of_fill(count));
    map.load(at, stage.tiles.reshape(map.block()), stage.full);
    to.commit(stage);
}

/// [`Problem::load_blocks`] of a problem whose blocks are found by their numbers: `load_keys` and `load_values` issue the loads of a
/// block, as a fill and by its number.
#[device]
pub(in crate::attention) fn load_numbered(
    blocks: Blocks,
    base: Scalar<i32>,
    load_queries: impl FnOnce(),
    load_keys: impl Fn(Scalar<i32>, Scalar<i32>),
    load_values: impl Fn(Scalar<i32>, Scalar<i32>),
) {
    // K and V share one counter of fills, since a producer has few registers.
    let end = base + blocks.count;
    let top = base + blocks.top - 1;
    load_keys(base, blocks.top - 1);
    load_queries();
    for fill in range(base + 1, end) {
        load_keys(fill, top - fill);
        load_values(fill - 1, top - fill + 1);
    }
    load_values(end - 1, top - end + 1);
}
