//! The kernels before and behind the main loop of a call for gradients: which heads they have, and their launches.

use tilekit::prelude::*;

use super::beside::{heads_ahead, lines};
use super::call::{Call, Upstream};
use super::part::GROUPS;
use super::table::Passes;
use crate::attention::call::Attention;
use crate::attention::check::Strides;
use crate::attention::error::Result;
use crate::attention::plan::Sizes;
use crate::attention::table::Operand;
use crate::attention::workspace::{GradientRows, Workspace};

impl<T: Operand> Call<'_, T> {
    /// Heads of K and V that the kernels before and behind the main loop have each: all of them, where the main loop has none.
    pub(super) fn ahead(&self) -> usize {
        let Sizes {
            batch,
            kv_heads,
            keys,
            ..
        } = self.checked.sizes;
        let all = batch * kv_heads;
        if all == 0 || keys == 0 || self.options.lengths.is_some() || !self.has_passes {
            return all;
        }
        let blocks = self.of_cluster().programs(keys);
        heads_ahead(self.sections(), blocks, all)
    }

    /// The grid of a pass of `blocks` a line, and the first line.
    fn lines(&self, blocks: usize) -> (Grid, usize) {
        let ([y, z], first) = lines(self.checked.sizes, self.ahead());
        (grid([blocks, y, z]), first)
    }

    /// Where sequences of queries begin; `nothing` where there is one length.
    fn query_offsets<'a>(&'a self, nothing: &'a Buffer<i32>) -> &'a Buffer<i32> {
        let lengths = self.options.lengths.as_ref();
        lengths.map_or(nothing, |lengths| lengths.query_offsets)
    }
}

impl Attention {
    /// Launches the kernel in front of the main loop.
    pub(super) fn launch_begin<T: Operand>(
        &self,
        call: &Call<'_, T>,
        index: usize,
        passes: &Passes<T>,
        rows: &GradientRows,
    ) -> Result<()> {
        let begin = self.kernel::<T, _>("backward_begin", index, &passes.begin)?;
        let Upstream { out, dout, .. } = call.upstream;
        let (of_out, of_dout) = (Strides::of(out), Strides::of(dout));
        let sizes = call.checked.sizes;
        let nothing = &Workspace::of(call.stream)?.nothing;
        let blocks = match call.masked {
            Some(_) => call.block_stride(),
            None => sizes.queries.div_ceil(call.block()),
        };
        begin.launch(
            call.stream,
            call.lines(blocks).0,
            (
                out,
                dout,
                &call.lse,
                &rows.delta,
                &rows.log2_sum,
                &rows.parts,
                &rows.sums,
                &rows.turns,
                &rows.progress,
                call.query_offsets(&nothing.0),
                sizes.queries as i32,
                i32::from(call.options.lengths.is_some()),
                call.qkv[0].place().shape[2] as i32,
                call.block_stride() as i32,
                sizes.heads as i32,
                (sizes.batch * sizes.kv_heads * 2) as i32,
                call.checked.scale,
                of_out.numbers(),
                of_dout.numbers(),
            ),
        )?;
        Ok(())
    }

    /// Launches the kernel behind it.
    pub(super) fn launch_end<T: Operand>(
        &self,
        call: &Call<'_, T>,
        index: usize,
        passes: &Passes<T>,
        rows: &GradientRows,
    ) -> Result<()> {
        let end = self.kernel::<T, _>("backward_end", index, &passes.end)?;
        let dq = call.gradients[0];
        let of_dq = Strides::of(dq);
        let sizes = call.checked.sizes;
        let nothing = &Workspace::of(call.stream)?.nothing;
        let halves = sizes.queries.div_ceil(call.block()) * GROUPS;
        let (grid, first_line) = call.lines(halves);
        end.launch(
            call.stream,
            grid,
            (
                &rows.sums,
                dq,
                call.query_offsets(&nothing.0),
                sizes.queries as i32,
                i32::from(call.options.lengths.is_some()),
                call.block_stride() as i32,
                sizes.heads as i32,
                first_line as i32,
                call.checked.scale,
                of_dq.numbers(),
            ),
        )?;
        Ok(())
    }
}
