//! Orders of tiles are ordinary Rust: two of them by what they give each tile, and a product that follows a Hilbert curve.

use std::sync::LazyLock;

use tilekit::prelude::*;

use crate::products::matmul_fused_epilogue::{BK, BM, BN, IN_TURNS, Part, ROWS, multiply_then};
use crate::products::matmul_warp_specialized::matmul_warp_specialized;
use crate::products::product::{Product, product};

/// `numbers[row, column]` is the number of the tile there.
#[device]
fn write_numbers(tiles: impl TileScheduler, numbers: Ptr<i32>, columns: Scalar<i32>) {
    for tile in tiles.of_program() {
        let [row, column] = tiles.place(tile);
        numbers.at(row * columns + column).store(tile);
    }
}

/// The numbers of [`GroupedRows`] with groups of `GROUP` rows.
#[kernel(warps = 1, instances(<1>, <4>))]
pub fn tiles_grouped<const GROUP: usize>(numbers: Ptr<i32>, rows: i32, columns: i32) {
    let tiles = GroupedRows::new([rows, columns], [1, 1], GROUP);
    write_numbers(tiles, numbers, columns);
}

/// The numbers of [`Listed`] for `count` tiles in `list`.
#[kernel(warps = 1)]
pub fn tiles_listed(#[readonly] list: Ptr<i32>, count: i32, numbers: Ptr<i32>, columns: i32) {
    write_numbers(Listed::new(list, count), numbers, columns);
}

/// `C[M, N] = A[M, K] · B[N, K]ᵀ` in the order of a list of `count` tiles.
#[kernel(warps = 4, min_ctas_per_sm = 1, instances(<bf16>))]
pub fn matmul_listed<T: Float + WgmmaOperand<T, f32>>(
    #[block([BM, BK], Nvmma::B128)] a: TensorMap<T>,
    #[block([BN, BK], Nvmma::B128)] b: TensorMap<T>,
    #[block([ROWS, BN], Nvmma::B128)] c: TensorMap<T>,
    #[readonly] list: Ptr<i32>,
    count: i32,
    k: i32,
) {
    let tiles = Listed::new(list, count);
    let nothing = |part: Part<T>, _| part.fetched.arrive();
    multiply_then([a, b, c], k, tiles, IN_TURNS, nothing, |sums, _| {
        sums.cast::<T>()
    });
}

/// An order as the kernels read it.
fn list_of(case: &mut Case, [rows, columns]: [usize; 2]) -> Input<i32> {
    let order = LazyLock::new(move || hilbert(rows, columns));
    case.input("list", [rows * columns], move |at| order[at])
}

/// The number of the tile at a place: groups of `group` rows, each column by column, every other one backwards.
fn number_grouped([rows, columns]: [usize; 2], group: usize, [row, column]: [usize; 2]) -> i32 {
    let first = row / group * group;
    let is_forward = (first / group).is_multiple_of(2);
    let column = if is_forward {
        column
    } else {
        columns - 1 - column
    };
    let rows = group.min(rows - first);
    (first * columns + column * rows + row - first) as i32
}

fn grouped<const GROUP: usize>(case: &mut Case) -> CaseResult {
    let [rows, columns] = ["rows", "columns"].map(|name| case.size(name));
    let numbers = case.output::<i32>("numbers", [rows, columns]);
    let arguments = (&numbers, rows as i32, columns as i32);
    case.launch(tiles_grouped::<GROUP>, 3, arguments)?;
    let number = |place| number_grouped([rows, columns], GROUP, place);
    case.expect(&numbers, number, Exactly)
}

#[case(sizes(rows = [9, 1, 3], columns = [5, 7, 1]))]
fn tiles_grouped_case(case: &mut Case) -> CaseResult {
    grouped::<4>(case)
}

#[case(sizes(rows = [6, 1], columns = [4, 1]))]
fn tiles_row_by_row(case: &mut Case) -> CaseResult {
    grouped::<1>(case)
}

#[case(sizes(rows = [8, 5, 1], columns = [8, 3, 6]))]
fn tiles_along_a_hilbert_curve(case: &mut Case) -> CaseResult {
    let [rows, columns] = ["rows", "columns"].map(|name| case.size(name));
    let list = list_of(case, [rows, columns]);
    let numbers = case.output::<i32>("numbers", [rows, columns]);
    let arguments = (&list, (rows * columns) as i32, &numbers, columns as i32);
    case.launch(tiles_listed, 3, arguments)?;
    let number = |[row, column]: [usize; 2]| {
        let at = list
            .host()
            .iter()
            .position(|place| *place == (row << 16 | column) as i32);
        at.map_or(-1, |at| at as i32)
    };
    case.expect(&numbers, number, Exactly)
}

/// Beside it the product in the order of groups.
#[case(sizes(m = [256, 200, 128, 1], n = [512, 264, 256, 76_800], k = [256, 72, 712, 8]))]
fn matmul_hilbert_bf16(case: &mut Case) -> CaseResult {
    let tiles = [case.size("m").div_ceil(BM), case.size("n").div_ceil(BN)];
    let count = tiles[0] * tiles[1];
    let list = list_of(case, tiles);
    product::<bf16>(case, |case, p: &Product<bf16>| {
        let programs = count.min(128);
        let same = Close {
            relative: 1e-2,
            absolute: 1e-2 * f64::from(p.k()).sqrt(),
        };
        let grouped = matmul_warp_specialized::<bf16, 256, 64, 4>;
        case.rival("grouped", same, grouped, programs, p.maps())?;
        let (a, b, c) = (p.a_map(), p.b_map(), p.c_map());
        let arguments = (a, b, c, &list, count as i32, p.k());
        case.launch(matmul_listed::<bf16>, programs, arguments)
    })
}
