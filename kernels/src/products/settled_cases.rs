//! Cases of products whose operands are loaded before the launch in front has ended, against f64.

use tilekit::prelude::*;

use super::case_product::{Lies, Product};
use super::cluster_tiles::ClusterTile;
use super::epilogue::Plain;
use super::form::Side;
use super::instances::INSTANCES;
use super::numbers::{cluster, few, few_exchanged, many, persistent, wave, wave_by_pairs};
use super::persistent_tile::PersistentTile;
use super::plan::Plan;

/// A, B or both settled: 1, 2 or 3. Rings that wrap and rings that are not filled, CTAs without steps.
#[case(sizes(
    m = [16, 65, 24, 128, 40, 72, 136, 200, 40, 140, 88, 100, 1, 300, 300],
    n = [64, 72, 136, 132, 264, 200, 264, 136, 776, 264, 136, 200, 72, 264, 264],
    k = [1096, 576, 1096, 520, 72, 1096, 776, 584, 840, 1100, 520, 1224, 200, 328, 200],
    settled = [2, 1, 2, 3, 2, 1, 2, 2, 2, 1, 2, 3, 3, 3, 3],
    instance = [
        few_exchanged(2, [1, 16, 8]), few(1, [1, 32, 8]), few_exchanged(8, [1, 16, 8]), few(1, [2, 128, 6]),
        few_exchanged(1, [1, 64, 8]), few(4, [1, 64, 8]), wave([1, 128, 9]), wave_by_pairs([2, 128, 7]),
        cluster(ClusterTile::of([2, 4], [1, 96, 11])), cluster(ClusterTile::of([4, 1], [2, 32, 11]).exchanged()),
        cluster(ClusterTile::of([1, 1], [1, 80, 9]).in_parts(8)),
        cluster(ClusterTile::of([2, 2], [1, 112, 7]).exchanged().in_parts(2)), wave([1, 64, 14]),
        many([2, 64, 256, 4]), persistent(PersistentTile::of([2, 168, 5, 1]).exchanged())
    ]
))]
fn product_settled_bf16(case: &mut Case) -> CaseResult {
    let settled = case.size("settled");
    let side = |bit: usize| Side {
        is_settled: settled & bit != 0,
        ..Side::default()
    };
    let lies = Lies {
        sides: [side(1), side(2)],
        ..Lies::ALONG_K
    };
    let product = Product::<bf16, bf16>::new(case, lies);
    let instance = INSTANCES[case.size("instance") - 1];
    let plan = Plan::able(instance, &product.need()).expect("tiles of a case take its operands");
    product.compute(case, (&plan, &[]), Plain, |_, _, sum| sum)
}
