//! Gradients of block-sparse masks as a program calls them.

use tilekit::prelude::*;

use super::call::{Call, Upstream, lse_of};
use super::check::{check_backward, check_batches};
use super::part::is_crowded;
use super::table::{gradients_of_blocks, instance_of};
use crate::attention::blocks::call::{check_mask, check_options};
use crate::attention::blocks::mask::BlockMask;
use crate::attention::call::{Attention, View, blocked};
use crate::attention::check::check_positions;
use crate::attention::error::Result;
use crate::attention::modifier::Differentiable;
use crate::attention::options::Options;
use crate::attention::plan::{Numbers, Tile};
use crate::attention::table::Operand;
use crate::attention::workspace::{GradientRows, Workspace};

impl Attention {
    /// Gradients of `[q, k, v]` into `[dq, dk, dv]` for [`forward_blocks`](Attention::forward_blocks) of the same mask, modifier, options and data, of whose results `upstream` is. Blocks that the
    /// mask hides are not computed. Launches, the workspace and rules for strides are as for [`backward_into`](Attention::backward_into); with
    /// [`deterministic`](Options::deterministic) terms of dQ are added in the order of blocks of keys.
    ///
    /// ```
    /// use tilekit::prelude::*;
    /// use tilekit_kernels::attention::{Attention, BlockKind, BlockMask, BlockShape, Options, Plain, Upstream};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let device = Device::auto(); // a GPU where there is one, else the emulator
    /// let stream = Stream::new(&device)?;
    /// let attention = Attention::new(&device);
    /// // Queries see the keys of their own 128.
    /// let shape = BlockShape { batch: 1, heads: 1, tokens: [200, 200], block: [128, 128] };
    /// let mask = BlockMask::from_fn(&device, shape, |_, _, query, key| {
    ///     if key == query { BlockKind::Full } else { BlockKind::Hidden }
    /// })?;
    /// let shape = [1, 1, 200, 64];
    /// let x = Buffer::from_slice(&device, &vec![bf16::ONE; 200 * 64])?;
    /// let [out, dq, dk, dv] = [0; 4].map(|_| Buffer::<bf16>::zeros(&device, 200 * 64));
    /// let (out, dq, dk, dv) = (out?, dq?, dk?, dv?);
    /// let (lse, options) = (Buffer::zeros(&device, 200)?, Options::default());
    /// let (x, of_out) = (x.view(shape), out.view(shape));
    /// attention.forward_blocks::<_, Plain>(&stream, [&x, &x, &x], &of_out, &lse, &mask, &options, None)?;
    /// let upstream = Upstream { out: &of_out, lse: &lse, dout: &x };
    /// let gradients = [&dq.view(shape), &dk.view(shape), &dv.view(shape)];
    /// attention.backward_blocks::<_, Plain>(&stream, [&x, &x, &x], upstream, gradients, &mask, &options, None)?;
    /// stream.synchronize()?;
    /// // The last key is seen by 72 queries, which give it 1/72 each.
    /// assert!((dv.to_vec()?[199 * 64].to_f32() - 1.0).abs() < 1e-2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Argument`](crate::attention::Error::Argument) for an argument that is not supported; otherwise an error of the device.
    #[expect(
        clippy::too_many_arguments,
        reason = "those of `backward_modified`, and the mask"
    )]
    pub fn backward_blocks<T: Operand, M: Differentiable>(
        &self,
        stream: &Stream,
        qkv: [&View<'_, T>; 3],
        upstream: Upstream<'_, T>,
        gradients: [&View<'_, T>; 3],
        mask: &BlockMask,
        options: &Options<'_>,
        data: Option<&Buffer<f32>>,
    ) -> Result<()> {
        let checked = check_backward(qkv, upstream, gradients, options)?;
        check_batches(checked.sizes.batch)?;
        check_mask(mask.shape(), checked.sizes)?;
        check_options::<M>(options)?;
        check_positions::<M>(options, checked.sizes)?;
        let call = Call {
            stream,
            qkv,
            upstream,
            lse: lse_of(qkv[0], upstream),
            gradients,
            options,
            checked,
            masked: Some(mask.shape().walked()[0]),
            is_crowded: is_crowded::<M>(),
            has_passes: false,
        };
        self.between_passes(&call, |rows| {
            self.launch_listed::<T, M>(&call, mask, data, rows)
        })
    }

    fn launch_listed<T: Operand, M: Differentiable>(
        &self,
        call: &Call<'_, T>,
        mask: &BlockMask,
        data: Option<&Buffer<f32>>,
        rows: &GradientRows,
    ) -> Result<()> {
        let sizes = call.checked.sizes;
        let table = gradients_of_blocks::<T, M>();
        let (index, instance) = instance_of(table, sizes.depths, call.options.deterministic);
        let kernel = self.kernel::<(T, M), _>("backward_blocks", index, &instance)?;
        let no_numbers = &Workspace::of(call.stream)?.nothing.1;
        let block_keys = call.of_cluster().block_keys;
        let tile = Tile {
            rows: 1,
            keys: block_keys,
            pack: 1,
        };
        let numbers = Numbers::new(sizes, call.checked.mask, tile, size_of::<T>());
        let sections = call.sections();
        let shape = mask.shape();
        let [of_batch, of_block, of_head] = shape.lists_of_keys();
        let [score_scale, exponent_scale] = M::factors(call.checked.scale, 1.0);
        let ([q, k, v], [_, dk, dv]) = (call.qkv, call.gradients);
        let [q, k, v, dout, dk, dv] =
            [q, k, v, call.upstream.dout, dk, dv].map(|view| blocked(view, call.options));
        kernel.launch(
            call.stream,
            grid([sizes.keys.div_ceil(block_keys), sizes.kv_heads, sizes.batch]),
            (
                q,
                k,
                v,
                dout,
                dk,
                dv,
                &rows.log2_sum,
                &rows.delta,
                &rows.parts,
                &rows.sums,
                &rows.turns,
                &mask.queries.starts,
                &mask.queries.partial,
                &mask.queries.blocks,
                &mask.queries.ranks,
                data.unwrap_or(no_numbers),
                numbers.query_heads,
                numbers.queries,
                numbers.keys,
                numbers.left,
                numbers.right,
                call.block_stride() as i32,
                sections.heads,
                sections.lead,
                of_batch as i32,
                of_block as i32,
                of_head as i32,
                (shape.walked()[0] / call.block()) as i32,
                (shape.block[1] / block_keys) as i32,
                exponent_scale * LOG2_E as f32,
                score_scale,
                call.checked.scale,
            ),
        )?;
        Ok(())
    }
}
