//! Gradients as a program calls them.

use std::sync::{Arc, PoisonError};

use tilekit::LoadedKernel;
use tilekit::prelude::*;

use super::beside::has_passes;
use super::check::{check_backward, check_backward_inputs};
use super::kernel::backward_arguments;
use super::part::{OfCluster, block_stride, is_crowded, queries_of};
use super::sections::Plan;
use super::slices::OF_SLICE;
use super::table::{Passes, gradients, instance_of, passes};
use crate::attention::call::{Attention, View, blocked};
use crate::attention::check::{Checked, Strides, check_positions};
use crate::attention::dropout::Dropout;
use crate::attention::error::Result;
use crate::attention::modifier::{Alibi, Differentiable, Dropped, Plain, Softcap};
use crate::attention::options::Options;
use crate::attention::plan::{Numbers, Tile};
use crate::attention::table::Operand;
use crate::attention::workspace::{GradientRows, Workspace};

/// Gradients of Q, K and V, `[batch, heads, tokens, depth]` without gaps.
pub struct Gradients<T> {
    /// The gradient of Q.
    pub dq: Buffer<T>,
    /// The gradient of K: the sum over the query heads of its group.
    pub dk: Buffer<T>,
    /// The gradient of V: the sum over the query heads of its group.
    pub dv: Buffer<T>,
}

/// The results of a forward pass, and the gradient of its output.
#[derive(Clone, Copy)]
pub struct Upstream<'a, T> {
    /// The output.
    pub out: &'a TensorView<'a, T>,
    /// LSE of the output.
    pub lse: &'a Buffer<f32>,
    /// The gradient of the output, of its shape.
    pub dout: &'a TensorView<'a, T>,
}

/// LSE of the rows of `q`.
pub(super) fn lse_of<'a, T: DeviceElement>(
    q: &View<'_, T>,
    upstream: Upstream<'a, T>,
) -> View<'a, f32> {
    upstream.lse.view(&q.place().shape[..3])
}

/// A call that has been checked.
pub(super) struct Call<'a, T> {
    pub(super) stream: &'a Stream,
    pub(super) qkv: [&'a View<'a, T>; 3],
    pub(super) upstream: Upstream<'a, T>,
    /// LSE of the output, `[batch, heads, tokens]`.
    pub(super) lse: View<'a, f32>,
    pub(super) gradients: [&'a View<'a, T>; 3],
    pub(super) options: &'a Options<'a>,
    pub(super) checked: Checked,
    /// Queries of a block of the mask, as it is walked.
    pub(super) masked: Option<usize>,
    /// Whether threads hold more than scores and gradients.
    pub(super) is_crowded: bool,
    /// Whether the main loop has a part of the passes.
    pub(super) has_passes: bool,
}

impl<T: Operand> Call<'_, T> {
    /// Blocks of queries of a head: up to the end of the last block of a mask.
    pub(super) fn block_stride(&self) -> usize {
        let (block, queries) = (self.block(), self.qkv[0].place().shape[2]);
        let is_ragged = self.options.lengths.is_some();
        self.masked.map_or_else(
            || block_stride(block, queries, self.checked.sizes.batch, is_ragged),
            |masked| queries.div_ceil(masked) * (masked / block),
        )
    }

    /// Queries of a block.
    pub(super) fn block(&self) -> usize {
        queries_of(self.checked.sizes.depths[0], self.is_crowded)
    }

    /// Blocks of keys, and those of a cluster.
    pub(super) fn of_cluster(&self) -> OfCluster {
        let depth = self.checked.sizes.depths[0];
        match self.masked {
            Some(_) => OfCluster::of_lists(depth),
            None => OfCluster::of_window(depth, self.options.dropout.is_some()),
        }
    }

    /// The sections of its heads.
    pub(super) fn sections(&self) -> Plan {
        let Checked { sizes, mask, .. } = self.checked;
        let (is_ordered, of_cluster) = (self.options.deterministic, self.of_cluster());
        Plan::new(sizes, mask, is_ordered, of_cluster, size_of::<T>())
    }
}

impl Attention {
    /// Gradients of `[q, k, v]`, into new buffers. `options` are those of the forward pass, and `upstream` has its results.
    ///
    /// Three kernels are launched: row sums of dO · O, the main loop, and the rounding of dQ, which is accumulated in f32; at depths 64 and 128 the main loop has both for most heads, where scores are not modified. More batches than a grid has room for are launched some after another. dK and dV
    /// are sums over the query heads of a group. A query that sees no key, and a key that no query sees, has a gradient of zeros. The gradient
    /// of `options.sinks` and of `options.alibi` is not computed.
    ///
    /// NaN is not lost: a query whose LSE is NaN has a gradient of NaN, and makes NaN, or at depth 64 infinity, of dK and dV of the keys that it sees, and of others in the blocks of up to 128 keys that it is multiplied with. So do NaN and infinity
    /// in Q, K, V and dO. All of them stay in their own head of their own batch, and where `options.lengths` says so in their own sequence.
    ///
    /// Each stream keeps a workspace of `4 · depth + 40` bytes for each row of Q, of the largest call so far. It is allocated by the first
    /// call that needs as much, which waits for the device: it may not happen while a graph is captured.
    ///
    /// ```
    /// use tilekit::prelude::*;
    /// use tilekit_kernels::attention::{Attention, Options, Upstream};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let device = Device::auto(); // a GPU where there is one, else the emulator
    /// let stream = Stream::new(&device)?;
    /// let attention = Attention::new(&device);
    ///
    /// // 2 query heads that share a head of keys and values; 40 tokens of 64 elements.
    /// let x = Buffer::from_slice(&device, &vec![bf16::ONE; 2 * 40 * 64])?;
    /// let (q, kv) = (x.view([1, 2, 40, 64]), x.view([1, 1, 40, 64]));
    /// let options = Options { causal: true, ..Options::default() };
    /// let forward = attention.forward(&stream, [&q, &kv, &kv], &options)?;
    /// let upstream = Upstream { out: &forward.out.view([1, 2, 40, 64]), lse: &forward.lse, dout: &q };
    /// let gradients = attention.backward(&stream, [&q, &kv, &kv], upstream, &options)?;
    /// stream.synchronize()?;
    /// // Equal values: the output depends on no score.
    /// assert!(gradients.dq.to_vec()?.iter().all(|x| x.to_f32().abs() < 1e-3));
    /// // The last key is seen by the last query of both heads, which give it 1/40 each.
    /// let of_last = gradients.dv.to_vec()?[39 * 64].to_f32();
    /// assert!((of_last - 2.0 / 40.0).abs() < 1e-3);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Argument`](crate::attention::Error::Argument) for an argument that is not supported; otherwise an error of the device.
    pub fn backward<T: Operand>(
        &self,
        stream: &Stream,
        qkv: [&View<'_, T>; 3],
        upstream: Upstream<'_, T>,
        options: &Options<'_>,
    ) -> Result<Gradients<T>> {
        // What is allocated is as large as these say.
        check_backward_inputs(qkv, upstream, options)?;
        let shapes = qkv.map(|view| view.place().shape.clone());
        let buffer = |at: usize| {
            let elements = shapes[at].iter().copied().fold(1, usize::saturating_mul);
            Buffer::<T>::new(&self.device, elements)
        };
        let [dq, dk, dv] = [buffer(0)?, buffer(1)?, buffer(2)?];
        let [of_q, of_k, of_v] = [
            dq.view(&shapes[0][..]),
            dk.view(&shapes[1][..]),
            dv.view(&shapes[2][..]),
        ];
        self.backward_into(stream, qkv, upstream, [&of_q, &of_k, &of_v], options)?;
        Ok(Gradients { dq, dk, dv })
    }

    /// Gradients of `[q, k, v]` into `[dq, dk, dv]`, whose strides follow the same rules. Gradients share no element with another
    /// tensor; tensors may be interleaved.
    ///
    /// # Errors
    /// As for [`backward`](Attention::backward).
    pub fn backward_into<T: Operand>(
        &self,
        stream: &Stream,
        qkv: [&View<'_, T>; 3],
        upstream: Upstream<'_, T>,
        gradients: [&View<'_, T>; 3],
        options: &Options<'_>,
    ) -> Result<()> {
        match (options.softcap, options.alibi) {
            (Some(_), _) => self.differentiate_beside_dropout::<T, Softcap>(
                stream, qkv, upstream, gradients, options, None,
            ),
            (None, alibi @ Some(_)) => self.differentiate_beside_dropout::<T, Alibi>(
                stream, qkv, upstream, gradients, options, alibi,
            ),
            (None, None) => self.differentiate_beside_dropout::<T, Plain>(
                stream, qkv, upstream, gradients, options, None,
            ),
        }
    }

    /// [`backward_into`](Attention::backward_into) of [`forward_modified`](Attention::forward_modified).
    ///
    /// # Errors
    /// As for [`backward`](Attention::backward); and `options` has neither `softcap` nor `alibi`.
    pub fn backward_modified<T: Operand, M: Differentiable>(
        &self,
        stream: &Stream,
        qkv: [&View<'_, T>; 3],
        upstream: Upstream<'_, T>,
        gradients: [&View<'_, T>; 3],
        options: &Options<'_>,
        data: Option<&Buffer<f32>>,
    ) -> Result<()> {
        crate::attention::error::expect(
            options.softcap.is_none() && options.alibi.is_none(),
            "options",
            || "softcap or alibi beside a modifier".to_string(),
            "the modifier alone: it can do both",
        )?;
        self.differentiate_beside_dropout::<T, M>(stream, qkv, upstream, gradients, options, data)
    }

    /// Checks a call, and launches the kernels of `M`, beside dropout if the options have it.
    fn differentiate_beside_dropout<T: Operand, M: Differentiable>(
        &self,
        stream: &Stream,
        qkv: [&View<'_, T>; 3],
        upstream: Upstream<'_, T>,
        gradients: [&View<'_, T>; 3],
        options: &Options<'_>,
        data: Option<&Buffer<f32>>,
    ) -> Result<()> {
        let checked = check_backward(qkv, upstream, gradients, options)?;
        check_positions::<M>(options, checked.sizes)?;
        let call = Call {
            stream,
            qkv,
            upstream,
            lse: lse_of(qkv[0], upstream),
            gradients,
            options,
            checked,
            masked: None,
            is_crowded: is_crowded::<M>() || options.dropout.is_some(),
            has_passes: has_passes::<M>(checked.sizes.depths[0]) && options.dropout.is_none(),
        };
        match options.dropout {
            Some(_) => self.differentiate::<T, Dropped<M>>(&call, data),
            None => call.each_slice(OF_SLICE, |call| self.differentiate::<T, M>(call, data)),
        }
    }

    /// Launches the three kernels.
    pub(super) fn differentiate<T: Operand, M: Differentiable>(
        &self,
        call: &Call<'_, T>,
        data: Option<&Buffer<f32>>,
    ) -> Result<()> {
        self.between_passes(call, |rows| self.launch_gradients::<T, M>(call, data, rows))
    }

    /// Launches the kernel in front of the main loop, the main loop by `launch`, and the kernel behind it.
    pub(super) fn between_passes<T: Operand>(
        &self,
        call: &Call<'_, T>,
        launch: impl FnOnce(&GradientRows) -> Result<()>,
    ) -> Result<()> {
        let depths = call.checked.sizes.depths;
        let passes = passes::<T>();
        let of_depths = |passes: &(usize, Passes<T>)| {
            passes.1.depths == depths && passes.1.queries == call.block()
        };
        let (index, passes) = passes
            .into_iter()
            .enumerate()
            .find(of_depths)
            .expect("the check of a call knows the depths of this table");
        let _turn = call.stream.turn();
        let rows = self.gradient_rows(call)?;
        self.launch_begin(call, index, &passes, &rows)?;
        // Without keys dQ is zero, as `backward_begin` left it, and there is neither dK nor dV.
        if call.checked.sizes.keys > 0 {
            launch(&rows)?;
        }
        self.launch_end(call, index, &passes, &rows)
    }

    fn launch_gradients<T: Operand, M: Differentiable>(
        &self,
        call: &Call<'_, T>,
        data: Option<&Buffer<f32>>,
        rows: &GradientRows,
    ) -> Result<()> {
        let Checked { sizes, mask, scale } = call.checked;
        let is_ordered = call.options.deterministic;
        let (index, instance) = instance_of(gradients::<T, M>(), sizes.depths, is_ordered);
        let kernel: LoadedKernel<_> = self.kernel::<(T, M), _>("backward", index, &instance)?;
        let workspace = Workspace::of(call.stream)?;
        let (no_offsets, no_numbers) = &workspace.nothing;
        let offsets = call.options.lengths.map_or([no_offsets; 2], |lengths| {
            [lengths.query_offsets, lengths.key_offsets]
        });
        let of_cluster = call.of_cluster();
        let tile = Tile {
            rows: 1,
            keys: of_cluster.block_keys,
            pack: 1,
        };
        let ([q, k, v], [_, dk, dv]) = (call.qkv, call.gradients);
        let [q, k, v, dout, dk, dv] =
            [q, k, v, call.upstream.dout, dk, dv].map(|view| blocked(view, call.options));
        kernel.launch(
            call.stream,
            grid([of_cluster.programs(sizes.keys), sizes.kv_heads, sizes.batch]),
            backward_arguments!(
                maps: [q, k, v, dout, dk, dv],
                workspace: (&rows.log2_sum, &rows.delta, &rows.parts, &rows.sums, &rows.turns),
                offsets: [offsets[0], offsets[1]],
                data: data.unwrap_or(no_numbers),
                numbers: Numbers::new(sizes, mask, tile, size_of::<T>()),
                is_ragged: call.options.lengths.is_some(),
                block_stride: call.block_stride(),
                sections: call.sections(),
                passes: [call.upstream.out, call.upstream.dout, &call.lse, call.gradients[0], &rows.progress],
                ahead: call.ahead(),
                is_causal: mask.is_causal(),
                row_stride: call.qkv[0].place().shape[2],
                factors: M::factors(scale, call.options.softcap.unwrap_or(1.0)),
                scale: scale,
                strides_of_dq: Strides::of(call.gradients[0]).numbers(),
                dropout: call.options.dropout
            ),
        )?;
        Ok(())
    }

    /// The workspace for the rows of a call: that of an earlier call, if it is large enough.
    fn gradient_rows<T: Operand>(&self, call: &Call<'_, T>) -> Result<Arc<GradientRows>> {
        let shape = &call.qkv[0].place().shape;
        let blocks = shape[0] * shape[1] * call.block_stride();
        let rows = blocks * call.block();
        let needed = [rows, rows * shape[3]];
        let workspace = Workspace::of(call.stream)?;
        let mut kept = workspace
            .gradients
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let room = kept.as_ref().map_or([0, 0], |kept| kept.room);
        if let Some(kept) = kept
            .as_ref()
            .filter(|_| room[0] >= needed[0] && room[1] >= needed[1])
        {
            return Ok(Arc::clone(kept));
        }
        let larger = [0, 1].map(|at| room[at].max(needed[at]));
        let made = Arc::new(GradientRows::new(&self.device, larger)?);
        // Earlier launches may still use the smaller one.
        call.stream.synchronize()?;
        *kept = Some(Arc::clone(&made));
        Ok(made)
    }
}
