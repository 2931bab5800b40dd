//! Plans of calls that attend to a cache of latent vectors, as a program makes them.

use tilekit::prelude::*;

use super::call::{LatentCache, is_ahead};
use super::check::{check_plan, check_planned};
use super::deal::STEP;
use super::plan::{check_latent_plan, plan_latent, plan_numbers};
use super::shape::PAGE;
use crate::attention::call::Attention;
use crate::attention::decode::table::instance;
use crate::attention::error::Result;
use crate::attention::mainloop::problem::ROWS;
use crate::attention::table::Operand;

/// How the keys of some sequences are dealt to a grid, for [`decode_latent_planned`](Attention::decode_latent_planned): made by
/// [`plan_latent`](Attention::plan_latent) once for all layers, since it follows from lengths and shapes alone.
pub struct LatentPlan {
    pub(super) numbers: Buffer<i32>,
    pub(super) shape: PlanShape,
    pub(super) parts: usize,
}

/// What a plan and its calls have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlanShape {
    pub(super) batch: usize,
    pub(super) heads: usize,
    pub(super) queries: usize,
    /// Pages of a sequence.
    pub(super) pages: usize,
}

impl PlanShape {
    /// Tiles of a sequence's rows.
    pub(super) fn row_tiles(self) -> usize {
        (self.heads * self.queries).div_ceil(ROWS)
    }

    /// Steps along the keys for which all sequences have room.
    pub(super) fn steps(self) -> usize {
        self.batch * (self.pages * PAGE).div_ceil(STEP)
    }
}

impl Attention {
    /// A plan for calls of [`decode_latent_planned`](Attention::decode_latent_planned) with so many `heads` and `tokens` of each sequence, and with the lengths that `cache` has now. Any cache of the
    /// same lengths will do in those calls, if its table has as many pages for a sequence: one plan serves all layers of a model.
    ///
    /// ```
    /// use tilekit::prelude::*;
    /// use tilekit_kernels::attention::{Attention, LatentCache};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let device = Device::auto();
    /// let stream = Stream::new(&device)?;
    /// let attention = Attention::new(&device);
    /// let layers = [1.0, 2.0].map(|x| vec![bf16::from_f32(x); 2 * 64 * 576]);
    /// let [first, second] = layers.map(|rows| Buffer::from_slice(&device, &rows));
    /// let (first, second) = (first?, second?);
    /// let table = Buffer::from_slice(&device, &[0, 1])?;
    /// let lengths = Buffer::from_slice(&device, &[70])?;
    /// let q = Buffer::from_slice(&device, &vec![bf16::ONE; 16 * 576])?;
    /// let q = q.view([1, 16, 1, 576]);
    ///
    /// let rows = [&first, &second].map(|layer| layer.view([2, 1, 64, 576]));
    /// let of = |layer: usize| LatentCache { rows: &rows[layer], lengths: &lengths, table: &table, checked: true };
    /// let plan = attention.plan_latent(&stream, &of(0), [16, 1])?;
    /// for layer in 0..2 {
    ///     let result = attention.decode_latent_planned(&stream, &q, &of(layer), &plan, None)?;
    ///     stream.synchronize()?;
    ///     assert!(result.out.to_vec()?.iter().all(|&x| x == bf16::from_f32(layer as f32 + 1.0)));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Argument`](crate::attention::Error::Argument) for an argument that is not supported; otherwise an error of the device.
    pub fn plan_latent<T: Operand>(
        &self,
        stream: &Stream,
        cache: &LatentCache<'_, T>,
        [heads, tokens]: [usize; 2],
    ) -> Result<LatentPlan> {
        let shape = check_planned(cache, [heads, tokens])?;
        let parts = self.latent_parts(cache, shape)?;
        let plan = LatentPlan {
            numbers: Buffer::new(&self.device, plan_numbers(parts, shape.batch))?,
            shape,
            parts,
        };
        self.plan_latent_into(stream, cache, &plan)?;
        Ok(plan)
    }

    /// Makes a plan anew, of the lengths that `cache` has when the launch runs: once a step, also in a captured graph.
    ///
    /// # Errors
    /// As for [`plan_latent`](Attention::plan_latent); and the cache has as many sequences as the plan, of as many pages each.
    pub fn plan_latent_into<T: Operand>(
        &self,
        stream: &Stream,
        cache: &LatentCache<'_, T>,
        plan: &LatentPlan,
    ) -> Result<()> {
        let PlanShape { heads, queries, .. } = plan.shape;
        let shape = check_planned(cache, [heads, queries])?;
        check_plan(plan, shape)?;
        self.check_cache(stream, cache, shape)?;
        self.launch_plan(stream, cache, shape, (&plan.numbers, plan.parts))
    }

    /// Launches the check that lengths are those that a plan was made of.
    pub(super) fn launch_check_plan<T: Operand>(
        &self,
        stream: &Stream,
        cache: &LatentCache<'_, T>,
        plan: &LatentPlan,
    ) -> Result<()> {
        let instance = instance([0, 0], [0, 1], |compiler| {
            check_latent_plan.compile(compiler)
        });
        let kernel = self.kernel::<(), _>("check_latent_plan", 0, &instance)?;
        let arguments = (cache.lengths, &plan.numbers, plan.parts as i32);
        kernel.launch(stream, plan.shape.batch, arguments)?;
        Ok(())
    }

    pub(super) fn launch_plan<T: Operand>(
        &self,
        stream: &Stream,
        cache: &LatentCache<'_, T>,
        shape: PlanShape,
        (plan, parts): (&Buffer<i32>, usize),
    ) -> Result<()> {
        let instance = instance([0, 0], [0, 1], |compiler| plan_latent.compile(compiler));
        let kernel = self.kernel::<(), _>("plan_latent", 0, &instance)?;
        let begins_early = !is_ahead(shape, cache.rows);
        let arguments = (
            cache.lengths,
            plan,
            shape.batch as i32,
            shape.pages as i32,
            i32::from(begins_early),
        );
        kernel.launch(stream, parts, arguments)?;
        Ok(())
    }
}
