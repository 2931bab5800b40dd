//! Cases of products of groups with scales for blocks, against f64.

use tilekit::prelude::*;
use tilekit::reference::products_of_rows;

use super::cases::{rows_in_f64, tiles, tolerance};
use super::grouped::{GroupedForm, block_scaled_grouped};
use crate::products::factor::BLOCK;
use crate::products::repack::{TILE, repack};

/// Where rows of groups lie.
struct Groups {
    /// The first row of each and the one after its last.
    spans: Vec<[usize; 2]>,
    /// Rows of all.
    m: usize,
    /// What the kernel is given.
    numbers: Vec<i32>,
    is_counted: bool,
}

impl Groups {
    /// `rows` each; where that is 0, of 0 to 299; where it is 1, most in the first of them, half of the others empty. With room for `room` each, if that is not 0.
    fn new(groups: usize, rows: usize, room: usize) -> Groups {
        let of_group = |group: usize| match rows {
            0 => (group * 170 + 130) % 300,
            1 => {
                if group % 2 == 1 {
                    0
                } else {
                    300 / (group + 1)
                }
            }
            rows => rows,
        };
        if room > 0 {
            let count = |group: usize| of_group(group).min(room);
            return Groups {
                spans: (0..groups)
                    .map(|g| [g * room, g * room + count(g)])
                    .collect(),
                m: groups * room,
                // More than there is room for counts as full.
                numbers: (0..groups).map(|group| of_group(group) as i32).collect(),
                is_counted: true,
            };
        }
        let mut offsets = vec![0];
        for group in 0..groups {
            offsets.push(offsets[group] + of_group(group));
        }
        Groups {
            spans: offsets.windows(2).map(|two| [two[0], two[1]]).collect(),
            m: offsets[groups],
            numbers: offsets.iter().map(|&row| row as i32).collect(),
            is_counted: false,
        }
    }
}

/// Zeros, which rows of no group keep.
fn clear(case: &mut Case, c: &Output<bf16>, [rows, columns]: [usize; 2]) -> CaseResult {
    let grid = [rows.div_ceil(TILE), columns.div_ceil(TILE)];
    let lies = (0_i64, columns as i64, 1_i64, 0_i64);
    let (first, row, column, batch) = lies;
    let arguments = (
        c,
        first,
        row,
        column,
        batch,
        c,
        first,
        row,
        column,
        batch,
        rows as i32,
        columns as i32,
        0,
    );
    case.launch(repack::<bf16, 1, 1>, grid, arguments)
}

fn product(case: &mut Case) -> CaseResult {
    let [count, n, k] = ["groups", "n", "k"].map(|name| case.size(name));
    let groups = Groups::new(count, case.size("rows"), case.size("room"));
    let (m, depth, steps) = (groups.m, k.next_multiple_of(16), k.div_ceil(BLOCK));
    let pitch = n.next_multiple_of(8);
    let of_columns = n.div_ceil(BLOCK);
    let a = case.normal::<E4m3>("a", [m, depth]);
    let b = case.normal::<E4m3>("b", [count * n, depth]);
    let a_scales = case.uniform::<f32>("a_scales", [steps, m.next_multiple_of(4)], 0.25..1.0);
    let b_scales = case.uniform::<f32>("b_scales", [count * of_columns, steps], 0.25..1.0);
    let numbers = groups.numbers.clone();
    let rows = case.input::<i32>("rows", [numbers.len()], move |at| numbers[at]);
    let c = case.output::<bf16>("c", [m, pitch]);
    let tile = tiles()[case.size("tile")];
    let form = GroupedForm {
        tile,
        is_counted: groups.is_counted,
    };
    let b_view = b.view().with_shape([count, n, k]);
    let ([tile_rows, tile_columns], ctas) = (tile.of_cluster(), tile.ctas());
    let all = (m.div_ceil(tile_rows) + count) * n.div_ceil(tile_columns);
    // Fewer clusters than tiles, at small sizes too.
    let clusters = all.min(if m < 8192 { 3 } else { 132 / ctas });
    if groups.is_counted {
        clear(case, &c, [m, pitch])?;
    }
    case.launch(
        fixed(block_scaled_grouped::<E4m3, bf16>, form),
        clusters * ctas,
        (
            a.view().with_shape([m, k]).with_strides([depth, 1]),
            b_view.with_strides([n * depth, depth, 1]),
            a_scales
                .view()
                .with_shape([steps, m])
                .with_strides([m.next_multiple_of(4), 1]),
            c.view().with_shape([m, n]).with_strides([pitch, 1]),
            &c,
            pitch as i32,
            &rows,
            count as i32,
            &b_scales,
            (of_columns * steps) as i32,
            steps as i32,
            1,
            m as i32,
            n as i32,
            k as i32,
        ),
    )?;
    let inside = |row: usize| {
        groups
            .spans
            .iter()
            .position(|&[first, end]| (first..end).contains(&row))
    };
    let want = || {
        let of_b = |row: usize| {
            rows_in_f64(&b, row, k, &|step| {
                b_scales[[row / n * of_columns + row % n / BLOCK, step]]
            })
        };
        let columns: Vec<f64> = (0..count * n).flat_map(of_b).collect();
        let of_row = |row: usize| -> Vec<f64> {
            let Some(group) = inside(row) else {
                return vec![0.0; n];
            };
            let x = rows_in_f64(&a, row, k, &|step| a_scales[[step, row]]);
            products_of_rows([1, n, k], &x, &columns[group * n * k..])
        };
        (0..m).flat_map(of_row).collect::<Vec<f64>>()
    };
    case.expect_part_in_units(&c, [m, n], want, tolerance(k))?;
    let of_groups: usize = groups.spans.iter().map(|[first, end]| end - first).sum();
    case.does_tensor_flops::<E4m3>(2 * n * k * of_groups);
    Ok(())
}

#[case(sizes(
    groups = [1, 5, 32, 3, 4, 5, 4, 3, 5, 4],
    n = [136, 264, 8, 392, 200, 392, 264, 136, 200, 392],
    k = [128, 400, 144, 272, 16, 400, 700, 272, 656, 400],
    rows = [0, 0, 1, 0, 7, 0, 1, 0, 0, 1],
    room = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    tile = [0, 1, 2, 3, 9, 6, 7, 10, 11, 8]
))]
fn product_block_scaled_grouped_e4m3(case: &mut Case) -> CaseResult {
    product(case)
}

#[case(sizes(groups = [4, 3, 3], n = [136, 264, 392], k = [272, 400, 272], rows = [0, 0, 0], room = [200, 128, 256], tile = [3, 0, 6]))]
fn product_block_scaled_counted_e4m3(case: &mut Case) -> CaseResult {
    product(case)
}
