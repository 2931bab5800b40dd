//! Cases of matrices that are quantised, against f64.

use std::sync::LazyLock;

use tilekit::prelude::*;

use super::quantise::{ROWS, quantise_blocks, quantise_rows};
use crate::products::blocks::{LARGEST_E4M3, LEAST};
use crate::products::factor::BLOCK;

/// A step of e4m3 halved, relative and at its smallest.
const ROUNDED: Tolerance = Close {
    relative: 0.0626,
    absolute: 1e-3,
};

/// Quantises a matrix with a scale for each block of `rows` by 128; scales of single rows lie along columns.
fn quantised(case: &mut Case, rows: usize) -> CaseResult {
    let [m, k] = ["m", "k"].map(|name| case.size(name));
    let x = case.normal::<bf16>("x", [m, k.next_multiple_of(8)]);
    let blocks = [m.div_ceil(rows), k.div_ceil(BLOCK)];
    let values = case.output::<E4m3>("values", [m, k.next_multiple_of(16)]);
    let of_scales = if rows == 1 {
        [blocks[1], blocks[0].next_multiple_of(4)]
    } else {
        blocks
    };
    let scales = case.output::<f32>("scales", of_scales);
    let arguments = (
        &x,
        k.next_multiple_of(8) as i64,
        &values,
        k.next_multiple_of(16) as i32,
        &scales,
        of_scales[1] as i32,
        m as i32,
        k as i32,
    );
    if rows == 1 {
        case.launch(
            quantise_rows::<bf16>,
            [m.div_ceil(ROWS), blocks[1]],
            arguments,
        )?;
    } else {
        case.launch(quantise_blocks::<bf16>, blocks, arguments)?;
    }
    let scale = |block: [usize; 2]| {
        let [first, end] = [block[0] * rows, ((block[0] + 1) * rows).min(m)];
        let columns = block[1] * BLOCK..((block[1] + 1) * BLOCK).min(k);
        let magnitude = |i: usize, j: usize| x[[i, j]].to_f64().abs();
        let places = (first..end).flat_map(|i| columns.clone().map(move |j| (i, j)));
        let largest = places.map(|(i, j)| magnitude(i, j)).fold(0.0, f64::max);
        largest.max(f64::from(LEAST)) / f64::from(LARGEST_E4M3)
    };
    // Cases are listed for each command: only one that runs pays for its reference.
    let all = LazyLock::new(|| -> Vec<Vec<f64>> {
        let row = |i| (0..blocks[1]).map(|j| scale([i, j])).collect();
        (0..blocks[0]).map(row).collect()
    });
    let want = || {
        let places = (0..m).flat_map(|i| (0..k).map(move |j| (i, j)));
        let value = |(i, j): (usize, usize)| x[[i, j]].to_f64() / all[i / rows][j / BLOCK];
        places.map(value).collect::<Vec<f64>>()
    };
    case.expect_part_in_units(&values, [m, k], want, ROUNDED)?;
    let (part, turned) = if rows == 1 {
        ([blocks[1], blocks[0]], true)
    } else {
        (blocks, false)
    };
    let of_scales = || {
        let places = (0..part[0]).flat_map(|i| (0..part[1]).map(move |j| (i, j)));
        let of = |(i, j): (usize, usize)| if turned { all[j][i] } else { all[i][j] };
        places.map(of).collect::<Vec<f64>>()
    };
    case.expect_part_in_units(&scales, part, of_scales, Relative(1e-6))?;
    case.moves_bytes(3 * m * k);
    Ok(())
}

#[case(sizes(m = [70, 1, 128, 256], k = [300, 8, 128, 1024]))]
fn quantise_rows_bf16(case: &mut Case) -> CaseResult {
    quantised(case, 1)
}

#[case(sizes(m = [300, 1, 128, 256], k = [300, 8, 128, 1024]))]
fn quantise_blocks_bf16(case: &mut Case) -> CaseResult {
    quantised(case, BLOCK)
}
