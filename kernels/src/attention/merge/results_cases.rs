//! Cases of merged results, against f64.

use tilekit::prelude::*;

use super::results::{ROWS, merge_results};
use crate::attention::reference::numbers;

fn merged<A, B, O>(case: &mut Case, columns: usize) -> CaseResult
where
    A: Float + DeviceElement,
    B: Float + DeviceElement,
    O: Float + DeviceElement,
{
    let [batch, heads, tokens] = ["batch", "heads", "tokens"].map(|name| case.size(name));
    let rows = batch * heads * tokens;
    // Some rows see no keys of one part or of both, and hold NaN.
    let is_empty = |row: usize, part: usize| row % 5 == 3 || row % 7 == part;
    let lse = |case: &mut Case, name: &'static str, part: usize| {
        case.input::<f32>(name, [rows], move |row| {
            if is_empty(row, part) {
                f32::NEG_INFINITY
            } else {
                ((row * 37 + part * 11) % 41) as f32 / 4.0 - 5.0
            }
        })
    };
    let [a_lse, b_lse] = [(0, "a_lse"), (1, "b_lse")].map(|(part, name)| lse(case, name, part));
    // Tokens outside of heads in one, inside in the other.
    let a = rows_of::<A>(case, "a", [rows, columns], move |row| {
        let (batch, token, head) = (row / heads / tokens, row / heads % tokens, row % heads);
        !is_empty((batch * heads + head) * tokens + token, 0)
    });
    let b = rows_of::<B>(case, "b", [rows, columns], move |row| !is_empty(row, 1));
    let out = case.output::<O>("out", [rows, columns]);
    let lse = case.output::<f32>("lse", [rows]);
    let line = |strides: [usize; 3]| strides.map(|stride| stride as i64);
    let by_heads = line([heads * tokens * columns, tokens * columns, columns]);
    let by_tokens = line([heads * tokens * columns, columns, heads * columns]);
    let of_lse = line([heads * tokens, tokens, 1]);
    case.launch_programmatic(
        fixed(merge_results::<A, B, O>, columns),
        rows.div_ceil(ROWS),
        (
            &a,
            &a_lse,
            &b,
            &b_lse,
            &out,
            &lse,
            rows as i32,
            heads as i32,
            tokens as i32,
            by_tokens,
            by_heads,
            by_heads,
            of_lse,
            of_lse,
        ),
    )?;
    let weights = || -> Vec<[f64; 3]> {
        let (of_a, of_b) = (numbers(&a_lse), numbers(&b_lse));
        let of_row = |row: usize| {
            let [a, b] = [of_a[row], of_b[row]].map(f64::exp);
            let total = a + b;
            let share = |x: f64| if total > 0.0 { x / total } else { 0.0 };
            [share(a), share(b), total.ln()]
        };
        (0..rows).map(of_row).collect()
    };
    let of_out = || {
        let (a, b, weights) = (numbers(&a), numbers(&b), weights());
        let of = |at: usize| {
            let (row, column) = (at / columns, at % columns);
            let (batch, head, token) = (row / heads / tokens, row / tokens % heads, row % tokens);
            let of_a = ((batch * tokens + token) * heads + head) * columns + column;
            let term = |share: f64, x: f64| if share > 0.0 { share * x } else { 0.0 };
            term(weights[row][0], a[of_a]) + term(weights[row][1], b[at])
        };
        (0..rows * columns).map(of).collect::<Vec<f64>>()
    };
    let close = Close {
        relative: 4e-3,
        absolute: 1e-5,
    };
    case.expect_all(&out, of_out, close)?;
    let of_lse = || {
        weights()
            .iter()
            .map(|weight| weight[2])
            .collect::<Vec<f64>>()
    };
    let close = Close {
        relative: 1e-6,
        absolute: 1e-6,
    };
    case.expect_all(&lse, of_lse, close)?;
    case.moves_bytes(rows * columns * (size_of::<A>() + size_of::<B>() + size_of::<O>()));
    Ok(())
}

/// Rows of which some are NaN.
fn rows_of<T: DeviceElement>(
    case: &mut Case,
    name: &'static str,
    [rows, columns]: [usize; 2],
    has_keys: impl Fn(usize) -> bool + Send + Sync + 'static,
) -> Input<T> {
    let seed = name.len() + usize::from(name.as_bytes()[0]);
    case.input::<T>(name, [rows, columns], move |at| {
        let number = if has_keys(at / columns) {
            (at * 29 + seed * 13) as f64 % 83.0 / 41.0 - 1.0
        } else {
            f64::NAN
        };
        T::nearest(Number::Float(number)).expect("a float holds every number")
    })
}

#[case(sizes(batch = [2, 1], heads = [3], tokens = [7, 1]))]
fn merge_results_128(case: &mut Case) -> CaseResult {
    merged::<bf16, bf16, bf16>(case, 128)
}

#[case(sizes(batch = [1], heads = [5], tokens = [9]))]
fn merge_results_96_sums(case: &mut Case) -> CaseResult {
    merged::<f16, f16, f32>(case, 96)
}

#[case(sizes(batch = [1], heads = [2], tokens = [3]))]
fn merge_results_512_of_sums(case: &mut Case) -> CaseResult {
    merged::<f32, bf16, bf16>(case, 512)
}
