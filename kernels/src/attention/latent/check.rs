//! Checks of the arguments of a call that attends to a cache of latent vectors.

use tilekit::prelude::*;

use super::call::LatentCache;
use super::call_plan::{LatentPlan, PlanShape};
use super::shape::{HALF, PAGE, ROPE};
use crate::attention::check::{
    MOST, Strides, check_not_empty, check_results, check_strides, extents,
};
use crate::attention::decode::check::{check_lengths_of_cache, pages_of_a_sequence};
use crate::attention::error::{Result, expect};
use crate::attention::table::Operand;
use crate::attention::written::check_written;
use crate::overlap::Elements;

/// Columns of a key, and of a value.
pub(super) const DEPTHS: [usize; 2] = [2 * HALF + ROPE, 2 * HALF];

/// The most heads of a token.
const MOST_HEADS: usize = 128;

/// The facts of a valid call that a launch needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct CheckedLatent {
    pub(super) batch: usize,
    pub(super) heads: usize,
    pub(super) queries: usize,
    pub(super) scale: f32,
    /// Pages of a sequence.
    pub(super) pages: usize,
    pub(super) order: RowOrder,
}

impl CheckedLatent {
    pub(super) fn plan_shape(self) -> PlanShape {
        PlanShape {
            batch: self.batch,
            heads: self.heads,
            queries: self.queries,
            pages: self.pages,
        }
    }
}

/// Heads and tokens of a sequence as rows that are equally far apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowOrder {
    /// Elements from one row to the next.
    pub(super) stride: usize,
    /// Rows from one token to the next, and from one head to the next.
    pub(super) token: usize,
    pub(super) head: usize,
}

impl RowOrder {
    /// As kernels take it.
    pub(super) fn rows(self) -> [i32; 2] {
        [self.token as i32, self.head as i32]
    }

    /// The order of a tensor of so many heads and tokens, if it has one.
    fn of([heads, tokens]: [usize; 2], strides: Strides) -> Option<RowOrder> {
        let tokens_outside = RowOrder {
            stride: strides.head,
            token: heads,
            head: 1,
        };
        let heads_outside = RowOrder {
            stride: strides.token,
            token: 1,
            head: tokens,
        };
        if tokens == 1 || (heads > 1 && strides.token == heads * strides.head) {
            Some(tokens_outside)
        } else if heads == 1 || strides.head == tokens * strides.token {
            Some(heads_outside)
        } else {
            None
        }
    }
}

/// Checks a call; the error names the first invalid argument.
pub(super) fn check_latent<T: Operand>(
    q: &TensorView<'_, T>,
    cache: &LatentCache<'_, T>,
    out: &TensorView<'_, T>,
    lse: &Buffer<f32>,
    scale: Option<f32>,
) -> Result<CheckedLatent> {
    let checked = check_latent_inputs(q, cache, scale)?;
    let CheckedLatent {
        batch,
        heads,
        queries,
        ..
    } = checked;
    check_results(
        [batch, heads, queries, DEPTHS[1]],
        extents("out", out)?,
        lse,
    )?;
    check_strides("out", out)?;
    let read = [
        ("q", Elements::bytes_of(q)),
        ("cache.rows", Elements::bytes_of(cache.rows)),
    ];
    check_written(("out", out), &read)?;
    Ok(checked)
}

/// Checks what a call reads: all that may be wrong before there are results.
pub(super) fn check_latent_inputs<T: Operand>(
    q: &TensorView<'_, T>,
    cache: &LatentCache<'_, T>,
    scale: Option<f32>,
) -> Result<CheckedLatent> {
    let [batch, heads, queries, depth] = check_queries(extents("q", q)?)?;
    check_rows(cache)?;
    for (name, view) in [("q", q), ("cache.rows", cache.rows)] {
        check_strides(name, view)?;
    }
    let pages = check_table(cache, batch)?;
    let scale = scale.unwrap_or(1.0 / (depth as f32).sqrt());
    expect(
        scale.is_finite() && scale > 0.0,
        "scale",
        || format!("{scale}"),
        "a number above 0",
    )?;
    let order = check_order([heads, queries], Strides::of(q))?;
    Ok(CheckedLatent {
        batch,
        heads,
        queries,
        scale,
        pages,
        order,
    })
}

/// The extents of q.
fn check_queries(of_q: [usize; 4]) -> Result<[usize; 4]> {
    check_not_empty("q", of_q, &["batch", "heads", "tokens"])?;
    let [_, heads, _, depth] = of_q;
    let [columns, of_values] = DEPTHS;
    expect(
        depth == columns,
        "q",
        || format!("depth {depth}"),
        format!("{columns}: {of_values} of a value, and {ROPE} that rotary embedding turns"),
    )?;
    check_heads("q", heads)?;
    Ok(of_q)
}

fn check_heads(name: &'static str, heads: usize) -> Result<()> {
    expect(
        heads <= MOST_HEADS,
        name,
        || format!("heads {heads}"),
        format!("at most {MOST_HEADS}"),
    )
}

/// Checks what a plan is made of.
pub(super) fn check_planned<T: Operand>(
    cache: &LatentCache<'_, T>,
    [heads, queries]: [usize; 2],
) -> Result<PlanShape> {
    let batch = cache.lengths.len();
    for (name, count) in [
        ("heads", heads),
        ("tokens", queries),
        ("cache.lengths", batch),
    ] {
        expect(count > 0, name, || "0".to_string(), "1 or more")?;
    }
    check_heads("heads", heads)?;
    check_rows(cache)?;
    check_strides("cache.rows", cache.rows)?;
    let rows = batch.saturating_mul(heads).saturating_mul(queries);
    expect(
        rows <= MOST,
        "tokens",
        || format!("{rows} rows of all sequences"),
        format!("at most {MOST}"),
    )?;
    let pages = check_table(cache, batch)?;
    Ok(PlanShape {
        batch,
        heads,
        queries,
        pages,
    })
}

/// Checks that a plan is for calls of this shape.
pub(super) fn check_plan(plan: &LatentPlan, shape: PlanShape) -> Result<()> {
    let said = |of: PlanShape| {
        let PlanShape {
            batch,
            heads,
            queries,
            pages,
        } = of;
        format!("{batch} sequences of {pages} pages, {queries} tokens of {heads} heads each")
    };
    expect(
        plan.shape == shape,
        "plan",
        || format!("one for {}", said(plan.shape)),
        format!("one for {}, as the call has", said(shape)),
    )
}

/// Heads and tokens of q as rows.
fn check_order([heads, queries]: [usize; 2], strides: Strides) -> Result<RowOrder> {
    let order = RowOrder::of([heads, queries], strides);
    let [of_head, of_token] = [strides.head, strides.token];
    expect(
        order.is_some(),
        "q",
        || format!("strides of {of_head} (heads) and {of_token} (tokens)"),
        format!(
            "rows that are equally far apart: {} (tokens) or {} (heads)",
            heads * of_head,
            queries * of_token
        ),
    )?;
    Ok(order.expect("the line above refuses none"))
}

/// The pages of a cache.
fn check_rows<T: Operand>(cache: &LatentCache<'_, T>) -> Result<()> {
    let of_rows = extents("cache.rows", cache.rows)?;
    let [columns, _] = DEPTHS;
    expect(
        of_rows[0] > 0 && of_rows[1..] == [1, PAGE, columns],
        "cache.rows",
        || format!("shape {of_rows:?}"),
        format!("[pages, 1, {PAGE}, {columns}] with a page or more"),
    )
}

/// The pages of a sequence.
fn check_table<T: Operand>(cache: &LatentCache<'_, T>, batch: usize) -> Result<usize> {
    check_lengths_of_cache(cache.lengths, batch)?;
    let pages = pages_of_a_sequence(cache.table, batch)?;
    let tokens = cache.table.len().saturating_mul(PAGE);
    expect(
        tokens <= MOST,
        "cache.table",
        || format!("room for {tokens} tokens of all sequences"),
        format!("at most {MOST}"),
    )?;
    Ok(pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_tokens_of_heads_or_heads_of_tokens() {
        let device = Device::emulator();
        let buffer = Buffer::<f32>::zeros(&device, 1 << 14).expect("the emulator has memory");
        let order = |shape: [usize; 4], strides: [usize; 4]| {
            let view = buffer.view(shape).with_strides(strides);
            RowOrder::of([shape[1], shape[2]], Strides::of(&view))
                .map(|order| [order.stride, order.token, order.head])
        };
        assert_eq!(order([2, 4, 3, 8], [96, 8, 32, 1]), Some([8, 4, 1]));
        assert_eq!(order([2, 4, 3, 8], [96, 24, 8, 1]), Some([8, 1, 3]));
        assert_eq!(order([2, 4, 1, 8], [96, 16, 7, 1]), Some([16, 4, 1]));
        assert_eq!(order([2, 1, 3, 8], [96, 7, 16, 1]), Some([16, 1, 3]));
        assert_eq!(order([2, 4, 3, 8], [128, 8, 40, 1]), None);
    }
}
