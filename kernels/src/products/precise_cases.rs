//! Cases of products of f32 by three products of tf32, against f64.

use tilekit::prelude::*;

use super::case_product::{Lies, Product};
use super::epilogue::{Activation, Axis, Plain, Scales, Standard};
use super::epilogue_cases::standard;
use super::form::Side;
use super::numbers::{PLANNED, precise as by, precise_parts as by_parts};
use super::precise::PreciseTile;

/// A product that is stored as it is.
fn precise(case: &mut Case, product: Product<f32, f32>) -> CaseResult {
    product
        .precisely()
        .compute_planned(case, Plain, |_, _, sum| sum)
}

/// Sums that cancel, of each instance: rings that wrap, edges of both dimensions, one step and less.
#[case(sizes(
    m = [136, 200, 65, 1, 128, 129, 64, 300, 1, 200, 65],
    n = [264, 164, 136, 160, 65, 100, 1, 36, 1, 164, 136],
    k = [200, 331, 72, 520, 232, 33, 584, 400, 1, 331, 72],
    instance = [
        by(PreciseTile::of([2, 128, 5, 2])), by(PreciseTile::of([2, 128, 5, 2])),
        by(PreciseTile::of([2, 160, 4, 2])), by(PreciseTile::of([2, 160, 4, 2])),
        by(PreciseTile::of([2, 64, 6, 3])), by(PreciseTile::of([2, 64, 6, 3])),
        by(PreciseTile::of([2, 32, 8, 4])), by(PreciseTile::of([2, 32, 8, 4])), PLANNED,
        by(PreciseTile::of([2, 128, 5, 2]).in_turns()), by(PreciseTile::of([2, 160, 4, 2]).in_turns())
    ],
    rivals = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
))]
fn product_tf32x3(case: &mut Case) -> CaseResult {
    let product = Product::new(case, Lies::ALONG_K);
    precise(case, product)
}

/// Few rows as columns of tiles, and parts along K: as many as there is a step for, the last shorter, edges of both dimensions.
#[case(sizes(
    m = [20, 1, 33, 130, 200, 136, 70, 40, 17, 3],
    n = [264, 300, 136, 65, 136, 264, 130, 264, 392, 200],
    k = [232, 520, 72, 33, 331, 520, 1096, 712, 520, 2056],
    instance = [
        by(PreciseTile::of([2, 32, 8, 4]).exchanged()), by(PreciseTile::of([2, 16, 10, 4]).exchanged()),
        by(PreciseTile::of([2, 32, 8, 4]).exchanged()), by(PreciseTile::of([2, 16, 10, 4]).exchanged()),
        by_parts(PreciseTile::of([2, 128, 5, 2])), by_parts(PreciseTile::of([2, 128, 5, 2])),
        by_parts(PreciseTile::of([2, 64, 6, 3])), by_parts(PreciseTile::of([2, 64, 6, 3]).exchanged()),
        by_parts(PreciseTile::of([2, 32, 8, 4]).exchanged()),
        by_parts(PreciseTile::of([2, 16, 10, 4]).exchanged())
    ],
    rivals = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
))]
fn product_tf32x3_few(case: &mut Case) -> CaseResult {
    let product = Product::new(case, Lies::ALONG_K);
    precise(case, product)
}

/// Batches, of which either operand may be one for all.
#[case(sizes(
    m = [65, 130],
    n = [68, 100],
    k = [72, 36],
    batches = [3, 2],
    a_batched = [1, 0],
    b_batched = [1, 1],
    instance = [by(PreciseTile::of([2, 64, 6, 3])), PLANNED],
    rivals = [0, 0]
))]
fn product_tf32x3_batched(case: &mut Case) -> CaseResult {
    let side = |batched: &str| Side {
        is_mn_major: false,
        is_batched: case.size(batched) == 1,
        is_settled: false,
    };
    let lies = Lies {
        sides: [side("a_batched"), side("b_batched")],
        batches: case.size("batches"),
    };
    let product = Product::new(case, lies);
    precise(case, product)
}

/// All that an epilogue may add, in columns of which several parts are stored.
#[case(sizes(
    m = [136, 1, 20, 20],
    n = [264, 5, 136, 136],
    k = [72, 40, 72, 232],
    instance = [
        by(PreciseTile::of([2, 128, 5, 2])), PLANNED, by(PreciseTile::of([2, 32, 8, 4]).exchanged()),
        by_parts(PreciseTile::of([2, 16, 10, 4]).exchanged())
    ],
    rivals = [0, 0, 0, 0]
))]
fn product_tf32x3_finished(case: &mut Case) -> CaseResult {
    let epilogue = Standard {
        scales: [Scales::Each, Scales::Each],
        bias: Some(Axis::Columns),
        has_source: true,
        activation: Activation::Relu,
    };
    let product = Product::<f32, f32>::new(case, Lies::ALONG_K).precisely();
    product.compute_planned(case, epilogue, move |p, at, sum| {
        standard(p, epilogue, at, sum)
    })
}
