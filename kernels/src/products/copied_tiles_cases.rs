//! Cases of few tiles of matrices whose rows begin anywhere.

use tilekit::prelude::*;

use super::case_product::tolerance;
use super::copied_tiles::{CopiedTile, copied_tiles};
use super::epilogue::Plain;
use super::factor::{INSTRUCTION_ROWS, Operand, ResultOf};
use super::form::Form;
use super::need::unit_of;
use super::output_handles::NoOutputs;

/// Packed matrices; of a turned tile, X is B.
fn product<T: Operand, O: ResultOf<T, Addend = O>>(case: &mut Case) -> CaseResult {
    let [m, n, k] = ["m", "n", "k"].map(|name| case.size(name));
    let [ctas, columns] = ["ctas", "columns"].map(|name| case.size(name));
    let turned = case.size("turned") == 1;
    let (a, b) = (case.normal::<T>("a", [m, k]), case.normal::<T>("b", [n, k]));
    let c = case.output::<O>("c", [m, n]);
    let bias = case.normal::<O>("bias", [m.max(n)]);
    let scales = case.normal::<f32>("scales", [m.max(n)]);
    let tile = CopiedTile::of(columns, ctas, turned).with_units([k, k, n].map(unit_of));
    let (x, y, of_x, of_y) = if turned {
        (&b, &a, n, m)
    } else {
        (&a, &b, m, n)
    };
    let [rows_, columns_, k_, stride] = [of_x, of_y, k, n].map(|extent| extent as i32);
    let data = (1.0, 0.0, &c, stride, 0, &bias, [&scales; 2], NoOutputs);
    case.launch_programmatic(
        fixed(copied_tiles::<T, O, Plain>, Form::new(tile, Plain)),
        [
            of_x.div_ceil(INSTRUCTION_ROWS) * ctas,
            of_y.div_ceil(columns),
            1,
        ],
        (x, k_, y, k_, &c, stride, rows_, columns_, k_, data),
    )?;
    let gemm = Gemm::new(&a, &b, &c).with_size([m, n, k]).transposed_b();
    case.expect_part_in_units(&c, [m, n], || gemm.reference(), tolerance::<T, O>(k))?;
    case.does_tensor_flops::<T>(2 * m * n * k);
    case.moves_bytes(size_of::<T>() * (m + n) * k + size_of::<O>() * m * n);
    Ok(())
}

/// Pitches of 4, 8 and 16 bytes, ends of rows in a step, more steps than stages and fewer; results whose rows begin anywhere.
#[case(sizes(
    m = [20, 3, 33, 64, 130, 65, 70, 130, 70, 65],
    n = [200, 71, 64, 131, 40, 7, 266, 66, 97, 95],
    k = [1150, 66, 340, 450, 136, 322, 458, 1034, 1810, 3588],
    ctas = [1, 2, 4, 8, 8, 8, 1, 2, 4, 8],
    columns = [64, 64, 64, 64, 32, 32, 128, 96, 96, 96],
    turned = [0, 0, 0, 0, 1, 0, 0, 0, 0, 0]
))]
fn product_copied_tiles_bf16(case: &mut Case) -> CaseResult {
    product::<bf16, bf16>(case)
}
