//! Loads of operands that CTAs of a cluster share along both of its dimensions: each loads its share of the rows and multicasts it.

use tilekit::prelude::*;

use super::factor::{Operand, SWIZZLED_ROWS, depth};
use super::form::inside;

/// Row and column of this CTA in its cluster, of dimensions with more than one. Ranks of a row are neighbours.
#[track_caller]
pub(super) fn ranks([along_rows, along_columns]: [usize; 2]) -> [Option<Scalar<i32>>; 2] {
    match [along_rows > 1, along_columns > 1] {
        [false, false] => [None, None],
        [true, false] => [Some(cluster_rank()), None],
        [false, true] => [None, Some(cluster_rank())],
        [true, true] => {
            let rank = cluster_rank();
            [Some(rank / along_columns), Some(rank % along_columns)]
        }
    }
}

/// Row and column of this CTA's tile, of the cluster in this row and column of clusters.
#[track_caller]
pub(super) fn tile_of_cluster(
    [row, column]: [Scalar<i32>; 2],
    along @ [along_rows, along_columns]: [usize; 2],
) -> [Scalar<i32>; 2] {
    let [of_row, of_column] = ranks(along);
    let row = of_row.map_or(row, |rank| row * along_rows + rank);
    let column = of_column.map_or(column, |rank| column * along_columns + rank);
    [row, column]
}

/// Whether CTAs of a cluster, so many along rows and along columns, load as many rows of each operand of a tile, in whole atoms of the swizzle.
pub(super) fn is_divided(shape: [usize; 2], [along_rows, along_columns]: [usize; 2]) -> bool {
    let mut extents = shape.into_iter().zip([along_columns, along_rows]);
    extents.all(|(extent, ctas)| extent.is_multiple_of(ctas * SWIZZLED_ROWS))
}

/// Which part of an operand's rows a CTA loads, and to whom: of `ctas` CTAs with the same rows that of `rank`, to all of `mask`.
#[derive(Clone, Copy)]
pub(super) struct Share {
    pub(super) ctas: usize,
    pub(super) rank: Scalar<i32>,
    pub(super) mask: Scalar<i32>,
}

impl Share {
    /// Of X, which CTAs beside each other have in common, and of Y, which those one above the other have: none where a CTA has it to itself.
    #[track_caller]
    pub(super) fn of_operands(
        along @ [along_rows, along_columns]: [usize; 2],
    ) -> [Option<Share>; 2] {
        let [of_row, of_column] = ranks(along);
        let of_x = of_column.map(|rank| {
            let beside = scalar((1 << along_columns) - 1);
            Share {
                ctas: along_columns,
                rank,
                mask: of_row.map_or(beside, |row| beside << (row * along_columns)),
            }
        });
        let of_y = of_row.map(|rank| {
            let below = (0..along_rows).fold(0, |all, row| all | 1 << (row * along_columns));
            let below = scalar(below);
            Share {
                ctas: along_rows,
                rank,
                mask: of_column.map_or(below, |column| below << column),
            }
        });
        [of_x, of_y]
    }
}

/// An operand of a cluster with so many tiles along rows and along columns: X, which CTAs beside each other have in common, or Y, which those one above the other have.
#[derive(Clone, Copy)]
pub(crate) struct Shared {
    along: [usize; 2],
    operand: usize,
}

/// A CTA has it to itself.
impl Default for Shared {
    fn default() -> Self {
        Shared {
            along: [1; 2],
            operand: 0,
        }
    }
}

impl Shared {
    /// Of X and of Y.
    pub(crate) fn of_operands(along: [usize; 2]) -> [Shared; 2] {
        [0, 1].map(|operand| Shared { along, operand })
    }

    /// CTAs of the cluster that have rows of their own of it.
    pub(crate) fn others(self) -> usize {
        self.along[self.operand]
    }

    /// Tiles of the cluster along rows and along columns.
    pub(crate) fn along(self) -> [usize; 2] {
        self.along
    }

    /// What this CTA loads of it, if others load some of it too.
    #[track_caller]
    pub(super) fn share(self) -> Option<Share> {
        let [of_x, of_y] = Share::of_operands(self.along);
        if self.operand == 0 { of_x } else { of_y }
    }
}

/// Loads the rows of a tile from `first` on, so many `apart`, in boxes, or this CTA's share of them for all that have them. Where a box would lie behind the `end` of the matrix another is loaded, which others wait for.
#[track_caller]
pub(super) fn load_boxes<T: Operand>(
    (map, tile): (TensorMap<T>, Smem<T>),
    (share, apart): (Option<Share>, usize),
    [first, step]: [Scalar<i32>; 2],
    end: Scalar<i32>,
    full: Mbarrier,
) {
    let (along_k, rows) = (step * depth::<T>(), map.block()[0] as usize);
    let count = tile.shape()[0] as usize / rows;
    let boxes = tile.reinterpret::<T>([count, rows, depth::<T>()], map.layout());
    let Some(Share { ctas, rank, mask }) = share else {
        for number in 0..count {
            let row = inside(first + number * (apart * rows), rows, end);
            map.load([row, along_k], boxes.index(number), full);
        }
        return;
    };
    for number in 0..count / ctas {
        let number = rank * (count / ctas) + number;
        let row = inside(first + number * (apart * rows), rows, end);
        let to_all = map.copy().multicast(mask);
        to_all.load([row, along_k], boxes.index(number), full);
    }
}
