//! Products whose results begin between sectors, as rows of 8200 elements of 16 bits do: every other row begins at a sector of 32 bytes, and the others 16 bytes behind one. What a TMA store writes of a sector in part costs memory a sector, at both
//! ends of each row of a box (`bench/results/products/memory.md`). So tiles are of even rows or of odd ones, and those of odd rows begin 16 bytes in front of the others: boxes of both begin at sectors.
//!
//! The first tile of odd rows begins at column 0, since a TMA store at a negative coordinate is an illegal instruction. It is as wide as the others, and a map of its own ends its stores where the next tile begins. An epilogue that reads C as it was would read there what the next tile stores: such calls have tiles of all rows.

use tilekit::prelude::*;
use tilekit::target::SM_90A;

use super::alternating::multiply_in_turns;
use super::cooperative::multiply_cooperatively;
use super::epilogue::{DataOf, Epilogue};
use super::factor::{Operand, ResultOf, UNIT_BYTES, depth};
use super::form::{Form, swizzle_of_results};
use super::need::Need;
use super::persistent::Persistent;
use super::persistent_tile::PersistentTile;

/// Bytes of a sector.
const SECTOR: usize = 2 * UNIT_BYTES;

/// Rows of a map that a copy of every other row passes from one to the next.
pub(super) const STEPS: [u32; 2] = [2, 1];

/// `D[M, N] = X[M, K] · Y[N, K]ᵀ` by tiles of even and of odd rows of `C`, which is D, or in a turned tile its transpose: the product with X and Y exchanged. Maps of C, and of the operand that has its rows, have element strides of 2 along the rows; `first` has those of C, and as many columns
/// as a tile less 16 bytes, or all of fewer. Every other row of C begins at a sector: its address and twice its pitch are multiples of 32 bytes, the pitch is none.
#[kernel(warps = 4, cluster = form.tile.ctas(), min_ctas_per_sm = 1)]
pub fn every_other_row<T: Operand, O: ResultOf<T>, E: Epilogue<O>>(
    #[fixed] form: Form<PersistentTile, E>,
    #[block([form.tile.boxes()[0], depth::<T>()], Nvmma::B128)] x: TensorMap<T>,
    #[block([form.tile.boxes()[1], depth::<T>()], Nvmma::B128)] y: TensorMap<T>,
    #[block(form.tile.stored(), swizzle_of_results::<O>(form.tile.stored()[1]))] c: TensorMap<O>,
    #[block(form.tile.stored(), swizzle_of_results::<O>(form.tile.stored()[1]))] first: TensorMap<
        O,
    >,
    m: i32,
    n: i32,
    k: i32,
    data: DataOf<O, E>,
) {
    launch_dependents();
    let product = Persistent::new(form, (x, y, c), [m, n, k], data).with_first(first);
    match form.tile.groups {
        1 => multiply_in_turns(product),
        _ => multiply_cooperatively(product),
    }
}

/// Columns of C, of `n`, that the first tile of odd rows stores: the next one begins behind them.
pub(super) fn first_columns<O>(tile: PersistentTile, n: usize) -> usize {
    n.min(tile.columns_of_result() - UNIT_BYTES / size_of::<O>())
}

/// Whether every other row of C begins at a sector, and may have tiles of its own.
pub(super) fn begins_between_sectors(need: &Need) -> bool {
    let of_row = need.size[1] * need.element_bytes[1];
    !need.all_rows && is_between_sectors(of_row.next_multiple_of(UNIT_BYTES))
}

/// Whether rows of so many bytes begin at sectors and between them in turn.
const fn is_between_sectors(pitch: usize) -> bool {
    pitch % SECTOR == UNIT_BYTES
}

/// Whether rows of so many bytes from an address on begin so, as those of a matrix without gaps do.
pub(super) const fn begin_between_sectors(address: u64, pitch: usize) -> bool {
    is_between_sectors(pitch) && address.is_multiple_of(SECTOR as u64)
}

impl PersistentTile {
    /// Whether the kernel takes tiles of every other row of what is needed: all boxes of the tile begin at sectors then, and boxes of every other row reach over as many rows as a copy may.
    pub(super) fn takes_every_other_row(self, need: &Need) -> bool {
        let is_whole = (self.columns_of_result() * need.element_bytes[1]).is_multiple_of(SECTOR);
        let loaded = self.boxes()[usize::from(self.turned)];
        let reach = 2 * loaded.max(self.stored()[0]);
        begins_between_sectors(need) && is_whole && reach <= SM_90A.tensor_map.box_elements as usize
    }

    /// Columns of C of a tile.
    fn columns_of_result(self) -> usize {
        self.shape()[usize::from(!self.turned)]
    }

    /// Rows of X and of Y from one that a tile has to the next.
    pub(super) fn loads_apart(self) -> [usize; 2] {
        let apart = self.rows_apart();
        if self.turned { [1, apart] } else { [apart, 1] }
    }

    /// The steps of maps of X and Y.
    pub(super) fn steps(self) -> [[u32; 2]; 2] {
        self.loads_apart().map(|apart| [apart as u32, 1])
    }

    /// Whether a tile that begins at this row and column of D is the first of odd rows of C.
    #[device]
    pub(super) fn is_first_of_odd(self, [row, column]: [Scalar<i32>; 2]) -> Scalar<bool> {
        let [row, column] = if self.turned {
            [column, row]
        } else {
            [row, column]
        };
        (row % 2 == 1) & (column == 0)
    }
}
