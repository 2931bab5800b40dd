//! Attention to a cache of latent vectors as a program calls it.

use tilekit::prelude::*;
use tilekit::{Compiler, LoadedKernel};

use super::call_plan::{LatentPlan, PlanShape};
use super::check::{
    CheckedLatent, DEPTHS, RowOrder, check_latent, check_latent_inputs, check_plan,
};
use super::deal::STEP;
use super::kernel::decode_latent;
use super::merge::merge_latent;
use super::plan::plan_numbers;
use super::shape::PAGE;
use crate::attention::call::{Attention, Forward, View, extent};
use crate::attention::check::Strides;
use crate::attention::decode::table::instance;
use crate::attention::error::Result;
use crate::attention::table::Operand;
use crate::attention::workspace::{SplitRows, Workspace};
use crate::handles::handles;

/// The parameters of `decode_latent`.
type DecodeLatent<T> = handles! {
    q q_rope cache cache_rope: TensorMap<T>,
    cache_rows: Ptr<T>,
    page_stride: Scalar<i64>,
    out: Ptr<T>,
    lse sums lse_of_pieces: Ptr<f32>,
    table plan: Ptr<i32>,
    heads queries: Scalar<i32>,
    row_order: [Scalar<i32>; 2],
    table_row: Scalar<i32>,
    log2_scale: Scalar<f32>,
    out_strides: [Scalar<i64>; 3],
};

/// Pieces of a sequence, if each has as many, from which on the warps of `merge_latent` divide them.
const MANY_PIECES: usize = 32;

/// The most programs of `merge_latent`, which take rows in turn: 5 on each SM, as many as are resident.
const MERGERS: usize = 5 * 132;

/// A cache of latent vectors (MLA): a row is the key of all heads, and its first 512 columns are the value.
#[derive(Clone, Copy)]
pub struct LatentCache<'a, T> {
    /// Rows of 576 columns, `[pages, 1, 64, 576]`. Rows are contiguous; other strides are multiples of 16 bytes.
    pub rows: &'a TensorView<'a, T>,
    /// The length of each sequence in tokens, including those of the queries; on the device. A call with a plan attends to the lengths that the plan was
    /// made of, and reads these if `checked`.
    pub lengths: &'a Buffer<i32>,
    /// The pages of each sequence, `[batch, pages]`; on the device. Entries past the last token are not read.
    pub table: &'a Buffer<i32>,
    /// Whether a kernel checks lengths and table first: a length beyond the room of its sequence, or a page outside of the cache, fails a
    /// device assertion. Without the check nothing is read outside of the cache: a length beyond the room counts as the room, and a page outside of
    /// the cache as zeros. With a plan, a length that has changed since it was made fails as well.
    pub checked: bool,
}

/// A call that has been checked.
struct Call<'a, T> {
    stream: &'a Stream,
    q: &'a View<'a, T>,
    cache: &'a LatentCache<'a, T>,
    out: &'a View<'a, T>,
    lse: &'a Buffer<f32>,
    checked: CheckedLatent,
    /// The plan, and the parts that it is for.
    plan: (&'a Buffer<i32>, usize),
}

impl Attention {
    /// Attention of the last tokens of each sequence to its cache of latent vectors (MLA decode), into new buffers: `q` is `[batch, heads,
    /// tokens, 576]` with at most 128 heads, already multiplied by the up-projection of keys, and the output `[batch, heads, tokens, 512]` is not
    /// yet multiplied by that of values. The prefill, at depth 192 with values of 128, is [`forward`](Attention::forward).
    ///
    /// A token sees the keys up to its own. `scale` is the factor of scores: by default 1/√576, where models have that of their own depth, as
    /// 1/√192. Heads and tokens of a sequence are rows that are equally far apart: heads inside of tokens, or tokens inside of heads.
    ///
    /// The keys of all sequences are divided evenly among CTAs, by a plan that a kernel makes first ([`decode_latent_planned`](Attention::decode_latent_planned) takes one that several layers
    /// share), and a third kernel merges the results of sequences that several CTAs have.
    /// Grid and workspace depend on shapes alone, so a captured graph can be replayed while lengths and pages change on the device. A
    /// sequence without tokens gives rows of zeros and an LSE of -inf. The first call with given shapes compiles and allocates, which may not happen while a
    /// graph is captured.
    ///
    /// ```
    /// use tilekit::prelude::*;
    /// use tilekit_kernels::attention::{Attention, LatentCache};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let device = Device::auto(); // a GPU where there is one, else the emulator
    /// let stream = Stream::new(&device)?;
    /// let attention = Attention::new(&device);
    ///
    /// // 3 pages of 64 tokens, of which the first sequence has two.
    /// let of_cache = Buffer::from_slice(&device, &vec![bf16::ONE; 3 * 64 * 576])?;
    /// let rows = of_cache.view([3, 1, 64, 576]);
    /// let table = Buffer::from_slice(&device, &[2, 0, 1, 1])?;
    /// let lengths = Buffer::from_slice(&device, &[70, 17])?;
    /// let cache = LatentCache { rows: &rows, lengths: &lengths, table: &table, checked: true };
    ///
    /// // The next token of each, with 16 heads.
    /// let of_queries = Buffer::from_slice(&device, &vec![bf16::ONE; 2 * 16 * 576])?;
    /// let q = of_queries.view([2, 16, 1, 576]);
    /// let result = attention.decode_latent(&stream, &q, &cache, Some(1.0 / 192_f32.sqrt()))?;
    /// stream.synchronize()?;
    /// assert!(result.out.to_vec()?.iter().all(|&x| x == bf16::ONE));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Argument`](crate::attention::Error::Argument) for an argument that is not supported; otherwise an error of the device.
    pub fn decode_latent<T: Operand>(
        &self,
        stream: &Stream,
        q: &View<'_, T>,
        cache: &LatentCache<'_, T>,
        scale: Option<f32>,
    ) -> Result<Forward<T>> {
        check_latent_inputs(q, cache, scale)?;
        self.results(("q", q), DEPTHS[1], |out, lse| {
            self.decode_latent_into(stream, q, cache, out, lse, scale)
        })
    }

    /// [`decode_latent`](Attention::decode_latent) into `out`, whose rows are contiguous and whose other strides are multiples of 16 bytes, and into `lse`.
    ///
    /// # Errors
    /// As for [`decode_latent`](Attention::decode_latent).
    pub fn decode_latent_into<T: Operand>(
        &self,
        stream: &Stream,
        q: &View<'_, T>,
        cache: &LatentCache<'_, T>,
        out: &View<'_, T>,
        lse: &Buffer<f32>,
        scale: Option<f32>,
    ) -> Result<()> {
        let checked = check_latent(q, cache, out, lse, scale)?;
        let parts = self.latent_parts(cache, checked.plan_shape())?;
        let _turn = stream.turn();
        let workspace = Workspace::of(stream)?;
        let plan = workspace.plan(&self.device, stream, plan_numbers(parts, checked.batch))?;
        self.check_cache(stream, cache, checked.plan_shape())?;
        self.launch_plan(stream, cache, checked.plan_shape(), (&plan, parts))?;
        self.launch_latent(&Call {
            stream,
            q,
            cache,
            out,
            lse,
            checked,
            plan: (&plan, parts),
        })
    }

    /// [`decode_latent`](Attention::decode_latent) by a plan, which it does not make then: the two kernels that are left depend on lengths through the plan alone.
    ///
    /// # Errors
    /// As for [`decode_latent`](Attention::decode_latent); and the plan is for as many sequences, heads, tokens, and pages of a sequence.
    pub fn decode_latent_planned<T: Operand>(
        &self,
        stream: &Stream,
        q: &View<'_, T>,
        cache: &LatentCache<'_, T>,
        plan: &LatentPlan,
        scale: Option<f32>,
    ) -> Result<Forward<T>> {
        let checked = check_latent_inputs(q, cache, scale)?;
        check_plan(plan, checked.plan_shape())?;
        self.results(("q", q), DEPTHS[1], |out, lse| {
            self.decode_latent_planned_into(stream, q, cache, plan, (out, lse), scale)
        })
    }

    /// [`decode_latent_planned`](Attention::decode_latent_planned) into `out` and `lse`, as of [`decode_latent_into`](Attention::decode_latent_into).
    ///
    /// # Errors
    /// As for [`decode_latent_planned`](Attention::decode_latent_planned).
    pub fn decode_latent_planned_into<T: Operand>(
        &self,
        stream: &Stream,
        q: &View<'_, T>,
        cache: &LatentCache<'_, T>,
        plan: &LatentPlan,
        (out, lse): (&View<'_, T>, &Buffer<f32>),
        scale: Option<f32>,
    ) -> Result<()> {
        let checked = check_latent(q, cache, out, lse, scale)?;
        check_plan(plan, checked.plan_shape())?;
        let _turn = stream.turn();
        self.check_cache(stream, cache, checked.plan_shape())?;
        if cache.checked {
            self.launch_check_plan(stream, cache, plan)?;
        }
        self.launch_latent(&Call {
            stream,
            q,
            cache,
            out,
            lse,
            checked,
            plan: (&plan.numbers, plan.parts),
        })
    }

    /// Checks lengths and pages on the device, if the cache asks for it.
    pub(super) fn check_cache<T: Operand>(
        &self,
        stream: &Stream,
        cache: &LatentCache<'_, T>,
        shape: PlanShape,
    ) -> Result<()> {
        if cache.checked {
            let counts = [shape.batch, shape.pages, PAGE, extent(cache.rows, 0)];
            self.launch_check(stream, cache.lengths, Some(cache.table), counts)?;
        }
        Ok(())
    }

    /// The kernel of a call.
    fn latent_kernel<T: Operand>(
        &self,
        cache: &LatentCache<'_, T>,
        shape: PlanShape,
    ) -> Result<LoadedKernel<DecodeLatent<T>>> {
        let is_ahead = is_ahead(shape, cache.rows);
        let compile: fn(&Compiler) -> tilekit::Result<_> = if is_ahead {
            |compiler| decode_latent::<T, true>.compile(compiler)
        } else {
            |compiler| decode_latent::<T, false>.compile(compiler)
        };
        let instance = instance(DEPTHS, [STEP, 1], compile);
        self.kernel::<T, _>("decode_latent", usize::from(is_ahead), &instance)
    }

    /// Parts of the grid of a call: no more than there are steps, since what a part without one has would only be merged.
    pub(super) fn latent_parts<T: Operand>(
        &self,
        cache: &LatentCache<'_, T>,
        shape: PlanShape,
    ) -> Result<usize> {
        let kernel = self.latent_kernel(cache, shape)?;
        let resident = self.programs(&kernel, usize::from(u16::MAX))?;
        Ok((resident / shape.row_tiles()).min(shape.steps()).max(1))
    }

    fn launch_latent<T: Operand>(&self, call: &Call<'_, T>) -> Result<()> {
        let CheckedLatent { scale, order, .. } = call.checked;
        let shape = call.checked.plan_shape();
        let kernel = self.latent_kernel(call.cache, shape)?;
        let (plan, parts) = call.plan;
        let of_sequence = shape.heads * shape.queries;
        let pieces = parts + shape.batch - 1;
        let rows = self.split_rows(call.stream, [pieces * of_sequence, DEPTHS[1]])?;
        let (q, cache) = (rows_of(call.q, order), pages_of(call.cache.rows));
        kernel.launch(
            call.stream,
            grid([shape.row_tiles(), parts]),
            (
                &q,
                &q,
                &cache,
                &cache,
                &cache,
                Strides::of(call.cache.rows).batch as i64,
                call.out,
                call.lse,
                &rows.sums,
                &rows.lse,
                call.cache.table,
                plan,
                shape.heads as i32,
                shape.queries as i32,
                order.rows(),
                shape.pages as i32,
                scale * LOG2_E as f32,
                Strides::of(call.out).numbers(),
            ),
        )?;
        self.launch_merge_latent(call, &rows)
    }

    fn launch_merge_latent<T: Operand>(&self, call: &Call<'_, T>, rows: &SplitRows) -> Result<()> {
        let CheckedLatent {
            batch,
            heads,
            queries,
            order,
            ..
        } = call.checked;
        let (plan, parts) = call.plan;
        let has_many = parts >= MANY_PIECES * batch;
        let compile: fn(&Compiler) -> tilekit::Result<_> = if has_many {
            |compiler| merge_latent::<T, 128>.compile(compiler)
        } else {
            |compiler| merge_latent::<T, 512>.compile(compiler)
        };
        let instance = instance(DEPTHS, [STEP, 1], compile);
        let kernel = self.kernel::<T, _>("merge_latent", usize::from(has_many), &instance)?;
        let programs = (batch * heads * queries).min(MERGERS);
        kernel.launch(
            call.stream,
            grid([programs, if has_many { 4 } else { 1 }]),
            (
                &rows.sums,
                &rows.lse,
                call.out,
                call.lse,
                plan,
                heads as i32,
                queries as i32,
                parts as i32,
                order.rows(),
                Strides::of(call.out).numbers(),
            ),
        )?;
        Ok(())
    }
}

/// Whether a call has so many steps that `AHEAD` is faster: from 8 steps in each of 132 CTAs on, where CTAs share the cache, whose pages are contiguous.
pub(super) fn is_ahead<T: DeviceElement>(shape: PlanShape, rows: &View<'_, T>) -> bool {
    let row_tiles = shape.row_tiles();
    let steps = shape.steps() * row_tiles;
    row_tiles > 1 && steps >= 8 * 132 && rows.place().strides[2] == DEPTHS[0]
}

/// The view with heads and tokens as rows.
fn rows_of<'a, T: DeviceElement>(view: &View<'a, T>, order: RowOrder) -> View<'a, T> {
    let place = view.place();
    let shape = &place.shape;
    let rows = view
        .source()
        .view([shape[0], shape[1] * shape[2], shape[3]]);
    rows.with_strides([place.strides[0], order.stride, 1])
        .with_offset(place.offset)
}

/// The view of a cache without its one head.
fn pages_of<'a, T: DeviceElement>(view: &View<'a, T>) -> View<'a, T> {
    let place = view.place();
    let shape = &place.shape;
    let pages = view.source().view([shape[0], shape[2], shape[3]]);
    pages
        .with_strides([place.strides[0], place.strides[2], 1])
        .with_offset(place.offset)
}
