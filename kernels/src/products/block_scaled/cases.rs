//! Cases of products with scales for blocks, against f64.

use tilekit::prelude::*;
use tilekit::reference::products_of_rows;

use super::dense::block_scaled;
use super::plan::TILES;
use super::tile::{Overlap, ScaledTile, Shared};
use crate::products::factor::{BLOCK, Operand, ResultOf, unit};

/// The tensors of a product. Rows begin at multiples of 16 bytes.
pub(super) struct Scaled<T, O> {
    pub(super) size: [usize; 3],
    pub(super) a: Input<T>,
    pub(super) b: Input<T>,
    pub(super) a_scales: Input<f32>,
    pub(super) b_scales: Input<f32>,
    pub(super) c: Output<O>,
}

/// The tiles that calls choose from, one whose warpgroups take turns, one of several parts whose pairs share columns, and that of pairs for groups.
pub(super) fn tiles() -> Vec<ScaledTile> {
    let in_turns = ScaledTile {
        overlap: Overlap::Turns(64),
        ..TILES[2].0
    };
    let chosen = TILES.iter().map(|(tile, _)| *tile);
    let of_parts = TILES[3].0.sharing(Shared::Columns);
    let of_groups = TILES[0].0.sharing(Shared::Columns);
    chosen.chain([in_turns, of_parts, of_groups]).collect()
}

impl<T: Operand<Sum = f32>, O: ResultOf<T, Addend = O>> Scaled<T, O> {
    pub(super) fn new(case: &mut Case) -> Self {
        let size @ [m, n, k] = ["m", "n", "k"].map(|name| case.size(name));
        let depth = k.next_multiple_of(unit::<T>());
        let steps = k.div_ceil(BLOCK);
        Scaled {
            size,
            a: case.normal::<T>("a", [m, depth]),
            b: case.normal::<T>("b", [n, depth]),
            a_scales: case.uniform::<f32>("a_scales", [steps, m.next_multiple_of(4)], 0.25..1.0),
            b_scales: case.uniform::<f32>("b_scales", [n.div_ceil(BLOCK), steps], 0.25..1.0),
            c: case.output::<O>("c", [m, n.next_multiple_of(unit::<O>())]),
        }
    }

    fn launch(&self, case: &mut Case, tile: ScaledTile) -> CaseResult {
        let [m, n, k] = self.size;
        let depth = k.next_multiple_of(unit::<T>());
        let ([rows, columns], ctas) = (tile.of_cluster(), tile.ctas());
        let clusters = (m.div_ceil(rows) * n.div_ceil(columns)).clamp(1, 132 / ctas);
        // Fewer than tiles, at small sizes too.
        let clusters = if m * n < 1 << 20 {
            clusters.min(2)
        } else {
            clusters
        };
        let steps = k.div_ceil(BLOCK);
        case.launch(
            fixed(block_scaled::<T, O>, tile),
            clusters * ctas,
            (
                self.a.view().with_shape([m, k]).with_strides([depth, 1]),
                self.b.view().with_shape([n, k]).with_strides([depth, 1]),
                self.a_scales
                    .view()
                    .with_shape([steps, m])
                    .with_strides([m.next_multiple_of(4), 1]),
                self.c
                    .view()
                    .with_shape([m, n])
                    .with_strides([n.next_multiple_of(unit::<O>()), 1]),
                &self.b_scales,
                steps as i32,
                1,
                m as i32,
                n as i32,
                k as i32,
            ),
        )
    }

    /// The product in f64 of what was scaled first.
    pub(super) fn reference(&self) -> Vec<f64> {
        let [m, n, k] = self.size;
        let of_b =
            |row: usize| rows_in_f64(&self.b, row, k, &|step| self.b_scales[[row / BLOCK, step]]);
        let of_a = |row: usize| rows_in_f64(&self.a, row, k, &|step| self.a_scales[[step, row]]);
        let [a, b]: [Vec<f64>; 2] = [
            (0..m).flat_map(of_a).collect(),
            (0..n).flat_map(of_b).collect(),
        ];
        products_of_rows(self.size, &a, &b)
    }
}

/// A row of a factor, each element times the scale of its 128 columns.
pub(super) fn rows_in_f64<T: Operand>(
    x: &Input<T>,
    row: usize,
    k: usize,
    scale: &dyn Fn(usize) -> f32,
) -> Vec<f64> {
    let number = |at: usize| x[[row, at]].number().to_f64() * f64::from(scale(at / BLOCK));
    (0..k).map(number).collect()
}

/// Half a step of bf16, and what the tensor cores lose of the 128 products of a block: they keep 14 bits.
pub(super) fn tolerance(k: usize) -> Tolerance {
    Close {
        relative: 4e-3,
        absolute: 5e-4 * (k as f64).sqrt(),
    }
}

fn product<T: Operand<Sum = f32>, O: ResultOf<T, Addend = O>>(case: &mut Case) -> CaseResult {
    let product = Scaled::<T, O>::new(case);
    let [m, n, k] = product.size;
    let tile = tiles()[case.size("tile")];
    product.launch(case, tile)?;
    case.expect_part_in_units(&product.c, [m, n], || product.reference(), tolerance(k))?;
    case.does_tensor_flops::<T>(2 * m * n * k);
    Ok(())
}

#[case(sizes(
    m = [200, 260, 200, 300, 200, 100, 260, 200, 200, 520, 520],
    n = [264, 264, 392, 264, 136, 72, 520, 136, 392, 136, 392],
    k = [656, 656, 656, 272, 656, 128, 900, 2000, 16, 656, 656],
    tile = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
))]
fn product_block_scaled_e4m3(case: &mut Case) -> CaseResult {
    product::<E4m3, bf16>(case)
}
