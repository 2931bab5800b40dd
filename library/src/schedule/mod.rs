//! Tile schedulers: which program computes which tile of a result, and when. Tiles that run concurrently or successively should share
//! rows of A and columns of B in L2.
//!
//! A scheduler is a value that all partitions use alike. [`GroupedRows`] and [`Listed`] number the tiles, and a program takes every
//! `num_programs`-th ([`TileScheduler::of_program`]). The others go from one tile to the next: [`DynamicTiles`] draws them from a
//! counter, [`OrderedTiles`] so that a tile may wait for those before it, [`RaggedTiles`] finds them in groups of different lengths, and [`StreamK`] distributes the steps along K.

mod dynamic;
mod grid;
mod grouped_rows;
mod listed;
mod ordered;
mod ragged;
mod stream_k;

use gluon_lang::lang::prelude::*;

pub use dynamic::{DynamicTile, DynamicTiles};
pub use grid::Resident;
pub use grouped_rows::GroupedRows;
pub use listed::{Listed, hilbert};
pub use ordered::{OrderedTile, OrderedTiles};
pub use ragged::{RaggedTile, RaggedTiles};
pub use stream_k::{StreamK, StreamKWork};

/// Numbers for the tiles of a result. A program takes every `num_programs`-th, so that neighbours in number run at the same
/// time, a wave of them.
///
/// ```
/// use tilekit::prelude::*;
///
/// /// `number[row, column]` is the number of a tile.
/// #[kernel(warps = 1)]
/// fn numbers(number: Ptr<i32>, rows: i32, columns: i32) {
///     let tiles = GroupedRows::new([rows, columns], [1, 1], 2);
///     for tile in tiles.of_program() {
///         let [row, column] = tiles.place(tile);
///         number.at(row * columns + column).store(tile);
///     }
/// }
///
/// # fn main() -> tilekit::Result<()> {
/// let device = Device::emulator();
/// let number = Buffer::<i32>::zeros(&device, 3 * 3)?;
/// let kernel = numbers.compile(&Compiler::default())?.load(&device)?;
/// kernel.launch(&Stream::new(&device)?, grid(2u32), (&number, 3, 3))?;
/// assert_eq!(number.to_vec()?, [0, 2, 4, 1, 3, 5, 8, 7, 6]);
/// # Ok(())
/// # }
/// ```
pub trait TileScheduler: Copy {
    /// How many tiles there are.
    #[track_caller]
    fn count(self) -> Scalar<i32>;

    /// The row and column of tiles of number `tile`.
    #[track_caller]
    fn place(self, tile: Scalar<i32>) -> [Scalar<i32>; 2];

    /// The numbers of this program's tiles, in a grid of one dimension.
    #[track_caller]
    fn of_program(self) -> Range<i32> {
        self.of_cluster(1)
    }

    /// Those of this program's cluster of `ctas`.
    #[track_caller]
    fn of_cluster(self, ctas: usize) -> Range<i32> {
        range(program_id(0) / ctas, self.count()).step(num_programs(0) / ctas)
    }
}
