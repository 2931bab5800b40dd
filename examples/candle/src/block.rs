//! A decoder block: attention and a gated feed-forward network, each behind a norm and added to its input.

use candle_core::{DType, Device, Result, Tensor};
use candle_nn::rotary_emb::rope_thd;

use crate::operations::Operations;

/// Sizes of a block.
#[derive(Clone, Copy)]
pub struct Sizes {
    pub tokens: usize,
    /// Columns of the input and of the result.
    pub hidden: usize,
    pub heads: usize,
    /// Heads of K and V, each of which serves `heads / kv_heads` of Q.
    pub kv_heads: usize,
    pub depth: usize,
    /// Columns between the products of the feed-forward network.
    pub between: usize,
}

/// The weights of a block, each of `[columns of the result, columns of the input]`.
pub struct Block {
    sizes: Sizes,
    norms: [Tensor; 2],
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    gate: Tensor,
    up: Tensor,
    down: Tensor,
    cos: Tensor,
    sin: Tensor,
}

/// Normal numbers, divided by the root of the last extent: sums along it then have a variance of 1.
pub fn normal(shape: &[usize], device: &Device) -> Result<Tensor> {
    let columns = shape[shape.len() - 1] as f64;
    Tensor::randn(0_f32, (1.0 / columns.sqrt()) as f32, shape, device)?.to_dtype(DType::BF16)
}

impl Block {
    /// A block of random weights in bf16.
    pub fn random(sizes: Sizes, device: &Device) -> Result<Self> {
        let Sizes {
            tokens,
            hidden,
            heads,
            kv_heads,
            depth,
            between,
        } = sizes;
        let weight = |rows: usize, columns: usize| normal(&[rows, columns], device);
        let ones = || Tensor::ones(hidden, DType::BF16, device);
        let of = |at: usize| {
            (at / (depth / 2)) as f64
                * 10_000_f64.powf(-2.0 * (at % (depth / 2)) as f64 / depth as f64)
        };
        let table = |of: &dyn Fn(usize) -> f32| {
            let values: Vec<f32> = (0..tokens * depth / 2).map(of).collect();
            Tensor::from_vec(values, (tokens, depth / 2), device)?.to_dtype(DType::BF16)
        };
        Ok(Self {
            sizes,
            norms: [ones()?, ones()?],
            q: weight(heads * depth, hidden)?,
            k: weight(kv_heads * depth, hidden)?,
            v: weight(kv_heads * depth, hidden)?,
            out: weight(hidden, heads * depth)?,
            gate: weight(between, hidden)?,
            up: weight(between, hidden)?,
            down: weight(hidden, between)?,
            cos: table(&|at| of(at).cos() as f32)?,
            sin: table(&|at| of(at).sin() as f32)?,
        })
    }

    /// The same weights in another type, or on another device.
    pub fn to(&self, dtype: DType, device: &Device) -> Result<Self> {
        let to = |x: &Tensor| x.to_device(device)?.to_dtype(dtype);
        let [first, second] = &self.norms;
        Ok(Self {
            sizes: self.sizes,
            norms: [to(first)?, to(second)?],
            q: to(&self.q)?,
            k: to(&self.k)?,
            v: to(&self.v)?,
            out: to(&self.out)?,
            gate: to(&self.gate)?,
            up: to(&self.up)?,
            down: to(&self.down)?,
            cos: to(&self.cos)?,
            sin: to(&self.sin)?,
        })
    }

    /// `x: [tokens, hidden]` behind the block.
    pub fn forward(&self, x: &Tensor, by: &impl Operations) -> Result<Tensor> {
        let x = (x + self.attention(&by.rms_norm(x, &self.norms[0])?, by)?)?;
        let inner = by.rms_norm(&x, &self.norms[1])?;
        let (gate, up) = (
            by.product(&inner, &self.gate)?,
            by.product(&inner, &self.up)?,
        );
        &x + by.product(&by.gated(&gate, &up)?, &self.down)?
    }

    fn attention(&self, x: &Tensor, by: &impl Operations) -> Result<Tensor> {
        let Sizes {
            tokens,
            heads,
            kv_heads,
            depth,
            ..
        } = self.sizes;
        let of_tokens = |weight: &Tensor, heads: usize| {
            by.product(x, weight)?.reshape((1, tokens, heads, depth))
        };
        let turned = |x: Tensor| rope_thd(&x, &self.cos, &self.sin);
        // Heads are one beside the other in the memory of a token: views of them, without a copy.
        let of_heads = |x: Tensor| x.squeeze(0)?.transpose(0, 1);
        let q = of_heads(turned(of_tokens(&self.q, heads)?)?)?;
        let k = of_heads(turned(of_tokens(&self.k, kv_heads)?)?)?;
        let v = of_heads(of_tokens(&self.v, kv_heads)?)?;
        let out = by.attention(&q, &k, &v)?;
        by.product(&out.reshape((tokens, heads * depth))?, &self.out)
    }
}
