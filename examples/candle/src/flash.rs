//! A block by candle's own operations and its FlashAttention.

use candle_core::{D, Result, Tensor};

use crate::operations::{Candle, Operations, scale};

/// Operations of candle, with attention by `candle-flash-attn`.
pub struct CandleFlash<'c>(pub &'c Candle);

impl Operations for CandleFlash<'_> {
    fn product(&self, x: &Tensor, weight: &Tensor) -> Result<Tensor> {
        self.0.product(x, weight)
    }

    fn rms_norm(&self, x: &Tensor, weight: &Tensor) -> Result<Tensor> {
        self.0.rms_norm(x, weight)
    }

    fn attention(&self, q: &Tensor, k: &Tensor, v: &Tensor) -> Result<Tensor> {
        // It takes `[batch, tokens, heads, depth]`, in any strides but the last.
        let of_tokens = |x: &Tensor| x.transpose(0, 1)?.unsqueeze(0);
        let scale = scale(q.dim(D::Minus1)?) as f32;
        let (q, k, v) = (of_tokens(q)?, of_tokens(k)?, of_tokens(v)?);
        candle_flash_attn::flash_attn(&q, &k, &v, scale, true)?.squeeze(0)
    }

    fn gated(&self, gate: &Tensor, up: &Tensor) -> Result<Tensor> {
        self.0.gated(gate, up)
    }
}
