//! Cases of products whose warpgroups take turns, against f64.

use tilekit::prelude::*;

use super::alternating_tile::AlternatingTile;
use super::case_product::{Lies, Product};
use super::epilogue::{Activation, Axis, Plain, Scales, Standard};
use super::epilogue_cases::standard;
use super::factor::{Operand, ResultOf};
use super::instances::INSTANCES;
use super::numbers::alternating;
use super::plan::Plan;

fn product<T: Operand, O: ResultOf<T>>(case: &mut Case) -> CaseResult {
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
        alternating(AlternatingTile::of([2, 128, 6, 2])), alternating(AlternatingTile::of([2, 128, 6, 2])),
        alternating(AlternatingTile::of([2, 128, 6, 2]).by_pairs()),
        alternating(AlternatingTile::of([2, 128, 6, 2]).exchanged()),
        alternating(AlternatingTile::of([2, 160, 5, 1]).exchanged()),
        alternating(AlternatingTile::of([2, 160, 5, 1]).exchanged().by_pairs()),
        alternating(AlternatingTile::of([2, 168, 5, 1]).exchanged()),
        alternating(AlternatingTile::of([2, 176, 5, 1]).exchanged()), alternating(AlternatingTile::of([2, 192, 4, 2])),
        alternating(AlternatingTile::of([2, 192, 4, 2]).by_pairs()),
        alternating(AlternatingTile::of([2, 168, 5, 1]).exchanged()),
        alternating(AlternatingTile::of([2, 128, 6, 2]).exchanged().by_pairs()),
        alternating(AlternatingTile::of([2, 144, 5, 2]).exchanged()), alternating(AlternatingTile::of([2, 160, 5, 1])),
        alternating(AlternatingTile::of([2, 176, 5, 1]).exchanged().by_pairs()),
        alternating(AlternatingTile::of([2, 176, 5, 1]).by_pairs()), alternating(AlternatingTile::of([3, 112, 5, 2])),
        alternating(AlternatingTile::of([3, 112, 5, 2]).by_pairs()),
        alternating(AlternatingTile::of([3, 112, 5, 2]).exchanged()),
        alternating(AlternatingTile::of([3, 112, 5, 2]).exchanged().by_pairs())
    ]
))]
fn product_in_turns_bf16(case: &mut Case) -> CaseResult {
    product::<bf16, bf16>(case)
}

#[case(sizes(m = [200], n = [264], k = [328], instance = [alternating(AlternatingTile::of([2, 168, 5, 1]).exchanged())]))]
fn product_in_turns_f16(case: &mut Case) -> CaseResult {
    product::<f16, f16>(case)
}

#[case(sizes(m = [200], n = [264], k = [712], instance = [alternating(AlternatingTile::of([2, 192, 4, 2]))]))]
fn product_in_turns_e4m3(case: &mut Case) -> CaseResult {
    product::<E4m3, bf16>(case)
}

/// All that an epilogue may add.
#[case(sizes(
    m = [200, 171, 400, 210],
    n = [136, 200, 264, 400],
    k = [136, 72, 136, 200],
    instance = [
        alternating(AlternatingTile::of([2, 192, 4, 2])), alternating(AlternatingTile::of([2, 168, 5, 1]).exchanged()),
        alternating(AlternatingTile::of([3, 112, 5, 2])),
        alternating(AlternatingTile::of([3, 112, 5, 2]).exchanged().by_clusters([1, 2]))
    ]
))]
fn product_in_turns_finished(case: &mut Case) -> CaseResult {
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
