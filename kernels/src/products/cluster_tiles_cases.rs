//! Cases of products by clusters that share operands along both dimensions, against f64.

use tilekit::prelude::*;

use super::case_product::{Lies, Product};
use super::cluster_tiles::ClusterTile;
use super::epilogue::{Activation, Axis, Plain, Scales, Standard};
use super::epilogue_cases::standard;
use super::even_tiles;
use super::factor::{Operand, ResultOf};
use super::instances::INSTANCES;
use super::need::Need;
use super::numbers::cluster;
use super::plan::Plan;

/// The plan of the instance that the case names.
fn plan_of(case: &Case, need: &Need) -> Plan {
    let instance = INSTANCES[case.size("instance") - 1];
    Plan::able(instance, need).expect("tiles of a case take its operands")
}

fn product<T: Operand, O: ResultOf<T, Addend = O>>(case: &mut Case) -> CaseResult {
    let product = Product::<T, O>::new(case, Lies::ALONG_K);
    let plan = plan_of(case, &product.need());
    product.compute(case, (&plan, &[]), Plain, |_, _, sum| sum)
}

/// Rings that wrap, clusters some of whose tiles are outside, edges of both dimensions, and seven rows of tiles in four groups of two.
#[case(sizes(
    m = [275, 108, 40, 171, 392, 80, 1, 65, 440],
    n = [400, 264, 776, 200, 130, 200, 1, 65, 420],
    k = [520, 712, 72, 600, 1100, 776, 1, 8, 72],
    instance = [
        cluster(ClusterTile::of([2, 2], [3, 80, 6]).exchanged()),
        cluster(ClusterTile::of([2, 4], [1, 112, 10])),
        cluster(ClusterTile::of([2, 4], [1, 96, 11])),
        cluster(ClusterTile::of([2, 4], [1, 144, 8])),
        cluster(ClusterTile::of([4, 2], [1, 96, 11]).exchanged()),
        cluster(ClusterTile::of([1, 1], [1, 80, 12]).exchanged()),
        cluster(ClusterTile::of([2, 2], [3, 80, 6]).exchanged()),
        cluster(ClusterTile::of([2, 4], [1, 112, 10])),
        cluster(ClusterTile::of([1, 1], [1, 64, 13]).exchanged())
    ]
))]
fn product_clusters_bf16(case: &mut Case) -> CaseResult {
    product::<bf16, bf16>(case)
}

/// The same of other tiles, of which a cluster has some outside.
#[case(sizes(
    m = [260, 40, 136, 130, 70, 130, 65, 200, 72, 136, 140, 90, 30, 33, 24, 180],
    n = [100, 264, 168, 264, 328, 264, 136, 264, 168, 168, 200, 264, 264, 264, 200, 328],
    k = [712, 712, 600, 400, 776, 520, 840, 520, 776, 584, 600, 776, 520, 1032, 584, 88],
    instance = [
        cluster(ClusterTile::of([4, 1], [1, 96, 11])),
        cluster(ClusterTile::of([4, 1], [2, 32, 11]).exchanged()),
        cluster(ClusterTile::of([2, 2], [2, 80, 8])),
        cluster(ClusterTile::of([2, 2], [3, 112, 5]).exchanged()),
        cluster(ClusterTile::of([1, 8], [1, 80, 12])),
        cluster(ClusterTile::of([2, 4], [2, 112, 7])),
        cluster(ClusterTile::of([1, 8], [1, 64, 13]).exchanged()),
        cluster(ClusterTile::of([2, 4], [3, 48, 7]).exchanged()),
        cluster(ClusterTile::of([2, 4], [1, 80, 12])),
        cluster(ClusterTile::of([1, 4], [2, 80, 8])),
        cluster(ClusterTile::of([2, 4], [2, 80, 8])),
        cluster(ClusterTile::of([2, 4], [1, 80, 12]).exchanged()),
        cluster(ClusterTile::of([1, 4], [3, 32, 7]).exchanged()),
        cluster(ClusterTile::of([1, 8], [1, 48, 15])),
        cluster(ClusterTile::of([1, 2], [3, 16, 8]).exchanged()),
        cluster(ClusterTile::of([2, 1], [2, 176, 5]).exchanged())
    ]
))]
fn product_more_clusters_bf16(case: &mut Case) -> CaseResult {
    product::<bf16, bf16>(case)
}

/// The others once each, with a ring that wraps and tiles that lie partly outside: of one warpgroup.
#[case(sizes(
    m = [72, 39, 78, 53, 52, 112, 71, 102, 37, 120, 39, 102, 133, 100, 104],
    n = [104, 120, 104, 40, 120, 104, 104, 120, 176, 120, 208, 104, 120, 272, 168],
    k = [1032, 1064, 1080, 904, 936, 952, 840, 872, 824, 808, 760, 712, 744, 632, 584],
    instance = [
        cluster(ClusterTile::of([2, 2], [1, 48, 15]).exchanged()),
        cluster(ClusterTile::of([4, 1], [1, 48, 15]).exchanged()),
        cluster(ClusterTile::of([4, 2], [1, 48, 15]).exchanged()),
        cluster(ClusterTile::of([1, 1], [1, 64, 13]).exchanged()),
        cluster(ClusterTile::of([2, 1], [1, 64, 13]).exchanged()),
        cluster(ClusterTile::of([4, 2], [1, 64, 13]).exchanged()),
        cluster(ClusterTile::of([4, 1], [1, 80, 12]).exchanged()),
        cluster(ClusterTile::of([4, 2], [1, 80, 12]).exchanged()),
        cluster(ClusterTile::of([1, 2], [1, 96, 11])),
        cluster(ClusterTile::of([2, 4], [1, 96, 11]).exchanged()),
        cluster(ClusterTile::of([1, 4], [1, 112, 10])),
        cluster(ClusterTile::of([4, 1], [1, 112, 10]).exchanged()),
        cluster(ClusterTile::of([2, 4], [1, 112, 10]).exchanged()),
        cluster(ClusterTile::of([2, 2], [1, 144, 8])),
        cluster(ClusterTile::of([4, 2], [1, 144, 8]))
    ]
))]
fn product_clusters_of_64_rows_bf16(case: &mut Case) -> CaseResult {
    product::<bf16, bf16>(case)
}

/// The same of two and three warpgroups.
#[case(sizes(
    m = [39, 70, 85, 52, 72, 134, 205, 164, 79, 102, 101, 236, 168, 207, 334, 197, 168, 246],
    n = [248, 104, 104, 248, 168, 144, 168, 184, 168, 168, 376, 168, 136, 200, 168, 168, 232, 208],
    k = [744, 696, 648, 680, 696, 552, 568, 392, 568, 456, 488, 440, 392, 360, 376, 328, 376, 360],
    instance = [
        cluster(ClusterTile::of([4, 1], [2, 48, 10]).exchanged()),
        cluster(ClusterTile::of([1, 1], [2, 64, 9]).exchanged()),
        cluster(ClusterTile::of([1, 2], [2, 64, 9]).exchanged()),
        cluster(ClusterTile::of([2, 1], [2, 64, 9]).exchanged()),
        cluster(ClusterTile::of([4, 1], [2, 64, 9]).exchanged()),
        cluster(ClusterTile::of([1, 4], [2, 112, 7]).exchanged()),
        cluster(ClusterTile::of([4, 2], [2, 112, 7]).exchanged()),
        cluster(ClusterTile::of([4, 1], [2, 192, 5])),
        cluster(ClusterTile::of([1, 2], [3, 48, 7]).exchanged()),
        cluster(ClusterTile::of([1, 2], [3, 80, 6]).exchanged()),
        cluster(ClusterTile::of([4, 2], [3, 80, 6]).exchanged()),
        cluster(ClusterTile::of([1, 2], [3, 128, 5]).exchanged()),
        cluster(ClusterTile::of([1, 1], [3, 144, 5])),
        cluster(ClusterTile::of([1, 2], [3, 176, 4])),
        cluster(ClusterTile::of([1, 2], [3, 176, 4]).exchanged()),
        cluster(ClusterTile::of([1, 1], [3, 208, 4]).exchanged()),
        cluster(ClusterTile::of([1, 1], [3, 224, 4])),
        cluster(ClusterTile::of([1, 2], [3, 224, 4]).exchanged())
    ]
))]
fn product_clusters_of_more_rows_bf16(case: &mut Case) -> CaseResult {
    product::<bf16, bf16>(case)
}

/// The same of tiles that fit sizes which no other one does.
#[case(sizes(
    m = [24, 101, 229, 101, 229, 229, 200, 224, 504, 120, 128, 677, 72, 80],
    n = [104, 56, 56, 112, 72, 144, 488, 488, 104, 456, 968, 72, 104, 104],
    k = [1160, 1168, 1176, 1184, 1096, 848, 728, 672, 648, 656, 664, 608, 2008, 3800],
    instance = [
        cluster(ClusterTile::of([2, 2], [1, 16, 16]).exchanged()),
        cluster(ClusterTile::of([2, 4], [1, 16, 16])),
        cluster(ClusterTile::of([4, 1], [1, 32, 16])),
        cluster(ClusterTile::of([2, 4], [1, 32, 16])),
        cluster(ClusterTile::of([4, 2], [1, 48, 15])),
        cluster(ClusterTile::of([4, 2], [1, 96, 11])),
        cluster(ClusterTile::of([8, 1], [1, 128, 9]).exchanged()),
        cluster(ClusterTile::of([8, 1], [1, 144, 8]).exchanged()),
        cluster(ClusterTile::of([2, 4], [1, 144, 8]).exchanged()),
        cluster(ClusterTile::of([4, 2], [2, 80, 8]).exchanged()),
        cluster(ClusterTile::of([8, 1], [2, 80, 8]).exchanged()),
        cluster(ClusterTile::of([4, 2], [3, 48, 7])),
        cluster(ClusterTile::of([1, 2], [1, 48, 14]).exchanged().in_parts(4)),
        cluster(ClusterTile::of([1, 1], [1, 48, 14]).exchanged().in_parts(8))
    ]
))]
fn product_clusters_of_few_sizes_bf16(case: &mut Case) -> CaseResult {
    product::<bf16, bf16>(case)
}

/// Tiles that no list has, some of those that divide a matrix evenly: rings that wrap, and the last CTAs of clusters with few rows and columns or none.
#[case(sizes(
    m = [280, 280, 330, 330, 100, 100, 90, 200, 17, 250],
    n = [600, 600, 104, 104, 440, 440, 1000, 232, 264, 88],
    k = [712, 520, 904, 72, 840, 584, 392, 1096, 776, 648],
    tile = [3, 101, 40, 77, 12, 55, 31, 90, 20, 64]
))]
fn product_even_tiles_bf16(case: &mut Case) -> CaseResult {
    let product = Product::<bf16, bf16>::new(case, Lies::ALONG_K);
    let need = product.need();
    let plans: Vec<Plan> = even_tiles::by_model(&need).collect();
    let plan = plans[case.size("tile") % plans.len()];
    product.compute(case, (&plan, &[]), Plain, |_, _, sum| sum)
}

/// Clusters that divide K besides: parts of one step and of several, and parts without steps; then one that does not.
#[case(sizes(
    m = [136, 100, 200, 393, 88, 100, 90, 264],
    n = [104, 200, 136, 88, 136, 72, 392, 24],
    k = [1224, 520, 1224, 1736, 520, 72, 520, 1672],
    instance = [
        cluster(ClusterTile::of([2, 1], [1, 96, 8]).in_parts(4)),
        cluster(ClusterTile::of([2, 1], [1, 96, 8]).exchanged().in_parts(4)),
        cluster(ClusterTile::of([2, 2], [1, 112, 7]).exchanged().in_parts(2)),
        cluster(ClusterTile::of([1, 1], [1, 80, 9]).in_parts(8)),
        cluster(ClusterTile::of([1, 2], [1, 80, 9]).exchanged().in_parts(4)),
        cluster(ClusterTile::of([1, 1], [1, 112, 7]).exchanged().in_parts(8)),
        cluster(ClusterTile::of([1, 4], [3, 80, 6]).exchanged()),
        cluster(ClusterTile::of([4, 1], [1, 32, 12]).in_parts(2))
    ]
))]
fn product_clusters_in_parts_bf16(case: &mut Case) -> CaseResult {
    product::<bf16, bf16>(case)
}

#[case(sizes(m = [200], n = [264], k = [392], instance = [cluster(ClusterTile::of([2, 2], [3, 80, 6]).exchanged())]))]
fn product_clusters_f16(case: &mut Case) -> CaseResult {
    product::<f16, f16>(case)
}

/// Other types and results of 4 bytes, by tiles that are exchanged and not.
#[case(sizes(
    m = [72, 100],
    n = [136, 200],
    k = [328, 712],
    instance = [cluster(ClusterTile::of([2, 4], [1, 112, 10])), cluster(ClusterTile::of([1, 4], [3, 32, 7]).exchanged())]
))]
fn product_clusters_i8(case: &mut Case) -> CaseResult {
    product::<i8, i32>(case)
}

#[case(sizes(m = [72], n = [136], k = [712], instance = [cluster(ClusterTile::of([2, 4], [1, 96, 11]))]))]
fn product_clusters_e4m3(case: &mut Case) -> CaseResult {
    product::<E4m3, bf16>(case)
}

#[case(sizes(m = [72], n = [136], k = [200], instance = [cluster(ClusterTile::of([2, 2], [3, 80, 6]).exchanged())]))]
fn product_clusters_tf32(case: &mut Case) -> CaseResult {
    product::<f32, f32>(case)
}

/// All that an epilogue may add.
#[case(sizes(
    m = [72, 136],
    n = [136, 200],
    k = [136, 72],
    instance = [cluster(ClusterTile::of([2, 4], [1, 96, 11])), cluster(ClusterTile::of([4, 2], [1, 96, 11]).exchanged())]
))]
fn product_clusters_finished(case: &mut Case) -> CaseResult {
    let epilogue = Standard {
        scales: [Scales::Each, Scales::Each],
        bias: Some(Axis::Columns),
        has_source: true,
        activation: Activation::Gelu,
    };
    let product = Product::<bf16, bf16>::new(case, Lies::ALONG_K);
    let plan = plan_of(case, &product.need());
    product.compute(case, (&plan, &[]), epilogue, move |p, at, sum| {
        standard(p, epilogue, at, sum)
    })
}
