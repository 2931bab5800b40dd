//! Cases of matrices whose rows begin anywhere.

use tilekit::prelude::*;

use super::any_rows::{AnyTile, any_rows};
use super::case_product::tolerance;
use super::epilogue::Plain;
use super::factor::{Operand, ResultOf};
use super::form::{Form, Side};
use super::need::unit_of;
use super::output_handles::NoOutputs;

/// Packed matrices, of which A may lie along M and B along N.
fn product<T: Operand, O: ResultOf<T, Addend = O>>(case: &mut Case) -> CaseResult {
    let [m, n, k] = ["m", "n", "k"].map(|name| case.size(name));
    let sides = ["along_m", "along_n"].map(|name| Side {
        is_mn_major: case.size(name) == 1,
        is_batched: false,
        is_settled: false,
    });
    let shape = |rows: usize, side: Side| {
        if side.is_mn_major {
            [k, rows]
        } else {
            [rows, k]
        }
    };
    let [of_a, of_b] = [shape(m, sides[0]), shape(n, sides[1])];
    let (a, b) = (case.normal::<T>("a", of_a), case.normal::<T>("b", of_b));
    let c = case.output::<O>("c", [m, n]);
    let bias = case.normal::<O>("bias", [m.max(n)]);
    let scales = case.normal::<f32>("scales", [m.max(n)]);
    let tile = AnyTile::of(["groups", "columns"].map(|name| case.size(name)));
    let tile = tile.fitted([of_a[1], of_b[1], n].map(unit_of), k);
    let form = Form {
        sides,
        ..Form::new(tile, Plain)
    };
    let [rows, columns] = tile.shape();
    let [a_pitch, b_pitch, pitch] = [of_a[1], of_b[1], n].map(|extent| extent as i32);
    let [m_, n_, k_] = [m, n, k].map(|extent| extent as i32);
    let data = (1.0, 0.0, &c, pitch, 0, &bias, [&scales; 2], NoOutputs);
    case.launch_programmatic(
        fixed(any_rows::<T, O, Plain>, form),
        [m.div_ceil(rows), n.div_ceil(columns), 1],
        (
            &a, a_pitch, 0, &b, b_pitch, 0, &c, pitch, 0, m_, n_, k_, data,
        ),
    )?;
    let gemm = Gemm::new(&a, &b, &c).with_size([m, n, k]);
    let gemm = if sides[0].is_mn_major {
        gemm.transposed_a()
    } else {
        gemm
    };
    let gemm = if sides[1].is_mn_major {
        gemm
    } else {
        gemm.transposed_b()
    };
    case.expect_part_in_units(&c, [m, n], || gemm.reference(), tolerance::<T, O>(k))?;
    case.does_tensor_flops::<T>(2 * m * n * k);
    case.moves_bytes(size_of::<T>() * (m + n) * k + size_of::<O>() * m * n);
    Ok(())
}

/// Rows of odd lengths and of lengths that have units of 2, 4 and 8; one step along K and several.
#[case(sizes(
    m = [65, 1, 64, 130, 200, 66, 129, 70],
    n = [33, 1, 70, 129, 132, 136, 134, 33],
    k = [27, 1, 200, 130, 131, 66, 21, 32],
    groups = [1, 1, 1, 2, 2, 1, 2, 1],
    columns = [32, 64, 64, 128, 64, 128, 128, 64],
    along_m = [0, 0, 0, 0, 1, 1, 0, 1],
    along_n = [0, 0, 0, 0, 0, 1, 0, 1]
))]
fn product_any_rows_bf16(case: &mut Case) -> CaseResult {
    product::<bf16, bf16>(case)
}

#[case(sizes(m = [65], n = [67], k = [90], groups = [1], columns = [64], along_m = [0], along_n = [1]))]
fn product_any_rows_f16_f32(case: &mut Case) -> CaseResult {
    product::<f16, f32>(case)
}
