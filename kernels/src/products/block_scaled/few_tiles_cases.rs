//! Cases of products with few tiles and scales for blocks, against f64.

use tilekit::prelude::*;

use super::cases::{Scaled, tolerance};
use super::few_tiles::block_scaled_few_tiles;
use super::plan::FEW_TILES;
use crate::products::factor::{BLOCK, Operand, ResultOf, unit};

fn product<T: Operand<Sum = f32>, O: ResultOf<T, Addend = O>>(case: &mut Case) -> CaseResult {
    let product = Scaled::<T, O>::new(case);
    let [m, n, k] = product.size;
    let (tile, _) = FEW_TILES[case.size("tile")];
    let ([rows, columns], steps) = (tile.shape(), k.div_ceil(BLOCK));
    let (depth, pitch) = (
        k.next_multiple_of(unit::<T>()),
        n.next_multiple_of(unit::<O>()),
    );
    case.launch(
        fixed(block_scaled_few_tiles::<T, O>, tile),
        [m.div_ceil(rows) * tile.ctas, n.div_ceil(columns)],
        (
            product.a.view().with_shape([m, k]).with_strides([depth, 1]),
            product.b.view().with_shape([n, k]).with_strides([depth, 1]),
            product
                .a_scales
                .view()
                .with_shape([steps, m])
                .with_strides([m.next_multiple_of(4), 1]),
            &product.c,
            pitch as i32,
            &product.b_scales,
            steps as i32,
            1,
            m as i32,
            n as i32,
            k as i32,
        ),
    )?;
    case.expect_part_in_units(&product.c, [m, n], || product.reference(), tolerance(k))?;
    case.does_tensor_flops::<T>(2 * m * n * k);
    Ok(())
}

/// Rings that wrap, CTAs without a step of their own, edges of all three, several rows of tiles.
#[case(sizes(
    m = [60, 60, 70, 100, 1, 33],
    n = [72, 40, 200, 72, 136, 40],
    k = [1800, 3600, 2300, 528, 100, 5000],
    tile = [0, 1, 2, 3, 1, 3]
))]
fn product_block_scaled_few_tiles_e4m3(case: &mut Case) -> CaseResult {
    product::<E4m3, bf16>(case)
}
