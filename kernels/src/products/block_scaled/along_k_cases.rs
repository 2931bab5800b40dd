//! Cases of products with a scale for 128 elements of each row of both factors, against f64.

use tilekit::prelude::*;

use super::along_k::{AlongForm, row_scaled};
use super::cases::{products_of, rows_in_f64, tolerance};
use super::plan::ALONG_K;
use super::tile::BLOCK;
use crate::products::factor::{ResultOf, unit};
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

/// Products of groups of K, or of all of K where there are none; `adds` twice to zeros.
fn product<O: ResultOf<E4m3>>(case: &mut Case, adds: bool) -> CaseResult {
    let [groups, m, n, k] = ["groups", "m", "n", "k"].map(|name| case.size(name));
    let is_grouped = groups > 0;
    let offsets = if is_grouped {
        offsets_of(groups)
    } else {
        vec![0, k as i32]
    };
    let count = groups.max(1);
    let k = offsets[count] as usize;
    let (depth, steps, pitch) = (
        k.next_multiple_of(16),
        k.div_ceil(BLOCK),
        n.next_multiple_of(unit::<O>()),
    );
    let a = case.normal::<E4m3>("a", [m, depth]);
    let b = case.normal::<E4m3>("b", [n, depth]);
    let a_scales = case.uniform::<f32>("a_scales", [steps, m.next_multiple_of(4)], 0.25..1.0);
    let b_scales = case.uniform::<f32>("b_scales", [steps, n.next_multiple_of(4)], 0.25..1.0);
    let numbers = offsets.clone();
    let ends = case.input::<i32>("offsets", [offsets.len()], move |at| numbers[at]);
    let c = case.output::<O>("c", [count * m, pitch]);
    let form = AlongForm {
        tile: ALONG_K,
        is_grouped,
        adds,
    };
    let tiles = count * m.div_ceil(ALONG_K.shape()[0]) * n.div_ceil(ALONG_K.columns);
    let programs = if m * n < 1 << 20 {
        tiles.min(3)
    } else {
        tiles.min(132)
    };
    if adds {
        let grid = [(count * m).div_ceil(TILE), pitch.div_ceil(TILE)];
        let (first, row, column, batch) = (0_i64, pitch as i64, 1_i64, 0_i64);
        let extents = ((count * m) as i32, pitch as i32);
        let arguments = (
            &c, first, row, column, batch, &c, first, row, column, batch, extents.0, extents.1, 0,
        );
        case.launch(repack::<O, 1, 1>, grid, arguments)?;
    }
    for _ in 0..if adds { 2 } else { 1 } {
        let of_scales = |scales, rows: usize| {
            let view: TensorView<'_, f32, Input<f32>> = scales;
            view.with_shape([steps, rows])
                .with_strides([rows.next_multiple_of(4), 1])
        };
        case.launch(
            fixed(row_scaled::<E4m3, O>, form),
            programs,
            (
                a.view().with_shape([m, k]).with_strides([depth, 1]),
                b.view().with_shape([n, k]).with_strides([depth, 1]),
                of_scales(a_scales.view(), m),
                of_scales(b_scales.view(), n),
                c.view()
                    .with_shape([count, m, n])
                    .with_strides([m * pitch, pitch, 1]),
                &ends,
                count as i32,
                m as i32,
                n as i32,
                k as i32,
            ),
        )?;
    }
    let want = || {
        let of_group = |group: usize| {
            let (first, end) = (offsets[group] as usize, offsets[group + 1] as usize);
            let part = |row: Vec<f64>| row[first..end].to_vec();
            let of_b = |row: usize| part(rows_in_f64(&b, row, k, &|step| b_scales[[step, row]]));
            let of_a = |row: usize| part(rows_in_f64(&a, row, k, &|step| a_scales[[step, row]]));
            let columns: Vec<Vec<f64>> = (0..n).map(of_b).collect();
            products_of((0..m).map(of_a), &columns)
        };
        let times = if adds { 2.0 } else { 1.0 };
        (0..count)
            .flat_map(of_group)
            .map(|sum| sum * times)
            .collect::<Vec<f64>>()
    };
    case.expect_part_in_units(&c, [count * m, n], want, tolerance(4 * k))?;
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
