//! Cases of products by persistent kernels whose warpgroups take turns, or multiply tiles together, against f64.

use tilekit::prelude::*;

use super::case_product::{Lies, Product};
use super::epilogue::{Activation, Axis, Plain, Scales, Standard};
use super::epilogue_cases::standard;
use super::factor::{Operand, ResultOf};
use super::instances::INSTANCES;
use super::numbers::persistent;
use super::persistent_tile::PersistentTile;
use super::plan::Plan;

fn product<T: Operand, O: ResultOf<T, Addend = O>>(case: &mut Case) -> CaseResult {
    let product = Product::<T, O>::new(case, Lies::ALONG_K);
    let instance = INSTANCES[case.size("instance") - 1];
    let plan = Plan::able(instance, &product.need()).expect("tiles of a case take its operands");
    product.compute(case, (&plan, &[]), Plain, |_, _, sum| sum)
}

/// Rings that wrap within a tile and tiles of one step, one tile and several a program, an odd number of them, pairs whose second tile is outside, edges of both dimensions.
#[case(sizes(
    m = [300, 2100, 300, 1000, 171, 330, 1163, 177, 260, 260, 1, 1400, 293, 300, 180, 260, 400, 1700, 270, 2300],
    n = [264, 2056, 264, 520, 136, 1032, 1544, 136, 392, 392, 8, 1544, 264, 168, 264, 360, 264, 1800, 400, 1480],
    k = [328, 72, 520, 136, 712, 72, 136, 392, 328, 520, 8, 64, 392, 376, 360, 392, 392, 136, 712, 328],
    instance = [
        persistent(PersistentTile::of([2, 128, 6, 2])), persistent(PersistentTile::of([2, 128, 6, 2])),
        persistent(PersistentTile::of([2, 128, 6, 2]).by_pairs()),
        persistent(PersistentTile::of([2, 128, 6, 2]).exchanged()),
        persistent(PersistentTile::of([2, 160, 5, 1]).exchanged()),
        persistent(PersistentTile::of([2, 160, 5, 1]).exchanged().by_pairs()),
        persistent(PersistentTile::of([2, 168, 5, 1]).exchanged()),
        persistent(PersistentTile::of([2, 176, 5, 1]).exchanged()), persistent(PersistentTile::of([2, 192, 4, 2])),
        persistent(PersistentTile::of([2, 192, 4, 2]).by_pairs()),
        persistent(PersistentTile::of([2, 168, 5, 1]).exchanged()),
        persistent(PersistentTile::of([2, 128, 6, 2]).exchanged().by_pairs()),
        persistent(PersistentTile::of([2, 144, 5, 2]).exchanged()), persistent(PersistentTile::of([2, 160, 5, 1])),
        persistent(PersistentTile::of([2, 176, 5, 1]).exchanged().by_pairs()),
        persistent(PersistentTile::of([2, 176, 5, 1]).by_pairs()), persistent(PersistentTile::of([3, 112, 5, 2])),
        persistent(PersistentTile::of([3, 112, 5, 2]).by_pairs()),
        persistent(PersistentTile::of([3, 112, 5, 2]).exchanged()),
        persistent(PersistentTile::of([3, 112, 5, 2]).exchanged().by_pairs())
    ]
))]
fn product_in_turns_bf16(case: &mut Case) -> CaseResult {
    product::<bf16, bf16>(case)
}

#[case(sizes(m = [200], n = [264], k = [328], instance = [persistent(PersistentTile::of([2, 168, 5, 1]).exchanged())]))]
fn product_in_turns_f16(case: &mut Case) -> CaseResult {
    product::<f16, f16>(case)
}

#[case(sizes(m = [200], n = [264], k = [712], instance = [persistent(PersistentTile::of([2, 192, 4, 2]))]))]
fn product_in_turns_e4m3(case: &mut Case) -> CaseResult {
    product::<E4m3, bf16>(case)
}

/// All that an epilogue may add.
#[case(sizes(
    m = [200, 171, 400, 210, 300, 400, 300, 500, 400],
    n = [136, 200, 264, 400, 304, 300, 400, 400, 600],
    k = [136, 72, 136, 200, 72, 136, 72, 136, 72],
    instance = [
        persistent(PersistentTile::of([2, 192, 4, 2])), persistent(PersistentTile::of([2, 160, 5, 1])),
        persistent(PersistentTile::of([3, 112, 5, 2])),
        persistent(PersistentTile::of([3, 112, 5, 2]).by_clusters([1, 2])),
        persistent(PersistentTile::cooperative([2, 152, 4, 1]).by_clusters([1, 2])),
        persistent(PersistentTile::cooperative([1, 192, 5, 2]).exchanged().by_pairs()),
        persistent(PersistentTile::cooperative([2, 184, 3, 2]).by_clusters([1, 2])),
        persistent(PersistentTile::of_three([208, 4, 1]).by_pairs()),
        persistent(PersistentTile::of_three([160, 4, 3]).exchanged().by_clusters([1, 2]))
    ]
))]
fn product_persistent_finished(case: &mut Case) -> CaseResult {
    finished(case)
}

fn finished(case: &mut Case) -> CaseResult {
    let epilogue = Standard {
        scales: [Scales::Each, Scales::Each],
        bias: Some(Axis::Columns),
        has_source: true,
        activation: Activation::Gelu,
    };
    let product = Product::<bf16, bf16>::new(case, Lies::ALONG_K);
    let instance = INSTANCES[case.size("instance") - 1];
    let plan = Plan::able(instance, &product.need()).expect("tiles of a case take its operands");
    product.compute(case, (&plan, &[]), epilogue, move |p, at, sum| {
        standard(p, epilogue, at, sum)
    })
}

/// Tiles of one and several steps, rings that wrap, one tile and several a program, clusters along each axis whose last tiles are outside in part.
#[case(sizes(
    m = [700, 600, 1200, 700, 700, 600, 1000, 1500],
    n = [264, 712, 300, 600, 600, 1160, 1200, 900],
    k = [328, 328, 392, 456, 72, 136, 328, 136],
    instance = [
        persistent(PersistentTile::cooperative([2, 152, 4, 1]).by_clusters([1, 2])),
        persistent(PersistentTile::cooperative([2, 152, 4, 1]).exchanged().by_clusters([1, 2])),
        persistent(PersistentTile::cooperative([2, 136, 4, 1]).by_clusters([1, 2])),
        persistent(PersistentTile::cooperative([2, 184, 3, 2]).by_clusters([1, 2])),
        persistent(PersistentTile::cooperative([2, 184, 3, 2]).exchanged().by_clusters([1, 2])),
        persistent(PersistentTile::cooperative([2, 112, 4, 4]).exchanged().by_clusters([1, 4])),
        persistent(PersistentTile::of_three([208, 4, 1]).by_pairs()),
        persistent(PersistentTile::of_three([160, 4, 3]).exchanged().by_clusters([1, 2]))
    ]
))]
fn product_cooperative_bf16(case: &mut Case) -> CaseResult {
    product::<bf16, bf16>(case)
}

#[case(sizes(
    m = [600, 600],
    n = [330, 500],
    k = [712, 712],
    instance = [
        persistent(PersistentTile::cooperative([2, 112, 4, 4]).exchanged().by_clusters([1, 4])),
        persistent(PersistentTile::of_three([192, 4, 2]).exchanged().by_pairs())
    ]
))]
fn product_cooperative_e4m3(case: &mut Case) -> CaseResult {
    product::<E4m3, bf16>(case)
}

#[case(sizes(m = [600], n = [464], k = [720], instance = [persistent(PersistentTile::of_three([160, 4, 3]).exchanged().by_clusters([1, 2]))]))]
fn product_cooperative_i8(case: &mut Case) -> CaseResult {
    product::<i8, bf16>(case)
}

/// An odd and an even number of rows, one and several tiles of columns, less than a tile of them, rings that wrap, tiles of one step and several a program, pairs and clusters along columns, rows of C that are no whole units.
#[case(sizes(
    m = [300, 1001, 130, 1, 700, 600, 515, 301, 1000, 1],
    n = [264, 1032, 88, 8, 408, 1010, 696, 392, 696, 8],
    k = [328, 72, 136, 72, 392, 136, 200, 328, 136, 72],
    instance = [
        persistent(PersistentTile::of([2, 128, 6, 2]).of_every_other_row()),
        persistent(PersistentTile::of([2, 128, 6, 2]).by_pairs().of_every_other_row()),
        persistent(PersistentTile::of([2, 192, 4, 2]).of_every_other_row()),
        persistent(PersistentTile::cooperative([1, 256, 4, 2]).of_every_other_row()),
        persistent(PersistentTile::cooperative([1, 192, 5, 2]).of_every_other_row()),
        persistent(PersistentTile::of([2, 192, 4, 2]).by_pairs().of_every_other_row()),
        persistent(PersistentTile::of([2, 128, 6, 2]).of_every_other_row()),
        persistent(PersistentTile::of([2, 128, 6, 2]).exchanged().of_every_other_row()),
        persistent(PersistentTile::of([3, 112, 5, 2]).exchanged().by_clusters([2, 4]).of_every_other_row()),
        persistent(PersistentTile::of([2, 128, 6, 2]).exchanged().of_every_other_row())
    ]
))]
fn product_of_every_other_row_bf16(case: &mut Case) -> CaseResult {
    product::<bf16, bf16>(case)
}

#[case(sizes(m = [301], n = [408], k = [328], instance = [persistent(PersistentTile::of([2, 128, 6, 2]).of_every_other_row())]))]
fn product_of_every_other_row_e4m3(case: &mut Case) -> CaseResult {
    product::<E4m3, bf16>(case)
}

/// All that an epilogue may add.
#[case(sizes(
    m = [401, 300],
    n = [392, 264],
    k = [136, 200],
    instance = [
        persistent(PersistentTile::of([2, 128, 6, 2]).of_every_other_row()),
        persistent(PersistentTile::cooperative([1, 192, 5, 2]).of_every_other_row())
    ]
))]
fn product_of_every_other_row_finished(case: &mut Case) -> CaseResult {
    finished(case)
}
