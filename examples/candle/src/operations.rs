//! What a decoder block is made of, by candle's own operations.

use candle_core::{D, Result, Tensor};

/// Operations on tensors of one device and type.
pub trait Operations {
    /// `x · weightᵀ` for `x: [tokens, k]` and `weight: [n, k]`.
    fn product(&self, x: &Tensor, weight: &Tensor) -> Result<Tensor>;
    /// Each row of `x` over the root of its mean square, times `weight`.
    fn rms_norm(&self, x: &Tensor, weight: &Tensor) -> Result<Tensor>;
    /// Causal attention of `q: [heads, tokens, depth]` over `k`, `v: [kv_heads, tokens, depth]`: `[tokens, heads, depth]`, contiguous.
    fn attention(&self, q: &Tensor, k: &Tensor, v: &Tensor) -> Result<Tensor>;
    /// `silu(gate) * up`.
    fn gated(&self, gate: &Tensor, up: &Tensor) -> Result<Tensor>;
}

/// What is added to a mean square.
pub const EPSILON: f32 = 1e-5;

/// The factor of scores of heads of this depth.
pub fn scale(depth: usize) -> f64 {
    1.0 / (depth as f64).sqrt()
}

/// `-inf` for keys behind a query, else 0: `[tokens, tokens]`.
fn mask(like: &Tensor, tokens: usize) -> Result<Tensor> {
    let of = |at: usize| {
        if at % tokens > at / tokens {
            f32::NEG_INFINITY
        } else {
            0.0
        }
    };
    let mask: Vec<f32> = (0..tokens * tokens).map(of).collect();
    Tensor::from_vec(mask, (tokens, tokens), like.device())?.to_dtype(like.dtype())
}

/// Each head of K or V for the `times` heads of Q that share it.
fn repeat(x: &Tensor, times: usize) -> Result<Tensor> {
    let (heads, tokens, depth) = x.dims3()?;
    let x = x.unsqueeze(1)?.expand((heads, times, tokens, depth))?;
    x.reshape((heads * times, tokens, depth))
}

/// Operations of candle, for one count of tokens.
pub struct Candle {
    mask: Tensor,
}

impl Candle {
    /// For so many tokens, on the device and of the type of `like`.
    pub fn new(like: &Tensor, tokens: usize) -> Result<Self> {
        Ok(Self {
            mask: mask(like, tokens)?,
        })
    }
}

impl Operations for Candle {
    fn product(&self, x: &Tensor, weight: &Tensor) -> Result<Tensor> {
        x.matmul(&weight.t()?)
    }

    fn rms_norm(&self, x: &Tensor, weight: &Tensor) -> Result<Tensor> {
        candle_nn::ops::rms_norm(x, weight, EPSILON)
    }

    fn attention(&self, q: &Tensor, k: &Tensor, v: &Tensor) -> Result<Tensor> {
        let times = q.dim(0)? / k.dim(0)?;
        let (k, v) = (repeat(k, times)?, repeat(v, times)?);
        let scores = (q.contiguous()?.matmul(&k.t()?)? * scale(q.dim(D::Minus1)?))?;
        let weights = candle_nn::ops::softmax_last_dim(&scores.broadcast_add(&self.mask)?)?;
        weights.matmul(&v)?.transpose(0, 1)?.contiguous()
    }

    fn gated(&self, gate: &Tensor, up: &Tensor) -> Result<Tensor> {
        gate.silu()? * up
    }
}
