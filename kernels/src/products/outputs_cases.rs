//! A case whose epilogue stores more than the result.

use std::sync::{Arc, LazyLock};

use tilekit::prelude::*;

use super::case_product::{Lies, Product, stride};
use super::epilogue::{Axis, Epilogue, Place};
use super::instances::INSTANCES;
use super::matrix::Matrix;
use super::numbers::{few, few_exchanged, many, persistent};
use super::options::Options;
use super::output_handles::{GivenOutputs, Second};
use super::outputs::{OutputPtrs, Reduction, Storing};
use super::persistent_tile::PersistentTile;
use super::plan::Plan;
use super::repack::{TILE, repack};

/// Half of the sums beside the result, the sum of squares of each row, and the largest of each column and of all.
#[case(sizes(
    m = [320, 200, 24, 132],
    n = [328, 264, 68, 136],
    k = [72, 328, 520, 200],
    instance = [
        many([2, 64, 256, 4]), persistent(PersistentTile::of([2, 128, 6, 2])),
        few_exchanged(2, [1, 16, 8]), few(1, [2, 128, 6])
    ]
))]
fn product_stores(case: &mut Case) -> CaseResult {
    let product = Product::<bf16, bf16>::new(case, Lies::ALONG_K);
    let [m, n, _] = product.size;
    let pitch = stride::<bf16>(n);
    let second = case.output::<bf16>("second", [m, pitch]);
    let [rows, columns, all] = [("rows", m), ("columns", n), ("all", 1)]
        .map(|(name, len)| (case.output::<f32>(name, [len]), len));
    let nothing = case.integers::<f32>("nothing", [1], 0..1);
    for (numbers, len) in [&rows, &columns, &all] {
        // Zeros, from nowhere.
        let (from, to) = ((&nothing, 0, 0, 0, 0), (numbers, 0, 0, 1, 0));
        case.launch(
            repack::<f32, 1, 1>,
            [1, len.div_ceil(TILE), 1],
            (
                from.0,
                from.1,
                from.2,
                from.3,
                from.4,
                to.0,
                to.1,
                to.2,
                to.3,
                to.4,
                1,
                *len as i32,
                0,
            ),
        )?;
    }
    let outputs = (
        &second,
        pitch as i32,
        0_i64,
        [&rows.0, &columns.0],
        &all.0,
        &nothing,
        [0, 0],
        0_i64,
    );
    let epilogue = storing([m, n]);
    let instance = INSTANCES[case.size("instance") - 1];
    let plan = Plan::able(instance, &product.need()).expect("tiles of a case take its operands");
    product.compute_storing(case, (&plan, &[]), (epilogue, outputs), |_, _, sum| sum)?;
    check(case, (product, [m, n]), &second, [rows.0, columns.0, all.0])
}

/// The epilogue of the case.
fn storing(size: [usize; 2]) -> impl Epilogue<bf16, Outputs = OutputPtrs<bf16>> {
    let [rows, columns] = size;
    let second = Matrix {
        shape: size,
        strides: [stride::<bf16>(columns), 1],
        offset: 0,
        batches: [1, rows * stride::<bf16>(columns)],
    };
    let second = Second {
        of_pairs: false,
        unit: second.unit(),
    };
    let outputs = GivenOutputs {
        second: Some(second),
        lines: [true; 2],
        all: true,
        scales: false,
    };
    let function = |sums: Tensor<f32>, at: Place<bf16, OutputPtrs<bf16>>| {
        at.store(sums * 0.5);
        at.reduce(Axis::Rows, Reduction::Sum, sums * sums);
        at.reduce(Axis::Columns, Reduction::Max, sums);
        at.reduce_all(Reduction::Max, sums);
        sums
    };
    let given = Options::<bf16>::default().given(size);
    Storing::new(function, given, outputs).expect("it captures nothing")
}

/// Compares all that it stored beside the result.
fn check(
    case: &mut Case,
    (product, [m, n]): (Product<bf16, bf16>, [usize; 2]),
    second: &Output<bf16>,
    [rows, columns, all]: [Output<f32>; 3],
) -> CaseResult {
    // Cases are listed for each command: only one that runs pays for its reference.
    let sums = Arc::new(LazyLock::new(move || product.sums()));
    let near = |relative| Close {
        relative,
        absolute: 1e-3,
    };
    let of = sums.clone();
    let halves = move || of.iter().map(|sum| sum / 2.0).collect::<Vec<f64>>();
    case.expect_part(second, [m, n], halves, near(4e-3))?;
    let of = sums.clone();
    let square = |row: &[f64]| row.iter().map(|sum| sum * sum).sum::<f64>();
    let squares = move || of.chunks(n).map(square).collect();
    case.expect_all(&rows, squares, near(1e-4))?;
    let of = sums.clone();
    let largest = move |j: usize| (0..m).map(|i| of[i * n + j]).fold(f64::MIN, f64::max);
    let largest = move || (0..n).map(largest).collect();
    case.expect_all(&columns, largest, near(1e-4))?;
    let largest = move || vec![sums.iter().copied().fold(f64::MIN, f64::max)];
    case.expect_all(&all, largest, near(1e-4))
}
