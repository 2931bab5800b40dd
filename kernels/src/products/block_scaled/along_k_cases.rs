//! Cases of products with a scale for 128 elements of each row of both factors, against f64.

use tilekit::prelude::*;
use tilekit::reference::products_of_rows;

use super::along_k::{AlongForm, row_scaled};
use super::cases::{rows_in_f64, tolerance};
use super::plan::ALONG_K;
use crate::products::factor::{BLOCK, ResultOf, unit};
use crate::products::repack::{TILE, repack};

/// Groups of `groups` numbers of steps: 2, 0, 1, 3, and again.
fn offsets_of(groups: usize) -> Vec<i32> {
    let steps = [2, 0, 1, 3];
    let mut offsets = vec![0];
    for group in 0..groups {
        offsets.push(offsets[group] + steps[group % 4] * BLOCK as i32);
    }
    offsets
}

/// The tensors of products of groups of K, or of all of K where there are none. Rows begin at multiples of 16 bytes.
struct Along<O> {
    /// M, N, K.
    size: [usize; 3],
    offsets: Vec<i32>,
    a: Input<E4m3>,
    b: Input<E4m3>,
    a_scales: Input<f32>,
    b_scales: Input<f32>,
    ends: Input<i32>,
    c: Output<O>,
    form: AlongForm,
}

impl<O: ResultOf<E4m3, Addend = O>> Along<O> {
    fn new(case: &mut Case, adds: bool) -> Self {
        let [groups, m, n, k] = ["groups", "m", "n", "k"].map(|name| case.size(name));
        let is_grouped = groups > 0;
        let offsets = if is_grouped {
            offsets_of(groups)
        } else {
            vec![0, k as i32]
        };
        let k = offsets[groups.max(1)] as usize;
        let (depth, steps) = (k.next_multiple_of(16), k.div_ceil(BLOCK));
        let numbers = offsets.clone();
        let rows = groups.max(1) * m;
        Along {
            size: [m, n, k],
            a: case.normal("a", [m, depth]),
            b: case.normal("b", [n, depth]),
            a_scales: case.uniform("a_scales", [steps, m.next_multiple_of(4)], 0.25..1.0),
            b_scales: case.uniform("b_scales", [steps, n.next_multiple_of(4)], 0.25..1.0),
            ends: case.input("offsets", [offsets.len()], move |at| numbers[at]),
            c: case.output("c", [rows, n.next_multiple_of(unit::<O>())]),
            offsets,
            form: AlongForm {
                tile: ALONG_K,
                is_grouped,
                adds,
            },
        }
    }

    /// Groups, of which there is one where K is not divided.
    fn groups(&self) -> usize {
        self.offsets.len() - 1
    }

    fn pitch(&self) -> usize {
        self.size[1].next_multiple_of(unit::<O>())
    }

    /// Zeros, which products are added to.
    fn clear(&self, case: &mut Case) -> CaseResult {
        let [rows, columns] = [self.groups() * self.size[0], self.pitch()];
        let grid = [rows.div_ceil(TILE), columns.div_ceil(TILE)];
        let (first, row, column, batch) = (0_i64, columns as i64, 1_i64, 0_i64);
        let (c, extents) = (&self.c, (rows as i32, columns as i32));
        let arguments = (
            c, first, row, column, batch, c, first, row, column, batch, extents.0, extents.1, 0,
        );
        case.launch(repack::<O, 1, 1>, grid, arguments)
    }

    /// CTAs: few of small products, so that each has several tiles.
    fn programs(&self) -> usize {
        let ([m, n, _], [rows, columns]) = (self.size, ALONG_K.shape());
        let tiles = self.groups() * m.div_ceil(rows) * n.div_ceil(columns);
        tiles.min(if m * n < 1 << 20 { 3 } else { 132 })
    }

    fn launch(&self, case: &mut Case) -> CaseResult {
        let ([m, n, k], pitch, count) = (self.size, self.pitch(), self.groups());
        let of_values = |values, rows: usize| {
            let view: TensorView<'_, E4m3, Input<E4m3>> = values;
            view.with_shape([rows, k])
                .with_strides([k.next_multiple_of(16), 1])
        };
        let of_scales = |scales, rows: usize| {
            let view: TensorView<'_, f32, Input<f32>> = scales;
            view.with_shape([k.div_ceil(BLOCK), rows])
                .with_strides([rows.next_multiple_of(4), 1])
        };
        let c = self.c.view().with_shape([count, m, n]);
        case.launch(
            fixed(row_scaled::<E4m3, O>, self.form),
            self.programs(),
            (
                of_values(self.a.view(), m),
                of_values(self.b.view(), n),
                of_scales(self.a_scales.view(), m),
                of_scales(self.b_scales.view(), n),
                c.with_strides([m * pitch, pitch, 1]),
                &self.ends,
                count as i32,
                m as i32,
                n as i32,
                k as i32,
            ),
        )
    }

    /// The products in f64 of what was scaled first, one group after the other.
    fn reference(&self) -> Vec<f64> {
        let [m, n, k] = self.size;
        let of_group = |group: usize| {
            let span = self.offsets[group] as usize..self.offsets[group + 1] as usize;
            let part = |row: Vec<f64>| row[span.clone()].to_vec();
            let of_b = |row: usize| {
                let scale = |step: usize| self.b_scales[[step, row]];
                part(rows_in_f64(&self.b, row, k, &scale))
            };
            let of_a = |row: usize| {
                let scale = |step: usize| self.a_scales[[step, row]];
                part(rows_in_f64(&self.a, row, k, &scale))
            };
            let a: Vec<f64> = (0..m).flat_map(of_a).collect();
            let b: Vec<f64> = (0..n).flat_map(of_b).collect();
            products_of_rows([m, n, span.len()], &a, &b)
        };
        (0..self.groups()).flat_map(of_group).collect()
    }
}

/// Computes products once, or adds them twice to zeros.
fn product<O: ResultOf<E4m3, Addend = O>>(case: &mut Case, adds: bool) -> CaseResult {
    let products = Along::<O>::new(case, adds);
    let ([m, n, k], times) = (products.size, if adds { 2 } else { 1 });
    if adds {
        products.clear(case)?;
    }
    for _ in 0..times {
        products.launch(case)?;
    }
    let want = || {
        let sums = products.reference().into_iter();
        sums.map(|sum| sum * f64::from(times)).collect()
    };
    let rows = products.groups() * m;
    case.expect_part_in_units(&products.c, [rows, n], want, tolerance(4 * k))?;
    case.does_tensor_flops::<E4m3>(2 * m * n * k);
    Ok(())
}

#[case(sizes(groups = [0, 5, 0], m = [200, 130, 1], n = [264, 136, 8], k = [400, 0, 16]))]
fn product_row_scaled_e4m3(case: &mut Case) -> CaseResult {
    product::<bf16>(case, false)
}

#[case(sizes(groups = [0, 5], m = [200, 130], n = [264, 136], k = [400, 0]))]
fn product_row_scaled_adds_e4m3(case: &mut Case) -> CaseResult {
    product::<f32>(case, true)
}
