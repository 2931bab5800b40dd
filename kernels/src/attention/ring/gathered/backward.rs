//! Gradients of attention of shards as a program calls them.

use tilekit::prelude::*;

use super::call::{Whole, of_span};
use super::span::Span;
use crate::attention::Upstream;
use crate::attention::call::View;
use crate::attention::ring::check::{Tensors, check_gradients};
use crate::attention::ring::options::RingOptions;
use crate::attention::table::Operand;
use crate::error::Result;
use crate::parallel::Parallel;

/// The results of [`ring_attention`](Parallel::ring_attention), the gradients of its output, and where those of Q, K and V go: a tensor on each rank, `[batch, heads, tokens, depth]`.
#[derive(Clone, Copy)]
pub struct ShardGradients<'a, 'v, T> {
    /// The output.
    pub out: &'a [TensorView<'v, T>],
    /// LSE of the output.
    pub lse: &'a [&'v Buffer<f32>],
    /// The gradient of the output, of its shape.
    pub dout: &'a [TensorView<'v, T>],
    /// The gradients of Q, K and V, of their shapes. They share no element with another tensor of their rank.
    pub gradients: [&'a [TensorView<'v, T>]; 3],
}

impl Parallel<'_> {
    /// Gradients of [`ring_attention`](Parallel::ring_attention) with the same `qkv` and `options`: those of the queries, keys and values of each rank, on that rank.
    ///
    /// K and V are gathered as for options that the fused kernel does not have; each rank differentiates its own queries by all keys that they see ([`Attention::backward`](crate::attention::Attention::backward)), rounds the
    /// gradients of these keys to the element type, and adds up, in f32 and in the order of ranks, what all ranks have of its own keys. With `options.deterministic` the same bits come out in every run, and dK and dV always. The gradient of
    /// `options.sinks` is not computed.
    ///
    /// Each rank keeps room for K, V and their gradients of the whole sequence, of the latter twice with [`Placement::ZigZag`](super::super::Placement::ZigZag), until the [`Parallel`] is dropped. Launches go to the [streams](tilekit::World::stream) of the world and are not waited for.
    ///
    /// # Errors
    /// As for [`ring_attention`](Parallel::ring_attention).
    pub fn ring_attention_backward<T: Operand>(
        &self,
        qkv: [&[View<'_, T>]; 3],
        of: ShardGradients<'_, '_, T>,
        options: &RingOptions<'_>,
    ) -> Result<()> {
        let ShardGradients {
            out,
            lse,
            dout,
            gradients: [dq, dk, dv],
        } = of;
        let need = check_gradients(
            self.world.ranks(),
            Tensors { qkv, out, lse },
            (dout, of.gradients),
            options,
        )?;
        let [q, k, v] = qkv;
        let memory = self.gather_keys(&need, [k, v], options, true)?;
        let rows = self.rows_of_chunks(&need)?;
        if let Some(rows) = &rows {
            self.move_rows(&need, rows, lse, false)?;
        }
        for (rank, attention) in self.attention.iter().enumerate() {
            let elements = memory.elements.part(rank);
            for (chunk, span) in Span::of_rank(&need, options, rank).iter().enumerate() {
                let [of_q, of_out, of_dout, of_dq] =
                    [&q[rank], &out[rank], &dout[rank], &dq[rank]].map(|view| of_span(view, span));
                let [of_k, of_v] =
                    [0, 1].map(|side| Whole::gathered(&need, side).view(elements, span.keys));
                let [of_dk, of_dv] = [0, 1]
                    .map(|side| Whole::gradient(&need, side, chunk).view(elements, span.keys));
                let upstream = Upstream {
                    out: &of_out,
                    lse: rows.as_ref().map_or(lse[rank], |rows| &rows[rank][chunk]),
                    dout: &of_dout,
                };
                attention.backward_into(
                    self.world.stream(rank),
                    [&of_q, &of_k, &of_v],
                    upstream,
                    [&of_dq, &of_dk, &of_dv],
                    &span.options(options, rank),
                )?;
            }
        }
        self.sum_gradients(&need, &memory, [dk, dv], options)
    }
}
