//! Cases of products by clusters that share operands along both dimensions, against f64.

use tilekit::prelude::*;

use super::case_product::{Lies, Product};
use super::cluster_tiles::ClusterTile;
use super::epilogue::{Activation, Axis, Plain, Scales, Standard};
use super::epilogue_cases::standard;
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

fn product<T: Operand, O: ResultOf<T>>(case: &mut Case) -> CaseResult {
    let product = Product::<T, O>::new(case, Lies::ALONG_K);
    let plan = plan_of(case, &product.need());
    product.compute(case, (&plan, &[]), Plain, |_, _, sum| sum)
}

/// Rings that wrap, clusters some of whose tiles are outside, edges of both dimensions.
#[case(sizes(
    m = [275, 156, 108, 40, 171, 392, 80, 1, 65, 171],
    n = [400, 720, 264, 776, 200, 130, 200, 1, 65, 136],
    k = [520, 840, 712, 72, 600, 1100, 776, 1, 8, 712],
    instance = [
        cluster(ClusterTile::of([2, 2], [3, 80, 5]).exchanged()),
        cluster(ClusterTile::of([2, 4], [3, 80, 5]).exchanged()), cluster(ClusterTile::of([2, 4], [1, 112, 8])),
        cluster(ClusterTile::of([2, 4], [1, 96, 9])), cluster(ClusterTile::of([2, 4], [1, 144, 7])),
        cluster(ClusterTile::of([4, 2], [1, 96, 9]).exchanged()),
        cluster(ClusterTile::of([1, 1], [1, 80, 10]).exchanged()),
        cluster(ClusterTile::of([2, 2], [3, 80, 5]).exchanged()), cluster(ClusterTile::of([2, 4], [1, 112, 8])),
        cluster(ClusterTile::of([1, 4], [3, 48, 6]))
    ]
))]
fn product_clusters_bf16(case: &mut Case) -> CaseResult {
    product::<bf16, bf16>(case)
}

/// The same of other tiles, of which a cluster has some outside.
#[case(sizes(
    m = [260, 40, 136, 130, 70, 200, 130, 65, 200, 72, 136, 140, 90, 30, 130, 33, 24, 180],
    n = [100, 264, 168, 264, 328, 200, 264, 136, 264, 168, 168, 200, 264, 264, 200, 264, 200, 328],
    k = [712, 712, 600, 400, 776, 456, 520, 840, 520, 776, 584, 600, 776, 520, 648, 840, 584, 88],
    instance = [
        cluster(ClusterTile::of([4, 1], [1, 96, 10])), cluster(ClusterTile::of([4, 1], [2, 32, 10]).exchanged()),
        cluster(ClusterTile::of([2, 2], [2, 80, 8])), cluster(ClusterTile::of([2, 2], [3, 112, 5]).exchanged()),
        cluster(ClusterTile::of([1, 8], [1, 80, 11])), cluster(ClusterTile::of([2, 4], [3, 96, 6])),
        cluster(ClusterTile::of([2, 4], [2, 112, 7])), cluster(ClusterTile::of([1, 8], [1, 64, 12]).exchanged()),
        cluster(ClusterTile::of([2, 4], [3, 48, 7]).exchanged()), cluster(ClusterTile::of([2, 4], [1, 80, 11])),
        cluster(ClusterTile::of([1, 4], [2, 80, 8])), cluster(ClusterTile::of([2, 4], [2, 80, 8])),
        cluster(ClusterTile::of([2, 4], [1, 80, 11]).exchanged()),
        cluster(ClusterTile::of([1, 4], [3, 32, 7]).exchanged()), cluster(ClusterTile::of([1, 8], [2, 48, 9])),
        cluster(ClusterTile::of([1, 8], [1, 48, 12])), cluster(ClusterTile::of([1, 2], [3, 16, 8]).exchanged()),
        cluster(ClusterTile::of([2, 1], [2, 176, 5]).exchanged())
    ]
))]
fn product_more_clusters_bf16(case: &mut Case) -> CaseResult {
    product::<bf16, bf16>(case)
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

#[case(sizes(m = [200], n = [264], k = [328], instance = [cluster(ClusterTile::of([2, 2], [3, 80, 5]).exchanged())]))]
fn product_clusters_f16(case: &mut Case) -> CaseResult {
    product::<f16, f16>(case)
}

/// Other types and results of 4 bytes, by tiles that are exchanged and not.
#[case(sizes(
    m = [72, 100],
    n = [136, 200],
    k = [328, 712],
    instance = [cluster(ClusterTile::of([2, 4], [1, 112, 8])), cluster(ClusterTile::of([1, 4], [3, 32, 7]).exchanged())]
))]
fn product_clusters_i8(case: &mut Case) -> CaseResult {
    product::<i8, i32>(case)
}

#[case(sizes(m = [72], n = [136], k = [712], instance = [cluster(ClusterTile::of([2, 4], [1, 96, 9]))]))]
fn product_clusters_e4m3(case: &mut Case) -> CaseResult {
    product::<E4m3, bf16>(case)
}

#[case(sizes(m = [72], n = [136], k = [200], instance = [cluster(ClusterTile::of([2, 2], [3, 80, 5]).exchanged())]))]
fn product_clusters_tf32(case: &mut Case) -> CaseResult {
    product::<f32, f32>(case)
}

/// All that an epilogue may add.
#[case(sizes(
    m = [72, 136],
    n = [136, 200],
    k = [136, 72],
    instance = [cluster(ClusterTile::of([2, 4], [1, 96, 9])), cluster(ClusterTile::of([4, 2], [1, 96, 9]).exchanged())]
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
